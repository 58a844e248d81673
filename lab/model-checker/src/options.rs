//! The command line of the model checker.

use clap::Args;

/// Searches every schedule of small clusters, with the protocols' machines as they ship.
#[derive(Args, Clone, Debug)]
pub struct ModelOptions {
    /// The protocol to search.
    #[arg(long, default_value = "rabia")]
    pub protocol: String,

    /// The configurations that take seconds (the default).
    #[arg(long, conflicts_with = "long")]
    pub ci: bool,

    /// All configurations.
    #[arg(long)]
    pub long: bool,

    /// Only this configuration; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub config: Vec<String>,

    /// Break the protocol on purpose: the search must find it.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<String>,

    /// Print the configurations to choose from, and what each covers.
    #[arg(long)]
    pub list: bool,

    /// Print the names of the deliberate faults to choose from, and what each breaks.
    #[arg(long)]
    pub list_mutants: bool,

    /// Searches run at once; by default one per core.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,

    /// Give up a search that finds more states of the cluster than this.
    #[arg(long, value_name = "N", default_value_t = 250_000_000)]
    pub states_max: u64,

    /// Print one JSON object per search instead of a line.
    #[arg(long)]
    pub json: bool,
}
