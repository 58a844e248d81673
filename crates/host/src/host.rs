//! The host: one machine, one application, and everything between them and the world.

mod compare;
mod explain;
mod group;
mod look;
mod perform;
mod queues;
mod recall;
mod reconfigure;
mod submit;
mod traffic;

pub(crate) use perform::answer;
pub use queues::Queue;
pub(crate) use recall::append_lost;

use crate::api::{
    Answer, Counters, Flush, Frame, HostConfig, HostEvent, Limits, LogRead, Place, Token,
};
use crate::apply::{Applier, first_state};
use crate::catch_up::CatchUp;
use crate::decided::DecidedLog;
use crate::divergence::Divergence;
use crate::epochs::Record;
use crate::fragments::FragmentStore;
use crate::frame::{Body, PACKING_BYTES};
use crate::log::{LogWriter, Position};
use crate::payloads::Payloads;
use crate::read_repair::ReadRepair;
use crate::repair::{Known, Repair};
use crate::requests::{NOBODY, Requests};
use crate::retained_records::RetainedRecords;
use crate::rollback::Rollback;
use crate::snapshot::{Kept, Snapshots};
use crate::stall::Stall;
use crate::timers::{Timer, Timers};
use crate::version::{PeerVersions, WireVersion};
use bytes::Bytes;
use quorate_core::{
    Application, Countdown, Encoder, EntryId, Input, Lsn, Machine, Member, Now, Out, Output, Past,
    Peers, ReplicaId, Seat, Slot,
};
use reconfigure::{EpochTransition, places};
use std::collections::{BTreeMap, VecDeque};

/// A message that waits for records to become durable.
#[derive(Debug)]
struct Outgoing<M: Machine> {
    to: Peers,
    message: M::Message,
    after: Lsn,
}

/// What opening a host rebuilds.
pub(crate) struct Parts<M: Machine, A: Application> {
    /// What the machine starts from: at once, or, where it is intact and slots before it are missing,
    /// when they are here.
    pub(crate) past: Past<M>,
    pub(crate) base: M::Base,
    pub(crate) applier: Applier<A>,
    pub(crate) decided: DecidedLog,
    pub(crate) retained: RetainedRecords<M::Record>,
    /// Own records about epochs, and where they are.
    pub(crate) epochs: Vec<(Position, Record)>,
    pub(crate) log: Option<LogWriter>,
    pub(crate) bulk: Option<FragmentStore>,
    /// Snapshots on the disk, ascending.
    pub(crate) kept: VecDeque<Kept>,
    /// Decided slots in the log, behind some that are missing.
    pub(crate) ahead: BTreeMap<Slot, Known>,
    /// How many those are.
    pub(crate) missing: u64,
    /// How far promises went.
    pub(crate) rollback: Rollback,
}

/// A replica of one group, without I/O.
pub struct Host<M: Machine, A: Application> {
    pub(crate) seat: Seat,
    pub(crate) transition: EpochTransition,
    pub(crate) limits: Limits,
    /// `None` while slots are missing that it knew to be decided.
    pub(crate) machine: Option<M>,
    pub(crate) repair: Repair<M>,
    pub(crate) read_repair: ReadRepair,
    /// What waits while the log cannot be written.
    pub(crate) stall: Option<Stall<M>>,
    /// Questions so far where reads may be answered, to tell their answers apart.
    pub(crate) questions: u64,
    pub(crate) base: M::Base,
    out: Out<M>,
    output_buffer: Vec<Output<M>>,
    pub(crate) applier: Applier<A>,
    pub(crate) decided: DecidedLog,
    pub(crate) retained: RetainedRecords<M::Record>,
    pub(crate) snapshots: Snapshots<M, A>,
    /// `None` for a diskless replica.
    pub(crate) log: Option<LogWriter>,
    /// Fragments of payloads, beside the log.
    pub(crate) bulk: Option<FragmentStore>,
    pub(crate) payloads: Payloads,
    pub(crate) payload_min: Option<usize>,
    /// The last machine record in the log's buffer, in the flush under way, and on the disk.
    appended: Lsn,
    flushing: Lsn,
    durable: Lsn,
    flush_began_ns: u64,
    /// Nothing leaves before the first flush: what was recovered, and counted as durable, may
    /// until then be no more than what a killed process left in the page cache. Nor does anything after promises
    /// were lost, before the log says so.
    silent: bool,
    /// It is silent until the log is durable so far.
    silent_until: Position,
    gated: VecDeque<Outgoing<M>>,
    /// Messages that wait for fragments to be made of the payloads of this entry, under this code.
    pub(crate) coding: Vec<((EntryId, u8), Peers, M::Message)>,
    early: Vec<(Peers, M::Message)>,
    /// Encodes them.
    packer: Encoder,
    timers: Timers<M::Timer>,
    pub(crate) requests: Requests<A::Query>,
    /// The machine gets nothing for now: too few members can be reached.
    holds_back: bool,
    pub(crate) catch_up: CatchUp,
    jitter_seed: u64,
    beats: u32,
    pub(crate) peer_versions: PeerVersions,
    pub(crate) frames: Vec<Frame>,
    pub(crate) answers: Vec<(Token, Answer<A::Answer>)>,
    reads: Vec<LogRead>,
    pub(crate) events: Vec<HostEvent>,
    pub(crate) counters: Counters,
    pub(crate) rollback: Rollback,
    pub(crate) divergence: Divergence,
}

