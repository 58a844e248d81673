//! How a replica finds out that there is no leader any more, asks for one, and repeats itself, where one
//! replica leads at a time.

use crate::shared::leadership::{Leadership, Trust};
use crate::shared::reads::ReadQueries;
use crate::shared::rejoins::Rejoins;
use crate::shared::seating::Delays;
use crate::shared::timers::{Armed, Backoff, Timer};
use quorate_core::{Due, Event, Machine, MemberIndex, MemberSet, Out, ReplicaId};

/// What a replica is to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The replica follows, or waits for somebody to follow.
    Follows,
    /// The replica asks whether it would get votes, and has promised nothing.
    Canvasses,
    /// The replica asks for votes.
    Stands,
    /// The replica leads its term or ballot.
    Leads,
}

/// What a replica is to the others, with what candidates and leaders know.
#[derive(Clone, Hash, Debug)]
pub(crate) enum Role<C, L> {
    /// The replica follows, or waits for somebody to follow.
    Follower,
    /// The replica asks whether the others would follow it; `granted` are the members that would.
    Canvassing { granted: MemberSet },
    /// The replica asks for votes or promises.
    Candidate(C),
    /// The replica leads its term or ballot.
    Leader(L),
}

impl<C, L> Role<C, L> {
    /// The role alone.
    pub(crate) fn standing(&self) -> Standing {
        match self {
            Role::Follower => Standing::Follows,
            Role::Canvassing { .. } => Standing::Canvasses,
            Role::Candidate(_) => Standing::Stands,
            Role::Leader(_) => Standing::Leads,
        }
    }
}

/// The parts of a replica that say when to look for a leader.
#[derive(Debug)]
pub(crate) struct Clockwork<'a, B> {
    /// The leader as far as known.
    pub(crate) leadership: &'a mut Leadership<B>,
    /// The timers that run.
    pub(crate) armed: &'a mut Armed,
    /// How long nothing moved.
    pub(crate) backoff: &'a mut Backoff,
    /// How long things take.
    pub(crate) delays: &'a Delays,
}

/// A replica of a protocol in which one replica leads at a time.
pub(crate) trait Led: Rejoins + Machine<Timer = Timer> {
    /// What members have answered to a question about reads.
    type Answers;

    /// The parts that say when to look for a leader.
    fn clockwork(&mut self) -> Clockwork<'_, Self::Floor>;
    /// The leader as far as known.
    fn leadership(&self) -> &Leadership<Self::Floor>;
    /// Reads that wait, and the question about them.
    fn reads_mut(&mut self) -> &mut ReadQueries<Self::Answers>;
    /// The replica's part: follower, candidate or leader.
    fn standing(&self) -> Standing;
    /// Whether something here waits for a leader's work.
    fn is_waiting(&self) -> bool;
    /// Whether it leads, and something has to be said again if nobody answers.
    fn is_leading_busily(&self) -> bool;
    /// Whether it leads, and has to notice when nobody answers.
    fn is_leading_watched(&self) -> bool;
    /// "Something waits here: who leads, and what have I missed?"
    fn question(&self) -> Self::Message;
    /// Asks whether the others would vote for it, having become somebody who asks.
    fn canvass(&mut self, out: &mut Out<Self>);
    /// Whether it may ask for votes.
    fn may_stand(&self) -> bool;
    /// Asks members about the reads that wait.
    fn say_query(&self, to: MemberSet, out: &mut Out<Self>);
    /// Answers the own question about reads.
    fn answer_own_query(&mut self, out: &mut Out<Self>);
    /// A link went up or down, for what was sent over it.
    fn note_link(&mut self, member: MemberIndex, up: bool);
    /// Says to a member that can hear again what it says as leader, or as somebody who asks for votes.
    fn greet(&mut self, to: MemberSet, out: &mut Out<Self>);
    /// Says again what it said as leader, or as somebody who asks for votes, and what went unanswered.
    fn repeat(&mut self, out: &mut Out<Self>);
    /// Gives the leader again what it has not ordered for a while.
    fn offer_stale(&mut self, out: &mut Out<Self>);
    /// The time for a sign of life is over.
    fn on_election(&mut self, out: &mut Out<Self>);
    /// What is decided elsewhere has not become known here.
    fn on_catch_up(&mut self, out: &mut Out<Self>);
    /// Requests have waited as long as they should.
    fn on_patience(&mut self, out: &mut Out<Self>);

