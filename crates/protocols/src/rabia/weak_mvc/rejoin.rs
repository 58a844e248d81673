//! A replica that lost its promises comes back, and votes only where its former self cannot have.
//!
//! The former self had delivered every slot before some `A`, and worked in no slot from
//! `A + window` on (I8). Slot `A - 1` was decided, so at least `n - T + 1` replicas had proposed in
//! it, `n - T` of them others; any `T` others include one of those, or its successor, which knows
//! a floor above. So the highest slot that `T` others, none of them recovering, have started is at
//! least `A - 1`; a window above it is the floor. Two conditions end the recovery, and both are
//! asserted: the floor is known, and every slot before it is delivered. Until then the replica
//! says nothing in any slot, and answers neither reads nor the recovery of others; it stores
//! batches, counts what others say, and learns. To get there it has idle peers run slots up to
//! the floor. The second condition also gives back every payload the former self had promised to
//! hold by proposing it.
//!
//! Only the first answer of a member counts. A later one would have moved with the very slots that
//! are run to reach the floor.
//!
//! A recovering replica is one of the `f` that may be missing. If so many recover at once that no
//! `T` others are left to answer, they wait for ever: safe, and for operators to resolve.
//!
//! With a disk, the first thing written is that a recovery began ([`Record::Floor`]), and the last
//! is its floor, behind the decisions of all slots before it. A crash in between begins the
//! recovery anew; after it, none is needed.

use super::Replica;
use super::messages::{Message, Record};
use quorate_core::{Boot, Event, Lsn, MemberIndex, MemberSet, Out, Peers, Slot};

/// A recovery under way.
#[derive(Clone, Copy, Default, Hash, Debug)]
pub(super) struct Rejoin {
    /// Members that have answered.
    heard: MemberSet,
    /// The first slot behind all that those had started.
    started: Slot,
    /// The first slot this replica may vote in, once known.
    pub(super) floor: Option<Slot>,
    /// The record that ends the recovery, behind the decisions it rests on in the log.
    written: Option<Lsn>,
}

impl Rejoin {
    /// For people: what the recovery waits for.
    pub(super) fn describe(&self) -> String {
        let heard = self.heard.len();
        match self.floor {
            None => format!("asks how far it may have gone, {heard} answered"),
            Some(floor) => format!("waits for all slots before {floor} to be delivered"),
        }
    }
}

impl Replica {
    /// Begins a recovery; its first record goes before its first message.
    pub(super) fn begin_rejoin(&mut self, out: &mut Out<Self>) {
        self.rejoin = Some(Rejoin::default());
        out.persist(Record::Floor { slot: None });
    }

    /// Takes up a recovery that a crash interrupted, or the floor of one that ended.
    pub(super) fn restore_floor(&mut self, floor: Option<Slot>) {
        let rejoin = Rejoin {
            floor,
            ..Rejoin::default()
        };
        self.floor = floor.unwrap_or_default();
        self.rejoin = Some(rejoin).filter(|_| floor.is_none_or(|floor| floor > self.ap));
    }

    /// Whether this replica kept its promises, or is beyond those it lost, and may make new ones.
    pub(super) fn is_voting(&self) -> bool {
        self.rejoin.is_none()
    }

    /// Says what the recovery waits for: answers, or slots.
    pub(super) fn say_rejoin(&self, to: Peers, out: &mut Out<Self>) {
        let from = self.ap;
        match self.rejoin {
            None => {}
            Some(Rejoin { floor: None, .. }) => {
                let boot = self.config.boot;
                out.send(to, Message::Recover { boot, from });
            }
            Some(Rejoin {
                floor: Some(until), ..
            }) => out.send(to, Message::Nudge { until, from }),
        }
    }

    /// A member that lost its promises asks how far it may have gone.
    pub(super) fn on_recover(
        &mut self,
        j: MemberIndex,
        boot: Boot,
        from: Slot,
        out: &mut Out<Self>,
    ) {
        if self.is_voting() {
            let started = self.started();
            let to = Peers::One(self.config.members[j]);
            out.send_early(to, Message::RecoverA { boot, started });
            self.inform_recovering(j, from, out);
        }
    }

    /// A recovering member needs slots to end that nobody may have begun.
    pub(super) fn on_nudge(
        &mut self,
        j: MemberIndex,
        until: Slot,
        from: Slot,
        out: &mut Out<Self>,
    ) {
        if self.is_voting() {
            self.nudge(until);
            self.inform_recovering(j, from, out);
        }
    }

    fn inform_recovering(&self, j: MemberIndex, from: Slot, out: &mut Out<Self>) {
        if from < self.ap {
            out.inform(self.config.members[j], from);
        }
    }

    /// The first slot behind all that this replica may have begun, in this life or a former one.
    fn started(&self) -> Slot {
        let begun = self.slots.iter().rposition(|slot| slot.is_proposed());
        let begun = begun.map_or(self.ap, |offset| Slot(self.ap.0 + offset as u64 + 1));
        begun.max(self.floor).max(self.reserve.forced)
    }

    /// A member's answer.
    pub(super) fn on_recover_a(&mut self, from: MemberIndex, boot: Boot, started: Slot) {
        if let Some(rejoin) = &mut self.rejoin
            && boot == self.config.boot
            && rejoin.heard.insert(from)
        {
            rejoin.started = rejoin.started.max(started);
        }
    }

    /// Moves the recovery on as far as it goes.
    pub(super) fn recover_further(&mut self, out: &mut Out<Self>) {
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        let enough = self.config.thresholds.rejoin;
        if rejoin.floor.is_none() && rejoin.heard.len() >= enough {
            let window = self.config.window as u64;
            let floor = Slot(rejoin.started.0.saturating_add(window));
            rejoin.floor = Some(floor);
            self.floor = floor;
            self.say_rejoin(Peers::All, out);
        }
        self.end_rejoin(out);
    }

    /// The record of the floor comes behind the decisions of all slots before it, so that they are
    /// durable when it is. Otherwise a crash of all could leave a replica that is beyond its
    /// recovery below its floor, and several of those would wait for each other.
    fn end_rejoin(&mut self, out: &mut Out<Self>) {
        if let Some(rejoin) = &mut self.rejoin
            && rejoin.floor.is_some_and(|floor| self.ap >= floor)
            && !self.is_rejoin_delayed
            && rejoin.written.is_none()
        {
            let slot = rejoin.floor;
            rejoin.written = Some(out.persist(Record::Floor { slot }));
        }
        let is_over =
            |rejoin: &mut Rejoin| rejoin.written.is_some_and(|lsn| self.disk.is_durable(lsn));
        if let Some(rejoin) = self.rejoin.take_if(is_over) {
            assert_eq!(rejoin.floor, Some(self.floor), "the floor is known (I9)");
            assert!(self.ap >= self.floor, "and everything before it (I9)");
            out.emit(Event::Branch("rejoined"));
        }
    }
}
