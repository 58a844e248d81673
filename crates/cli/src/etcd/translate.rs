//! What etcd's options mean for a replica.

use super::discovery::Domain;
use super::flags::Fate;
use super::given::Given;
use super::host;
use super::roster::Roster;
use super::urls::{self, Url};
use crate::logging::LogSettings;
use crate::modes::LogFormat;
use clap::{ArgAction, Command};
use quorate_server::PeerSecurity;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a replica is started with, before it is known which number it has.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) data_dir: PathBuf,
    pub(super) listen_client: Vec<Url>,
    pub(super) listen_peer: Vec<Url>,
    pub(super) advertise_client: Vec<Url>,
    pub(super) advertise_peer: Vec<Url>,
    pub(super) cluster: Cluster,
    pub(super) is_new: bool,
    pub(super) token: String,
    pub(super) log: LogSettings,
    /// Options of `quorate serve` that mean what was given.
    pub(super) handed: Vec<String>,
    /// What connections to other members begin with.
    pub(super) peer_security: PeerSecurity,
    /// What people are to be told.
    pub(super) warnings: Vec<String>,
}

/// Where it is said who the members are.
#[derive(Debug)]
pub(super) enum Cluster {
    /// By a list.
    Listed(Roster),
    /// By the records of a domain.
    Discovered(Domain),
}

/// Says what was given in terms of `serve`, which is the command that runs a replica.
///
/// # Errors
/// What makes no sense, or would have to do what this program does not.
pub(super) fn plan(given: &Given, serve: &Command) -> Result<Plan, String> {
    let mut warnings = given.warnings.clone();
    let handed = hand_on(given, serve, &mut warnings)?;
    check_intervals(given)?;
    let name = given.value("name").to_owned();
    if name.contains(|c: char| c.is_control()) || name.contains([',', '=']) {
        return Err(format!(
            "--name {name:?} has characters that no name may have"
        ));
    }
    let data_dir = match given.value("data-dir") {
        "" => format!("{name}.etcd").into(),
        dir => dir.into(),
    };
    let listed = |flag: &str| urls::list(flag, given.value(flag));
    let (listen_client, listen_peer) = (listed("listen-client-urls")?, listed("listen-peer-urls")?);
    let advertise_client = advertised(given, "advertise-client-urls", &listen_client)?;
    if advertise_client.is_empty() {
        return Err(
            "--advertise-client-urls is required when --listen-client-urls is set explicitly"
                .into(),
        );
    }
    let advertise_peer = advertised(given, "initial-advertise-peer-urls", &listen_peer)?;
    let cluster = match (given.value("initial-cluster"), given.value("discovery-srv")) {
        ("", "") => Cluster::Listed(Roster::by_name(BTreeMap::from([(
            name.clone(),
            advertise_peer.clone(),
        )]))),
        (list, "") => Cluster::Listed(Roster::of(list)?),
        ("", domain) => Cluster::Discovered(Domain {
            name: domain.to_owned(),
            suffix: given.value("discovery-srv-name").to_owned(),
        }),
        _ => {
            return Err(
                "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\" or \"discovery-srv\""
                    .into(),
            );
        }
    };
    let is_new = match given.value("initial-cluster-state") {
        "new" | "" => true,
        "existing" => false,
        other => return Err(format!("unexpected clusterState {other:?}")),
    };
    Ok(Plan {
        log: log(given)?,
        token: given.value("initial-cluster-token").to_owned(),
        name,
        data_dir,
        listen_client,
        listen_peer,
        advertise_client,
        advertise_peer,
        cluster,
        is_new,
        handed,
        peer_security: PeerSecurity::default(),
        warnings,
    })
}

/// The options of `serve` that say what was given. What has no meaning is warned of, each with its reason.
fn hand_on(
    given: &Given,
    serve: &Command,
    warnings: &mut Vec<String>,
) -> Result<Vec<String>, String> {
    let mut handed = Vec::new();
    for (flag, value) in given.all() {
        let (name, why) = (flag.name, flag.why);
        let says_more = !flag.is_default(value);
        match flag.fate {
            Fate::Used => {}
            Fate::Moot if says_more => {
                warnings.push(format!("--{name} has no meaning here: {why}"));
            }
            Fate::Refused if says_more => return Err(format!("--{name}: {why}")),
            Fate::Moot | Fate::Refused => {}
            // No value is none here, too.
            Fate::Serve { .. } if value.is_empty() => {}
            Fate::Serve { option, guards } => match serve_option(serve, option, value) {
                Some(words) => handed.extend(words),
                None if !says_more => {}
                None if guards => {
                    return Err(format!(
                        "--{name} ({why}) is not served by this program, which does not start without it"
                    ));
                }
                None => warnings.push(format!("--{name} ({why}) is not served by this program")),
            },
        }
    }
    let own = given.own.iter();
    handed.extend(own.map(|(name, value)| format!("--{name}={value}")));
    Ok(handed)
}

