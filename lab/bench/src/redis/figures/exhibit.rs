//! What the papers show: systems, settings, and the numbers that are published.

use crate::redis::workload::DataShape;
use quorate_tooling::units::show_size;

/// A figure of a paper.
pub(super) struct Exhibit {
    /// The paper and the number of the figure.
    pub(super) title: &'static str,
    /// What has to be known to read it, and what differs here.
    pub(super) caption: &'static str,
    /// The name of the picture's file.
    pub(super) file: &'static str,
    /// The systems that are compared.
    pub(super) bars: &'static [Bar],
    pub(super) settings: Vec<Setting>,
}

/// A system of a figure.
pub(super) struct Bar {
    /// The name in the paper.
    pub(super) name: &'static str,
    /// The name for `bench redis`.
    pub(super) system: &'static str,
    /// The colour in a picture, as in CSS.
    pub(super) color: &'static str,
}

/// A setting of a figure, and what is published for it.
pub(super) struct Setting {
    pub(super) title: String,
    /// The load, as `bench redis` names it.
    pub(super) run: &'static str,
    pub(super) data: DataShape,
    /// Published operations a second, by the names of systems here.
    pub(super) published: &'static [(&'static str, f64)],
    pub(super) claims: &'static [Claim],
}

/// A ratio of throughputs that a paper claims.
pub(super) struct Claim {
    pub(super) of: &'static str,
    pub(super) over: &'static str,
    /// The ratio that is published.
    pub(super) ratio: f64,
}

impl Setting {
    /// What is published of a system.
    pub(super) fn published_of(&self, system: &str) -> Option<f64> {
        let mut published = self.published.iter();
        let found = published.find(|(of, _)| *of == system);
        found.map(|(_, per_second)| *per_second)
    }
}

const fn bar(name: &'static str, system: &'static str, color: &'static str) -> Bar {
    Bar {
        name,
        system,
        color,
    }
}

const fn claim(of: &'static str, over: &'static str, ratio: f64) -> Claim {
    Claim { of, over, ratio }
}

/// Replicas of all clusters of the figures.
pub(super) const REPLICAS: u8 = 3;
/// Bytes of a field in the smaller records of Nezha's figure.
const FIELD_SIZE: usize = 100;
/// The exponent of YCSB's own distribution.
const SKEW: f64 = 0.99;

const RABIA_BARS: [Bar; 7] = [
    bar("Redis alone, not in the paper", "redis", "#999999"),
    bar("Sync-Rep(1)", "wait-1", "#56b4e9"),
    bar("Sync-Rep(2)", "wait-2", "#0072b2"),
    bar("RedisRabia", "commands-rabia", "#cc79a7"),
    bar("Rabia", "rabia", "#009e73"),
    bar(
        "RedisRabia by effects, not in the paper",
        "effects-rabia",
        "#e69f00",
    ),
    bar(
        "Multi-Paxos, not in the paper",
        "commands-multi-paxos",
        "#d55e00",
    ),
];

const NEZHA_BARS: [Bar; 6] = [
    bar("Unreplicated", "redis", "#999999"),
    bar("Nezha", "commands-nezha", "#009e73"),
    bar("Multi-Paxos", "commands-multi-paxos", "#d55e00"),
    bar("Rabia, not in the paper", "commands-rabia", "#cc79a7"),
    bar(
        "Nezha by effects, not in the paper",
        "effects-nezha",
        "#e69f00",
    ),
    bar(
        "Nezha's embedded store, not in the paper",
        "nezha",
        "#0072b2",
    ),
];

const BATCHED_CLAIMS: [Claim; 1] = [claim("commands-rabia", "wait-2", 1.0)];
const UNBATCHED_CLAIMS: [Claim; 1] = [claim("commands-rabia", "rabia", 0.5)];
const NEZHA_CLAIMS: [Claim; 2] = [
    claim("commands-nezha", "redis", 0.941),
    claim("commands-nezha", "commands-multi-paxos", 1.9),
];

