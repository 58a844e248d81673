//! One replica: its state, and what it makes of each input.

use super::answers::Offer;
use super::config::Config;
use super::describe;
use super::errands::Errand;
use super::footprint::stand_in_of;
use super::hold::Queue;
use super::messages::{Header, Message, Record, Said, Timer};
use super::mutants::Fault;
use super::state::{Instance, ToSelf};
use super::table::Table;
use super::waits::{Armed, Turns};
use crate::shared::admission::Patience;
use crate::shared::backlog::Backlog;
use crate::shared::claim::Fetcher;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::peers::{Member, each_peer, sender};
use crate::shared::reads::ReadQueries;
use crate::shared::seating::Seating;
use crate::shared::timers::Backoff;
use crate::shared::words::{plain_checks, plain_machine};
use quorate_core::{
    Entry, EntryId, Input, Introspect, Lsn, Machine, MemberIndex, MemberSet, Now, Out, Peers,
    ReplicaId, Slot, Wire,
};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: coordinator of its own entries, and one of those that keep and finish everybody's.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether it lost its promises, and only learns.
    pub(super) is_silent: bool,
    /// The first slot not delivered.
    pub(super) next: Slot,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// What is known of instances that are not delivered.
    pub(super) instances: BTreeMap<EntryId, Instance>,
    /// What conflicts with what.
    pub(super) table: Table,
    /// Entries of which there is no instance yet, until their time (`toq_us`).
    pub(super) queue: Queue,
    /// Something was committed since deliveries were looked for.
    pub(super) has_committed: bool,
    /// Executed ahead of delivery, in the slots from `next` on.
    pub(super) ahead: VecDeque<EntryId>,
    /// By member: before which slot all is delivered there, durably, as far as it was said here.
    pub(super) durable: Vec<Slot>,
    /// By member: the first slot not delivered there, as it last said.
    pub(super) heard_delivered: Vec<Slot>,
    /// How far everything was delivered when records were written that are not durable.
    pub(super) written: VecDeque<(Lsn, Slot)>,
    /// What members have delivered that is lacking here.
    pub(super) fetcher: Fetcher,
    /// Commands without an entry.
    pub(super) backlog: Backlog,
    /// Own entries not delivered.
    pub(super) offers: Vec<Offer>,
    /// Names of own entries.
    pub(super) names: EntryNames,
    /// Reads, each behind an entry that goes through the log.
    pub(super) reads: ReadQueries<EntryId>,
    /// Entries that were formed for the reads of others.
    pub(super) errands: Vec<Errand>,
    /// How far records are durable, and what this replica says to itself then.
    pub(super) disk: Disk<ToSelf>,
    /// Whether clients wait in vain.
    pub(super) patience: Patience,
    /// The timers that run.
    pub(super) armed: Armed,
    /// How long nothing moved.
    pub(super) backoff: Backoff,
    /// The instances that had their turn.
    pub(super) turns: Turns,
    /// Members whose connection is down.
    pub(super) down: MemberSet,
    /// The clocks at this step.
    pub(super) now: Now,
}

impl Machine for Replica {
    plain_machine!();

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        self.now = now;
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => self.reads.refuse_withdrawn(&mut self.backlog, &ids, out),
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Durable(lsn) => self.on_durable(lsn),
            Input::Applied {
                entry,
                slot,
                results,
            } => self.on_applied(entry, slot, results, out),
            Input::Installed { next, base } => self.on_installed(next, base, out),
            Input::Link { peer, up } => self.on_link(peer, up, out),
            // Nobody leads, and there are no payloads.
            Input::Prefer(_) | Input::Held(_) => {}
        }
        self.run_to_fixpoint(out);
    }

    fn room(&self) -> usize {
        self.reads.room(&self.backlog, &self.config.batches.queue)
    }

    fn is_serving(&self) -> bool {
        !self.is_silent
    }
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.is_silent, self.next, self.has_committed).hash(to);
        self.done.to_bytes().hash(to);
        (&self.instances, &self.table, &self.queue, &self.ahead).hash(to);
        (&self.durable, &self.heard_delivered, self.fetcher).hash(to);
        (&self.backlog, &self.offers, self.names).hash(to);
        (&self.reads, &self.errands).hash(to);
        self.turns.hash(to);
        for (lsn, slot) in &self.written {
            (lsn.0 - self.disk.durable().0, slot).hash(to);
        }
        (
            &self.disk,
            self.patience,
            self.armed,
            self.backoff,
            self.down,
        )
            .hash(to);
    }

    plain_checks!(describe);

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![("instances", self.instances.len() as f64)]
    }

    /// The depth of a run is counted in ballots.
    fn depth(&self) -> usize {
        let rounds = self
            .instances
            .values()
            .map(|instance| instance.ballot.round);
        rounds.max().unwrap_or(0) as usize
    }
}

