//! What a replica tells of itself: to faces, and as a page for operators.

use crate::clock::ClockError;
use crate::divergence::Difference;
use crate::handle::MemberInfo;
use crate::process::{MachineTimes, kib};
use quorate_core::{ClusterId, Durability, Epoch, Incarnation, ReplicaId, Slot};
use quorate_host::epochs::AlarmKind;
use quorate_host::{Recoded, SupportedVersions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a replica knows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The replica's cluster.
    pub cluster: ClusterId,
    /// The replica's own id.
    pub me: ReplicaId,
    /// The replica's incarnation.
    pub incarnation: Incarnation,
    /// All members and learners, ascending.
    pub members: Vec<MemberInfo>,
    /// The epochs that it remembers; the last one is the present.
    pub epochs: Vec<Epoch>,
    /// The group's feature level.
    pub level: u32,
    /// Replicas that keep the group from a higher feature level: they run an older program, or cannot be reached.
    pub behind: Vec<ReplicaId>,
    /// The newest wire version that it speaks.
    pub wire_version: u32,
    /// Whether enough members are known to have the state that the present epoch began with.
    pub is_open: bool,
    /// Whether all payloads are safe with its members.
    pub is_settled: bool,
    /// Payloads known to lack their fragment here.
    pub payloads_lacking: u64,
    /// The progress of this replica with payloads that earlier epochs left.
    pub recoded: Recoded,
    /// Bytes of payloads of earlier epochs that the replica codes anew in a second at most.
    pub recode_rate: u64,
    /// The protocol that orders commands.
    pub protocol: String,
    /// The protocol's agreed parameters, where they are not the defaults.
    pub params: BTreeMap<String, String>,
    /// What survives a crash.
    pub durability: Durability,
    /// Whether the epoch lists it, or it is a learner.
    pub is_member: bool,
    /// Whether it is the first member of those that reach each other: what one of them is to do for all, it does.
    pub is_first: bool,
    /// Whether it leads by the protocol; `None` where no replica does.
    pub leads: Option<bool>,
    /// The member that the group names as its leader; `None` while this replica reaches no quorum.
    pub leader: Option<ReplicaId>,
    /// The term of that leader.
    pub term: u64,
    /// Whether it orders commands, or has to learn first what it had promised.
    pub serving: bool,
    /// Slots applied: every slot before this one.
    pub applied: Slot,
    /// Bytes of log on disk.
    pub log_bytes: u64,
    /// The number of the log's files.
    pub log_segments: u64,
    /// Bytes of snapshots on disk.
    pub snapshot_bytes: u64,
    /// Whether a quorum can be reached right now, as far as links tell.
    pub quorum: bool,
    /// Peers that frames can be sent to.
    pub links_up: Vec<ReplicaId>,
    /// How far the replica's clock may be off.
    pub clock: ClockError,
    /// The time since the process began.
    pub uptime: Duration,
    /// Trouble an operator should know of, in words; empty when all is well.
    pub alarms: Vec<String>,
    /// How others prove that they may act as a member: `certificate` or `secret`; `None` if whoever reaches the peer
    /// port may.
    pub peer_proof: Option<&'static str>,
    /// The alarms of the group, and this replica's own where the group does not know of it yet.
    pub raised: Vec<RaisedAlarm>,
    /// A difference from a peer, where it is not known which of the two is right.
    pub difference: Option<Difference>,
    /// Bytes of fragments of large values that this replica keeps.
    pub fragment_bytes: u64,
    /// Bytes of the files that fragments are in.
    pub fragment_file_bytes: u64,
    /// Bytes that are free on the disk of its data; `None` for a replica that lives in memory.
    pub free_bytes: Option<u64>,
}

impl Status {
    /// Why what takes a feature level cannot be asked for yet; `None` once the group has that level.
    #[must_use]
    pub fn lacks_level(&self, what: &str, needed: u32) -> Option<String> {
        if self.level >= needed {
            return None;
        }
        let behind: Vec<String> = (self.members.iter())
            .filter(|member| self.behind.contains(&member.id))
            .map(|member| format!("{} ({})", member.id, member.name))
            .collect();
        let why = match behind.is_empty() {
            true if !self.knows(needed) => format!(
                "this replica speaks as an older program does (--wire-version {})",
                self.wire_version
            ),
            true => "it is raised by itself in a moment".to_owned(),
            false => format!(
                "it is raised by itself once all replicas run a program that knows it, and this one waits for {}",
                behind.join(", ")
            ),
        };
        let level = self.level;
        Some(format!(
            "{what} take feature level {needed}, and this cluster is at {level}: {why}"
        ))
    }

    /// Whether a feature level that the group does not have yet comes by itself in a moment.
    #[must_use]
    pub fn rises_to(&self, level: u32) -> bool {
        self.behind.is_empty() && self.knows(level)
    }

    /// Whether this replica speaks so that it knows a feature level.
    fn knows(&self, level: u32) -> bool {
        let spoken = SupportedVersions::SHIPPED.up_to(self.wire_version);
        spoken.unwrap_or(SupportedVersions::SHIPPED).level() >= level
    }
}

