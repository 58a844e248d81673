//! Claims, by demand: an executor is looked for where a client waits, and nowhere else.
//!
//! No lease and no clock is needed: what makes a claim safe is the epoch in the log. Ranks only keep several replicas
//! from claiming at once.

use super::api::Output;
use super::office::Office;
use super::{Driver, MS};
use crate::command::{Command, Outcome};
use crate::shared::StreamState;
use quorate_core::{ReplicaId, Wire};
use std::collections::{BTreeMap, BTreeSet};

/// When a claim that came to nothing may be followed by another.
const CLAIM_AGAIN_NS: u64 = 500 * MS;
/// How soon a client comes again that has given up: whoever left one without an answer is waited for since then.
const AGAIN_NS: u64 = 3_000 * MS;
/// How often the patience with executors is doubled, at most.
const DOUBLED_MAX: u32 = 3;
/// Probes of one period.
const PROBES: u64 = 4;
/// Probes of peers that wait for a quorum, at most.
const PROBED_MAX: usize = 64;
/// How long an executor's offer of its office holds: it repeats the offer for as long as it means it.
const OFFER_NS: u64 = 300 * MS;

/// An office that this replica is to take, though no client may wait for that.
#[derive(Clone, Copy, Debug)]
struct OfferedOffice {
    /// The epoch to claim over.
    epoch: u64,
    /// When to claim, at the earliest.
    from_ns: u64,
    /// When the offer lapses.
    until_ns: u64,
    /// When to claim again, if the last claim came to nothing.
    again_ns: u64,
}

/// What this replica knows of the need for an executor.
#[derive(Debug, Default)]
pub(super) struct Demand {
    pub(super) rank: u32,
    /// The epoch that an own claim began, and the length at which it did: to take office in.
    pub(super) won: Option<(u64, u64)>,
    is_waiting: bool,
    /// Since when clients wait, or have waited: one may give up before the executor is given up.
    since_ns: u64,
    /// When the last one ceased to wait.
    ended_ns: u64,
    alive_ns: u64,
    epoch_ns: u64,
    probed_ns: u64,
    down: BTreeSet<ReplicaId>,
    /// How often the patience with an executor is doubled: on machines that are too busy to answer in time, claims
    /// over claims would leave nobody the time to serve.
    doubled: u32,
    claim_token: Option<u64>,
    claim_again_ns: u64,
    offered: Option<OfferedOffice>,
    /// Probes of peers by the token of the quorum's answer: the peer's token, and the epoch.
    probes: BTreeMap<u64, (u64, u64)>,
}

