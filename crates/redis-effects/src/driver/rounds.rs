//! The executor: effects are submitted, and answers wait for their proof.
//!
//! A round is a batch of answers and the offset that `ROLE` told after they were read: they rest on no effect behind
//! it. Why a command has to be submitted *after* that: one submitted before may be ordered before a claim of another
//! replica, which may serve a later write that the client has seen elsewhere; its acceptance proves nothing about a
//! read. One submitted after all requests of the round were received, and accepted in the own epoch, proves that no
//! effect of a later executor is before it. So rounds with effects need nothing more, rounds without ask a quorum for
//! the epoch once, and whatever proves a round proves those before it.

use super::api::{Conn, Note, Output};
use super::control::Ask;
use super::office::Office;
use super::resp::{RoleReply, request};
use super::{Driver, MS};
use crate::command::{Command, Outcome};
use crate::mutant::Mutant;
use crate::shared::StreamState;
use crate::units::Units;
use bytes::Bytes;
use quorate_core::{ReplicaId, Wire};
use std::collections::{BTreeMap, VecDeque};

/// Pieces under way, at most: fewer than the application keeps ahead of the stream.
const PIECES_MAX: usize = 32;
/// When a command without a result is submitted again.
const RETRY_NS: u64 = 20 * MS;
/// How often the server is told how far its stream is accepted, at least.
const ACKNOWLEDGE_NS: u64 = 1_000 * MS;
/// When a busy server is asked again.
const BUSY_NS: u64 = 5 * MS;
/// How long a move to another replica may take before clients go on here.
const MOVE_NS: u64 = 5_000 * MS;
/// How soon an offer is repeated that the other replica has not taken: it may be lost, or have come too early.
const OFFER_AGAIN_NS: u64 = 100 * MS;

/// Answers that rest on nothing behind an offset.
#[derive(Debug)]
struct Round {
    label: u64,
    offset: u64,
    /// Tokens from here on were given after the barrier; none before the tap is as far.
    first_token: Option<u64>,
}

/// A piece on its way.
#[derive(Debug)]
struct Flight {
    body: Bytes,
    retry_ns: Option<u64>,
}

/// A move to another replica.
#[derive(Debug)]
struct Move {
    target: ReplicaId,
    since_ns: u64,
    /// When the next offer is due, once nothing is under way here.
    offer_ns: u64,
}

/// An executor whose clients are served.
#[derive(Debug)]
pub(super) struct Executing {
    pub(super) epoch: u64,
    units: Units,
    /// The offset up to which units may be submitted.
    cleared: u64,
    /// The length of the stream, as far as it is known.
    accepted: u64,
    acknowledged: u64,
    acknowledged_ns: u64,
    pieces: BTreeMap<u64, Flight>,
    /// Questions to a quorum that have no answer.
    reads: Vec<u64>,
    read_again_ns: Option<u64>,
    /// The highest token whose command was accepted in the own epoch.
    proven: u64,
    rounds: VecDeque<Round>,
    /// The label of the newest answers.
    answers: u64,
    /// The label of the newest answers when the barrier was asked for.
    asked: u64,
    /// The label of the newest answers behind which there is a barrier.
    barred: u64,
    was_put_off: bool,
    next_barrier_ns: u64,
    held: u64,
    is_paused: bool,
    moving: Option<Move>,
}

impl Executing {
    pub(super) fn new(epoch: u64, len: u64) -> Self {
        Executing {
            epoch,
            units: Units::new(len),
            cleared: len,
            accepted: len,
            acknowledged: 0,
            acknowledged_ns: 0,
            pieces: BTreeMap::new(),
            reads: Vec::new(),
            read_again_ns: None,
            proven: 0,
            rounds: VecDeque::new(),
            answers: 0,
            asked: 0,
            barred: 0,
            was_put_off: false,
            next_barrier_ns: 0,
            held: 0,
            is_paused: false,
            moving: None,
        }
    }

    pub(super) fn received(&self) -> u64 {
        self.units.received()
    }

    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Whether answers or units wait for a barrier.
    fn wants_barrier(&self) -> bool {
        self.answers > self.barred || self.units.complete() > self.cleared || self.moving.is_some()
    }

    /// Whether it has nothing that is not accepted, and no answer to give.
    fn is_at_rest(&self) -> bool {
        self.rounds.is_empty()
            && self.held == 0
            && self.barred == self.answers
            && self.accepted == self.units.received()
    }

    /// Whether the first round has its proof.
    fn is_proven(&self, round: &Round) -> bool {
        let is_after = round.first_token.is_some_and(|first| first <= self.proven);
        is_after && round.offset <= self.accepted
    }
}

impl Driver {
    fn executing(&mut self) -> Option<&mut Executing> {
        match &mut self.office {
            Office::Executing(office) => Some(office),
            _ => None,
        }
    }

    pub(super) fn answers(&mut self, total: u64, held: u64) {
        if let Some(office) = self.executing() {
            (office.answers, office.held) = (total, held);
        }
    }

