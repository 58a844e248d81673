//! What bytes alone allow: a value goes over so many links and to so many disks, and each has its rate.

use super::LeaderWrites;
use super::rig::Hardware;
use quorate_protocols::Code;

/// Shorter values are ordered whole, whatever the code (`payload_min`).
pub(super) const CODED_MIN: usize = 4096;

/// A protocol on so many replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct System {
    pub(super) protocol: &'static str,
    pub(super) replicas: usize,
    /// How many fragments rebuild a value, if it is cut.
    pub(super) k: Option<usize>,
    pub(super) is_led: bool,
}

impl System {
    /// # Errors
    /// If nobody knows it.
    pub(super) fn of(name: &str, code: Code, whole_replicas: usize) -> Result<System, String> {
        let (protocol, is_coded, is_led) = match name {
            "racos" => ("racos", true, false),
            "rs-paxos" => ("rs-paxos", true, true),
            "rabia" => ("rabia", false, false),
            "multi-paxos" => ("multi-paxos", false, true),
            "raft" => ("raft", false, true),
            _ => {
                return Err(format!(
                    "unknown system {name}: racos, rs-paxos, rabia, multi-paxos, raft"
                ));
            }
        };
        Ok(System {
            protocol,
            replicas: if is_coded { code.n } else { whole_replicas },
            k: is_coded.then_some(code.k),
            is_led,
        })
    }

    /// As tables show it.
    pub(super) fn name(&self) -> String {
        match self.k {
            Some(k) => format!("{} {},{k}", self.protocol, self.replicas),
            None => format!("{} {}", self.protocol, self.replicas),
        }
    }

    /// How often the leader's disk is charged with what it appends, if that is not once.
    pub(super) fn whole(&self, leader_writes: LeaderWrites) -> Option<u64> {
        let is_whole = self.is_led && leader_writes == LeaderWrites::Whole;
        self.k.filter(|_| is_whole).map(|k| k as u64)
    }

    /// Bytes of committed values a second that the busiest link and disk allow.
    pub(super) fn allowed(
        &self,
        hardware: &Hardware,
        value_bytes: usize,
        leader_writes: LeaderWrites,
    ) -> f64 {
        let k = self.k.filter(|_| value_bytes >= CODED_MIN).unwrap_or(1) as f64;
        let n = self.replicas as f64;
        // Where nobody leads, everybody does so of every n-th value.
        let led = if self.is_led { 1.0 } else { n };
        let comes = 1.0 / led + (led - 1.0) / led / k;
        let leaves = (n - 1.0) / k / led;
        let link = match hardware.link.is_shared {
            true => comes + leaves,
            false => comes.max(leaves),
        };
        let disk = match self.whole(leader_writes) {
            Some(_) => 1.0,
            None => 1.0 / k,
        };
        let rate = |bytes_per_second: u64, each: f64| match bytes_per_second {
            0 => f64::INFINITY,
            rate => rate as f64 / each,
        };
        let link = rate(hardware.link.bytes_per_second, link);
        link.min(rate(hardware.disk_bytes_per_second, disk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::costs::Costs;

    #[test]
    fn links_say_three_and_disks_three_where_the_leader_writes_everything() {
        let code = Code { n: 5, k: 3 };
        let ratio = |disk_mb: f64, is_shared, leader_writes| {
            let mut costs = Costs::assumed();
            costs.disk.mb_per_second = disk_mb;
            let hardware = costs.hardware(is_shared);
            let of = |name| {
                let system = System::of(name, code, 3).unwrap();
                system.allowed(&hardware, 1 << 20, leader_writes)
            };
            of("racos") / of("rs-paxos")
        };
        let near = |one: f64, other: f64| (one - other).abs() < 0.02;
        assert!(near(ratio(0.0, true, LeaderWrites::Fragment), 3.18));
        assert!(near(ratio(0.0, false, LeaderWrites::Fragment), 2.86));
        assert!(near(ratio(100.0, false, LeaderWrites::Whole), 3.0));
        assert!(near(ratio(100.0, false, LeaderWrites::Fragment), 1.0));
    }
}