impl Demand {
    pub(super) fn wait(&mut self, waiting: bool, now_ns: u64) {
        if waiting == self.is_waiting {
            return;
        }
        self.is_waiting = waiting;
        let is_answered = self.alive_ns >= self.probed_ns;
        match waiting {
            false => self.ended_ns = now_ns,
            true if is_answered || now_ns > self.ended_ns + AGAIN_NS => self.since_ns = now_ns,
            true => {}
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Whether an office is to be taken.
    pub(super) fn is_offered(&self) -> bool {
        self.offered.is_some()
    }

    /// Takes note of an office to claim over an epoch, from one time until another.
    fn offer(&mut self, epoch: u64, from_ns: u64, until_ns: u64) {
        let same = self.offered.filter(|offered| offered.epoch == epoch);
        let mut offered = same.unwrap_or(OfferedOffice {
            epoch,
            from_ns,
            until_ns,
            again_ns: 0,
        });
        offered.from_ns = offered.from_ns.min(from_ns);
        offered.until_ns = offered.until_ns.max(until_ns);
        self.offered = Some(offered);
    }

    /// The epoch to claim over now, if an office was offered.
    fn take_offered(&mut self, epoch: u64, now_ns: u64) -> Option<u64> {
        let is_over = |offered: &OfferedOffice| offered.epoch < epoch || now_ns > offered.until_ns;
        self.offered = self.offered.filter(|offered| !is_over(offered));
        let is_free = self.claim_token.is_none() || now_ns >= self.claim_again_ns;
        let offered = self.offered.as_mut().filter(|_| is_free)?;
        if offered.epoch != epoch || now_ns < offered.from_ns.max(offered.again_ns) {
            return None;
        }
        offered.again_ns = now_ns + CLAIM_AGAIN_NS;
        Some(epoch)
    }

    pub(super) fn alive(&mut self, peer: ReplicaId, executor: Option<ReplicaId>, now_ns: u64) {
        if executor == Some(peer) {
            self.alive_ns = now_ns;
        }
    }

    pub(super) fn note_down(&mut self, peer: ReplicaId, down: bool) {
        match down {
            true => self.down.insert(peer),
            false => self.down.remove(&peer),
        };
    }

    /// Another epoch began, after that of `over`.
    fn saw_epoch(&mut self, over: Option<ReplicaId>, patience_ns: u64, now_ns: u64) {
        let lasted_ns = now_ns.saturating_sub(self.epoch_ns);
        let is_cut_off = over.is_some_and(|executor| self.down.contains(&executor));
        // One that ends sooner may have ended for want of time, not of an executor.
        let was_calm = lasted_ns >= patience_ns + patience_ns / 2;
        self.doubled = match over {
            // Links are looked at while clients wait.
            Some(_) if !was_calm && !self.is_waiting() => self.doubled,
            Some(_) if !was_calm && !is_cut_off => (self.doubled + 1).min(DOUBLED_MAX),
            _ => 0,
        };
        self.epoch_ns = now_ns;
        self.probed_ns = 0;
        self.claim_token = None;
    }
}

impl Driver {
    /// Another epoch began, after that of `over`.
    pub(super) fn saw_epoch(&mut self, over: Option<ReplicaId>) {
        let patience_ns = self.patience_ns();
        self.demand.saw_epoch(over, patience_ns, self.now_ns);
    }

    /// How long an executor that is reached may answer no probe.
    fn patience_ns(&self) -> u64 {
        self.config.claim_after_ns << self.demand.doubled
    }

    pub(super) fn advance_demand(&mut self) {
        self.advance_offered();
        // While another server's data is brought over, clients wait for the end of that.
        let may_claim = matches!(self.office, Office::None) && self.stream.import.is_none();
        if !self.demand.is_waiting || !may_claim {
            return;
        }
        let demand = &self.demand;
        let later_ns = u64::from(demand.rank) * self.config.rank_step_ns;
        let patience_ns = match self.stream.executor {
            None => 0,
            Some(executor) if executor == self.config.me => 0,
            Some(executor) if demand.down.contains(&executor) => self.config.claim_after_down_ns,
            Some(_) => self.patience_ns(),
        };
        let heard_ns = demand.since_ns.max(demand.alive_ns).max(demand.epoch_ns);
        if let Some(peer) = self.stream.executor
            && peer != self.config.me
            && self.now_ns >= self.demand.probed_ns + self.config.claim_after_ns / PROBES
        {
            self.demand.probed_ns = self.now_ns;
            let epoch = self.stream.epoch;
            self.out.push_back(Output::Probe { peer, epoch });
        }
        let is_due = self.now_ns >= heard_ns + patience_ns + later_ns;
        // One whose server does not follow cannot serve soon.
        if is_due && self.now_ns >= self.demand.claim_again_ns && self.is_following() {
            self.claim(self.stream.epoch);
        }
    }

    /// The executor of an epoch has stepped down in favour of this replica, or an epoch without one is to end.
    pub(super) fn offered(&mut self, epoch: u64) {
        // It is the import that goes on, and no claim ends that.
        if self.stream.import.is_some() && epoch <= self.stream.epoch {
            return;
        }
        let is_vacant = self.stream.epoch == epoch && self.stream.executor.is_none();
        let until_ns = match is_vacant {
            // Nobody is in office whom a late claim would drive out.
            true => u64::MAX,
            false => self.now_ns + OFFER_NS,
        };
        self.demand.offer(epoch, self.now_ns, until_ns);
    }

    /// Another server was followed until now: somebody is to execute, whether a client waits or not.
    pub(super) fn saw_cutover(&mut self) {
        let later_ns = u64::from(self.demand.rank + 1) * self.config.rank_step_ns;
        let from_ns = self.now_ns + later_ns;
        self.demand.offer(self.stream.epoch, from_ns, u64::MAX);
    }

    /// Claims an office that was offered, as soon as the own server can serve.
    fn advance_offered(&mut self) {
        let may_claim = self.is_following() && self.stream.import.is_none();
        let (epoch, now_ns) = (self.stream.epoch, self.now_ns);
        if may_claim && let Some(epoch) = self.demand.take_offered(epoch, now_ns) {
            self.claim(epoch);
        }
    }

    fn claim(&mut self, over: u64) {
        let token = self.token();
        self.demand.claim_token = Some(token);
        self.demand.claim_again_ns = self.now_ns + CLAIM_AGAIN_NS;
        let claim = Command::Claim {
            over,
            by: self.config.me,
            boot: self.config.boot,
            version: self.config.version,
        };
        let body = claim.to_bytes();
        self.out.push_back(Output::Submit { token, body });
    }

    /// Takes the result of a claim; says whether it was one. That it was accepted is learnt from what is applied.
    pub(super) fn claim_result(&mut self, token: u64, outcome: Option<Outcome>) -> bool {
        if self.demand.claim_token != Some(token) {
            return false;
        }
        self.demand.claim_token = None;
        if let Some(Outcome::Unfit { needed }) = outcome {
            let version = self.config.version;
            self.fail(format!(
                "the data was written by {needed}, and this server is {version}: install {needed} or later"
            ));
        }
        true
    }

    /// A peer's face asks whether this replica executes. A quorum is asked, the server is not: one with a long script
    /// executes all the same.
    pub(super) fn probed(&mut self, token: u64, epoch: u64) {
        if !self.office.is_of(epoch) || self.demand.probes.len() >= PROBED_MAX {
            let alive = false;
            return self.out.push_back(Output::ProbeReply { token, alive });
        }
        let read = self.token();
        self.demand.probes.insert(read, (token, epoch));
        self.out.push_back(Output::QuorumRead { token: read });
    }

    pub(super) fn probe_result(&mut self, read: u64, state: Option<StreamState>) -> bool {
        let Some((token, epoch)) = self.demand.probes.remove(&read) else {
            return false;
        };
        let alive = self.office.is_of(epoch) && state.is_some_and(|state| state.epoch == epoch);
        self.out.push_back(Output::ProbeReply { token, alive });
        true
    }
}