/// How `serve` is given a value; `None` if it has no such option.
fn serve_option(serve: &Command, option: &str, value: &str) -> Option<Option<String>> {
    let mut options = serve.get_arguments();
    let found = options.find(|argument| argument.get_long() == Some(option))?;
    Some(match found.get_action() {
        ArgAction::SetTrue => (value == "true").then(|| format!("--{option}")),
        _ => Some(format!("--{option}={value}")),
    })
}

/// The URLs that others are told: those given, or the default one. A default that goes with listening at every address
/// becomes the address that the machine has for others.
fn advertised(given: &Given, flag: &str, listened: &[Url]) -> Result<Vec<Url>, String> {
    let mut urls = urls::list(flag, given.value(flag))?;
    let is_default = given.get(flag).is_none();
    // As in etcd: who says where to listen says where clients are to come. The default is for those who say nothing.
    let listens_elsewhere = given.get("listen-client-urls").is_some() && !given.is_from_file;
    if is_default && flag == "advertise-client-urls" && listens_elsewhere {
        return Ok(Vec::new());
    }
    let everywhere = listened.iter().find(|url| url.is_unspecified());
    if let Some(url) = everywhere.filter(|_| is_default)
        && let Some(address) = host::default_address()
    {
        urls = vec![url.at(&address.to_string())];
    }
    Ok(urls)
}

/// Refuses times that etcd refuses, though nobody is elected by them here.
fn check_intervals(given: &Given) -> Result<(), String> {
    let number = |flag: &str| given.value(flag).parse::<u64>().unwrap_or_default();
    let (tick, election) = (number("heartbeat-interval"), number("election-timeout"));
    for (flag, value) in [("heartbeat-interval", tick), ("election-timeout", election)] {
        if value == 0 {
            return Err(format!("--{flag} must be >0 (set to 0ms)"));
        }
    }
    if tick.saturating_mul(5) > election {
        return Err(format!(
            "--election-timeout[{election}ms] should be at least as 5 times as --heartbeat-interval[{tick}ms]"
        ));
    }
    match election > ELECTION_MS_MAX {
        true => Err(format!(
            "--election-timeout[{election}ms] is too long, and should be set less than {ELECTION_MS_MAX}ms"
        )),
        false => Ok(()),
    }
}

/// The longest time for an election that etcd takes, in ms.
const ELECTION_MS_MAX: u64 = 50_000;

/// What is logged, in terms of this program's log.
fn log(given: &Given) -> Result<LogSettings, String> {
    let level = match given.value("log-level") {
        level @ ("debug" | "info" | "warn" | "error") => level,
        "dpanic" | "panic" | "fatal" => "error",
        other => return Err(format!("unrecognized level: {other:?}")),
    };
    let format = match given.value("log-format") {
        "json" => LogFormat::Json,
        "console" => LogFormat::Text,
        other => return Err(format!("unknown log format: {other:?}")),
    };
    let outputs = given.value("log-outputs").split(',');
    let outputs = outputs.map(|name| match name {
        // A service manager has standard error go to the journal.
        "default" | "systemd/journal" => "stderr".to_owned(),
        name => name.to_owned(),
    });
    Ok(LogSettings {
        level: own(given, "log-level").unwrap_or(level).to_owned(),
        format,
        outputs: outputs.collect(),
    })
}

fn own<'a>(given: &'a Given, option: &str) -> Option<&'a str> {
    let mut options = given.own.iter().rev();
    let found = options.find(|(name, _)| name == option);
    found.map(|(_, value)| value.as_str())
}

impl Plan {
    /// The number that the operator gave the replica, if any.
    pub(super) fn own_number(&self) -> Option<u16> {
        let mut words = self.handed.iter().rev();
        words.find_map(|word| word.strip_prefix("--id=")?.parse().ok())
    }

    /// The command line of `serve` for the replica with this number, in the cluster of this list. What was handed on
    /// comes last, where it counts.
    pub(super) fn serve_line(&self, number: u16, cluster: &str, is_new: bool) -> Vec<String> {
        let state = if is_new { "new" } else { "existing" };
        let options = [
            ("id", number.to_string()),
            ("name", self.name.clone()),
            ("data-dir", self.data_dir.display().to_string()),
            ("listen-client-urls", urls::joined(&self.listen_client)),
            ("listen-peer-urls", urls::joined(&self.listen_peer)),
            (
                "advertise-client-urls",
                urls::joined(&self.advertise_client),
            ),
            ("initial-cluster", cluster.to_owned()),
            ("initial-cluster-state", state.to_owned()),
            ("initial-cluster-token", self.token.clone()),
        ];
        let options = options
            .into_iter()
            .map(|(name, value)| format!("--{name}={value}"));
        ["serve".to_owned()]
            .into_iter()
            .chain(options)
            .chain(self.handed.iter().cloned())
            .collect()
    }
}
