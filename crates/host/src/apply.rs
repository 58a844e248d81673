//! The apply loop: decided entries become state, results and a digest of both.

mod speculation;

use crate::api::{HostConfig, Limits};
use crate::epochs::{Alarm, AlarmChange, Effect, GroupState, Order, Scope};
use crate::flaw::Flaw;
use crate::sessions::{Sessions, Verdict};
use crate::version::{ALARM_LEVEL, FIRST_LEVEL};
use bytes::Bytes;
use quorate_core::{
    Admission, Application, At, Catalogue, Class, Command, Decoder, Encoder, Entry, Epoch,
    PayloadId, Refusal, RequestId, Slot, Wire, WireError,
};
use speculation::Speculation;
use std::collections::VecDeque;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Checkpoints kept for comparison with peers that are behind or ahead.
const CHECKPOINTS_KEPT: usize = 16;

/// Slots of which the digest is kept, as peers are mostly no further apart.
const DIGESTS_KEPT: usize = 4096;

/// What one command came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    /// Executed, now or before at this slot.
    Result(Slot, Bytes),
    /// Not executed.
    Refused(Refusal),
}

/// What is in a snapshot besides application and sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AppliedState {
    stamp_ns: u64,
    digest: u64,
    bytes_total: u64,
    checkpoints: VecDeque<(Slot, u64)>,
    epochs: GroupState,
}

impl AppliedState {
    /// As it was written when there was one epoch.
    pub(crate) fn decode_without_epochs(
        input: &mut Decoder,
        epochs: GroupState,
    ) -> Result<Self, WireError> {
        let mut state = AppliedState {
            epochs,
            stamp_ns: input.u64()?,
            digest: input.u64()?,
            bytes_total: input.u64()?,
            checkpoints: VecDeque::new(),
        };
        for _ in 0..input.count(9)? {
            let checkpoint = (Slot::decode(input)?, input.u64()?);
            state.checkpoints.push_back(checkpoint);
        }
        Ok(state)
    }
}

impl Wire for AppliedState {
    fn encode(&self, out: &mut Encoder) {
        self.epochs.encode(out);
        out.u64(self.stamp_ns);
        out.u64(self.digest);
        out.u64(self.bytes_total);
        out.varint(self.checkpoints.len() as u64);
        for (slot, digest) in &self.checkpoints {
            slot.encode(out);
            out.u64(*digest);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let epochs = GroupState::decode(input)?;
        AppliedState::decode_without_epochs(input, epochs)
    }
}

/// What a group that begins with this epoch knows of itself.
pub(crate) fn first_state(genesis: &Epoch) -> GroupState {
    GroupState::new(genesis.clone(), FIRST_LEVEL)
}

#[cfg(test)]
impl AppliedState {
    /// One with something in every field.
    pub(crate) fn sample() -> Self {
        AppliedState {
            epochs: GroupState::new(crate::fuzz::epoch(), FIRST_LEVEL),
            stamp_ns: 1,
            digest: 2,
            bytes_total: 3,
            checkpoints: [(Slot(1), 4), (Slot(300), 5)].into(),
        }
    }
}

/// The replicated state: the application, the sessions, and how far they are.
#[derive(Debug)]
pub(crate) struct Applier<A> {
    app: A,
    sessions: Sessions,
    epochs: GroupState,
    /// What the alarms in `epochs` leave to be carried out.
    admission: Admission,
    /// The members of the newest epoch that may fail while the others decide.
    failures: usize,
    catalogue: &'static dyn Catalogue,
    /// The first slot not applied.
    next: Slot,
    /// The stamp of the last entry, made monotone.
    stamp_ns: u64,
    /// Chained over everything applied and its results.
    digest: u64,
    /// The digests behind the last slots; the last of them is the present one.
    digests: VecDeque<u64>,
    /// Bytes of all entries applied.
    bytes_total: u64,
    checkpoint_slots: u64,
    checkpoints: VecDeque<(Slot, u64)>,
    scratch: Vec<u8>,
    /// What was executed ahead of its decision, and is to be.
    pub(crate) speculation: Speculation,
    flaw: Option<Flaw>,
    pub(crate) commands_total: u64,
    pub(crate) duplicates_total: u64,
    pub(crate) noops_total: u64,
}

impl<A: Application> Applier<A> {
    pub(crate) fn new<C>(app: A, config: &HostConfig<C>) -> Self {
        let limits: &Limits = &config.limits;
        let first = &config.genesis;
        let epochs = first_state(first);
        Applier {
            app,
            sessions: Sessions::new(limits.sessions_max),
            next: first.first_slot,
            admission: Admission::All,
            failures: epochs.failures(config.catalogue),
            epochs,
            catalogue: config.catalogue,
            stamp_ns: 0,
            digest: 0,
            digests: VecDeque::new(),
            bytes_total: 0,
            checkpoint_slots: limits.checkpoint_slots.max(1),
            checkpoints: VecDeque::new(),
            scratch: Vec::new(),
            speculation: Speculation::default(),
            flaw: limits.flaw,
            commands_total: 0,
            duplicates_total: 0,
            noops_total: 0,
        }
    }

