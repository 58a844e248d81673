//! From one view to the next: another leader, another sequencer, or both.

use super::Replica;
use super::gaps::Gaps;
use super::log::Log;
use super::messages::{Message, Record, StartView, Value, View, ViewChange};
use super::mutants::Fault;
use super::sync::Lead;
use crate::shared::faults::Faults;
use quorate_core::{Event, MemberIndex, MemberSet, Out, Slot};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// What was said of the view to come.
#[derive(Clone, Default, Debug)]
pub(super) struct Change {
    /// To its leader: what the others have.
    pub(super) said: BTreeMap<MemberIndex, ViewChange>,
    /// From its leader: a log that begins behind what is delivered here.
    pub(super) start: Option<(MemberIndex, StartView)>,
}

impl Hash for Change {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (member, said) in &self.said {
            (member, said.last_normal, said.stamps_from, said.first).hash(to);
            said.log.iter().for_each(|value| name(value).hash(to));
        }
        let start = self.start.as_ref().map(|(_, start)| start);
        start
            .map(|start| (start.view, start.first, start.log.len()))
            .hash(to);
    }
}

fn name(value: &Value) -> Option<quorate_core::EntryId> {
    value.as_ref().map(|entry| entry.id)
}

impl ViewChange {
    /// The first slot behind the log.
    fn end(&self) -> Slot {
        Slot(self.first.0.saturating_add(self.log.len() as u64))
    }

    /// What a slot holds, if it is in the log.
    fn get(&self, slot: u64) -> Option<&Value> {
        let at = slot.checked_sub(self.first.0)?;
        self.log.get(at as usize)
    }
}

/// The log with which a view starts: that of the newest view that any of a majority took part in, with a no-op in
/// each slot in which any of them has one. Gives it with the slot of stamp number 0, where the session is still that
/// one.
///
/// An entry that was committed in that view is in the logs of a majority, and its leader has no no-op there. A gap
/// that was committed is in those of a majority, too; one of them is here (N-S2).
fn merge(next: Slot, all: &[&ViewChange], faults: Faults<Fault>) -> (Vec<Value>, View, Slot) {
    let newest = all
        .iter()
        .map(|said| said.last_normal)
        .max()
        .unwrap_or(View::FIRST);
    let mut of_newest = all.to_vec();
    of_newest.retain(|said| said.last_normal == newest);
    let stamps_from = of_newest.first().map_or(next, |said| said.stamps_from);
    let end = of_newest
        .iter()
        .map(|said| said.end())
        .max()
        .unwrap_or(next);
    let value = |slot: u64| -> Value {
        let held = of_newest.iter().filter_map(|said| said.get(slot));
        let is_noop = held.clone().any(Option::is_none);
        let wins = !is_noop || faults.is(Fault::ValueOverNone);
        held.flatten().next().filter(|_| wins).cloned()
    };
    ((next.0..end.0).map(value).collect(), newest, stamps_from)
}

impl Replica {
    /// Whether this replica takes part in the view that a member speaks of. Whoever is behind is told, and told off.
    pub(super) fn is_in(&mut self, from: MemberIndex, view: View, out: &mut Out<Self>) -> bool {
        if !self.view.covers(view) {
            self.start_change(view.join(self.view), out);
        } else if view != self.view {
            self.say_view(from, out);
        }
        view == self.view && self.is_normal()
    }

    /// Has a member come along to this view.
    pub(super) fn say_view(&self, to: MemberIndex, out: &mut Out<Self>) {
        self.say(MemberSet::only(to), &Message::ViewChangeReq(self.view), out);
    }

    /// Leaves the view for one with another leader.
    pub(super) fn change_leader(&mut self, out: &mut Out<Self>) {
        let lead = self.turn_after(self.view.lead);
        self.start_change(View { lead, ..self.view }, out);
    }

    /// Leaves the view for one with another sequencer.
    pub(super) fn change_session(&mut self, out: &mut Out<Self>) {
        let session = self.turn_after(self.view.session);
        self.start_change(
            View {
                session,
                ..self.view
            },
            out,
        );
    }

    /// Leaves its view: nothing is promised in it any more.
    pub(super) fn start_change(&mut self, view: View, out: &mut Out<Self>) {
        debug_assert!(view.covers(self.view) && view != self.view, "{view:?}");
        out.emit(Event::Branch("view change"));
        if self.is_leader() {
            out.retract(self.log.next);
        }
        if view.session != self.view.session {
            self.early.clear();
        }
        let is_new_session = view.session != self.view.session;
        self.view = view;
        self.forget_view();
        self.write_view(out);
        if is_new_session {
            self.sequencer.sealed = out.persisted();
        }
        self.postpone_leader(out);
        self.say_change(self.others(), out);
        self.try_start(out);
    }

    /// Forgets what was said and heard in a view that is left, or begins.
    fn forget_view(&mut self) {
        self.lead = Lead::at(&self.config, self.log.next);
        self.change = Change::default();
        self.gaps = Gaps {
            declared: self.gaps.declared,
            ..Gaps::default()
        };
        // Reads of a view that is left have not heard from a majority in one view.
        self.gateway.reads.start_over(std::iter::empty());
    }

    pub(super) fn write_view(&self, out: &mut Out<Self>) {
        out.persist(Record::View {
            view: self.view,
            last_normal: self.last_normal,
            stamps_from: self.log.stamps_from,
        });
    }

    /// Tells members that it left, and the leader to be what it has.
    pub(super) fn say_change(&self, to: MemberSet, out: &mut Out<Self>) {
        self.say(to, &Message::ViewChangeReq(self.view), out);
        if to.contains(self.leader()) {
            let message = Message::ViewChange(self.view_change());
            self.say(MemberSet::only(self.leader()), &message, out);
        }
    }