    /// How long it may not stand yet, in ns.
    fn barred_ns(&self) -> u64 {
        0
    }

    /// Whether it leads.
    fn is_leader(&self) -> bool {
        self.standing() == Standing::Leads
    }

    /// A peer waits for a leader: so does this replica, if it neither leads nor knows of one.
    fn note_wanted(&mut self) {
        let is_free = !self.is_leader() && self.leadership().trust == Trust::None;
        self.clockwork().leadership.is_wanted |= is_free;
    }

    /// Asks the leader, or everybody where none is known, for a sign of life and for what was missed.
    fn ask_for_leader(&self, out: &mut Out<Self>) {
        if self.is_leader() || !self.is_waiting() {
            return;
        }
        let known = self.leadership();
        let to = match known.leader.filter(|_| known.is_led()) {
            Some(leader) => MemberSet::only(leader),
            None => self.seating().others(),
        };
        self.say_early(to, &self.question(), out);
    }

    /// The time for a sign of life is over, for a leader that gives up.
    fn give_up_leading(&mut self, out: &mut Out<Self>) {
        out.emit(Event::Branch("leader gave up"));
        self.resign();
        self.postpone_election(out);
    }

    /// The time for a sign of life is over, for a replica that does not lead.
    fn look_for_leader(&mut self, out: &mut Out<Self>) {
        if self.clockwork().leadership.decay() {
            self.resign();
            if self.may_stand() && (self.is_waiting() || self.leadership().is_wanted) {
                self.campaign(out);
            }
        }
        self.clockwork().leadership.is_wanted = false;
    }

    /// Begins to ask whether the others would vote for it.
    fn campaign(&mut self, out: &mut Out<Self>) {
        self.clockwork().leadership.campaign += 1;
        self.postpone_election(out);
        self.canvass(out);
    }

    /// The group prefers a member as its leader: that one asks for votes at once.
    fn on_prefer(&mut self, member: ReplicaId, out: &mut Out<Self>) {
        let is_me = self.seating().my_id() == member;
        let preferred = self
            .seating()
            .peer(member)
            .or(is_me.then_some(self.seating().me));
        let is_led_by_it = self.leadership().leader == preferred;
        if is_me && (self.is_leader() || !self.may_stand()) || !is_me && is_led_by_it {
            return;
        }
        self.clockwork().leadership.preferred = preferred;
        if is_me {
            self.resign();
            self.campaign(out);
        }
    }

    /// Whether this is a leader that makes room for another, and orders nothing new.
    fn makes_room(&self) -> bool {
        self.is_leader() && self.leadership().preferred.is_some()
    }

    /// Whether this replica asks whether it would get votes because it is preferred: to hear of the leader there is
    /// does not end that. Once it asks for votes it does.
    fn is_preferred(&self) -> bool {
        let is_me = self.leadership().preferred == Some(self.seating().me);
        is_me && self.standing() == Standing::Canvasses
    }

    /// Whether a leader that is heard of keeps this replica from voting for a member.
    fn is_led_against(&self, candidate: MemberIndex) -> bool {
        let known = self.leadership();
        let is_led = known.trust != Trust::None && known.leader != Some(candidate);
        (is_led || self.is_leader()) && known.preferred != Some(candidate)
    }

    /// Puts the election timer off by a whole timeout.
    fn postpone_election(&mut self, out: &mut Out<Self>) {
        let clockwork = self.clockwork();
        clockwork.armed.election = true;
        let timeout_ns = clockwork.delays.election_ns;
        out.arm(Timer::Election, Due::Within(timeout_ns..=2 * timeout_ns));
    }

