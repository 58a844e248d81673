//! A replica whose log cannot be written for want of space, and that has no room in memory for what it would write.
//!
//! Its machine is suspended: to the others it is like one that crashed, and its promises stay those in the log. The host
//! goes on like that of a learner: it fetches what is decided and applies it without writing it, and it asks a member for
//! the slot that a linearizable read may be answered at. Once the log can be written again the machine goes on where it
//! was, and what was not written is fetched once more ([`crate::read_repair`]). No seal is applied meanwhile: a member votes in
//! an epoch when it has the state before that durably.

use crate::api::HostEvent;
use crate::epochs::Order;
use crate::frame::Body;
use crate::host::Host;
use crate::timers::Timer;
use crate::version::STALL_VERSION;
use quorate_core::{
    Application, Class, Entry, Input, Machine, Now, Peers, ReplicaId, RequestId, Slot,
};
use std::collections::{BTreeMap, BTreeSet};

/// How long a member may take to say where reads may be answered before another one is asked, in ns.
const ASK_AGAIN_NS: u64 = 200_000_000;

/// What waits while the log cannot be written.
#[derive(Debug)]
pub(crate) struct Stall<M: Machine> {
    /// What the machine is to be told of: what it asked the host for, and which links are up.
    inputs: Vec<Input<M>>,
    links: BTreeMap<ReplicaId, bool>,
    /// Requests that it got and nobody waits for any more.
    withdrawn: BTreeSet<RequestId>,
    timers: Vec<M::Timer>,
    /// Reads that no member was asked about yet.
    reads: Vec<RequestId>,
    /// The question under way, by its number, and the reads it is for.
    asked: Option<(u64, Vec<RequestId>)>,
    /// The member that was asked last.
    last: Option<ReplicaId>,
}

impl<M: Machine> Stall<M> {
    fn new() -> Stall<M> {
        Stall {
            inputs: Vec::new(),
            links: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            timers: Vec::new(),
            reads: Vec::new(),
            asked: None,
            last: None,
        }
    }

    /// Keeps an input for later. Messages are lost, as links lose them.
    pub(crate) fn keep(&mut self, input: Input<M>) {
        match input {
            Input::Held(_) | Input::Applied { .. } => self.inputs.push(input),
            Input::Withdraw(requests) => self.withdrawn.extend(requests),
            Input::Link { peer, up } => drop(self.links.insert(peer, up)),
            Input::Message { .. }
            | Input::Submit(_)
            | Input::Timer(_)
            | Input::Durable(_)
            | Input::Installed { .. } => {}
        }
    }

    /// Keeps a timer that came due.
    pub(crate) fn keep_timer(&mut self, timer: M::Timer) {
        self.timers.push(timer);
    }
}

impl<M: Machine, A: Application> Host<M, A> {
    /// Whether the machine is suspended and nothing that is decided is written.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stall.is_some()
    }

    /// The log cannot be written, and too much waits for it: from now on this replica reads and learns, and promises
    /// nothing.
    pub fn stall(&mut self) {
        if self.stall.is_none() && self.log.is_some() {
            self.stall = Some(Stall::new());
        }
    }

    /// The log can be written again.
    pub fn resume(&mut self, now: Now) {
        let Some(stall) = self.stall.take() else {
            return;
        };
        self.disarm(Timer::Mark);
        let asked = stall.asked.into_iter().flat_map(|(_, reads)| reads);
        self.requests
            .read_again(stall.reads.into_iter().chain(asked));
        self.installed(now);
        if !stall.withdrawn.is_empty() {
            self.step(now, Input::Withdraw(stall.withdrawn));
        }
        for (peer, up) in stall.links {
            self.step(now, Input::Link { peer, up });
        }
        for input in stall.inputs {
            self.step(now, input);
        }
        for timer in stall.timers {
            self.arm(Timer::Machine(timer), now.mono_ns);
        }
        self.read_repair_next(now);
    }

    /// Whether an entry that was learned has to wait until the log can be written.
    pub(crate) fn must_wait(&self, entry: Option<&Entry>) -> bool {
        let seals = |entry: &Entry| {
            let mut commands = entry.commands().flatten();
            commands.any(|command| command.class == Class::Order && Order::may_seal(&command.body))
        };
        self.is_stalled() && entry.is_some_and(|entry| entry.is_order() && seals(entry))
    }

    /// Asks a member on behalf of all reads that wait, one question at a time.
    pub(crate) fn ask_for_mark(&mut self, now: Now) {
        let queued = self.requests.take_queued_reads();
        let Some(stall) = &mut self.stall else { return };
        stall.reads.extend(queued);
        if stall.asked.is_some() || stall.reads.is_empty() {
            return;
        }
        if let Some(number) = self.ask_next_member()
            && let Some(stall) = &mut self.stall
        {
            stall.asked = Some((number, std::mem::take(&mut stall.reads)));
        }
        self.arm(Timer::Mark, now.mono_ns + ASK_AGAIN_NS);
    }

    /// Has a member know that this replica is stalled: its own machine cannot order that the group is told.
    pub fn tell_stalled(&mut self) {
        self.ask_next_member();
    }

    /// Asks the member after the one that was asked last where reads may be answered. Returns the number of the question,
    /// or `None` if there is no member to ask.
    fn ask_next_member(&mut self) -> Option<u64> {
        let stall = self.stall.as_mut()?;
        let members = self.applier.newest().members.iter().map(|member| member.id);
        let is_asked = |id: &ReplicaId| self.peer_versions.up_in(*id) >= Some(STALL_VERSION);
        let members: Vec<ReplicaId> = members.filter(is_asked).collect();
        let mut later = members.iter().filter(|id| Some(**id) > stall.last);
        let to = later.next().or(members.first()).copied()?;
        stall.last = Some(to);
        self.questions += 1;
        let number = self.questions;
        self.post(Peers::One(to), &Body::WantMark { number });
        Some(number)
    }

    /// The member that was asked has not answered in time, or there was none.
    pub(crate) fn ask_for_mark_again(&mut self, now: Now) {
        if let Some(stall) = &mut self.stall {
            let asked = stall.asked.take();
            stall
                .reads
                .extend(asked.into_iter().flat_map(|(_, reads)| reads));
        }
        self.ask_for_mark(now);
    }

    /// A peer that cannot write its log asks where it may answer reads: the machine finds out, as for an own read.
    pub(crate) fn wants_mark(&mut self, peer: ReplicaId, number: u64) {
        self.events.push(HostEvent::Stalled(peer));
        let has_room = self.requests.count() < self.limits.requests_max;
        if has_room && !self.is_stalled() && self.is_member() {
            self.requests.read_for(peer, number);
        }
    }

    /// Reads may be answered once every slot before this one is applied.
    pub(crate) fn mark_came(&mut self, now: Now, peer: ReplicaId, number: u64, slot: Slot) {
        let is_it = |(asked, _): &mut (u64, Vec<RequestId>)| *asked == number;
        let answered = self
            .stall
            .as_mut()
            .and_then(|stall| stall.asked.take_if(is_it));
        let Some((_, reads)) = answered else { return };
        for id in reads {
            self.requests.locate(id, slot);
        }
        self.answer_reads(now);
        if slot > self.applied() {
            self.fetch_from(now, peer);
        }
        self.ask_for_mark(now);
    }
}