/// How long after the last news peers are told how far this replica is, the first time; each
/// further time takes four times as long.
const BEAT_NS: u64 = 200_000_000;
/// How long what nothing waits for may stay in memory when no flush comes to take it along.
const WRITE_BEHIND_NS: u64 = 20_000_000;
/// How often, before a quiet replica falls silent.
const BEATS: u32 = 3;

impl<M: Machine, A: Application> Host<M, A> {
    /// The parts in their places.
    pub(crate) fn assemble(config: &HostConfig<M::Config>, parts: Parts<M, A>, now: Now) -> Self {
        let seat = config.seat.clone();
        let Parts {
            past,
            base,
            applier,
            decided,
            retained,
            epochs,
            log,
            mut bulk,
            kept,
            ahead,
            missing,
            rollback,
        } = parts;
        if let Some(bulk) = &mut bulk {
            bulk.put_behind(config.limits.long_bytes_min, config.limits.long_step_bytes);
        }
        let member = Member {
            id: seat.me,
            incarnation: config.listed_as,
        };
        let cache_bytes_max = config.limits.payload_cache_bytes_max;
        // Without a disk there is no place for fragments.
        let rule = bulk.as_ref().and(M::payloads(&config.machine));
        let code = rule.map_or(1, |rule| rule.code);
        let payloads = Payloads::new(places(&applier, seat.me), code, cache_bytes_max);
        let mut host = Host {
            requests: Requests::new(seat.me, seat.boot),
            holds_back: false,
            catch_up: CatchUp::new(),
            transition: EpochTransition::new(member, seat.boot),
            limits: config.limits,
            seat,
            machine: None,
            repair: Repair::new(ahead, missing),
            read_repair: ReadRepair::default(),
            stall: None,
            questions: 0,
            base,
            out: Out::default(),
            output_buffer: Vec::new(),
            applier,
            decided,
            retained,
            snapshots: Snapshots::new(config.cluster, first_state(&config.genesis), kept),
            silent: log.is_some(),
            silent_until: Position::default(),
            log,
            payload_min: rule.map(|rule| rule.min),
            bulk,
            payloads,
            appended: Lsn(0),
            flushing: Lsn(0),
            durable: Lsn(0),
            flush_began_ns: 0,
            gated: VecDeque::new(),
            coding: Vec::new(),
            early: Vec::new(),
            packer: Encoder::with_capacity(PACKING_BYTES),
            timers: Timers::new(),
            jitter_seed: config.jitter_seed,
            beats: 0,
            peer_versions: PeerVersions::new(config.supported),
            frames: Vec::new(),
            answers: Vec::new(),
            reads: Vec::new(),
            events: Vec::new(),
            counters: Counters::default(),
            rollback,
            divergence: Divergence::default(),
        };
        let is_lost = matches!(past, Past::Lost { .. });
        let goes_on = host.recover_transition(now, &config.genesis, &epochs);
        if is_lost {
            host.transition.distrust();
        } else {
            host.wait_for_memory(now);
        }
        if goes_on {
            host.start(&config.machine, past, now);
        }
        host.watch_settling(now);
        host
    }