    pub(super) fn tapped(&mut self, bytes: &[u8]) {
        let pushed = self.executing().map(|office| office.units.push(bytes));
        if let Some(Err(why)) = pushed {
            self.give_up(&why);
        }
    }

    pub(super) fn advance_executing(&mut self) {
        let stream = self.stream;
        let Some(office) = self.executing() else {
            return;
        };
        if stream.epoch == office.epoch {
            office.accepted = office.accepted.max(stream.len);
        }
        self.ask_barrier();
        self.open_rounds();
        self.submit();
        self.release();
        self.flow();
        self.move_on();
    }

    fn ask_barrier(&mut self) {
        let now_ns = self.now_ns;
        let is_asked = self.control.is_asked(Ask::Barrier);
        let has_barriers = self.config.mutant != Some(Mutant::NoBarrier);
        let Some(office) = self.executing() else {
            return;
        };
        let has_room = office.pieces.len() < PIECES_MAX;
        if is_asked || !has_room || !office.wants_barrier() || now_ns < office.next_barrier_ns {
            return;
        }
        office.asked = office.answers;
        if has_barriers {
            self.ask(Ask::Barrier, &["ROLE"]);
        } else {
            let offset = office.units.complete();
            self.barrier(RoleReply::Master { offset });
        }
    }

    pub(super) fn barrier(&mut self, role: RoleReply) {
        let now_ns = self.now_ns;
        let Some(office) = self.executing() else {
            return;
        };
        let offset = match role {
            RoleReply::Master { offset } => offset,
            RoleReply::Busy => {
                office.next_barrier_ns = now_ns + BUSY_NS;
                return;
            }
            RoleReply::Replica { .. } => return self.give_up("it ceased to be a master by itself"),
        };
        let label = office.asked;
        // Answers that came meanwhile may rest on the same effects: one submission proves both.
        if label == office.barred && office.answers > label && !office.was_put_off {
            office.was_put_off = true;
            return;
        }
        office.was_put_off = false;
        office.cleared = office.cleared.max(offset);
        if label > office.barred {
            office.barred = label;
            office.rounds.push_back(Round {
                label,
                offset,
                first_token: None,
            });
        } else {
            office.cleared = office.cleared.max(office.units.complete());
            office.next_barrier_ns = match office.moving.is_some() {
                true => now_ns + BUSY_NS,
                false => 0,
            };
        }
        let is_last = offset == office.accepted && office.is_at_rest();
        if is_last {
            self.offer();
        }
    }

    /// Rounds whose effects the tap has: what proves them is submitted from here on.
    fn open_rounds(&mut self) {
        let mut next = self.next_token + 1;
        let is_proof_wanted = self.config.mutant != Some(Mutant::ReadsUnproven);
        let mut needs_read = false;
        let Some(office) = self.executing() else {
            return;
        };
        let (complete, taken) = (office.units.complete(), office.units.taken());
        for round in &mut office.rounds {
            if round.first_token.is_some() || complete < round.offset {
                continue;
            }
            if complete > taken {
                // Everything that is there is submitted behind this barrier.
                office.cleared = complete;
            } else if is_proof_wanted {
                needs_read = true;
            } else {
                next = 0;
            }
            round.first_token = Some(next);
        }
        if needs_read {
            self.ask_quorum();
        }
    }

    fn ask_quorum(&mut self) {
        let token = self.token();
        if let Some(office) = self.executing() {
            office.reads.push(token);
            office.read_again_ns = None;
            self.out.push_back(Output::QuorumRead { token });
        }
    }

    fn submit(&mut self) {
        let now_ns = self.now_ns;
        let piece_bytes = self.config.piece_bytes;
        let cuts_units = self.config.mutant == Some(Mutant::CutUnits);
        let mut next = self.next_token;
        let mut bodies = Vec::new();
        let Some(office) = self.executing() else {
            return;
        };
        for (token, flight) in &mut office.pieces {
            if flight.retry_ns.is_some_and(|retry_ns| retry_ns <= now_ns) {
                flight.retry_ns = None;
                bodies.push((*token, flight.body.clone()));
            }
        }
        while office.pieces.len() < PIECES_MAX && office.units.taken() < office.cleared {
            let piece = match cuts_units {
                true => office.units.take_anywhere(),
                false => office.units.take(piece_bytes),
            };
            let Some(piece) = piece else {
                break;
            };
            next += 1;
            let body = Command::Effects {
                epoch: office.epoch,
                start: piece.start,
                bytes: piece.bytes,
                last: piece.last,
            };
            let body = body.to_bytes();
            bodies.push((next, body.clone()));
            let retry_ns = None;
            office.pieces.insert(next, Flight { body, retry_ns });
        }
        let is_read_due = office
            .read_again_ns
            .is_some_and(|again_ns| again_ns <= now_ns);
        self.next_token = next;
        for (token, body) in bodies {
            self.out.push_back(Output::Submit { token, body });
        }
        if is_read_due {
            self.ask_quorum();
        }
    }

