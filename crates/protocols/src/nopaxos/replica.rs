//! One replica: its state, and what it makes of each input.

use super::change::Change;
use super::config::Config;
use super::describe;
use super::gaps::Gaps;
use super::gateway::Gateway;
use super::log::Log;
use super::messages::{Message, Record, Reply, Timer, View};
use super::mutants::Fault;
use super::sequencer::Sequencer;
use super::sync::Lead;
use super::waits::Waits;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::peers::{each_peer, sender};
use crate::shared::words::{plain_checks, plain_machine};
use quorate_core::{
    ENTRY_BYTES_MAX, Entry, Event, Input, Introspect, Machine, MemberIndex, MemberSet, Now, Out,
    Peers, ReplicaId, Slot, Wire,
};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica, with the gateway of its clients, and the sequencer of every session whose turn it is.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether it lost its promises, and only learns.
    pub(super) is_silent: bool,
    /// The view, or the one to come.
    pub(super) view: View,
    /// The last view that it took part in: the same, unless a view has yet to start.
    pub(super) last_normal: View,
    /// What is not delivered.
    pub(super) log: Log,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// Stamped entries that cannot be placed yet, by their numbers in the session of `view`.
    pub(super) early: BTreeMap<u64, Entry>,
    /// What is missing before those, and what is done about it.
    pub(super) gaps: Gaps,
    /// What logs are compared by: as leader with all others, as follower with the leader's.
    pub(super) lead: Lead,
    /// What was said of a view to come.
    pub(super) change: Change,
    /// The own stamps, where it is this replica's turn.
    pub(super) sequencer: Sequencer,
    /// What its clients wait for.
    pub(super) gateway: Gateway,
    /// How far records are durable, and what counts once they are.
    pub(super) disk: Disk<Written>,
    /// The timers that run, and what happened since they were armed.
    pub(super) waits: Waits,
    /// A member that has delivered every slot before this one, which is the last heard of.
    pub(super) claim: Claim,
    /// The time of this step.
    pub(super) now: Now,
}

/// What counts once a record is durable.
#[derive(Clone, Hash, Debug)]
pub(super) enum Written {
    /// A reply to the own gateway.
    Reply(Reply),
    /// As leader, the no-ops of a gap.
    Gap { view: View, until: Slot },
    /// As leader, the own log up to before a slot.
    Log { view: View, upto: Slot },
}

impl Introspect for Replica {
    plain_checks!(describe);

    fn leads(&self) -> Option<bool> {
        Some(self.is_leader())
    }

    /// The depth of a run is counted in views.
    fn depth(&self) -> usize {
        (self.view.lead + self.view.session - View::FIRST.session) as usize
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let View { lead, session } = self.view;
        let gaps = self.gaps.declared as f64;
        vec![
            ("lead", lead as f64),
            ("session", session as f64),
            ("gaps_total", gaps),
        ]
    }

    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.view, self.last_normal, self.is_silent).hash(to);
        (&self.log, &self.lead, &self.change, &self.gaps).hash(to);
        for (number, entry) in &self.early {
            (number, entry.id).hash(to);
        }
        self.sequencer.hash(to);
        self.disk.is_durable(self.sequencer.sealed).hash(to);
        self.done.to_bytes().hash(to);
        (&self.gateway, &self.disk, &self.waits, self.claim).hash(to);
    }
}

impl Machine for Replica {
    plain_machine!();

    fn room(&self) -> usize {
        self.gateway.room(&self.config)
    }

    fn reach(config: &Config) -> Option<u64> {
        Some(config.slots_max)
    }

    fn is_serving(&self) -> bool {
        !self.is_silent
    }

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        self.now = now;
        match input {
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Durable(lsn) => self.disk.confirm(lsn),
            Input::Applied {
                slot,
                entry,
                results,
            } => self.on_applied(slot, entry, results, out),
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Withdraw(ids) => self.gateway.withdraw(&ids, out),
            Input::Link { peer, up } => self.on_link(peer, up, out),
            Input::Installed { next, base } => self.on_installed(next, base, out),
            // Nothing is gathered, and whose turn it is to lead says the view.
            Input::Held(_) | Input::Prefer(_) => {}
        }
        self.run_to_fixpoint(out);
    }
}

