//! With what options the cluster is begun.

use std::time::Duration;

use clap::Args;
use quorate_protocols::Code;

use crate::replicas::Replicas;
use quorate_tooling::program::Place;
use quorate_tooling::units::{self, show_ns};

/// The cluster of a trial.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// How the replicas agree
    #[arg(long, default_value = "rs-paxos")]
    pub protocol: String,
    /// Replicas
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: u8,
    /// Fragments of each value, and how many rebuild it [default with rs-paxos and racos: 5,3]
    #[arg(long, value_name = "N,K")]
    pub code: Option<Code>,
    /// The quorums that rs-paxos uses
    #[arg(long, value_parser = ["paper", "flex"])]
    pub profile: Option<String>,
    /// A parameter of the protocol; repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// Another option for every replica's `quorate serve`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub server_arg: Vec<String>,
    /// How long all takes that replicas say to each other, in either direction, as if they were so far apart
    #[arg(long, value_parser = units::duration)]
    pub delay: Option<Duration>,
    /// Decides keys and values [default: drawn at random and printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// The program to start, and the directory for its data.
    #[command(flatten)]
    pub place: Place,
}

impl ClusterArgs {
    /// Whether the protocol cuts values.
    pub fn is_coded(&self) -> bool {
        CODED.contains(&self.protocol.as_str())
    }

    /// Whether the protocol has a leader.
    pub fn is_led(&self) -> bool {
        !LEADERLESS.contains(&self.protocol.as_str())
    }

    /// This cluster under another protocol, which does not cut values.
    pub fn whole(&self, protocol: &str) -> ClusterArgs {
        ClusterArgs {
            protocol: protocol.to_owned(),
            code: None,
            profile: None,
            ..self.clone()
        }
    }

    /// Fragments that rebuild a value, at most.
    pub fn k(&self) -> usize {
        match (self.is_coded(), self.code) {
            (true, code) => code.unwrap_or(CODE).k,
            (false, _) => 1,
        }
    }

    /// What decides keys and values.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..1 << 40))
    }

    /// The protocol and its parameters, in words.
    pub fn title(&self) -> String {
        let mut title = format!("{}, {} replicas", self.protocol, self.replicas);
        if self.is_coded() {
            title += &format!(", code {}", self.code.unwrap_or(CODE));
        }
        if let Some(profile) = &self.profile {
            title += &format!(", profile {profile}");
        }
        if let Some(delay) = self.delay {
            title += &format!(", {} apart", show_ns(delay.as_nanos() as u64));
        }
        title
    }

    /// Begins the cluster and starts every replica, each with these options of `quorate serve`
    /// besides those of the command line.
    pub fn begin(&self, server_args: &[String]) -> Result<Replicas, String> {
        let binary = self.place.binary()?;
        let options = self.options(server_args);
        let parent = self.place.parent();
        Replicas::begin(
            binary,
            self.replicas,
            parent,
            &options,
            PATIENCE,
            self.delay,
        )
    }

    fn options(&self, server_args: &[String]) -> Vec<String> {
        let mut options = vec![format!("--protocol={}", self.protocol)];
        if self.is_coded() {
            options.push(format!("--code={}", self.code.unwrap_or(CODE)));
        }
        let profile = self.profile.iter().map(|name| format!("profile={name}"));
        let params = self.param.iter().cloned().chain(profile);
        options.extend(params.map(|param| format!("--param={param}")));
        let server_args = server_args.iter().chain(&self.server_arg);
        options.extend(server_args.map(|arg| format!("--server-arg={arg}")));
        options
    }
}

const CODED: [&str; 2] = ["rs-paxos", "racos"];
const LEADERLESS: [&str; 2] = ["rabia", "racos"];
const CODE: Code = Code { n: 5, k: 3 };
/// How long replicas may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        cluster: ClusterArgs,
    }

    fn parsed(flags: &[&str]) -> ClusterArgs {
        Cli::parse_from(["trial"].iter().chain(flags)).cluster
    }

    #[test]
    fn what_is_asked_for_reaches_the_replicas() {
        let args = parsed(&["--profile", "flex", "--param", "window=4"]);
        assert_eq!(args.k(), 3);
        assert_eq!(
            args.options(&["--id=1".to_owned()]),
            [
                "--protocol=rs-paxos",
                "--code=5,3",
                "--param=window=4",
                "--param=profile=flex",
                "--server-arg=--id=1"
            ]
        );
        let whole = args.whole("multi-paxos");
        assert_eq!(
            (whole.k(), whole.title()),
            (1, "multi-paxos, 5 replicas".to_owned())
        );
        assert!(
            !whole
                .options(&[])
                .iter()
                .any(|option| option.contains("profile"))
        );
    }
}