    pub(crate) fn app(&self) -> &A {
        &self.app
    }

    pub(crate) fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }

    /// The stamp of the last entry.
    pub(crate) fn stamp_ns(&self) -> u64 {
        self.stamp_ns
    }

    pub(crate) fn next(&self) -> Slot {
        self.next
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Bytes of all entries applied: moves alike on every replica.
    pub(crate) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What the group knows of itself.
    pub(crate) fn epochs(&self) -> &GroupState {
        &self.epochs
    }

    /// Which commands are carried out at present.
    pub(crate) fn admission(&self) -> Admission {
        self.admission
    }

    /// The protocols that an epoch may name.
    pub(crate) fn catalogue(&self) -> &'static dyn Catalogue {
        self.catalogue
    }

    /// A new group begins with alarms that hold for all of it, at the feature level that has them.
    pub(crate) fn begin_with_alarms(&mut self, alarms: &[Alarm]) {
        if alarms.is_empty() {
            return;
        }
        self.epochs.level = self.epochs.level.max(ALARM_LEVEL);
        let change = AlarmChange::Raise(Scope::Group);
        for alarm in alarms {
            self.epochs.alarms.change(*alarm, change);
        }
        self.read_group();
    }

    /// The epoch that orders the next slot.
    pub(crate) fn newest(&self) -> &Epoch {
        self.epochs.chain.newest()
    }

    /// The members of the newest epoch that may fail while the others decide.
    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// Notes what follows from the group's state after it has changed, for it is asked several times in each turn.
    fn read_group(&mut self) {
        self.admission = self.epochs.admission(self.catalogue);
        self.failures = self.epochs.failures(self.catalogue);
    }

    /// What a snapshot holds besides application and sessions.
    pub(crate) fn state(&self) -> AppliedState {
        AppliedState {
            epochs: self.epochs.clone(),
            stamp_ns: self.stamp_ns,
            digest: self.digest,
            bytes_total: self.bytes_total,
            checkpoints: self.checkpoints.clone(),
        }
    }

    /// The same replica with another state; its own totals go on.
    pub(crate) fn replaced(
        &self,
        next: Slot,
        state: AppliedState,
        sessions: Sessions,
        app: A,
    ) -> Self {
        Applier {
            app,
            sessions,
            admission: state.epochs.admission(self.catalogue),
            failures: state.epochs.failures(self.catalogue),
            epochs: state.epochs,
            catalogue: self.catalogue,
            next,
            stamp_ns: state.stamp_ns,
            digest: state.digest,
            digests: VecDeque::new(),
            bytes_total: state.bytes_total,
            checkpoint_slots: self.checkpoint_slots,
            checkpoints: state.checkpoints,
            scratch: Vec::new(),
            speculation: Speculation::default(),
            flaw: self.flaw,
            commands_total: self.commands_total,
            duplicates_total: self.duplicates_total,
            noops_total: self.noops_total,
        }
    }

    /// The result of a request that was executed here, if it is still kept.
    pub(crate) fn result(&self, id: RequestId) -> Option<(Slot, Bytes)> {
        self.sessions.result(id)
    }

    /// The newest checkpoint: a slot, and the digest of everything before it.
    pub(crate) fn checkpoint(&self) -> (Slot, u64) {
        self.checkpoints.back().copied().unwrap_or_default()
    }

    /// The digest here of everything before a slot, if it is still kept: of the last slots, and of checkpoints.
    pub(crate) fn digest_at(&self, slot: Slot) -> Option<u64> {
        let back = self.next.0.checked_sub(slot.0)? as usize;
        if back == 0 {
            return Some(self.digest);
        }
        if let Some(at) = self.digests.len().checked_sub(back + 1) {
            return self.digests.get(at).copied();
        }
        self.checkpoints
            .iter()
            .find(|(at, _)| *at == slot)
            .map(|(_, digest)| *digest)
    }

