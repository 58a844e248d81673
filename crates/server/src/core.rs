//! The core of one replica: takes what has arrived, lets the host make of it what follows, and
//! carries that out.
//!
//! It shares one thread with the connections, except in the `split` layout. While it writes and syncs,
//! requests and frames gather in the kernel's and the faces' queues: they are the next batch. What peers
//! say comes before what clients ask.

use crate::any_application::AnyValue;
use crate::auto_shrink::AutoShrink;
use crate::clock::{Alarm, Clock};
use crate::disk::{Disk, DiskError};
use crate::divergence::Outlier;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::group::Group;
use crate::handle::{Consistency, Failure, PayloadThreshold, ReplicaHandle, Request};
use crate::log_limit::LogLimit;
use crate::metrics::{HistogramUpkeep, Metrics, ProtocolGauges, seconds};
use crate::peer::{Arrival, Links};
use crate::quorum::QuorumWatch;
use crate::replies::{Replies, Reply};
use crate::slow::SlowRequests;
use crate::snapshots::SnapshotThread;
use crate::timed_app::TimedApp;
use crate::tls::Certificates;
use crate::workers::Workers;
use bytes::Bytes;
use quorate_core::{Admission, Application, Countdown, Event, Now, Refusal, ReplicaId};
use quorate_host::epochs::AlarmKind;
use quorate_host::{
    Answer, Comparison, Completed, Countdowns, Directive, Driver, Effects, Flush, Host, HostEvent,
    Request as HostRequest, drive,
};
use quorate_protocols::ProtocolSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

mod perform;
mod publish;
mod report;

/// How long the log waits before it looks again for space, or for what else the system lacked, in ns.
const HELD_RETRY_NS: u64 = 250_000_000;
/// What may gather in memory meanwhile, in bytes; then the replica learns and reads, and promises nothing
/// ([`Directive::Stall`]).
const HELD_BYTES_MAX: usize = 8 << 20;
/// Arrivals of each kind taken in one turn: bounds how long a turn takes.
const TURN_ARRIVALS_MAX: usize = 1024;

/// The queues that the core's inputs come from.
pub(crate) struct Inputs {
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) arrivals: mpsc::Receiver<Arrival>,
    /// Becomes true once the replica is to stop.
    pub(crate) stop: watch::Receiver<bool>,
    /// Where faces learn what is applied. With it the core ends when it is told to, not when the
    /// face does.
    pub(crate) handle: ReplicaHandle,
}

/// The core of a replica: its host, and everything it acts with.
pub(crate) struct Core<P: ProtocolSet> {
    pub(crate) host: Host<P::Machine, TimedApp>,
    pub(crate) folder: Folder,
    /// `None` for a replica that lives in memory.
    pub(crate) disk: Option<Disk>,
    /// A flush for which there was no space, or for which the system had no means. It is tried again until there is.
    pub(crate) held: Option<Flush>,
    pub(crate) snapshots: SnapshotThread,
    pub(crate) workers: Workers,
    pub(crate) links: Links,
    pub(crate) clock: Clock,
    pub(crate) group: Group,
    pub(crate) auto_shrink: AutoShrink,
    /// The highest feature level that this program knows, or is to know.
    pub(crate) level: u32,
    pub(crate) payload_threshold: PayloadThreshold,
    /// The certificates of this process, which expire some day.
    pub(crate) certificates: Certificates,
    /// How others prove that they may act as a member, for people; `None` if anybody may.
    pub(crate) peer_proof: Option<&'static str>,
    /// Whether the core looks for work instead of sleeping.
    pub(crate) polls: bool,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) state: CoreState,
}

/// What the core keeps between turns.
pub(crate) struct CoreState {
    pub(crate) replies: Replies<AnyValue>,
    countdowns: Countdowns,
    pub(crate) links_up: BTreeSet<ReplicaId>,
    pub(crate) quorum: QuorumWatch,
    /// When to look whether the group's alarms about this replica are right.
    pub(crate) alarms_at: Option<u64>,
    /// What the last comparison of states came to, until the group's alarms say so.
    pub(crate) comparison: Option<Comparison>,
    /// The state here is not that of a majority: this replica is about to stop.
    pub(crate) outlier: Option<Outlier>,
    branches: BTreeMap<&'static str, metrics::Counter>,
    protocol_gauges: ProtocolGauges,
    upkeep: HistogramUpkeep,
    turns: u64,
    /// Requests and frames that had gathered when the last turn began.
    waited: (usize, usize),
    began: Instant,
    /// Why a flush is held.
    held_for: Option<DiskError>,
    /// The limit for log lines that peers and clients can cause.
    pub(crate) log: LogLimit,
    /// Requests that took long, of which the log tells.
    pub(crate) slow: SlowRequests,
}