    /// What this replica has.
    fn view_change(&self) -> ViewChange {
        ViewChange {
            view: self.view,
            last_normal: self.last_normal,
            stamps_from: self.log.stamps_from,
            first: self.log.next,
            log: self.log.to_vec(),
        }
    }

    /// A member is in this view, or on the way to it.
    pub(super) fn on_view_change_req(
        &mut self,
        from: MemberIndex,
        view: View,
        out: &mut Out<Self>,
    ) {
        let is_starting = !self.is_in(from, view, out) && view == self.view;
        if is_starting && from == self.leader() {
            let message = Message::ViewChange(self.view_change());
            self.say(MemberSet::only(from), &message, out);
        }
    }

    /// What a member has, which has left earlier views.
    pub(super) fn on_view_change(
        &mut self,
        from: MemberIndex,
        said: ViewChange,
        out: &mut Out<Self>,
    ) {
        let is_started = self.is_in(from, said.view, out);
        if said.view != self.view || self.leader() != self.config.seating.me {
            return;
        }
        if is_started && !self.fault(Fault::StartViewAgain) {
            // The log of a view is made once (N-S3). Whoever is late begins with the leader's.
            let start = Message::StartView(self.start_view());
            return self.say(MemberSet::only(from), &start, out);
        }
        self.change.said.insert(from, said);
        self.try_start(out);
    }

    /// Starts the view, once a majority has left earlier ones, this replica among them.
    fn try_start(&mut self, out: &mut Out<Self>) {
        let is_mine = self.leader() == self.config.seating.me && !self.is_silent;
        let is_again = self.fault(Fault::StartViewAgain) && self.is_normal();
        let enough = self.config.thresholds.change;
        if !is_mine || self.is_normal() && !is_again || self.change.said.len() + 1 < enough {
            return;
        }
        let own = self.view_change();
        let others = self.change.said.iter();
        if let Some((member, ahead)) = others.max_by_key(|(_, said)| said.first)
            && ahead.first > self.log.next
        {
            // It is decided, and that one has it.
            out.emit(Event::Branch("behind those who left"));
            return out.catch_up(
                self.config.seating.members[*member],
                Slot(ahead.first.0 - 1),
            );
        }
        let mut all: Vec<&ViewChange> = self.change.said.values().collect();
        all.extend((!is_again).then_some(&own));
        let (values, newest, stamps_from) = merge(self.log.next, &all, self.config.faults);
        let said = self.change.said.clone();
        let stamps_from = match newest.session == self.view.session {
            true => stamps_from,
            false => Slot(self.log.next.0 + values.len() as u64),
        };
        out.emit(Event::Branch("view started"));
        self.enter(self.view, stamps_from, values, out);
        if self.fault(Fault::StartViewAgain) {
            self.change.said = said;
            self.change.said.insert(self.config.seating.me, own);
        }
        let start = Message::StartView(self.start_view());
        self.say(self.others(), &start, out);
    }

    /// The log of this view, as it is now.
    fn start_view(&self) -> StartView {
        StartView {
            view: self.view,
            stamps_from: self.log.stamps_from,
            first: self.log.next,
            log: self.log.to_vec(),
        }
    }

    /// The log of a view, from its leader.
    pub(super) fn on_start_view(
        &mut self,
        from: MemberIndex,
        start: StartView,
        out: &mut Out<Self>,
    ) {
        if self.config.leader(start.view) != from {
            return self.misbehaved(from, "the log of a view from another than its leader", out);
        }
        if !start.view.covers(self.view) {
            self.is_in(from, start.view, out);
            return;
        }
        // Once in a view, its beginning is over (N-S1).
        let is_begun = start.view == self.view && self.is_normal();
        if is_begun && !self.fault(Fault::StartViewTwice) {
            return;
        }
        if start.first > self.log.next {
            out.emit(Event::Branch("behind the view"));
            out.catch_up(self.config.seating.members[from], Slot(start.first.0 - 1));
            self.change.start = Some((from, start));
            return;
        }
        let delivered = (self.log.next.0 - start.first.0) as usize;
        // A log that ends before what is decided here is of a view that is over.
        if let Some(log) = start.log.get(delivered..) {
            self.enter(start.view, start.stamps_from, log.to_vec(), out);
        }
    }

    /// Something is decided that a view to come waited for.
    pub(super) fn go_on_with_change(&mut self, out: &mut Out<Self>) {
        if let Some((from, start)) = self.change.start.take() {
            self.on_start_view(from, start, out);
        }
        self.try_start(out);
    }

    /// Takes part in a view, which begins with this log.
    fn enter(&mut self, view: View, stamps_from: Slot, values: Vec<Value>, out: &mut Out<Self>) {
        if self.is_leader() {
            out.retract(self.log.next);
        }
        let is_new_session = view.session != self.view.session;
        if is_new_session {
            self.early.clear();
        }
        (self.view, self.last_normal) = (view, view);
        self.log = Log::at(self.log.next, stamps_from);
        self.forget_view();
        let mut again = Vec::new();
        for value in values {
            again.push(self.fill(value, out));
        }
        // Behind the log: without that record, what was written of it counts for nothing.
        self.write_view(out);
        if is_new_session {
            self.sequencer.sealed = out.persisted();
        }
        self.lead.matched = self.log.end();
        self.early = self.early.split_off(&self.log.number(self.log.end()));
        for (slot, is_again) in (self.log.next.0..).map(Slot).zip(again) {
            self.speak_of(slot, is_again, out);
        }
        self.waits.view_began();
        self.want_stamps(true, out);
    }
}