    /// Applies the next slot; `answer` learns what each command came to.
    pub(crate) fn apply(
        &mut self,
        slot: Slot,
        entry: Option<&Entry>,
        mut answer: impl FnMut(RequestId, Applied),
    ) {
        assert_eq!(slot, self.next, "slots are applied in order, without gaps");
        self.decided_ahead(slot, entry);
        self.scratch.clear();
        self.scratch.extend_from_slice(&slot.0.to_le_bytes());
        match entry {
            None => self.noops_total += 1,
            Some(entry) => {
                self.stamp_ns = self.stamp_ns.max(entry.stamp_ns);
                self.bytes_total += entry.body_len() as u64;
                self.apply_entry(slot, entry, &mut answer);
            }
        }
        self.digest = xxh3_64_with_seed(&self.scratch, self.digest);
        self.next = slot.next();
        if self.digests.len() == DIGESTS_KEPT {
            self.digests.pop_front();
        }
        self.digests.push_back(self.digest);
        if self.next.0.is_multiple_of(self.checkpoint_slots) {
            self.checkpoints.push_back((self.next, self.digest));
            if self.checkpoints.len() > CHECKPOINTS_KEPT {
                self.checkpoints.pop_front();
            }
        }
    }

    /// The next slot ends the newest epoch, by hand, and this one follows.
    pub(crate) fn force(&mut self, next: Epoch) {
        self.apply(self.next, None, |_, _| {});
        self.epochs.force(next);
        self.read_group();
    }

    fn apply_entry(
        &mut self,
        slot: Slot,
        entry: &Entry,
        answer: &mut impl FnMut(RequestId, Applied),
    ) {
        let mut payload = PayloadId {
            entry: entry.id,
            part: 0,
        };
        for (index, command) in entry.commands().enumerate() {
            // A body that does not decode is the same on every replica: its rest is skipped by
            // all, and the digest says where. So is an order among other commands.
            let is_in_place = |command: &Command| {
                let is_order = command.class == Class::Order;
                is_order == entry.is_order()
            };
            let Some(command) = command.ok().filter(is_in_place) else {
                self.scratch.push(0xff);
                break;
            };
            self.commands_total += 1;
            let id = command.id;
            let parts = command.payloads.len() as u32;
            let applied = self.apply_command(slot, (index as u32, payload), command);
            payload.part += parts;
            self.digest_result(id, &applied);
            answer(id, applied);
        }
    }

    fn apply_command(&mut self, slot: Slot, place: (u32, PayloadId), command: Command) -> Applied {
        match command.class {
            Class::OpenSession => {
                let owner = <[u8; 8]>::try_from(&command.body[..]).map_or(0, u64::from_le_bytes);
                self.sessions.open(command.id.client, owner, slot);
                Applied::Result(slot, Bytes::new())
            }
            Class::EndSession => {
                self.sessions.end(command.id.client);
                Applied::Result(slot, Bytes::new())
            }
            Class::Write | Class::Order => self.execute(slot, place, &command),
            Class::Read => Applied::Refused(Refusal::NotServing),
        }
    }

    fn execute(
        &mut self,
        slot: Slot,
        (index, payload): (u32, PayloadId),
        command: &Command,
    ) -> Applied {
        match self.sessions.judge(command.id, command.acked, slot) {
            Verdict::Duplicate(first, result) => {
                self.duplicates_total += 1;
                Applied::Result(first, result)
            }
            Verdict::Refused(refusal) => Applied::Refused(refusal),
            Verdict::Execute => {
                let at = At {
                    slot,
                    index,
                    stamp_ns: self.stamp_ns,
                    principal: command.principal,
                    payload,
                    admission: self.admission,
                };
                self.epochs.has_payloads |= !command.payloads.is_empty();
                let result = match command.class {
                    Class::Order => self.obey(slot, command).to_bytes(),
                    _ => match self.speculation.take_result(command.id) {
                        Some(result) => {
                            self.app.keep();
                            result
                        }
                        None => self.app.apply(at, &command.body, &command.payloads),
                    },
                };
                if self.flaw != Some(Flaw::NoDedup) {
                    self.sessions.record(command.id, slot, result.clone());
                }
                Applied::Result(slot, result)
            }
        }
    }

    /// Applies an order. One that does not decode does nothing, everywhere alike.
    fn obey(&mut self, slot: Slot, command: &Command) -> Effect {
        let Ok(order) = Order::from_bytes(command.body.clone()) else {
            return Effect::Nothing;
        };
        let effect = self.epochs.apply(slot, &order, self.catalogue);
        self.read_group();
        effect
    }

    fn digest_result(&mut self, id: RequestId, applied: &Applied) {
        self.scratch.extend_from_slice(&id.client.0.to_le_bytes());
        self.scratch.extend_from_slice(&id.seq.to_le_bytes());
        let result = match applied {
            Applied::Result(_, result) => xxh3_64(result),
            Applied::Refused(refusal) => *refusal as u64,
        };
        self.scratch.extend_from_slice(&result.to_le_bytes());
    }
}