impl CoreState {
    /// Requests are answered after `patience` at the latest; those that take as long as `slow` are told to the log.
    pub(crate) fn new(patience: Duration, slow: Duration) -> Self {
        CoreState {
            replies: Replies::new(patience),
            countdowns: Countdowns::default(),
            links_up: BTreeSet::new(),
            quorum: QuorumWatch::default(),
            alarms_at: Some(0),
            comparison: None,
            outlier: None,
            branches: BTreeMap::new(),
            protocol_gauges: ProtocolGauges::default(),
            upkeep: HistogramUpkeep::default(),
            turns: 0,
            waited: (0, 0),
            began: Instant::now(),
            held_for: None,
            slow: SlowRequests::new(slow),
            log: LogLimit::default(),
        }
    }
}

impl<P: ProtocolSet> Core<P> {
    /// Writes what opening the host asked for and records that the replica has started, before
    /// anything is said to anybody. What else the host wants is for the first turn.
    pub(crate) fn begin(&mut self) -> Result<Effects<AnyValue>, ServerError> {
        let now = self.clock.now();
        let mut effects = self.host.take_effects(now);
        self.flush(now, effects.flush.take())?;
        if let Some(error) = self
            .state
            .held_for
            .take_if(|error| !error.is_want_of_space())
        {
            return Err(error.into());
        }
        if let (Some(_), Some(disk)) = (&self.held, &self.disk) {
            let why = disk.trouble().unwrap_or_default();
            return Err(ServerError::Full {
                dir: self.folder.log_dir(),
                why,
            });
        }
        self.folder.mark_started()?;
        Ok(effects)
    }

    /// The epoch's protocol may want payloads, or not.
    pub(crate) fn expect_payloads(&mut self) -> Result<(), ServerError> {
        let min = self.host.look().payload_min();
        if let (Some(_), Some(disk)) = (min, &mut self.disk) {
            disk.expect_fragments(self.host.look().limits().fragment_segment_bytes)?;
        }
        self.payload_threshold.set(min);
        Ok(())
    }

    /// Runs until the replica is to stop, or must. What the host wanted when it began is performed `first`.
    pub(crate) async fn run(
        &mut self,
        mut inputs: Inputs,
        first: Effects<AnyValue>,
    ) -> Result<(), ServerError> {
        let mut alarm = Alarm::new()?;
        let mut requests = Vec::new();
        let mut arrivals = Vec::new();
        let now = self.clock.now();
        self.perform(now, first)?;
        let mut has_more = self.turn()?;
        loop {
            alarm.set(self.next_wake())?;
            // Effects leave once their commands are applied, and nothing is applied that is not
            // decided.
            inputs.handle.publish_applied(self.host.look().applied());
            let mut is_glance = false;
            tokio::select! {
                count = inputs.requests.recv_many(&mut requests, TURN_ARRIVALS_MAX) => {
                    // No face is left: there will be no further request.
                    if count == 0 { return self.end(); }
                }
                count = inputs.arrivals.recv_many(&mut arrivals, TURN_ARRIVALS_MAX) => {
                    if count == 0 { return self.end(); }
                }
                result = alarm.wait() => result?,
                done = self.snapshots.done() => self.snapshot_job_done(done),
                done = self.workers.done() => self.worker_done(done)?,
                // The faces have their turn first.
                () = tokio::task::yield_now(), if has_more || self.polls => {
                    is_glance = !has_more;
                }
                _ = inputs.stop.wait_for(|stop| *stop) => return self.end(),
            }
            take_waiting(&mut inputs.requests, &mut requests);
            take_waiting(&mut inputs.arrivals, &mut arrivals);
            if is_glance && requests.is_empty() && arrivals.is_empty() {
                continue;
            }
            self.state.waited = (requests.len(), arrivals.len());
            let (now, began) = (self.clock.now(), Instant::now());
            for arrival in arrivals.drain(..) {
                self.arrival(now, arrival);
            }
            for request in requests.drain(..) {
                self.request(now, request);
            }
            self.order_due_countdowns(now);
            self.admit_candidates(now);
            self.shrink_code(now);
            self.report_self(now);
            inputs.handle.publish_term(self.term());
            self.update_alarms(now)?;
            self.time_out_requests(now);
            let quorum = self.check_quorum(now, inputs.handle.is_quorum_watched());
            inputs.handle.publish_quorum(quorum);
            has_more = self.turn()?;
            self.metrics.turn.record(began.elapsed());
            self.state.upkeep.sampled(&self.metrics, 1);
        }
    }