/// An alarm as faces show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RaisedAlarm {
    /// The kind of trouble.
    pub kind: AlarmKind,
    /// The replica that is in trouble.
    pub id: ReplicaId,
    /// Whether requests to the replica that tells of it are refused because of it.
    pub hinders: bool,
    /// Whether the group as a whole has it, whatever becomes of the replica.
    pub is_of_group: bool,
}

/// What is posted to `/cluster/protocol`: how the cluster is to agree from then on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolPage {
    /// The protocol's name.
    pub protocol: String,
    /// All its parameters that are not to have their defaults.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// Whether it may be one that is there to be compared with.
    #[serde(default)]
    pub allow_measurement_protocol: bool,
}

/// What is posted to `/cluster/members`: one change of who is a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MembersPage {
    /// Let a new replica follow, whose peer port has this URL.
    Add(String),
    /// Make the learner with this number a member.
    Promote(u16),
    /// Let the replica with this number leave.
    Remove(u16),
}

/// The page `/status`: names are stable, units are in the names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StatusPage {
    /// The program's version.
    pub version: String,
    /// The replica's cluster, in hexadecimal digits.
    pub cluster_id: String,
    /// The replica's own id.
    pub replica_id: u16,
    /// The replica's incarnation, in hexadecimal digits.
    pub incarnation: String,
    /// The configurations of the cluster that it remembers; the last one is the present.
    pub epochs: Vec<EpochPage>,
    /// What commands mean: raised once all replicas run a program that knows it.
    #[serde(default)]
    pub feature_level: u32,
    /// The newest version of what replicas say to each other that this one speaks.
    #[serde(default)]
    pub wire_version: u32,
    /// Whether the change to the present one is done.
    pub is_open: bool,
    /// Whether all long values have been moved to its members and its code.
    pub is_settled: bool,
    /// Long values known to lack their fragment on this replica.
    pub payloads_lacking: u64,
    /// Bytes of long values of earlier configurations that this replica has moved to the present code.
    #[serde(default)]
    pub recoded_bytes: u64,
    /// Bytes of all long values of earlier configurations, as of when they were last counted.
    #[serde(default)]
    pub recode_bytes: u64,
    /// Bytes of long values that this replica moves in a second at most, if that is limited.
    #[serde(default)]
    pub recode_bytes_per_s_max: Option<u64>,
    /// The protocol that orders commands.
    pub protocol: String,
    /// The protocol's agreed parameters, where they are not the defaults.
    pub params: BTreeMap<String, String>,
    /// `disk` or `memory`.
    pub durability: String,
    /// The replica's present role.
    pub role: Role,
    /// Whether the replica reaches a quorum.
    pub has_quorum: bool,
    /// Whether the replica leads by the protocol; `None` where no replica does, or from a program that does not say.
    #[serde(default)]
    pub leads: Option<bool>,
    /// The member that clients are told as the leader; `None` while the replica reaches no quorum.
    #[serde(default)]
    pub leader: Option<u16>,
    /// The term of that leader.
    #[serde(default)]
    pub leader_term: u64,
    /// The first slot not applied.
    pub applied_slot: u64,
    /// Peers that frames can be sent to.
    pub links_up: Vec<u16>,
    /// All members and learners, this replica included, ascending.
    pub members: Vec<MemberPage>,
    /// Bytes of log on disk.
    pub log_bytes: u64,
    /// The number of the log's files.
    pub log_segments: u64,
    /// Bytes of snapshots on disk.
    pub snapshot_bytes: u64,
    /// Bytes of the files that fragments of long values are in.
    #[serde(default)]
    pub fragment_file_bytes: u64,
    /// Bytes that are free on the disk of the log; `None` for a replica in memory, or where the system does not say.
    #[serde(default)]
    pub disk_free_bytes: Option<u64>,
    /// Memory of the process that is in RAM.
    pub memory_rss_bytes: u64,
    /// CPUs that the process may use; 0 from a program that does not say.
    #[serde(default)]
    pub cpus: u32,
    /// Time that all CPUs of the machine worked since its start, for whatever process; 0 where the system does not say.
    #[serde(default)]
    pub machine_busy_ms: u64,
    /// Time that all CPUs of the machine worked or were idle since it started; 0 where the system does not say.
    #[serde(default)]
    pub machine_total_ms: u64,
    /// How far its clock may be off; `None` from a program that does not say.
    #[serde(default)]
    pub clock: Option<ClockPage>,
    /// The time since the process began.
    pub uptime_ms: u64,
    /// Trouble an operator should know of, in words.
    pub alarms: Vec<String>,
    /// How others prove to its peer port that they may act as a member: `certificate` or `secret`; empty if whoever
    /// reaches the port may, or from a program that does not say.
    #[serde(default)]
    pub peer_proof: String,
}

/// The clock's error, as the page shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClockPage {
    /// The source of the bound: `kernel` or `declared`.
    pub source: String,
    /// Whether anybody bounds the clock's error.
    pub is_synchronised: bool,
    /// The clock's largest error in ns; `None` if nobody can tell.
    pub error_ns: Option<u64>,
    /// The clock's error as the kernel estimates it, in ns.
    pub estimated_error_ns: Option<u64>,
}

