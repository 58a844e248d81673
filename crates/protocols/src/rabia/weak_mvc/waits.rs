//! Waits for speed: each happens at most once, and ends by a timer if by nothing else.
//!
//! The failure detector behind them is simple and needs no clock. A member is expected to speak at
//! any moment unless its link is known to be down, or a wait for it ended in vain; then it is
//! given a chance in one slot at a time, and expected again once it is in time for one.

use super::Replica;
use super::config::Config;
use super::messages::Timer;
use super::slot::{Instance, Next};
use quorate_core::{Due, Event, MemberIndex, MemberSet, Out, Slot};

/// A wait that happens at most once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Wait {
    /// The wait has not begun.
    Ahead,
    /// The timer of the wait runs.
    Running,
    /// The wait is over.
    Over,
}

/// The members that may speak at any moment, as far as this replica can tell.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct Presence {
    /// Members whose link is not known to be down.
    up: MemberSet,
    /// Members not waited for until they are in time for a probe.
    late: MemberSet,
    /// The slot in which late members are given a chance: one at a time, while the timer runs.
    probe: Option<Slot>,
}

impl Presence {
    /// At a start, all these members are expected to speak.
    pub(super) fn of(members: MemberSet) -> Presence {
        Presence {
            up: members,
            late: MemberSet::EMPTY,
            probe: None,
        }
    }

    /// Members whose link is not known to be down.
    pub(super) fn up(&self) -> MemberSet {
        self.up
    }

    /// Members that may speak at any moment.
    pub(super) fn expected(&self) -> MemberSet {
        self.up - self.late
    }

    /// A member's link went up or down.
    pub(super) fn set_up(&mut self, member: MemberIndex, is_up: bool) {
        self.up.remove(member);
        self.up.insert_if(member, is_up);
    }

    /// Members were waited for in vain; a link that is down is no fault of theirs.
    fn were_late(&mut self, members: MemberSet) {
        self.late |= members & self.up;
    }

    /// A member has spoken in a slot: in time, if it is the slot of the probe.
    pub(super) fn spoke_in(&mut self, slot: Slot, member: MemberIndex) {
        if self.probe == Some(slot) {
            self.late.remove(member);
        }
    }

    /// Makes a slot the probe, if a late member needs a chance and no probe runs. Says whether it did.
    pub(super) fn probe_in(&mut self, slot: Slot) -> bool {
        let is_needed = self.late.intersects(self.up) && self.probe.is_none();
        if is_needed {
            self.probe = Some(slot);
        }
        is_needed
    }

    /// Whoever is in time for the slot of the probe has been heard by now.
    pub(super) fn end_probe(&mut self) {
        self.probe = None;
    }
}

impl Replica {
    /// A slot waits for a batch that peers named, or for the owner of its lane.
    pub(super) fn await_batch(&mut self, offset: usize, wait_ns: u64, out: &mut Out<Self>) {
        let timer = Timer::Adopt(self.slot_at(offset));
        let slot = self.instance_grown(offset);
        if slot.adopt == Wait::Ahead {
            slot.adopt = Wait::Running;
            out.arm(timer, Due::After(wait_ns));
        }
    }

    /// The wait for a batch is over.
    pub(super) fn on_adopt(&mut self, slot: Slot, out: &mut Out<Self>) {
        if let Some(instance) = self.instance_mut(slot)
            && instance.adopt == Wait::Running
        {
            instance.adopt = Wait::Over;
            out.emit(Event::Branch("adopt wait expired"));
        }
    }

    /// The first vote has waited long enough; whoever was waited for is not waited for again
    /// until it is in time for a probe, which waits for nobody.
    pub(super) fn on_hold(&mut self, slot: Slot, out: &mut Out<Self>) {
        let Some(instance) = self.instance_mut(slot) else {
            return;
        };
        if instance.hold == Wait::Running && instance.is_working() {
            instance.hold = Wait::Over;
            let unheard = instance.unheard();
            self.presence.were_late(unheard);
            out.emit(Event::Branch("vote hold expired"));
            self.progress(slot, false, out);
        }
    }

    /// A step has waited long enough for more values than it needs.
    pub(super) fn on_grace(&mut self, slot: Slot, out: &mut Out<Self>) {
        let Some(instance) = self.instance_mut(slot) else {
            return;
        };
        let index = instance.own().trail.len();
        if instance.grace == (index, Wait::Running) && instance.is_working() {
            instance.grace = (index, Wait::Over);
            let silent = instance.silent();
            self.presence.were_late(silent);
            out.emit(Event::Branch("grace expired"));
            self.progress(slot, false, out);
        }
    }
}

/// Begins the wait that a step asks for, unless it runs.
pub(super) fn begin_wait(
    instance: &mut Instance,
    next: Next,
    slot: Slot,
    config: &Config,
    out: &mut Out<Replica>,
) {
    let index = instance.own().trail.len();
    match next {
        Next::Hold if instance.hold == Wait::Ahead => {
            instance.hold = Wait::Running;
            out.arm(Timer::Hold(slot), Due::After(config.vote_hold_ns));
        }
        Next::Grace if instance.grace != (index, Wait::Running) => {
            instance.grace = (index, Wait::Running);
            out.arm(Timer::Grace(slot), Due::After(config.grace_ns));
        }
        _ => {}
    }
}

/// Ends all waits of a slot.
pub(super) fn end_waits(instance: &mut Instance, slot: Slot, out: &mut Out<Replica>) {
    let waits = [
        (&mut instance.hold, Timer::Hold(slot)),
        (&mut instance.adopt, Timer::Adopt(slot)),
        (&mut instance.grace.1, Timer::Grace(slot)),
    ];
    for (wait, timer) in waits {
        if *wait == Wait::Running {
            *wait = Wait::Over;
            out.disarm(timer);
        }
    }
}
