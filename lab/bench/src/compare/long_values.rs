//! Puts of long values: what is written, and how many a second.

use super::{CompareArgs, Comparison, Crowd, Run, System, Workload, job, measure, start};

/// Bytes of a long value.
const VALUE_BYTES: usize = 64 << 10;
const CLIENTS: u32 = 16;

/// Runs every system, in turns, if that is asked for.
pub(super) fn run(args: &CompareArgs, comparison: &mut Comparison) -> Result<(), String> {
    let pairs = if args.long_values { args.pairs } else { 0 };
    let crowd = Crowd {
        clients: CLIENTS,
        connections: CLIENTS,
    };
    for pair in 0..pairs {
        // The floor's batch would be another one for each size.
        for &system in args.systems.iter().filter(|one| **one != System::Floor) {
            let Some(cluster) = start(args, system)? else {
                continue;
            };
            let mut job = job(args, &cluster, Workload::Put, crowd);
            job.load.val_size = VALUE_BYTES;
            job.load.key_space = Some(KEYS);
            let run = Run {
                pair,
                system,
                workload: Workload::Put,
                clients: CLIENTS,
                report: measure(args, &job)?,
            };
            run.announce(args);
            comparison.long_values.push(run);
        }
    }
    Ok(())
}

/// Few enough that all of them are written over and over.
const KEYS: u64 = 1_000;
