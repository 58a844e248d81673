//! Changes of the view.
//!
//! Time decides only when somebody stands. A replica for which something waits and does not move asks
//! the others first (PRE-VC); those for which things move refuse.

use super::messages::{Message, PreVc, Reason, Record, Timer, Value};
use super::mutants::Fault;
use super::normal::Body;
use super::role::Role;
use super::{Logged, Position, Proposal, Replica, ViewInit};
use crate::shared::lives::Lives;
use quorate_core::{Boot, Due, Event, MemberIndex, MemberSet, Out, Peers, Slot};
use std::sync::Arc;

impl Replica {
    /// Goes to a view, without anything of the last one but the log.
    pub(super) fn enter(&mut self, view: u64, voted: Option<MemberIndex>, out: &mut Out<Self>) {
        (self.view, self.voted, self.role) = (view, voted, Role::Follower);
        if self.is_voting() {
            out.persist(Record::View { view, voted });
            self.sealed = out.persisted();
        }
        self.pending.clear();
        if self.config.faults.is(Fault::UnclampedCommit) {
            self.fill_with_nothing(out);
        }
        // Of the old log only what is committed is known to be of this view's lineage.
        self.verified = self.ap().max(self.traffic.claim);
        self.disk.extend(self.verified);
        self.traffic.restart(self.ap());
        (self.init, self.start, self.informant) = (None, None, None);
        self.own.skip_until = Slot(0);
        self.queue.clear();
        self.watch.attempts = 0;
        self.campaign.enter(view);
        self.watch.is_lost = false;
        self.clients.enter_view();
        self.rounds.enter_view();
        self.watch.armed.is_urgent = false;
    }

    /// What the paper does: what is committed is acknowledged, and what was never received of
    /// it holds nothing.
    fn fill_with_nothing(&mut self, out: &mut Out<Self>) {
        while self.log.end() < self.traffic.claim {
            let logged = Logged {
                slot: self.log.end(),
                eview: self.log.position().eview,
                value: Value::Noop,
            };
            self.append(logged, out);
        }
    }

    /// A later view has begun: there is no vote in it to be given any more.
    pub(super) fn join(&mut self, view: u64, start: Option<Slot>, out: &mut Out<Self>) {
        self.enter(view, None, out);
        self.start = start;
        out.emit(Event::Branch("joined a view"));
    }

    /// Somebody else leads the view.
    pub(super) fn follow(&mut self) {
        if matches!(self.role, Role::Candidate { .. }) {
            self.role = Role::Follower;
        }
    }

    /// Asks the others whether they would follow.
    pub(super) fn canvass(&mut self, reason: Reason, out: &mut Out<Self>) {
        self.campaign.number += 1;
        let granted = MemberSet::only(self.config.me);
        self.role = Role::Canvassing { granted, reason };
        self.say_pre_vc(self.config.others(), reason, out);
        self.stand_if_granted(out);
    }

    /// Says PRE-VC to these members.
    pub(super) fn say_pre_vc(&self, to: MemberSet, reason: Reason, out: &mut Out<Self>) {
        let message = Message::PreVc(PreVc {
            boot: self.config.boot,
            campaign: self.campaign.number,
            position: self.log.position(),
            next: self.ap(),
            reason,
        });
        let to = to & self.config.others();
        self.send_to(to, &message, |to, message| out.send_early(to, message));
    }