impl From<ClockError> for ClockPage {
    fn from(error: ClockError) -> ClockPage {
        ClockPage {
            source: error.source.to_owned(),
            is_synchronised: error.bound_ns.is_some(),
            error_ns: error.bound_ns,
            estimated_error_ns: error.estimated_ns,
        }
    }
}

/// A configuration of the cluster, as the page shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EpochPage {
    /// The number of the configuration, from 1.
    pub number: u64,
    /// The first slot that was decided in it.
    pub first_slot: u64,
    /// The protocol that orders commands.
    pub protocol: String,
    /// The protocol's agreed parameters, where they are not the defaults.
    pub params: BTreeMap<String, String>,
    /// The members' numbers, ascending.
    pub members: Vec<u16>,
    /// Whether it was made by hand after a disaster: what was acknowledged before may be lost.
    #[serde(default)]
    pub forced: bool,
}

impl From<&Epoch> for EpochPage {
    fn from(epoch: &Epoch) -> EpochPage {
        EpochPage {
            number: epoch.number,
            first_slot: epoch.first_slot.0,
            protocol: epoch.protocol.clone(),
            params: epoch.params.clone(),
            members: epoch.members.iter().map(|member| member.id.0).collect(),
            forced: false,
        }
    }
}

/// The pages of all epochs, in order.
fn epoch_pages(epochs: &[Epoch]) -> Vec<EpochPage> {
    let mut pages: Vec<EpochPage> = epochs.iter().map(EpochPage::from).collect();
    for (pair, page) in epochs.windows(2).zip(pages.iter_mut().skip(1)) {
        page.forced = pair[1].is_forced_behind(&pair[0]);
    }
    pages
}

/// What a replica does for its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The replica votes and orders commands.
    #[default]
    Voting,
    /// The replica lost what it had promised and learns how far that may have gone; it does not vote.
    Rejoining,
    /// The replica has the state, or fetches it, and is no member.
    Learner,
}

/// A member of the cluster, as the page shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberPage {
    /// The member's replica id.
    pub replica_id: u16,
    /// The member's name, for people.
    pub name: String,
    /// The URL at which other replicas reach the member.
    pub peer_url: String,
    /// The URL at which clients reach the member; empty when this replica was not told.
    pub client_url: String,
    /// Whether the member only follows, without a vote.
    pub is_learner: bool,
}

impl From<Status> for StatusPage {
    fn from(status: Status) -> StatusPage {
        let machine = MachineTimes::now();
        StatusPage {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster_id: status.cluster.to_string(),
            replica_id: status.me.0,
            incarnation: status.incarnation.to_string(),
            epochs: epoch_pages(&status.epochs),
            feature_level: status.level,
            wire_version: status.wire_version,
            is_open: status.is_open,
            is_settled: status.is_settled,
            payloads_lacking: status.payloads_lacking,
            recoded_bytes: status.recoded.done_bytes,
            recode_bytes: status.recoded.total_bytes,
            recode_bytes_per_s_max: Some(status.recode_rate).filter(|rate| *rate < u64::MAX),
            protocol: status.protocol,
            params: status.params,
            durability: match status.durability {
                Durability::Disk => "disk".to_owned(),
                Durability::Memory => "memory".to_owned(),
            },
            role: match (status.is_member, status.serving) {
                (false, _) => Role::Learner,
                (true, true) => Role::Voting,
                (true, false) => Role::Rejoining,
            },
            has_quorum: status.quorum,
            leads: status.leads,
            leader: status.leader.map(|leader| leader.0),
            leader_term: status.term,
            applied_slot: status.applied.0,
            links_up: status.links_up.iter().map(|peer| peer.0).collect(),
            members: status.members.into_iter().map(MemberPage::from).collect(),
            log_bytes: status.log_bytes,
            log_segments: status.log_segments,
            snapshot_bytes: status.snapshot_bytes,
            fragment_file_bytes: status.fragment_file_bytes,
            disk_free_bytes: status.free_bytes,
            memory_rss_bytes: rss_bytes(),
            cpus: cpus(),
            machine_busy_ms: machine.busy_ms,
            machine_total_ms: machine.total_ms,
            clock: Some(status.clock.into()),
            uptime_ms: status.uptime.as_millis() as u64,
            alarms: status.alarms,
            peer_proof: status.peer_proof.unwrap_or_default().to_owned(),
        }
    }
}

impl From<MemberInfo> for MemberPage {
    fn from(member: MemberInfo) -> MemberPage {
        MemberPage {
            replica_id: member.id.0,
            name: member.name,
            peer_url: member.peer_url,
            client_url: member.client_url,
            is_learner: member.is_learner,
        }
    }
}

/// What of this process is in RAM; 0 where the system does not tell.
fn rss_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib(&text, "VmRSS:") << 10
}

/// The CPUs that this process may use; 0 where the system does not tell.
fn cpus() -> u32 {
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_ram() {
        assert!(rss_bytes() > 100 << 10);
    }
}