/// Section 6 of Rabia's paper: its text has these numbers, its bars have none.
pub(super) fn rabia_5() -> Exhibit {
    let setting = |title: &str, run, published, claims| Setting {
        title: title.to_owned(),
        run,
        data: DataShape {
            val_size: 16,
            field_size: FIELD_SIZE,
            keys: 10_000,
            skew: 0.0,
        },
        published,
        claims,
    };
    Exhibit {
        title: "Rabia, Figure 5: Redis behind Rabia, and Redis's own replication",
        caption: "Three replicas, nothing on disks; a client's batch is one MSET or one MGET, half and half, and \
                  every key counts as an operation. Sync-Rep(k) is a master with k replicas and WAIT k behind each \
                  batch: WAIT neither elects a master nor makes reads linearizable. The paper's clients were 300 for \
                  Rabia and RedisRabia, and 15 for Sync-Rep; here all systems have the same. With batches the paper \
                  gives no number but that RedisRabia is comparable with Sync-Rep of the same tolerance of faults. \
                  Its RedisRaft is not here.",
        file: "redis-rabia-5.svg",
        bars: &RABIA_BARS,
        settings: vec![
            setting(
                "15 clients, batches of 20",
                "batch:15x20",
                &[],
                &BATCHED_CLAIMS,
            ),
            setting(
                "1 client without batches",
                "batch:1",
                &[("commands-rabia", 1000.0), ("rabia", 2000.0)],
                &UNBATCHED_CLAIMS,
            ),
        ],
    }
}

/// Section 9 of Nezha's paper, with numbers read off its bars. It says neither sizes of records nor how they are
/// chosen; large records have fields of so many bytes.
pub(super) fn nezha_12(large_field_size: usize) -> Exhibit {
    let setting = |field_size: usize, skew: f64| Setting {
        title: match skew > 0.0 {
            true => format!("fields of {}, zipf {skew}", show_size(field_size)),
            false => format!("fields of {}, evenly chosen", show_size(field_size)),
        },
        run: "hash:20",
        data: DataShape {
            val_size: 0,
            field_size,
            keys: 1,
            skew,
        },
        published: &[
            ("redis", 21_670.0),
            ("commands-nezha", 20_300.0),
            ("commands-multi-paxos", 10_760.0),
        ],
        claims: &NEZHA_CLAIMS,
    };
    Exhibit {
        title: "Nezha, Figure 12: highest throughput of Redis within 10 ms",
        caption: "Three replicas, nothing on disks; YCSB's workload A, HMSET and HGETALL half and half on 1,000 \
                  records of ten fields, 20 clients with one request each. The paper says neither how large fields \
                  are nor how records are chosen, so there are three settings, the last one with records that make \
                  Redis alone as slow as the paper's. Here all processes and the clients share a machine, so that \
                  each replica's server costs the others CPU time; the paper's had a machine each. Its Fast Paxos \
                  and NOPaxos are not here; `quorate-lab sim redis-share` has a core for each role.",
        file: "redis-nezha-12.svg",
        bars: &NEZHA_BARS,
        settings: vec![
            setting(FIELD_SIZE, SKEW),
            setting(FIELD_SIZE, 0.0),
            setting(large_field_size, SKEW),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::system::System;
    use crate::redis::workload::Cell;

    #[test]
    fn exhibits_name_systems_and_runs_that_there_are() {
        for exhibit in [rabia_5(), nezha_12(2000)] {
            let has = |system: &str| exhibit.bars.iter().any(|bar| bar.system == system);
            for bar in exhibit.bars {
                assert!(System::parse(bar.system).is_ok(), "{}", bar.system);
            }
            for setting in &exhibit.settings {
                assert!(Cell::parse(setting.run).is_ok(), "{}", setting.run);
                assert!(setting.published.iter().all(|(system, _)| has(system)));
                let mut claims = setting.claims.iter();
                assert!(claims.all(|claim| has(claim.of) && has(claim.over)));
            }
        }
    }
}