impl Replica {
    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, out: &mut Out<Self>) {
        loop {
            self.take_durable(out);
            self.place_early(out);
            self.compare(out);
            self.deliver_all(out);
            self.form_entries(out);
            self.go_on_with_reads(out);
            if !self.disk.is_due() && !self.may_place() {
                break;
            }
        }
        self.watch_gap(out);
        self.rearm_timers(out);
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let seating = &self.config.seating;
        let Some(from) = sender(from, seating.member(from), seating.me, out) else {
            return;
        };
        self.waits.heard.insert_if(from, message.is_work());
        match message {
            Message::Synced { view, upto } => self.on_synced(from, view, upto, out),
            Message::ReadA {
                query,
                view,
                delivered,
                end,
            } => {
                self.note_claim(from, delivered);
                self.on_read_a(from, query, view, end);
            }
            // One that lost its promises says nothing, and follows nobody.
            _ if self.is_silent => {}
            Message::Stamp { session, entry } => self.on_stamp(from, session, entry, out),
            Message::Marked {
                session,
                number,
                entry,
            } => self.on_marked(from, session, number, entry, out),
            Message::Reply(reply) => self.count(from, reply, out),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ViewChangeReq(view) => self.on_view_change_req(from, view, out),
            Message::ViewChange(change) => self.on_view_change(from, change, out),
            Message::StartView(start) => self.on_start_view(from, start, out),
            _ => self.on_word_in_view(from, message, out),
        }
    }

    /// A message that is for replicas in the view it names.
    fn on_word_in_view(&mut self, from: MemberIndex, message: Message, out: &mut Out<Self>) {
        let view = match &message {
            Message::Lookup { view, .. } | Message::Gap { view, .. } => *view,
            Message::Sync(sync) => sync.view,
            Message::GapA { view, .. } | Message::SyncA { view, .. } | Message::Ask(view) => *view,
            _ => return,
        };
        let is_leaders = matches!(message, Message::Gap { .. } | Message::Sync(_));
        if is_leaders && self.config.leader(view) != from {
            return self.misbehaved(from, "what a leader says, from another", out);
        }
        let counts_any = matches!(message, Message::SyncA { .. }) && self.fault(Fault::SyncAnyView);
        if !self.is_in(from, view, out) && !counts_any {
            return;
        }
        match message {
            Message::Gap {
                from: first, until, ..
            } => self.on_gap(first, until, out),
            Message::Sync(sync) => self.on_sync(sync),
            // The rest is for its leader.
            _ if !self.is_leader() => {}
            Message::Lookup {
                from: first, until, ..
            } => self.on_lookup(from, first, until, out),
            Message::GapA { until, .. } => self.count_gap(from, until, out),
            Message::SyncA { upto, .. } => self.count_log(from, upto, out),
            Message::Ask(_) => {
                let it = MemberSet::only(from);
                self.say_sync(it, out);
                self.say_synced(it, out);
            }
            _ => {}
        }
    }

    /// Counts what became durable.
    fn take_durable(&mut self, out: &mut Out<Self>) {
        let me = self.config.seating.me;
        while let Some(written) = self.disk.pop_durable() {
            match written {
                Written::Reply(reply) => self.count(me, reply, out),
                Written::Gap { view, until } if self.leads_in(view) => {
                    self.count_gap(me, until, out);
                }
                Written::Log { view, upto } if self.leads_in(view) => self.count_log(me, upto, out),
                // Who wrote that leads no more.
                Written::Gap { .. } | Written::Log { .. } => {}
            }
        }
    }

    /// Whether it takes part in its view.
    pub(super) fn is_normal(&self) -> bool {
        self.view == self.last_normal && !self.is_silent
    }

    /// Whether it takes part in its view and leads it.
    pub(super) fn is_leader(&self) -> bool {
        self.is_normal() && self.leader() == self.config.seating.me
    }

    fn leads_in(&self, view: View) -> bool {
        view == self.view && self.is_leader()
    }

    /// Who leads the view, or the one to come.
    pub(super) fn leader(&self) -> MemberIndex {
        self.config.leader(self.view)
    }

    pub(super) fn fault(&self, fault: Fault) -> bool {
        self.config.faults.is(fault)
    }

    /// Whether this can be ordered: an entry of a member, whole, and no larger than entries may be.
    pub(super) fn is_orderable(&self, entry: &Entry) -> bool {
        let is_of_member = self.config.seating.member(entry.id.origin).is_some();
        is_of_member && entry.body_len() <= ENTRY_BYTES_MAX && entry.bulk_len() == 0
    }

    /// Counts a peer's offence; what it said is ignored.
    pub(super) fn misbehaved(&self, from: MemberIndex, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.seating.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }

    /// Says to some members what rests on all that was written so far.
    pub(super) fn say(&self, to: MemberSet, message: &Message, out: &mut Out<Self>) {
        self.each(to, |peers| out.send(peers, message.clone()));
    }

    /// Says to some members what promises nothing.
    pub(super) fn say_early(&self, to: MemberSet, message: &Message, out: &mut Out<Self>) {
        self.each(to, |peers| out.send_early(peers, message.clone()));
    }

    fn each(&self, to: MemberSet, send: impl FnMut(Peers)) {
        let seating = &self.config.seating;
        each_peer(to, seating.others(), &seating.members, send);
    }

    pub(super) fn others(&self) -> MemberSet {
        self.config.seating.others()
    }
}

impl Message {
    /// Whether this is a sign that its sender does its part in a view.
    fn is_work(&self) -> bool {
        let is_question = matches!(
            self,
            Message::Stamp { .. } | Message::Ask(_) | Message::ReadQ(_)
        );
        let is_change = matches!(self, Message::ViewChangeReq(_) | Message::ViewChange(_));
        !is_question && !is_change
    }
}