    /// A peer asks whether this replica would follow it. It would if nothing moves here, or the asker
    /// has slots that nobody else can end; and if the asker's log is as long as its own.
    pub(super) fn on_pre_vc(&mut self, from: MemberIndex, question: PreVc, out: &mut Out<Self>) {
        let PreVc {
            boot,
            campaign,
            position,
            next,
            reason,
        } = question;
        if next < self.ap() {
            out.inform(self.config.id(from), next);
        }
        if !self.is_voting() {
            return;
        }
        let is_shorter = match reason {
            // While things move whoever asks is always a little behind; the longest log begins the view.
            Reason::Planned => !self.is_near(position),
            Reason::Stalled | Reason::Restarted => position < self.log.position(),
        };
        let is_due = match reason {
            // What moves no more because a connection broke need not be watched for long.
            Reason::Stalled => !self.watch.is_moving || self.is_blocked(),
            Reason::Restarted => true,
            Reason::Planned => self.is_planner(from),
        };
        let is_rival = self.is_canvassing_too(reason);
        let is_first = position == self.log.position() && self.config.me < from;
        if !is_due || is_shorter || is_rival && is_first {
            self.traffic.owes.insert(from);
            // What the asker waits for, it may not be the one to bring about.
            self.campaign.is_wanted |= is_shorter && is_due && reason != Reason::Planned;
            return;
        }
        if is_rival {
            // Two that both stand have a vote each, and all wait for the next view.
            self.role = Role::Follower;
        }
        let answer = Message::PreVcOk {
            boot,
            campaign,
            view: self.view,
        };
        out.send_early(self.peer(from), answer);
        self.postpone_stall(out);
    }

    /// Whether a log goes nearly as far as the own one.
    fn is_near(&self, position: Position) -> bool {
        let own = self.log.position();
        let slack = self.config.window as u64 / 4;
        position.eview >= own.eview && position.end.0 + slack >= own.end.0
    }

    /// Whether this replica has found the view stuck, too, and asks for the next one.
    fn is_canvassing_too(&self, theirs: Reason) -> bool {
        let own = match self.role {
            Role::Canvassing { reason, .. } => Some(reason),
            _ => None,
        };
        own == Some(Reason::Stalled) && theirs == Reason::Stalled
    }

    /// PRE-VC-OK: a member would follow.
    pub(super) fn on_pre_vc_ok(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        campaign: u64,
        view: u64,
        out: &mut Out<Self>,
    ) {
        self.campaign.note_view(view);
        let is_mine = boot == self.config.boot && campaign == self.campaign.number;
        if let Role::Canvassing { granted, .. } = &mut self.role
            && is_mine
        {
            granted.insert(from);
            self.stand_if_granted(out);
        }
    }

    /// Enough would follow: a new view, and the own vote in it.
    fn stand_if_granted(&mut self, out: &mut Out<Self>) {
        let Role::Canvassing { granted, .. } = self.role else {
            return;
        };
        if granted.len() < self.config.thresholds.vote || !self.is_voting() {
            return;
        }
        let view = self.view.max(self.campaign.view_seen) + 1;
        let (me, only) = (self.config.me, self.campaign.only);
        self.enter(view, Some(me), out);
        self.campaign.only = only;
        self.role = Role::Candidate {
            votes: MemberSet::only(me),
        };
        self.postpone_stall(out);
        self.say_vcr(self.config.others(), out);
        self.initiate_if_elected(out);
    }

    /// Says VCR to these members.
    pub(super) fn say_vcr(&self, to: MemberSet, out: &mut Out<Self>) {
        let message = Message::Vcr {
            view: self.view,
            position: self.log.position(),
            only: self.campaign.only,
        };
        let to = to & self.config.others();
        self.send_to(to, &message, |to, message| self.say(to, message, out));
    }

    /// A candidate asks for the vote of a view. It gets that of the first one whose log is as long.
    pub(super) fn on_vcr(
        &mut self,
        from: MemberIndex,
        view: u64,
        position: Position,
        only: Option<MemberIndex>,
        out: &mut Out<Self>,
    ) {
        self.campaign.note_view(view);
        if view < self.view || !self.is_voting() {
            self.traffic.owes.insert_if(from, self.start.is_some());
            return;
        }
        let is_long = position >= self.log.position();
        if view > self.view {
            self.enter(view, is_long.then_some(from), out);
            // Should another begin it, it is still for this that it begins.
            self.campaign.only = only.filter(|only| self.config.all().contains(*only));
        } else if self.voted.is_none() && self.start.is_none() && is_long {
            self.voted = Some(from);
            out.persist(Record::View {
                view,
                voted: self.voted,
            });
            self.sealed = out.persisted();
        }
        if self.voted == Some(from) {
            let lives = self.voter.lives().clone();
            self.say(self.peer(from), Message::Vote { view, lives }, out);
        } else if !is_long {
            out.emit(Event::Branch("candidate behind"));
            self.campaign.is_wanted = true;
        }
    }