    pub(super) fn result(&mut self, token: u64, result: Option<Bytes>) {
        let outcome = result.and_then(|result| Outcome::from_bytes(result).ok());
        if self.claim_result(token, outcome) {
            return;
        }
        let now_ns = self.now_ns;
        let Some(office) = self.executing() else {
            return;
        };
        let Some(flight) = office.pieces.get_mut(&token) else {
            return;
        };
        match outcome {
            Some(Outcome::Accepted { len }) => {
                office.pieces.remove(&token);
                office.proven = office.proven.max(token);
                office.accepted = office.accepted.max(len);
            }
            None | Some(Outcome::Beyond { .. }) => flight.retry_ns = Some(now_ns + RETRY_NS),
            Some(Outcome::Void { .. }) => self.begin_leaving(None),
            Some(Outcome::NoSpace) => self.give_up("the group has no room for effects"),
            Some(_) => self.give_up("its effects are refused"),
        }
    }

    pub(super) fn read_result(&mut self, token: u64, state: Option<StreamState>) {
        if self.probe_result(token, state) {
            return;
        }
        let (now_ns, me) = (self.now_ns, self.config.me);
        let Some(office) = self.executing() else {
            return;
        };
        let Some(at) = office.reads.iter().position(|read| *read == token) else {
            return;
        };
        office.reads.swap_remove(at);
        match state {
            Some(state) if state.epoch == office.epoch && state.executor == Some(me) => {
                office.proven = office.proven.max(token);
                office.accepted = office.accepted.max(state.len);
            }
            Some(_) => self.begin_leaving(None),
            None => office.read_again_ns = Some(now_ns + RETRY_NS),
        }
    }

    /// V3: answers leave in order, and none before its proof.
    fn release(&mut self) {
        let mutant = self.config.mutant;
        let now_ns = self.now_ns;
        let Some(office) = self.executing() else {
            return;
        };
        let mut up_to = None;
        while let Some(round) = office.rounds.front()
            && office.is_proven(round)
        {
            up_to = Some(round.label);
            office.rounds.pop_front();
        }
        if mutant == Some(Mutant::OutOfOrder) && up_to.is_some() {
            up_to = Some(office.barred);
        }
        if mutant == Some(Mutant::AnswersNotHeld) && office.held > 0 {
            up_to = Some(office.answers);
        }
        let accepted = office.accepted;
        let is_due = accepted > office.acknowledged
            || now_ns.saturating_sub(office.acknowledged_ns) >= ACKNOWLEDGE_NS;
        if let Some(up_to) = up_to {
            self.out.push_back(Output::Release { up_to });
        }
        if is_due {
            self.acknowledge(accepted);
        }
    }

    /// Tells the server how far its stream is accepted, which gives `WAIT` its meaning.
    pub(super) fn acknowledge(&mut self, offset: u64) {
        let now_ns = self.now_ns;
        if let Some(office) = self.executing() {
            office.acknowledged = offset;
            office.acknowledged_ns = now_ns;
            let offset = offset.to_string();
            self.write(Conn::Tap, request(&["REPLCONF", "ACK", &offset]));
        }
    }

    /// No client is read while too much waits.
    fn flow(&mut self) {
        let bytes_max = self.config.held_bytes_max;
        let Some(office) = self.executing() else {
            return;
        };
        let waiting = (office.units.received() - office.accepted.min(office.units.received()))
            .max(office.held);
        let bytes_max = match office.is_paused {
            true => bytes_max / 2,
            false => bytes_max,
        };
        let is_paused = waiting > bytes_max || office.moving.is_some();
        if is_paused != office.is_paused {
            office.is_paused = is_paused;
            self.out.push_back(Output::Pause(is_paused));
        }
    }

    /// The newest wish holds: for another replica than before, or to stay here.
    pub(super) fn move_to(&mut self, target: ReplicaId) {
        let (me, since_ns) = (self.config.me, self.now_ns);
        let Some(office) = self.executing() else {
            return;
        };
        let is_under_way = (office.moving.as_ref()).is_some_and(|moving| moving.target == target);
        if !is_under_way {
            office.moving = (target != me).then_some(Move {
                target,
                since_ns,
                offer_ns: 0,
            });
        }
    }

    fn move_on(&mut self) {
        let now_ns = self.now_ns;
        let Some(office) = self.executing() else {
            return;
        };
        let is_late = |moving: &mut Move| now_ns - moving.since_ns > MOVE_NS;
        if let Some(Move { target, .. }) = office.moving.take_if(is_late) {
            self.note(Note::MoveGivenUp { target });
        }
    }

    /// Nothing is held, and nothing that the server has is not accepted: another one may execute.
    fn offer(&mut self) {
        let now_ns = self.now_ns;
        let Some(office) = self.executing() else {
            return;
        };
        let epoch = office.epoch;
        if let Some(moving) = &mut office.moving
            && now_ns >= moving.offer_ns
        {
            moving.offer_ns = now_ns + OFFER_AGAIN_NS;
            let peer = moving.target;
            self.out.push_back(Output::Offer { peer, epoch });
        }
    }
}