impl Member for Replica {
    fn seating(&self) -> &Seating {
        &self.config.seating
    }
}

impl Replica {
    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let (member, me) = (self.config.seating.member(from), self.config.seating.me);
        if let Some(from) = sender(from, member, me, out) {
            self.note_header(from, message.header);
            self.hear(from, message.said, out);
        }
    }

    /// How far a member has come.
    fn note_header(&mut self, from: MemberIndex, header: Header) {
        self.fetcher.note(from, header.delivered);
        self.heard_delivered[from] = header.delivered;
        self.durable[from] = self.durable[from].max(header.durable);
    }

    /// What a member said, this one included.
    pub(super) fn hear(&mut self, from: MemberIndex, said: Said, out: &mut Out<Self>) {
        let about = about(&said);
        if about.is_some_and(|id| self.config.seating.member(id.origin).is_none()) {
            return self.misbehaved(from, "an instance of no member", out);
        }
        if about.is_some_and(|id| self.done.entries.contains(id)) {
            return self.say_delivered(from, &said, out);
        }
        let goes_on = matches!(
            said,
            Said::Accept(_) | Said::Commit(_) | Said::Recover(..) | Said::Validate(_)
        );
        if let Some(id) = about.filter(|_| goes_on) {
            self.end_hold(id);
        }
        match said {
            Said::PreAccept(it) => self.on_pre_accept(from, it, out),
            Said::PreAcceptA(id, deps, probe) => self.on_pre_accept_a(from, id, deps, probe, out),
            Said::Accept(it) => self.on_accept(from, it, out),
            Said::AcceptA(id, ballot) => self.on_accept_a(from, id, ballot, out),
            Said::Commit(it) => self.on_commit(from, it, out),
            Said::Recover(id, ballot) => self.on_recover(from, id, ballot, out),
            Said::RecoverA(shown) => self.on_recover_a(from, shown, out),
            Said::Nack(id, ballot) => self.on_nack(from, id, ballot, out),
            Said::Validate(it) => self.on_validate(from, it, out),
            Said::ValidateA(it) => self.on_validate_a(from, it, out),
            Said::Waiting(id, kept_by, deps) => self.on_waiting(id, kept_by, &deps),
            Said::Ask(ids) => self.on_ask(from, ids, out),
            Said::Progress(is_question) => self.on_progress(from, is_question, out),
            Said::ReadQ(question) => self.on_read_q(from, question, out),
            Said::ReadA(question, slot) => self.on_read_a(question, slot, out),
        }
    }

    fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Retransmit => self.on_retransmit(out),
            Timer::FastWait => self.on_fast_wait(out),
            Timer::Hold => self.on_hold(),
            Timer::Mark => self.on_mark(out),
            Timer::Recover => self.on_recover_timer(out),
            Timer::CatchUp => self.on_catch_up(out),
            Timer::Patience => self.on_patience(out),
        }
    }

    fn on_durable(&mut self, lsn: Lsn) {
        self.disk.confirm(lsn);
        let me = self.config.seating.me;
        while let Some((_, slot)) = self.written.pop_front_if(|(it, _)| *it <= lsn) {
            self.durable[me] = self.durable[me].max(slot);
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, out: &mut Out<Self>) {
        let me = self.config.seating.me;
        let mut has_looked = false;
        loop {
            self.keep_due(out);
            while let Some(ToSelf(said)) = self.disk.pop_durable() {
                self.hear(me, said, out);
            }
            self.propose_all(out);
            self.ask_elsewhere(out);
            self.wait_for_what_contradicts(out);
            has_looked |= self.deliver_all(out);
            if !self.disk.is_due() && !self.wants_entry() {
                break;
            }
        }
        // What is below an entry changes with what is decided and delivered, and with nothing else.
        if has_looked {
            self.execute_ahead(out);
        }
        self.watch_held(out);
        self.rearm_timers(out);
    }

    /// How far this replica has come.
    pub(super) fn header(&self) -> Header {
        Header {
            delivered: self.next,
            durable: self.durable[self.config.seating.me],
        }
    }

    /// Says what rests on the records so far to a member; to itself, too.
    pub(super) fn answer(&mut self, to: MemberIndex, said: Said, out: &mut Out<Self>) {
        if to == self.config.seating.me {
            return self.disk.push(out.persisted(), ToSelf(said));
        }
        let mut header = self.header();
        if let Some((_, slot)) = self.written.back() {
            // It is durable before this leaves.
            header.durable = header.durable.max(*slot);
        }
        out.send(self.peer(to), Message { header, said });
    }

    /// Says to members what promises nothing.
    pub(super) fn say(&self, to: MemberSet, said: Said, out: &mut Out<Self>) {
        let header = self.header();
        self.tell(to, &Message { header, said }, out);
    }

    /// Says to all others what rests on the records so far.
    pub(super) fn say_behind_records(&self, said: Said, out: &mut Out<Self>) {
        let header = self.header();
        out.send(Peers::All, Message { header, said });
    }

    /// Says to members what rests on the records so far.
    pub(super) fn say_to_behind_records(&self, to: MemberSet, said: Said, out: &mut Out<Self>) {
        let message = Message {
            header: self.header(),
            said,
        };
        let seating = &self.config.seating;
        each_peer(to, seating.others(), &seating.members, |peers| {
            out.send(peers, message.clone());
        });
    }

    /// Writes what is known of an instance now, before anything else is said of it.
    pub(super) fn persist(&mut self, id: EntryId, out: &mut Out<Self>) {
        if let Some(instance) = self.instances.get_mut(&id) {
            let record = Record::Instance(instance.keep(id));
            self.persist_record(record, out);
        }
        self.forget_stand_in(id, out);
    }

    /// What stands in for an entry in records is not needed any more, once a later one has the entry.
    pub(super) fn forget_stand_in(&mut self, id: EntryId, out: &mut Out<Self>) {
        if let Some(instance) = self.instances.get_mut(&id)
            && instance.is_written
            && std::mem::take(&mut instance.has_stand_in)
        {
            out.forget(stand_in_of(id));
        }
    }

    /// Writes a record, behind all that is delivered.
    pub(super) fn persist_record(&mut self, record: Record, out: &mut Out<Self>) {
        let lsn = out.persist(record);
        self.written.push_back((lsn, self.next));
    }

    /// The first slot that may not be delivered, durably, by more members than may fail. All before it is known
    /// wherever an instance is recovered.
    pub(super) fn floor(&self) -> Slot {
        let mut all = self.durable.clone();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all[self.config.thresholds.failures]
    }

    /// Whether this replica knows what was delivered well enough to say what an entry conflicts with.
    pub(super) fn may_vote(&self, after: Slot) -> bool {
        !self.is_silent && self.table.since() <= after.max(self.floor())
    }

    /// Takes the entry of an instance in.
    pub(super) fn learn_entry(&mut self, entry: Entry) -> bool {
        let touches = self.config.touches;
        let id = entry.id;
        let instance = self.instances.entry(id).or_default();
        let is_new = instance.learn(entry, touches);
        let footprint = instance.footprint.clone();
        let is_void = instance.is_committed() && instance.is_void;
        self.has_committed |= is_new && instance.is_committed();
        if let Some(footprint) = footprint.filter(|_| is_new && !is_void) {
            self.table.add(id, &footprint);
        }
        is_new
    }

    pub(super) fn fault(&self, fault: Fault) -> bool {
        self.config.faults.is(fault)
    }
}

/// The instance that something was said about, if it was about one.
fn about(said: &Said) -> Option<EntryId> {
    Some(match said {
        Said::PreAccept(it) => it.entry.id,
        Said::Accept(it) => it.id,
        Said::Commit(it) => it.id,
        Said::RecoverA(it) => it.id,
        Said::Validate(it) => it.entry.id,
        Said::ValidateA(it) => it.id,
        Said::PreAcceptA(id, ..)
        | Said::AcceptA(id, _)
        | Said::Recover(id, _)
        | Said::Nack(id, _)
        | Said::Waiting(id, ..) => *id,
        Said::Ask(_) | Said::Progress(_) | Said::ReadQ(_) | Said::ReadA(..) => return None,
    })
}