    /// When the core has something to do, whether or not anything arrives, on the monotonic clock in ns.
    fn next_wake(&self) -> Option<u64> {
        let wakes = [
            self.host.look().next_wake(),
            self.state.countdowns.next(),
            self.state.replies.next(),
            self.offers_at(),
            self.shrinks_at(),
            self.group.report_at,
            self.state.alarms_at,
            self.state.quorum.next(),
            self.holds()
                .then(|| self.clock.now().mono_ns + HELD_RETRY_NS),
        ];
        wakes.into_iter().flatten().min()
    }

    /// Nobody waits for answers any more: what the host wants written is written, and that is all.
    fn end(&mut self) -> Result<(), ServerError> {
        let now = self.clock.now();
        self.host.direct(now, Directive::WriteAll);
        loop {
            let flush = self.take_last_flush(now);
            if !self.flush(now, flush)? {
                return Ok(());
            }
        }
    }

    /// What is still to be written, of all that the host wants.
    fn take_last_flush(&mut self, now: Now) -> Option<Flush> {
        let effects = self.can_write().then(|| self.host.take_effects(now));
        effects?.flush
    }

    fn arrival(&mut self, now: Now, arrival: Arrival) {
        match arrival {
            Arrival::Frame {
                from,
                payload,
                share,
            } => {
                self.state.quorum.heard(from, now.mono_ns);
                self.host.frame(now, from, payload);
                drop(share);
            }
            // No member, and of no weight in what the group is.
            Arrival::Link { peer, version } if peer.is_gateway() => {
                self.host.link(now, peer, version);
            }
            Arrival::Link { peer, version } => {
                if version.is_some() {
                    self.state.links_up.insert(peer);
                    self.state.quorum.heard(peer, now.mono_ns);
                } else {
                    self.state.links_up.remove(&peer);
                    self.state.quorum.disconnected(peer);
                }
                self.host.link(now, peer, version);
                self.watch_members(now);
                self.group.report_at = Some(now.mono_ns);
            }
        }
    }

    fn request(&mut self, now: Now, request: Request) {
        match request {
            Request::Write {
                body,
                payloads,
                principal,
                room: _,
                reply,
            } => {
                if let Some(failure) = self.refusal_of_write(&body) {
                    self.metrics.refused.increment(1);
                    // The client may have left.
                    let _ = reply.send(Err(failure));
                    return;
                }
                let token = self.state.replies.insert(now.mono_ns, Reply::Write(reply));
                tracing::trace!(token, bytes = body.len(), "write taken");
                self.host.submit(
                    now,
                    token,
                    HostRequest::Write {
                        body,
                        payloads,
                        principal,
                    },
                );
            }
            Request::Read {
                query,
                consistency,
                reply,
            } => {
                let is_local = consistency == Consistency::Serializable;
                if self.is_corrupt() && !is_local {
                    self.metrics.refused.increment(1);
                    let _ = reply.send(Err(Failure::Corrupt));
                    return;
                }
                let token = self.state.replies.insert(now.mono_ns, Reply::Read(reply));
                tracing::trace!(token, ?consistency, "read taken");
                let request = match consistency {
                    Consistency::Linearizable => HostRequest::Read(query),
                    Consistency::Serializable => HostRequest::Peek(query),
                };
                self.host.submit(now, token, request);
            }
            Request::Payload { id, payload, reply } => {
                let token = self
                    .state
                    .replies
                    .insert(now.mono_ns, Reply::Payload(reply));
                tracing::trace!(token, ?id, bytes = payload.len, "payload wanted");
                self.host
                    .submit(now, token, HostRequest::Payload(id, payload));
            }
            Request::Remaining { id, reply } => {
                let left = self.state.countdowns.remaining_ns(now.mono_ns, id);
                let _ = reply.send(left.map(Duration::from_nanos));
            }
            Request::Change { change, reply } => self.change(now, change, reply),
            // The turn that it makes does so.
            Request::Look => {}
            Request::Status { reply } => {
                self.publish();
                let _ = reply.send(self.status());
            }
        }
    }

    /// Tells who has waited too long; what nobody waits for any more is not to be ordered later.
    fn time_out_requests(&mut self, now: Now) {
        let replies = &mut self.state.replies;
        if replies.sweep(now.mono_ns) {
            self.host.withdraw(now, |token| replies.is_wanted(token));
        }
    }