    /// Has the election timer run if it is needed: to end a trust, or to replace a leader. Where nobody is
    /// trusted there is no reason to wait, but for others to come first.
    fn watch_leader(&mut self, out: &mut Out<Self>) {
        let (known, standing) = (self.leadership(), self.standing());
        let is_free = known.trust == Trust::None && standing == Standing::Follows;
        let is_needed = match standing {
            _ if known.preferred.is_some() => true,
            Standing::Leads => self.is_leading_watched(),
            _ => known.trust != Trust::None || self.is_waiting() || known.is_wanted,
        };
        if !is_needed || self.clockwork().armed.election {
            return;
        }
        if is_free && self.is_voting() {
            let barred_ns = self.barred_ns();
            let clockwork = self.clockwork();
            clockwork.armed.election = true;
            let spread_ns = clockwork.delays.election_ns / 8;
            let due = Due::Within(barred_ns..=barred_ns + spread_ns);
            out.arm(Timer::Election, due);
        } else {
            self.postpone_election(out);
        }
    }

    /// Has the timers run that somebody needs: to say things again, and to find a leader.
    fn watch_led(&mut self, out: &mut Out<Self>) {
        self.watch_repeats(out);
        self.watch_leader(out);
    }

    /// Has the retransmission timer run while something may have to be said again.
    fn watch_repeats(&mut self, out: &mut Out<Self>) {
        let is_busy = match self.standing() {
            Standing::Leads => self.is_leading_busily(),
            Standing::Canvasses | Standing::Stands => true,
            Standing::Follows => self.is_waiting(),
        };
        let clockwork = self.clockwork();
        if is_busy && !clockwork.armed.retransmit {
            clockwork.armed.retransmit = true;
            let (min_ns, max_ns) = (clockwork.delays.rtx_min_ns, clockwork.delays.rtx_max_ns);
            out.arm(Timer::Retransmit, clockwork.backoff.due(min_ns, max_ns));
        }
    }

    /// A timer came due.
    fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Retransmit => self.on_retransmit(out),
            Timer::Election => {
                let Clockwork {
                    leadership, armed, ..
                } = self.clockwork();
                armed.election = false;
                let was_preferred = leadership.preferred.take().is_some();
                // Nobody took the leader's place: it goes on.
                if !(was_preferred && self.is_leader()) {
                    self.on_election(out);
                }
            }
            Timer::CatchUp => self.on_catch_up(out),
            Timer::Patience => self.on_patience(out),
        }
    }

    /// Says again what went unanswered since the last time.
    fn on_retransmit(&mut self, out: &mut Out<Self>) {
        self.clockwork().armed.retransmit = false;
        self.repeat(out);
        if self.clockwork().backoff.is_still() {
            self.say_rejoin(self.seating().others(), out);
            self.ask_for_leader(out);
            self.offer_stale(out);
        }
        self.ask_about_reads_again(out);
    }

    /// A link came up: says at once what may have been lost. Or it went down.
    fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.seating().peer(peer) else {
            return;
        };
        self.note_link(member, up);
        if !up {
            return self.lose_link(member);
        }
        let it = MemberSet::only(member);
        self.say_rejoin(it, out);
        match self.standing() {
            Standing::Leads | Standing::Canvasses | Standing::Stands => self.greet(it, out),
            Standing::Follows if self.is_waiting() => {
                out.send_early(self.peer(member), self.question());
            }
            Standing::Follows => {}
        }
        self.ask_mark_of(member, out);
    }

    /// A link went down: the leader behind it is not waited for.
    fn lose_link(&mut self, member: MemberIndex) {
        let Clockwork {
            leadership, armed, ..
        } = self.clockwork();
        if leadership.leader == Some(member) {
            leadership.give_up();
            armed.election = false;
        }
    }

    /// Asks again about reads what went unanswered.
    fn ask_about_reads_again(&mut self, out: &mut Out<Self>) {
        if self.reads_mut().is_stale() {
            self.say_query(self.seating().others(), out);
            self.answer_own_query(out);
        }
    }

    /// Asks a member about reads that can hear again, or has begun to lead.
    fn ask_mark_of(&mut self, member: MemberIndex, out: &mut Out<Self>) {
        if !self.reads_mut().is_asking() {
            return;
        }
        if member == self.seating().me {
            self.answer_own_query(out);
        } else {
            self.say_query(MemberSet::only(member), out);
        }
    }
}
