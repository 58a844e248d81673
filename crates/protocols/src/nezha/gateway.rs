//! What a gateway does (the paper's proxy): entries of its clients, from a deadline to an answer. It knows
//! nothing of replicas but what they say: one is inside every replica (`local_gateway.rs`), and others run by
//! themselves (`remote_gateway.rs`).

use super::config::Config;
use super::dom::{Estimates, ReachQuorum};
use super::hold::Hold;
use super::messages::{Body, FastReply, Outcome};
use super::mutants::Fault;
use crate::shared::backlog::{Backlog, refuse_withdrawn};
use crate::shared::entry_names::EntryNames;
use bytes::Bytes;
use quorate_core::pace::{ACK_NS_MAX, Pace};
use quorate_core::{
    Command, EntryId, Event, Machine, MemberIndex, Now, Out, Outcome as Fate, Refusal, ReplicaId,
    RequestId, Slot,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Digests kept of what one member said of one entry: it says another one when a peer has lost its
/// promises.
const DIGESTS_MAX: usize = 8;

/// In the place of the digest, where the leader counts: which path it was.
pub(super) const COUNTED_FAST: u128 = 1;
pub(super) const COUNTED_SLOWLY: u128 = 0;

/// What a gateway sees to.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    /// The member it runs inside; none for a remote gateway.
    inside: Option<MemberIndex>,
    /// Commands without an entry.
    backlog: Backlog,
    /// Entries that are to be decided.
    pub(super) pending: BTreeMap<EntryId, Pending>,
    /// Names of own entries.
    names: EntryNames,
    pub(super) estimates: Estimates,
    pub(super) hold: Hold,
    /// How far each member is, and in which view: never told of one by another.
    synced: Vec<(u64, Slot)>,
    /// The newest view that a member spoke of, where deadlines depend on who leads.
    view: Option<u64>,
    /// Entries answered on the fast path, and on the slow one: for people.
    pub(super) answered: (u64, u64),
    /// Whether this gateway counts; otherwise the leader does, and the leader's word is enough.
    counts: bool,
    /// How long answers take, since a request was last sent.
    pub(super) pace: Pace,
    /// Since when own entries are under way of which none was committed, on the own monotonic clock, ns.
    silent_since_ns: Option<u64>,
}

/// An entry on its way.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) body: Body,
    /// When it was sent last, on the own monotonic clock, ns.
    sent_ns: u64,
    /// When it was sent first, and how much its deadline allowed for; of own entries.
    began: Option<(u64, u64)>,
    /// Somebody else's clients wait for it, nobody does, or they have their answer: it is only to be
    /// decided.
    pub(super) is_answered: bool,
    /// Of which view the replies are.
    view: u64,
    outcome: Option<Outcome>,
    /// Of each member, in order.
    digests: Vec<MemberDigest>,
}

/// What a member replied to a request on the fast path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct MemberDigest {
    member: MemberIndex,
    digest: u128,
}

/// A request as it is sent.
pub(super) struct Dispatch {
    pub(super) body: Body,
    /// When, by the gateway's clock.
    pub(super) sent: u64,
    pub(super) deadline: u64,
}

/// An entry is committed: what its clients are told.
pub(super) struct Committed {
    pub(super) is_fast: bool,
    pub(super) slot: Slot,
    results: Vec<(RequestId, Bytes)>,
}

impl Committed {
    pub(super) fn say<M: Machine>(self, out: &mut Out<M>) {
        out.emit(Event::Branch(match self.is_fast {
            true => "committed fast",
            false => "committed slowly",
        }));
        for (id, result) in self.results {
            out.reply(id, Fate::Applied(self.slot, result));
        }
    }
}

impl Hash for Gateway {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.backlog, self.names, &self.estimates, &self.synced).hash(to);
        (&self.hold, self.view).hash(to);
        for pending in self.pending.values() {
            (&pending.body, pending.is_answered).hash(to);
            // Of others a replica makes nothing of what is said.
            if !pending.is_answered {
                pending.hash_replies(to);
            }
        }
    }
}

impl Pending {
    pub(super) fn new(body: Body, is_answered: bool) -> Pending {
        Pending {
            body,
            sent_ns: 0,
            began: None,
            is_answered,
            view: 0,
            outcome: None,
            digests: Vec::new(),
        }
    }