    /// VOTE: a member votes for this replica.
    pub(super) fn on_vote(
        &mut self,
        from: MemberIndex,
        view: u64,
        lives: &Lives,
        out: &mut Out<Self>,
    ) {
        if !self.is_present(from, lives, out) {
            return out.emit(Event::Branch("vote of a former life"));
        }
        if let Role::Candidate { votes } = &mut self.role
            && view == self.view
        {
            votes.insert(from);
            self.initiate_if_elected(out);
        }
    }

    /// Begins the view if a quorum has voted, this replica durably.
    pub(super) fn initiate_if_elected(&mut self, out: &mut Out<Self>) {
        let Role::Candidate { votes } = self.role else {
            return;
        };
        let is_enough = votes.len() >= self.config.thresholds.vote;
        if !is_enough || !self.disk.is_durable(self.sealed) {
            return;
        }
        let at = self.log.end();
        let init = Arc::new(ViewInit {
            view: self.view,
            initiator: self.config.me,
            at,
            pattern: self.new_pattern(),
            segments: self.log.segments(self.config.segments_max),
        });
        self.role = Role::Initiator;
        out.emit(Event::Branch("began a view"));
        let value = Value::Init(init.clone());
        let eview = self.view;
        let logged = Logged {
            slot: at,
            eview,
            value: value.clone(),
        };
        self.append(logged, out);
        self.begin(init);
        // Its log is the view's, all of it.
        self.verified = self.log.end();
        let proposal = Some(Proposal {
            skip_from: at,
            slot: at,
            value: Some(value),
        });
        let body = Body {
            proposal,
            ..Body::default()
        };
        self.say_pulse(Peers::All, body, out);
        self.advance(out);
    }

    /// The pattern of the view in force.
    pub(super) fn begin(&mut self, init: Arc<ViewInit>) {
        let start = init.start();
        self.start = Some(start);
        self.traffic.note_proposed(start);
        for member in self.config.all() {
            self.traffic.expected[member] = init.next_of(member, start).unwrap_or(start);
        }
        let next = init.next_of(self.config.me, start.max(self.ap()));
        self.own.next = next.unwrap_or(start);
        self.init = Some(init);
    }

    /// VIEW-INIT. What its segments show of the old tail is verified, or cut; what is older than they
    /// tell is neither.
    pub(super) fn on_init(&mut self, init: Arc<ViewInit>, out: &mut Out<Self>) {
        if init.view != self.view || self.init.is_some() {
            if let Some(known) = &self.init
                && known.view == init.view
                && self.verified > init.at
            {
                // Its initiator has not heard that.
                self.traffic.owes.insert(init.initiator);
            }
            return;
        }
        if !init.is_valid(self.config.members.len()) || init.at >= self.horizon() {
            return out.emit(Event::Branch("view begins too far ahead"));
        }
        self.follow();
        self.begin(init.clone());
        let comparison = self.log.compare(self.verified, &init);
        self.verified = self.verified.max(comparison.same);
        let cut = match self.config.faults.is(Fault::EagerCut) {
            false => comparison.other,
            true => Some(comparison.same),
        };
        if let Some(from) = cut {
            self.cut(from.max(self.verified), out);
        }
        self.pending = self.pending.split_off(&self.verified);
        let (slot, eview) = (init.at, init.view);
        self.take_pending(Logged {
            slot,
            eview,
            value: Value::Init(init),
        });
        self.advance(out);
    }

    /// Puts the stall timer off by a whole timeout.
    pub(super) fn postpone_stall(&mut self, out: &mut Out<Self>) {
        let timeout = self.config.stall_ns << self.in_vain();
        self.watch.armed.stall = Some(self.progress());
        self.watch.heard = MemberSet::EMPTY;
        out.arm(Timer::Stall, Due::Within(timeout..=2 * timeout));
    }
}
