//! A replica whose log cannot be written for want of space, and that has no room in memory for what it would write.
//!
//! Its machine is suspended: to the others it is like one that crashed, and its promises stay those in the log. The host
//! goes on like that of a learner: it fetches what is decided and applies it without writing it, and it asks a member for
//! the slot that a linearizable read may be answered at. Once the log can be written again the machine goes on where it
//! was, and what was not written is fetched once more ([`crate::read_repair`]). No seal is applied meanwhile: a member votes in
//! an epoch when it has the state before that durably.

use crate::api::HostEvent;
use crate::context::Context;
use crate::epochs::Order;
use crate::frame::Body;
use crate::requests::Requests;
use crate::timers::Timer;
use crate::version::STALL_VERSION;
use quorate_core::{
    Application, Class, Command, Entry, Input, Machine, Now, Peers, ReplicaId, RequestId, Slot,
};
use std::collections::{BTreeMap, BTreeSet};

/// How long a member may take to say where reads may be answered before another one is asked, in ns.
const ASK_AGAIN_NS: u64 = 200_000_000;

/// What waits while the log cannot be written.
#[derive(Debug)]
pub(crate) struct Stall<M: Machine> {
    /// Questions so far where reads may be answered, to tell their answers apart.
    questions: u64,
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
    /// Nothing waits: the log can be written.
    pub(crate) fn new() -> Stall<M> {
        Stall {
            questions: 0,
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
            | Input::Prefer(_)
            | Input::Installed { .. } => {}
        }
    }

    /// Keeps a timer that came due.
    pub(crate) fn keep_timer(&mut self, timer: M::Timer) {
        self.timers.push(timer);
    }
}

/// What the machine gets once the log can be written again.
pub(crate) struct Resumed<M: Machine> {
    pub(crate) inputs: Vec<Input<M>>,
    /// Timers of the machine that came due meanwhile, to be armed anew behind those inputs.
    pub(crate) timers: Vec<M::Timer>,
}

/// What a stalled replica works on, beside what waits.
pub(crate) struct StallHandler<'a, M: Machine, A: Application> {
    context: &'a mut Context<M, A>,
    stall: &'a mut Stall<M>,
    requests: &'a mut Requests<A::Query>,
}

impl<M: Machine> Stall<M> {
    /// Lends what a stalled replica works on.
    pub(crate) fn with<'a, A: Application>(
        &'a mut self,
        context: &'a mut Context<M, A>,
        requests: &'a mut Requests<A::Query>,
    ) -> StallHandler<'a, M, A> {
        StallHandler {
            context,
            stall: self,
            requests,
        }
    }
}

impl<M: Machine, A: Application> StallHandler<'_, M, A> {
    /// The log cannot be written, and too much waits for it: from now on this replica reads and learns, and promises
    /// nothing.
    pub(crate) fn begin(&mut self) {
        self.context.storage.is_stalled |= self.context.storage.log.is_some();
    }

    /// The log can be written again. Returns what the machine missed, if it was suspended.
    pub(crate) fn end(&mut self) -> Option<Resumed<M>> {
        if !std::mem::take(&mut self.context.storage.is_stalled) {
            return None;
        }
        let stall = std::mem::replace(self.stall, Stall::new());
        self.stall.questions = stall.questions;
        self.context.timers.disarm(Timer::Mark);
        let asked = stall.asked.into_iter().flat_map(|(_, reads)| reads);
        self.requests
            .read_again(stall.reads.into_iter().chain(asked));
        let (next, base) = (self.context.applied(), self.context.base.clone());
        let mut inputs = vec![Input::Installed { next, base }];
        if !stall.withdrawn.is_empty() {
            inputs.push(Input::Withdraw(stall.withdrawn));
        }
        let links = stall.links.into_iter();
        inputs.extend(links.map(|(peer, up)| Input::Link { peer, up }));
        inputs.extend(stall.inputs);
        let timers = stall.timers;
        Some(Resumed { inputs, timers })
    }

    /// Asks a member on behalf of all reads that wait, one question at a time.
    pub(crate) fn ask_for_mark(&mut self, now: Now) {
        let queued = self.requests.take_queued_reads();
        self.stall.reads.extend(queued);
        if self.stall.asked.is_some() || self.stall.reads.is_empty() {
            return;
        }
        if let Some(number) = self.ask_next_member() {
            self.stall.asked = Some((number, std::mem::take(&mut self.stall.reads)));
        }
        self.context
            .timers
            .arm(Timer::Mark, now.mono_ns + ASK_AGAIN_NS);
    }

    /// Asks the member after the one that was asked last where reads may be answered, by which that member knows that
    /// this replica is stalled. Returns the number of the question, or `None` if there is no member to ask.
    pub(crate) fn ask_next_member(&mut self) -> Option<u64> {
        if !self.context.storage.is_stalled {
            return None;
        }
        let members = self
            .context
            .applier
            .newest()
            .members
            .iter()
            .map(|member| member.id);
        let is_asked =
            |id: &ReplicaId| self.context.peer_versions.up_in(*id) >= Some(STALL_VERSION);
        let members: Vec<ReplicaId> = members.filter(is_asked).collect();
        let mut later = members.iter().filter(|id| Some(**id) > self.stall.last);
        let to = later.next().or(members.first()).copied()?;
        self.stall.last = Some(to);
        self.stall.questions += 1;
        let number = self.stall.questions;
        self.context
            .post(Peers::One(to), &Body::WantMark { number });
        Some(number)
    }

    /// The member that was asked has not answered in time, or there was none.
    pub(crate) fn ask_for_mark_again(&mut self, now: Now) {
        let asked = self.stall.asked.take();
        let reads = asked.into_iter().flat_map(|(_, reads)| reads);
        self.stall.reads.extend(reads);
        self.ask_for_mark(now);
    }

    /// A peer that cannot write its log asks where it may answer reads: the machine finds out, as for an own read.
    pub(crate) fn wants_mark(&mut self, peer: ReplicaId, number: u64) {
        self.context.effects.events.push(HostEvent::Stalled(peer));
        let has_room = self.requests.count() < self.context.limits.requests_max;
        if has_room && !self.context.storage.is_stalled && self.context.is_member() {
            self.requests.read_for(peer, number);
        }
    }

    /// Reads may be answered once every slot before this one is applied. Says whether a question is answered by that.
    pub(crate) fn mark_came(&mut self, number: u64, slot: Slot) -> bool {
        let is_it = |(asked, _): &mut (u64, Vec<RequestId>)| *asked == number;
        let Some((_, reads)) = self.stall.asked.take_if(is_it) else {
            return false;
        };
        for id in reads {
            self.requests.locate(id, slot);
        }
        true
    }
}

/// Whether an entry that was learned ends the epoch, perhaps: while the log cannot be written, it has to wait.
pub(crate) fn may_seal(entry: &Entry) -> bool {
    let mut commands = entry.commands().flatten();
    let is_seal =
        |command: Command| command.class == Class::Order && Order::may_seal(&command.body);
    entry.is_order() && commands.any(is_seal)
}