    /// Replies of different views are never counted together.
    fn enter(&mut self, view: u64) -> bool {
        if view > self.view {
            self.view = view;
            self.outcome = None;
            self.digests.clear();
        }
        view == self.view
    }

    fn add_digest(&mut self, member: MemberIndex, digest: u128) {
        let said = MemberDigest { member, digest };
        if let Err(at) = self.digests.binary_search(&said)
            && self.digests_of(member).len() < DIGESTS_MAX
        {
            self.digests.insert(at, said);
        }
    }

    fn has_digest(&self, member: MemberIndex, digest: u128) -> bool {
        let said = MemberDigest { member, digest };
        self.digests.binary_search(&said).is_ok()
    }

    fn digests_of(&self, member: MemberIndex) -> &[MemberDigest] {
        let from = self.digests.partition_point(|said| said.member < member);
        let its = &self.digests[from..];
        &its[..its.partition_point(|said| said.member == member)]
    }

    /// Feeds what was said of it.
    pub(super) fn hash_replies(&self, to: &mut impl Hasher) {
        (self.view, &self.digests).hash(to);
        let slot = self.outcome.as_ref().map(|outcome| outcome.slot);
        slot.hash(to);
    }

    /// The requests of its commands.
    pub(super) fn requests(&self) -> Vec<RequestId> {
        requests(&self.body)
    }
}

/// The requests of the commands of an entry.
pub(super) fn requests(body: &Body) -> Vec<RequestId> {
    let commands = body.entry.commands().filter_map(Result::ok);
    commands.map(|command| command.id).collect()
}

impl Gateway {
    /// The gateway inside this replica.
    pub(super) fn local(config: &Config) -> Gateway {
        Gateway {
            inside: Some(config.me),
            ..Gateway::remote(config, config.members[config.me])
        }
    }

    /// A gateway inside no member, with a number that is no replica's.
    pub(super) fn remote(config: &Config, origin: ReplicaId) -> Gateway {
        let n = config.n();
        Gateway {
            inside: None,
            backlog: Backlog::default(),
            pending: BTreeMap::new(),
            names: EntryNames::new(origin, config.boot),
            estimates: Estimates::new(n),
            hold: Hold::new(config.hold),
            synced: vec![(0, Slot(0)); n],
            view: config.wan.then_some(0),
            answered: (0, 0),
            counts: !config.leader_counts,
            pace: Pace::default(),
            silent_since_ns: None,
        }
    }

    /// Counts for all gateways, has no clients, and sends nothing by itself.
    pub(super) fn counter(config: &Config) -> Gateway {
        Gateway {
            counts: true,
            ..Gateway::local(config)
        }
    }

    /// Whether an entry is known to be committed.
    pub(super) fn has_answered(&self, id: EntryId) -> bool {
        self.pending
            .get(&id)
            .is_some_and(|pending| pending.is_answered)
    }

