//! Who waits for what, which timers that takes, and what follows if nothing moves.

use super::Replica;
use super::campaign::BACKOFF_MAX;
use super::messages::{Reason, Timer};
use super::role::Role;
use quorate_core::{Due, Event, MILLIS, MemberIndex, MemberSet, Out, Slot};

/// The longest time between repairs, unless half of what a view is given is longer: what heals silently is noticed
/// after it.
const GAP_LONGEST_NS: u64 = 500 * MILLIS;

/// What there was when a timer was armed: if it is the same when the timer comes due, nothing moved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Progress {
    /// The view at that time.
    view: u64,
    /// The first slot not verified.
    verified: Slot,
    /// The first slot not committed.
    committed: Slot,
}

/// The timers that run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Armed {
    /// The repair timer runs; what there was when it was armed.
    pub(super) gap: Option<Progress>,
    /// The stall timer runs; what there was when it was armed.
    pub(super) stall: Option<Progress>,
    /// The repair timer was moved forward, for something lost.
    pub(super) is_hurried: bool,
    /// The stall timer was moved forward, for a view that cannot go on.
    pub(super) is_urgent: bool,
    /// The timer for other proposers runs.
    pub(super) plan: bool,
}

/// The timers that run, and what moved since they were armed.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Watch {
    pub(super) armed: Armed,
    /// Repairs since anything moved.
    pub(super) attempts: u32,
    /// A gap was seen that no message in its turn can fill.
    pub(super) is_lost: bool,
    /// Something was committed since the last stall timer or the one before.
    pub(super) is_moving: bool,
    /// Members heard since the stall timer was armed.
    pub(super) heard: MemberSet,
}

