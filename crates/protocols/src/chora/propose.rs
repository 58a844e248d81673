//! Own slots: what is proposed in them, and that those nobody needs hold nothing.

use super::Replica;
use super::messages::{Logged, Proposal, Value};
use super::normal::Body;
use quorate_core::{Entry, Event, Out, Peers, Slot};

/// Entries of others that wait for own slots, at most.
const QUEUE_MAX: usize = 4096;

/// The slots that a view deals to this replica.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct OwnSlots {
    /// The next one in which nothing was proposed.
    pub(super) next: Slot,
    /// Own slots before this one are wanted by others, and are proposed or skipped.
    pub(super) skip_until: Slot,
    /// The replica proposes in no view up to this one: a former start of it may have.
    pub(super) mute: Option<u64>,
}

impl OwnSlots {
    /// None is known; every slot before `ap` is committed.
    pub(super) fn new(ap: Slot) -> OwnSlots {
        OwnSlots {
            next: ap,
            skip_until: Slot(0),
            mute: None,
        }
    }

    /// Proposes in no view up to this one.
    pub(super) fn mute_through(&mut self, view: u64) {
        self.mute = self.mute.max(Some(view));
    }

    /// Whether nothing may be proposed in a view.
    pub(super) fn is_mute_in(&self, view: u64) -> bool {
        self.mute.is_some_and(|through| view <= through)
    }
}

impl Replica {
    /// Whether this replica proposes now: in a view that gives it slots, whose VIEW-INIT it has
    /// committed, and in which no former start of it proposed (J9).
    pub(super) fn may_propose(&self) -> bool {
        let is_mute = self.own.is_mute_in(self.view);
        let is_begun = self
            .init
            .as_ref()
            .is_some_and(|init| init.has(self.config.me) && self.ap() >= init.start());
        is_begun && !is_mute && self.is_voting()
    }

    /// Whether it has slots in this view and will never propose in them.
    pub(super) fn is_mute_proposer(&self) -> bool {
        let is_mute = self.own.is_mute_in(self.view);
        let is_dealt = |init: &std::sync::Arc<super::ViewInit>| init.has(self.config.me);
        is_mute && self.is_voting() && self.init.as_ref().is_some_and(is_dealt)
    }

    /// Takes an entry to propose, unless it is on its way or committed.
    pub(super) fn enqueue(&mut self, entry: Entry, out: &mut Out<Self>) {
        if self.queue.len() >= QUEUE_MAX {
            return out.emit(Event::Branch("too much to propose"));
        }
        if !self.is_under_way(&entry) {
            self.queue.push_back(entry);
        }
    }

    /// Whether an entry is committed, in a slot, or waits for one.
    pub(super) fn is_under_way(&self, entry: &Entry) -> bool {
        let is_it = |value: &Value| value.entry().is_some_and(|other| other.id == entry.id);
        self.done.entries.contains(entry.id)
            || self.queue.iter().any(|other| other.id == entry.id)
            || self.log.entries().any(|logged| is_it(&logged.value))
            || self.pending.values().any(|logged| is_it(&logged.value))
    }

    /// Proposes what waits, and skips what others have left behind.
    pub(super) fn propose_all(&mut self, out: &mut Out<Self>) {
        while let Some(proposal) = self.next_proposal() {
            self.say_to_all(Some(proposal), out);
        }
    }

    /// The next thing to say about own slots: an entry in the next one that no slot proposed already
    /// lies behind, or that slots before those hold nothing.
    pub(super) fn next_proposal(&mut self) -> Option<Proposal> {
        if !self.may_propose() {
            return None;
        }
        let init = self.init.clone()?;
        let (me, skip_from) = (self.config.me, self.own.next);
        let end = self.window_end();
        let slot = init.next_of(me, skip_from.max(self.traffic.latest))?;
        if slot < end
            && let Some(entry) = self.queue.pop_front()
        {
            let value = Some(Value::Entry(entry));
            return Some(Proposal {
                skip_from,
                slot,
                value,
            });
        }
        let slot = self.traffic.latest.max(self.own.skip_until).min(end);
        (skip_from < slot).then_some(Proposal {
            skip_from,
            slot,
            value: None,
        })
    }