    /// Whether commands wait for an entry.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether anything waits here.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty() || !self.backlog.is_empty()
    }

    /// How many more commands may wait, where `others` wait elsewhere.
    pub(super) fn room(&self, config: &Config, others: usize) -> usize {
        let waiting = self.backlog.len() + others;
        config.queue.room(waiting, self.backlog.bytes())
    }

    /// A command waits for an entry.
    pub(super) fn wait(&mut self, command: Command, now: Now) {
        self.backlog.push_since(command, now.mono_ns);
    }

    /// Refuses what nobody waits for any more, of what is in no entry.
    pub(super) fn withdraw<M: Machine>(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<M>) {
        refuse_withdrawn(self.backlog.withdraw(ids), out);
    }

    /// Refuses what has waited for longer than clients do. It is in no entry and will not be executed; it would be in the
    /// way of what clients ask for in its place, and where that is more than can be ordered, for ever.
    pub(super) fn refuse_old<M: Machine>(&mut self, config: &Config, now: Now, out: &mut Out<M>) {
        let before_ns = now.mono_ns.saturating_sub(config.patience_ns);
        while let Some(command) = self.backlog.pop_before(before_ns) {
            out.emit(Event::Branch("waited too long"));
            out.reply(command.id, Fate::Refused(Refusal::NotServing));
        }
    }

    /// Forms an entry of whatever waits, if few enough are under way: it is to be sent.
    pub(super) fn form_entry(&mut self, config: &Config, now: Now) -> Option<EntryId> {
        if !self.may_form_entry(config, now) {
            return None;
        }
        self.silent_since_ns.get_or_insert(now.mono_ns);
        let (most, bytes) = (config.batch_commands_max, config.batch_bytes_max);
        let batch = self.backlog.fill(most, bytes);
        let id = self.names.next();
        let entry = batch.finish(id, now.clock_ns);
        let commands: Result<Vec<Command>, _> = entry.commands().collect();
        let footprint = config.footprint(&commands.unwrap_or_default());
        let mut pending = Pending::new(Body { entry, footprint }, false);
        pending.began = Some((now.mono_ns, self.hold.percent()));
        self.pending.insert(id, pending);
        Some(id)
    }

    /// Whether something waits that an entry may be formed of.
    pub(super) fn may_form_entry(&self, config: &Config, now: Now) -> bool {
        let is_full = self.pending.len() >= config.outstanding;
        self.has_backlog() && !is_full && !self.is_silent(config, now)
    }

    /// Whether nobody who could commit an entry seems to be there: then no more is sent than what is repeated. What is
    /// sent may be executed long after its clients gave up, and what waits here will not be.
    fn is_silent(&self, config: &Config, now: Now) -> bool {
        let since_ns = self.silent_since_ns;
        since_ns.is_some_and(|since_ns| now.mono_ns >= since_ns + config.election_ns)
    }

    /// An entry is decided or given up: it is seen to no more.
    pub(super) fn remove(&mut self, id: EntryId) -> Option<Pending> {
        self.silent_since_ns = None;
        self.pending.remove(&id)
    }

    /// How long a request is thought to take to those who are to have it in time: to all, or over wide areas
    /// to a fast quorum. The others get it late, and follow the leader's log.
    pub(super) fn reach_ns(&self, config: &Config, mono_ns: u64) -> u64 {
        let leader = self.view.map(|view| config.leader_of(view));
        let quorum = leader.map(|leader| ReachQuorum {
            leader,
            members: config.thresholds.fast,
        });
        let max_ns = config.owd_max_ns;
        self.estimates
            .reach_ns(mono_ns, self.inside, max_ns, quorum)
    }

    fn heard_of(&mut self, view: u64) {
        self.view = self.view.map(|newest| newest.max(view));
    }

    /// A request with a deadline of now, which goes to all.
    pub(super) fn dispatch(&mut self, config: &Config, now: Now, id: EntryId) -> Option<Dispatch> {
        let max_ns = config.owd_max_ns;
        let owd_ns = self.reach_ns(config, now.mono_ns);
        let owd_ns = (owd_ns * self.hold.percent() / 100).min(max_ns);
        let deadline = self.estimates.deadline(now, owd_ns, max_ns);
        let pending = self.pending.get_mut(&id)?;
        pending.sent_ns = now.mono_ns;
        Some(Dispatch {
            body: pending.body.clone(),
            sent: now.clock_ns,
            deadline,
        })
    }

    /// The entries to send again: those without a decision for longer than answers take at present. Sent
    /// earlier, the copies would queue behind each other on a slow link, which would never be empty again.
    pub(super) fn old(&self, config: &Config, now: Now) -> Vec<EntryId> {
        let wait_ns = config.rtx_min_ns.max(self.pace.patience_ns());
        let is_old = |pending: &Pending| now.mono_ns >= pending.sent_ns + wait_ns;
        let old = self.pending.iter().filter(|(_, pending)| is_old(pending));
        old.map(|(id, _)| *id).collect()
    }

    /// A member replied to a request. Says whether that may have committed it, or what is wrong.
    pub(super) fn on_fast(
        &mut self,
        config: &Config,
        now: Now,
        from: MemberIndex,
        reply: FastReply,
    ) -> Result<bool, &'static str> {
        let FastReply {
            view,
            id,
            digest,
            owd,
            outcome,
        } = reply;
        self.estimates.told(from, owd, now.mono_ns);
        self.heard_of(view);
        let is_leader = from == config.leader_of(view);
        if is_leader != outcome.is_some() {
            return Err("a reply of the leader that is not the leader's");
        }
        if let Some(outcome) = &outcome {
            let (mono_ns, max_ns) = (now.mono_ns, config.owd_max_ns);
            self.estimates
                .told_deadline(outcome.deadline, mono_ns, max_ns);
        }
        let Some(pending) = self.pending.get_mut(&id) else {
            return Ok(false);
        };
        if !pending.enter(view) {
            return Ok(false);
        }
        pending.add_digest(from, digest);
        if let Some(mut outcome) = outcome {
            if outcome.results.len() != pending.body.entry.count() {
                return Err("results of other commands");
            }
            if pending.is_answered {
                outcome.results.clear();
            }
            pending.outcome = Some(outcome);
        }
        Ok(true)
    }

    /// A member has the leader's log of its view up to here. Says of what that may be news.
    pub(super) fn on_synced(&mut self, from: MemberIndex, view: u64, upto: Slot) -> Vec<EntryId> {
        let synced = &mut self.synced[from];
        *synced = (*synced).max((view, upto));
        self.heard_of(view);
        let of_view = |(_, pending): &(&EntryId, &Pending)| pending.view == view;
        let waiting = self.pending.iter().filter(of_view);
        waiting.map(|(id, _)| *id).collect()
    }

    /// Whether a member has the leader's log of a view beyond a slot.
    fn is_synced(&self, config: &Config, member: MemberIndex, view: u64, slot: Slot) -> bool {
        let (at, upto) = self.synced[member];
        (at == view || config.faults.is(Fault::MixViews)) && upto > slot
    }

    /// The quorum check (paper, sections 5.3 and 5.4): what the clients of an entry are told, once.
    pub(super) fn commit(&mut self, config: &Config, now: Now, id: EntryId) -> Option<Committed> {
        let pending = self.pending.get(&id)?;
        let view = pending.view;
        let (Some(outcome), false) = (&pending.outcome, pending.is_answered) else {
            return None;
        };
        let leader = config.leader_of(view);
        let is_leaders = |said: &MemberDigest| pending.has_digest(leader, said.digest);
        let is_slow = |member: &MemberIndex| self.is_synced(config, *member, view, outcome.slot);
        let is_fast = |member: &MemberIndex| {
            is_slow(member) || pending.digests_of(*member).iter().any(is_leaders)
        };
        let followers = || config.all().iter().filter(|member| *member != leader);
        let slow = 1 + followers().filter(is_slow).count();
        let fast = 1 + followers().filter(is_fast).count();
        let thresholds = config.thresholds;
        let is_fast = match (
            self.counts,
            slow >= thresholds.slow,
            fast >= thresholds.fast,
        ) {
            (true, false, true) => true,
            (true, true, _) => false,
            (true, false, false) => return None,
            (false, ..) => pending.has_digest(leader, COUNTED_FAST),
        };
        match is_fast {
            true => self.answered.0 += 1,
            false => self.answered.1 += 1,
        }
        self.silent_since_ns = None;
        let pending = self.pending.get_mut(&id)?;
        pending.is_answered = true;
        // The time since the last copy left: it grows up to that of a round trip, and losses do not add to it.
        let took_ns = now.mono_ns.saturating_sub(pending.sent_ns);
        self.pace.note(took_ns, ACK_NS_MAX);
        if let Some((began_ns, percent)) = pending.began {
            let took_ns = now.mono_ns.saturating_sub(began_ns);
            self.hold.answered(percent, took_ns);
        }
        let outcome = pending.outcome.as_mut()?;
        let (slot, results) = (outcome.slot, std::mem::take(&mut outcome.results));
        let results = pending.requests().into_iter().zip(results).collect();
        Some(Committed {
            is_fast,
            slot,
            results,
        })
    }

    /// Whether an entry whose clients have their answer is decided, as far as is known here: `f + 1` have it
    /// at its place in the leader's log of one view.
    pub(super) fn is_decided(&self, config: &Config, id: EntryId) -> bool {
        let Some(pending) = self.pending.get(&id).filter(|pending| pending.is_answered) else {
            return false;
        };
        let Some(outcome) = &pending.outcome else {
            return false;
        };
        let leader = config.leader_of(pending.view);
        let followers = config.all().iter().filter(|member| *member != leader);
        let has =
            |member: &MemberIndex| self.is_synced(config, *member, pending.view, outcome.slot);
        1 + followers.filter(has).count() >= config.thresholds.slow
    }
}

/// Waits grow up to so many times.
pub(super) const BACKOFF_MAX: u32 = 12;