    /// Countdowns begin when what started them is applied.
    fn set_countdowns(&mut self, countdowns: Vec<Countdown>) {
        if !countdowns.is_empty() {
            let now_ns = self.clock.now().mono_ns;
            for countdown in countdowns {
                self.state.countdowns.set(now_ns, countdown);
            }
        }
    }

    /// What ran belongs to a state that is gone; that of now starts its own.
    pub(crate) fn forget_countdowns(&mut self) {
        self.state.countdowns = Countdowns::default();
    }

    /// Orders the commands of countdowns that have ended. Nobody waits for what they come to.
    fn order_due_countdowns(&mut self, now: Now) {
        for _ in 0..TURN_ARRIVALS_MAX {
            let Some(body) = self.state.countdowns.take_due(now.mono_ns) else {
                return;
            };
            if self.refusal_of_write(&body).is_none() {
                self.host.direct(now, Directive::OrderDue(body));
            }
        }
    }

    /// One turn: everything that follows from what has arrived. Says whether the host wants another one soon.
    fn turn(&mut self) -> Result<bool, ServerError> {
        self.state.turns += 1;
        let now = self.clock.now();
        if self.workers.holds() {
            self.read_held(now);
        }
        self.hold_back(now);
        let has_more = drive(self)?;
        self.stall_if_held();
        self.watch_doubt();
        self.meet();
        self.check_level()?;
        Ok(has_more)
    }

    /// While most members cannot be reached, the machine gets nothing.
    fn hold_back(&mut self, now: Now) {
        let holds_back = self.lacks_majority();
        self.host.direct(now, Directive::HoldBack(holds_back));
    }

    /// Writes and syncs what the host wants, or what is held. Says whether there was anything.
    fn flush(&mut self, now: Now, flush: Option<Flush>) -> Result<bool, ServerError> {
        if self.held.is_some() && self.disk_is_full() {
            return Ok(false);
        }
        let Some(flush) = self.held.take().or(flush) else {
            return Ok(false);
        };
        self.watch_space(now, &flush);
        if let Some(disk) = &mut self.disk
            && let Err(error) = disk.flush(&flush)
        {
            return self.hold(flush, error);
        }
        self.metrics.storage.full.set(0.0);
        if self.state.held_for.take().is_some() {
            tracing::info!("the log is written again");
        }
        let done = self.clock.now();
        if self.host.look().is_stalled() {
            tracing::info!("the log is written again: this replica takes part again");
            self.host.direct(done, Directive::Resume);
        }
        if flush.sync {
            let took = seconds(done.mono_ns.saturating_sub(now.mono_ns));
            self.metrics.sync_seconds.record(took);
            self.state.upkeep.sampled(&self.metrics, 1);
        }
        self.host.completed(done, Completed::Flush(flush.through));
        Ok(true)
    }

    /// What waits for space in memory is bounded: what peers decide beyond that is learned and not written.
    fn stall_if_held(&mut self) {
        let is_too_much = self.host.look().unwritten_bytes() >= HELD_BYTES_MAX;
        if self.held.is_some() && is_too_much && !self.host.look().is_stalled() {
            tracing::warn!(
                "too many bytes wait to be written to the log: until they are written, this replica \
                takes no part in decisions, and answers reads only"
            );
            let now = self.clock.now();
            self.host.direct(now, Directive::Stall);
        }
    }

    /// Meanwhile nothing becomes durable and nothing is promised; reads go on.
    fn hold(&mut self, flush: Flush, error: DiskError) -> Result<bool, ServerError> {
        if !error.may_succeed_later() {
            return Err(error.into());
        }
        if error.is_want_of_space() {
            tracing::debug!("the log waits for space: {error}");
            self.metrics.storage.full.set(1.0);
        } else if self.state.held_for.is_none() {
            tracing::warn!(
                "the log cannot be written at the moment, and the write is tried again: {error}"
            );
        }
        self.held = Some(flush);
        self.state.held_for = Some(error);
        Ok(false)
    }

    /// Whether something is to be tried again soon.
    fn holds(&self) -> bool {
        self.held.is_some() || self.workers.holds()
    }

    fn answer(&mut self, token: u64, answer: Answer<AnyValue>) {
        if let Answer::Refused(Refusal::Withdrawn) = &answer {
            self.metrics.withdrawn.increment(1);
        } else if let Answer::Refused(refusal) = &answer {
            self.metrics.refused.increment(1);
            tracing::debug!(?refusal, "request refused");
        }
        tracing::trace!(token, "answered");
        self.state.replies.answer(token, answer);
    }

