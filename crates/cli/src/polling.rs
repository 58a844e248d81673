//! Options about threads that never sleep, for one replica and for all of `quorate up`.

use clap::Args;
use quorate_server::{Layout, Polling};
use serde::{Deserialize, Serialize};

/// Whether threads look for work all the time.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct PollingOptions {
    /// Let the threads that replication waits for look for work all the time instead of sleeping: one of a replica,
    /// three in the layout `split`, each of which uses a whole core [default: false]
    #[arg(
        long,
        env = "QUORATE_BUSY_POLL",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    busy_poll: Option<bool>,

    /// Even with fewer cores than such threads, which then keep each other from working [default: false]
    #[arg(
        long,
        env = "QUORATE_MORE_POLLERS_THAN_CORES",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    more_pollers_than_cores: Option<bool>,
}

impl PollingOptions {
    /// The placement of threads for so many replicas on this machine, one of which has these cores.
    pub(crate) fn resolve(
        &self,
        layout: Layout,
        replicas: usize,
        cores: Vec<usize>,
    ) -> Result<Polling, String> {
        let polling = Polling {
            is_busy: self.busy_poll.unwrap_or(false),
            cores,
        };
        match self.more_pollers_than_cores.unwrap_or(false) {
            true => Ok(polling),
            false => {
                let checked = polling.check(layout, replicas);
                checked.map_err(|error| error.to_string())?;
                Ok(polling)
            }
        }
    }

    /// The flags that say the same to the replica with this number, whose layout is known. Where there is a core for
    /// each thread that polls, it has one of its own.
    pub(crate) fn flags(&self, id: u16, layout: Layout, replicas: usize) -> Vec<String> {
        let mut flags = Vec::new();
        if let Ok(Polling { is_busy: true, .. }) = self.resolve(layout, replicas, Vec::new()) {
            flags.push("--busy-poll".to_owned());
            let pollers = layout.pollers();
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            match pollers * replicas <= cores {
                true => {
                    let first = pollers * usize::from(id - 1);
                    let own = (first..first + pollers).map(|core| core.to_string());
                    flags.push(format!("--cores={}", own.collect::<Vec<_>>().join(",")));
                }
                false => flags.push("--more-pollers-than-cores".to_owned()),
            }
        }
        flags
    }
}

/// Reads a list of cores.
pub(crate) fn cores(text: Option<&str>) -> Result<Vec<usize>, String> {
    let wrong = |text: &str| format!("--cores {text:?}: not a list of numbers such as 2,3,4");
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let cores = text.split(',').map(str::parse);
    cores.collect::<Result<_, _>>().map_err(|_| wrong(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pollers_than_any_machine_has_cores_are_refused_unless_somebody_insists() {
        let mut options = PollingOptions {
            busy_poll: Some(true),
            ..PollingOptions::default()
        };
        let refused = options.resolve(Layout::Split, 100_000, Vec::new());
        let refused = refused.unwrap_err();
        assert!(
            refused.contains("300000 threads that never sleep"),
            "{refused}"
        );
        assert!(options.flags(1, Layout::Split, 100_000).is_empty());
        options.more_pollers_than_cores = Some(true);
        let flags = options.flags(1, Layout::Split, 100_000);
        assert_eq!(flags, ["--busy-poll", "--more-pollers-than-cores"]);
        assert!(
            PollingOptions::default()
                .flags(1, Layout::Split, 3)
                .is_empty()
        );
    }

    #[test]
    fn cores_are_numbers() {
        assert_eq!(cores(Some("0,7")), Ok(vec![0, 7]));
        assert_eq!(cores(None), Ok(Vec::new()));
        assert!(cores(Some("0,x")).unwrap_err().contains("--cores \"0,x\""));
    }
}