impl Replica {
    /// What there is now.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            view: self.view,
            verified: self.verified,
            committed: self.ap(),
        }
    }

    /// Whether something here waits for others: requests, what is proposed and not committed, a view
    /// that has not begun.
    pub(super) fn is_waiting(&self) -> bool {
        let is_beginning = match &self.init {
            Some(init) => init.view > 0 && self.ap() <= init.at,
            None => true,
        };
        self.has_requests()
            || is_beginning
            || self.campaign.is_wanted
            || self.is_mute_proposer()
            || !self.is_voting()
            || !self.queue.is_empty()
            || self.ap() < self.known_end()
            || self.role != Role::Follower && self.role != Role::Initiator
    }

    /// The first slot behind all that is known to be proposed or committed.
    fn known_end(&self) -> Slot {
        self.traffic
            .latest
            .max(self.log.end())
            .max(self.traffic.heard_claim)
    }

    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn tend(&mut self, out: &mut Out<Self>) {
        let is_waiting = self.is_waiting();
        if is_waiting && self.watch.armed.gap.is_none() {
            self.watch.armed.gap = Some(self.progress());
            let most = self.config.gap_max_ns.max(GAP_LONGEST_NS);
            let most = most.min(self.config.gap_max_ns << self.in_vain());
            let wait = most.min(self.config.gap_ns << self.watch.attempts.min(16));
            out.arm(Timer::Gap, Due::Within(wait..=wait + wait / 4));
        }
        if self.watch.is_lost && is_waiting {
            self.hurry(out);
        }
        self.watch_stall(is_waiting, out);
        self.watch_patience(out);
    }

    /// How often the time to wait has doubled. Views that follow each other faster than one can begin only make logs
    /// longer; and where a view is asked for again and again, what was asked before is still on its way, on a
    /// network that what is repeated fills.
    pub(super) fn in_vain(&self) -> u32 {
        let views = self.view.saturating_sub(self.committed_view() + 1);
        let views = u32::try_from(views).unwrap_or(u32::MAX);
        views.max(self.campaign.backoff()).min(BACKOFF_MAX)
    }

    /// Has the stall timer run while something waits, or while others are refused because things move.
    fn watch_stall(&mut self, is_waiting: bool, out: &mut Out<Self>) {
        if is_waiting && self.is_urgent() && !self.watch.armed.is_urgent {
            // Others may see the same: not all at once.
            self.watch.armed.is_urgent = true;
            self.watch.armed.stall = Some(self.progress());
            out.arm(Timer::Stall, Due::Within(0..=self.config.stall_ns / 8));
        } else if (is_waiting || self.watch.is_moving) && self.watch.armed.stall.is_none() {
            self.postpone_stall(out);
        }
    }

    /// Whether there is no point in waiting: the own slots will never be filled, whose slot is missing
    /// cannot be reached, or a longer log is wanted.
    fn is_urgent(&self) -> bool {
        let has_begun = |init: &std::sync::Arc<super::ViewInit>| self.ap() >= init.start();
        let is_free = match self.role {
            Role::Follower => true,
            Role::Initiator => self.init.as_ref().is_some_and(has_begun),
            // Who should propose is a question of speed, which may go without an answer.
            Role::Canvassing { reason, .. } => reason == Reason::Planned,
            Role::Candidate { .. } => false,
        };
        let is_free = is_free && self.is_voting();
        is_free && (self.is_mute_proposer() || self.is_blocked() || self.campaign.is_wanted)
    }

    /// Whether the slots that are missing first are those of somebody who cannot be reached, or whoever was
    /// elected to begin the view cannot be.
    pub(super) fn is_blocked(&self) -> bool {
        !self.down.is_empty() && self.down.intersects(self.blockers() | self.awaited())
    }

    /// Who has the own vote, as long as the view has not begun.
    fn awaited(&self) -> MemberSet {
        let voted = self.voted.filter(|_| self.init.is_none());
        voted.map_or(MemberSet::EMPTY, MemberSet::only) & self.config.others()
    }

    /// The owner of the slots that are missing first.
    fn blockers(&self) -> MemberSet {
        let Some(init) = &self.init else {
            return MemberSet::EMPTY;
        };
        // Slots that hold nothing wait here for the next one that does; they are not missing.
        let mut missing = self.verified;
        while missing < self.traffic.latest && self.pending.contains_key(&missing) {
            missing = missing.next();
        }
        if missing >= self.traffic.latest {
            return MemberSet::EMPTY;
        }
        let owner = init.owner(missing).unwrap_or(init.initiator);
        MemberSet::only(owner) & self.config.others()
    }

    /// Who is known to be so far behind that nothing can be proposed there: the next view deals it no slots. Two of
    /// them would block every second view each, if only the one that blocks this one was left out.
    fn left_behind(&self) -> MemberSet {
        let window = self.config.window as u64;
        let is_behind = |member: &MemberIndex| {
            let acked = self.traffic.acked[*member];
            acked > Slot(0) && acked.0 + window <= self.ap().0
        };
        self.config.all().iter().filter(is_behind).collect()
    }

    /// The time for something to move is over.
    pub(super) fn on_stall(&mut self, out: &mut Out<Self>) {
        let before = self.watch.armed.stall.take();
        let is_urgent = self.is_urgent();
        self.watch.armed.is_urgent = false;
        let is_stuck = before == Some(self.progress()) || is_urgent;
        if !is_stuck {
            return;
        }
        self.watch.is_moving &= is_urgent;
        if !self.is_waiting() || !self.is_voting() {
            return;
        }
        let unheard = match is_urgent {
            true => MemberSet::EMPTY,
            false => self.config.others() - self.watch.heard,
        };
        let unfit = self.blockers() | self.left_behind() | self.down | unheard;
        self.campaign.suspects = unfit & self.config.others();
        if !self.campaign.is_wanted {
            self.campaign.only = None;
        }
        self.campaign.is_wanted = false;
        let reason = match self.is_mute_proposer() {
            true => Reason::Restarted,
            false => Reason::Stalled,
        };
        self.campaign.note_stall();
        out.emit(Event::Branch("view given up"));
        self.canvass(reason, out);
    }
}