    fn note_events(&mut self, now: Now, events: Vec<HostEvent>) -> Result<(), ServerError> {
        self.state.upkeep.sampled(&self.metrics, events.len());
        for event in events {
            match event {
                HostEvent::Ordered { token, id } => {
                    tracing::trace!(token, request = ?id, "given to the protocol");
                }
                HostEvent::Applied {
                    token,
                    id,
                    slot,
                    entry,
                } => {
                    tracing::trace!(token, request = ?id, %slot, ?entry, "applied");
                }
                HostEvent::Spent(place, ns) => self.note_spent(now, place, ns),
                HostEvent::Machine(event) => self.note_machine(event),
                HostEvent::BadFrame { peer, why } => {
                    self.metrics.bad_frames.increment(1);
                    if let Some(left_out) = self.state.log.admit("bad frame") {
                        tracing::warn!(%peer, left_out, "a frame was dropped: {why}");
                    }
                }
                HostEvent::CatchUp { from, peer_applied } => {
                    self.metrics.catch_ups.increment(1);
                    if let Some(left_out) = self.state.log.admit("catch-up") {
                        tracing::info!(%from, %peer_applied, left_out, "catching up from a peer's log");
                    }
                }
                event @ (HostEvent::Damaged { .. }
                | HostEvent::FragmentDamaged { .. }
                | HostEvent::Mended { .. }
                | HostEvent::Repaired { .. }
                | HostEvent::RolledBack { .. }) => self.metrics.storage.note(&event),
                event @ (HostEvent::SnapshotTaken(_)
                | HostEvent::SnapshotWanted { .. }
                | HostEvent::SnapshotFailed { .. }
                | HostEvent::Installed { .. }) => self.note_snapshot(event),
                HostEvent::Sealed { next, epoch } => {
                    tracing::info!(%next, epoch, "the epoch is sealed, and the next one begins");
                }
                HostEvent::Began { epoch } => {
                    self.expect_payloads()?;
                    tracing::info!(epoch, "this replica takes part in the epoch");
                }
                HostEvent::Volunteered { member } => self.admit_learner(now, member),
                HostEvent::Left => return Err(self.removed()),
                HostEvent::Compared(comparison) => self.compared(comparison)?,
                HostEvent::Stalled(peer) => self.raise_no_space(now, peer),
            }
        }
        Ok(())
    }

    fn note_machine(&mut self, event: Event) {
        match event {
            Event::Decided { fast: true, .. } => self.metrics.decided_fast.increment(1),
            Event::Decided { fast: false, .. } => self.metrics.decided_slow.increment(1),
            Event::Branch(name) => {
                let metrics = &self.metrics;
                self.state
                    .branches
                    .entry(name)
                    .or_insert_with(|| metrics.branch(name))
                    .increment(1);
            }
            Event::Misbehaved { peer, what } => {
                self.metrics.misbehaved.increment(1);
                if let Some(left_out) = self.state.log.admit("misbehaved") {
                    tracing::warn!(%peer, left_out, "a message broke the protocol and was ignored: {what}");
                }
            }
        }
    }

    /// Why this replica does not take a write, if it does not. Where space is short, what is left of the log is for
    /// what makes space.
    fn refusal_of_write(&mut self, body: &Bytes) -> Option<Failure> {
        if self.is_corrupt() {
            return Some(Failure::Corrupt);
        }
        let is_short = self.disk_is_full() || self.host.look().admission() == Admission::NoGrowth;
        let grows = self.host.look().app().command_properties().grows;
        let is_refused = is_short && (self.held.is_some() || grows(body));
        is_refused.then_some(Failure::NoSpace)
    }

    /// Whether the state here may be wrong, as far as is known: after a restart, too.
    fn is_corrupt(&self) -> bool {
        self.state.outlier.is_some()
            || self.own_scope(AlarmKind::Corrupt).is_some()
            || self.host.look().admission() == Admission::Nothing
    }

    /// Whether the next segment could not be prepared for want of space. Asks for another attempt:
    /// space may have been freed since.
    pub(crate) fn disk_is_full(&mut self) -> bool {
        let Some(disk) = &mut self.disk else {
            return false;
        };
        let full = disk.trouble().is_some();
        if full {
            disk.retry_preallocation();
        }
        full
    }
}

/// Adds what waits to what was received, up to the bound of a turn.
fn take_waiting<T>(queue: &mut mpsc::Receiver<T>, taken: &mut Vec<T>) {
    while taken.len() < TURN_ARRIVALS_MAX {
        match queue.try_recv() {
            Ok(item) => taken.push(item),
            Err(_) => return,
        }
    }
}