    /// Own slots that a replica gives up with its next acknowledgement, if it has proposed nothing for a
    /// while: those before the next slot of whoever proposed last, which need not wait for them then.
    pub(super) fn skip_ahead(&self) -> Option<Proposal> {
        let is_idle = self.queue.is_empty()
            && self.clients.backlog.is_empty()
            && self.rounds.load.proposed_ago_ns() > self.config.idle_ns;
        let init = self
            .init
            .as_ref()
            .filter(|_| is_idle && self.may_propose())?;
        let last = Slot(self.traffic.latest.0.checked_sub(1)?);
        let next = init.next_of(init.owner(last)?, self.traffic.latest)?;
        let slot = next.min(self.window_end());
        (self.own.next < slot).then_some(Proposal {
            skip_from: self.own.next,
            slot,
            value: None,
        })
    }

    /// Whether there is such a thing.
    pub(super) fn can_propose(&self) -> bool {
        let skipped = self
            .traffic
            .latest
            .max(self.own.skip_until)
            .min(self.window_end());
        self.may_propose() && self.own.next < skipped || !self.queue.is_empty() && self.has_slot()
    }

    /// Whether an entry would have a slot now.
    pub(super) fn has_slot(&self) -> bool {
        let init = self.init.as_ref().filter(|_| self.may_propose());
        let slot = init
            .and_then(|init| init.next_of(self.config.me, self.own.next.max(self.traffic.latest)));
        slot.is_some_and(|slot| slot < self.window_end())
    }

    /// The first slot in which nothing is proposed yet.
    fn window_end(&self) -> Slot {
        Slot(self.ap().0 + self.config.window as u64)
    }

    /// Says a proposal, if there is one, and what is acknowledged. Nothing waits for the own disk: the
    /// acknowledgement says what is durable.
    pub(super) fn say_to_all(&mut self, proposal: Option<Proposal>, out: &mut Out<Self>) {
        if let Some(proposal) = &proposal {
            self.note_own(proposal);
        }
        let body = Body {
            proposal,
            ..Body::default()
        };
        self.say_pulse(Peers::All, body, out);
        self.advance(out);
    }

    /// Takes note of an own proposal, never to go back behind it in this view (Fact 1).
    fn note_own(&mut self, proposal: &Proposal) {
        let Some(init) = self.init.clone() else {
            return;
        };
        let me = self.config.me;
        let mut next = proposal.slot;
        self.skip(&init, me, proposal.skip_from..proposal.slot);
        if let Some(value) = proposal.value.clone() {
            self.rounds.load.note_offered(me, &value);
            self.rounds.load.note_proposed();
            next = next.next();
            self.traffic.note_proposed(next);
            self.take_pending(Logged {
                slot: proposal.slot,
                eview: self.view,
                value,
            });
        }
        if let Some(next) = init.next_of(me, next) {
            self.own.next = self.own.next.max(next);
        }
    }

    /// The first own slot of this view that was proposed and is not committed, as it was proposed;
    /// VIEW-INIT is its initiator's.
    pub(super) fn first_uncommitted(&self) -> Option<Proposal> {
        let init = self.init.as_ref()?;
        let slot = if init.initiator == self.config.me && self.ap() <= init.at && init.view > 0 {
            init.at
        } else {
            let slot = init.next_of(self.config.me, self.ap())?;
            if slot >= self.own.next || !self.may_propose() {
                return None;
            }
            slot
        };
        let logged = self.log.get(slot).or_else(|| self.pending.get(&slot));
        let logged = logged.filter(|logged| logged.eview == self.view)?;
        let (slot, value) = match &logged.value {
            Value::Noop => (slot.next(), None),
            value => (slot, Some(value.clone())),
        };
        Some(Proposal {
            skip_from: logged.slot,
            slot,
            value,
        })
    }
}
