//! Options of benches: the cluster with the plain face to put load on.

use clap::Args;
use quorate_tooling::program::Place;

/// A cluster with the plain face.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlainArgs {
    /// How the replicas agree
    #[arg(long, default_value = "nezha")]
    pub(crate) protocol: String,
    /// Replicas in the cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) replicas: u8,
    /// Gateways beside them, which clients go to instead; 0 for none
    #[arg(long, default_value_t = 0)]
    pub(crate) gateways: u8,
    /// What survives a crash of all replicas
    #[arg(long, default_value = "memory", value_parser = ["memory", "disk"])]
    pub(crate) durability: String,
    /// A parameter of the protocol; repeated
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}

impl PlainArgs {
    /// The options of `quorate up` besides the number of replicas: `own`, and after that what the user wants.
    pub(crate) fn options(&self, own: String) -> Vec<String> {
        let mut options = vec![
            "--face=plain".to_owned(),
            format!("--protocol={}", self.protocol),
            format!("--durability={}", self.durability),
            own,
        ];
        // A cluster started replica by replica takes no such option.
        if self.gateways > 0 {
            options.push(format!("--gateways={}", self.gateways));
        }
        options.extend(self.param.iter().map(|param| format!("--param={param}")));
        options
    }
}