    /// Starts the machine, or has it wait for what is missing.
    fn start(&mut self, config: &M::Config, past: Past<M>, now: Now) {
        match past {
            Past::Intact { next, records, .. }
                if next > self.applied() || self.rollback.is_waiting() =>
            {
                self.repair.wait(config.clone(), records, next);
            }
            past => self.start_machine(config, past, now),
        }
    }

    pub(crate) fn start_machine(&mut self, config: &M::Config, past: Past<M>, now: Now) {
        self.machine = Some(M::recover(config, past, now, &mut self.out));
        self.retain_payloads();
        self.run_to_fixpoint(now);
    }

    /// Takes a frame from a peer. What cannot be used is dropped and reported.
    pub fn frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) {
        if let Err(why) = self.take_frame(now, from, frame) {
            self.events.push(HostEvent::BadFrame { peer: from, why });
        }
    }

    /// The connection to a peer came up, in a version agreed on, or went down.
    pub fn link(&mut self, now: Now, peer: ReplicaId, version: Option<WireVersion>) {
        self.peer_versions.agree(peer, version);
        let up = version.is_some();
        self.step(now, Input::Link { peer, up });
        if up {
            self.post(Peers::One(peer), &Body::Beat);
            self.ask_memory(peer);
        } else if !peer.is_gateway() {
            self.fetch_lost(now, peer);
            self.gather_elsewhere(now, peer);
        }
    }

    /// A read of the log is done.
    pub fn read_done(&mut self, now: Now, token: u64, bytes: Result<Bytes, String>) {
        if FragmentStore::owns(token) {
            return self.bulk_read_done(token, bytes);
        }
        let entry_at = |at, bytes: &Bytes| self.applier.entry_at(at, bytes);
        let Some(done) = self.catch_up.read_done(token, bytes, entry_at) else {
            return;
        };
        let is_known = done.damaged.is_some_and(|(slot, at, why)| {
            let is_new = self.found_damage(now, slot, at, why);
            !is_new
        });
        if let Some(body) = done.answer {
            self.answer(now, done.peer, &body);
        }
        if is_known {
            // Nobody seems to have it: a snapshot may lead beyond it.
            self.offer(now, done.peer, done.slot);
        }
    }

    /// Ends a turn: fires the timers that are due and gives the machine what waits.
    pub fn turn(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono_ns) {
            self.fire(now, timer);
        }
        self.note_soon(now);
        self.look_into_difference(now);
        self.go_on_from_own_log(now);
        self.hand_over_held(now);
        self.rebuild_further(now);
        if self.is_stalled() {
            self.ask_for_mark(now);
        } else if self.requests.has_queued() && !self.holds_back {
            let room = self.machine.as_ref().map_or(0, M::room);
            let commands = self.requests.take(room, now.mono_ns);
            let commands = self.fitting(commands);
            if !commands.is_empty() {
                if self.limits.follow {
                    self.report_ordered(&commands);
                }
                self.step(now, Input::Submit(commands));
            }
        }
    }

    /// The flush that ends at `through` was performed.
    pub fn flushed(&mut self, now: Now, through: Position) {
        let log = self
            .log
            .as_mut()
            .expect("only a replica with a log flushes");
        let promised_before = log.promised();
        log.flushed(through, self.bulk.as_mut());
        self.silent &= !log.is_durable(self.silent_until);
        if self.flushing > self.durable {
            self.durable = self.flushing;
            let spent = now.mono_ns.saturating_sub(self.flush_began_ns);
            self.events.push(HostEvent::Spent(Place::Log, spent));
            self.step(now, Input::Durable(self.durable));
        }
        self.progress_flushed(now, promised_before);
        self.transition_flushed(now);
        self.settling_flushed();
    }

    /// Nothing leaves before the log is durable as far as it was written.
    fn fall_silent(&mut self) {
        if let Some(log) = &mut self.log {
            log.want_sync();
            (self.silent, self.silent_until) = (true, log.tail());
        }
    }

    /// Whether nothing has left since the start: what is applied may be gone after a power failure, and
    /// nobody has seen it.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Frames that may leave now.
    pub fn take_frames(&mut self) -> Vec<Frame> {
        if self.silent {
            return Vec::new();
        }
        self.release_gated();
        self.pack_messages();
        self.counters.frames += self.frames.len() as u64;
        std::mem::take(&mut self.frames)
    }

    /// Answers since the last call.
    pub fn take_answers(&mut self) -> Vec<(Token, Answer<A::Answer>)> {
        if self.silent {
            Vec::new()
        } else {
            let mut answers = std::mem::take(&mut self.answers);
            answers.retain(|(token, _)| *token != NOBODY);
            answers
        }
    }

    /// Reads of the log to perform.
    pub fn take_reads(&mut self) -> Vec<LogRead> {
        std::mem::take(&mut self.reads)
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    /// What is to be written now; `None` while a flush is under way or there is nothing, or only
    /// what may wait.
    pub fn take_flush(&mut self, now: Now) -> Option<Flush> {
        let log = self.log.as_mut()?;
        let Some(flush) = log.take_flush(self.bulk.as_mut()) else {
            let bulk = self.bulk.as_ref().map_or(0, FragmentStore::unwritten_bytes);
            if (log.has_unwritten() || bulk > 0) && !self.timers.is_armed(Timer::WriteBehind) {
                self.arm(Timer::WriteBehind, now.mono_ns + WRITE_BEHIND_NS);
            }
            return None;
        };
        self.flushing = if flush.sync {
            self.appended
        } else {
            self.flushing
        };
        self.flush_began_ns = now.mono_ns;
        self.settling_flushes(flush.sync);
        Some(flush)
    }

    /// Has the next flush take everything there is: before an orderly end.
    pub fn write_all(&mut self) {
        if let Some(log) = &mut self.log {
            log.want_write();
        }
    }

    /// Bytes of log and bulk store that no flush has taken yet.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        let of = |bulk: &FragmentStore| bulk.unwritten_bytes() + bulk.behind_bytes();
        let bulk = self.bulk.as_ref().map_or(0, of);
        self.log.as_ref().map_or(0, LogWriter::unwritten_bytes) + bulk
    }

    /// The countdowns the application wants started or stopped since the last call.
    pub fn take_countdowns(&mut self) -> Vec<Countdown> {
        // Nothing that starts or stops one is executed ahead of its decision.
        self.applier.app_mut().take_countdowns()
    }

    /// Takes a piece of the snapshot under way, and lets the application do a small piece of work
    /// it has put off; says whether there is more. To be called at least once a turn, or a
    /// snapshot does not end under load.
    pub fn tidy(&mut self) -> bool {
        let more = self.cut_piece();
        // What is found to be lacking would have to be written.
        let more = !self.is_stalled() && self.look_for_lacking() || more;
        let more = self.drop_superseded() || more;
        self.free_dead_payloads();
        self.retain_payloads();
        self.tidy_bulk();
        self.tidy_bulk();
        self.applier.app_mut().tidy() || more
    }

    /// Gives the machine one input and performs what follows.
    pub(crate) fn step(&mut self, now: Now, input: Input<M>) {
        self.step_machine(now, input);
        self.run_to_fixpoint(now);
    }

    fn step_machine(&mut self, now: Now, input: Input<M>) {
        if let Some(stall) = &mut self.stall {
            return stall.keep(input);
        }
        // Before it starts it hears nothing: loss is normal.
        let Some(machine) = &mut self.machine else {
            return;
        };
        machine.step(now, input, &mut self.out);
        if self.limits.check_steps {
            machine.check();
        }
    }

    pub(crate) fn arm(&mut self, timer: Timer<M::Timer>, at_ns: u64) {
        self.timers.arm(timer, at_ns);
    }

    pub(crate) fn disarm(&mut self, timer: Timer<M::Timer>) {
        self.timers.disarm(timer);
    }

    pub(crate) fn is_armed(&self, timer: Timer<M::Timer>) -> bool {
        self.timers.is_armed(timer)
    }

    pub(crate) fn want_read(&mut self, read: LogRead) {
        self.reads.push(read);
    }

    pub(crate) fn count_caught_up(&mut self, slots: u64) {
        self.counters.caught_up += slots;
    }

    /// The host caught up: the machine goes on from here.
    pub(crate) fn installed(&mut self, now: Now) {
        let (next, base) = (self.applier.next(), self.base.clone());
        self.step(now, Input::Installed { next, base });
    }
}
