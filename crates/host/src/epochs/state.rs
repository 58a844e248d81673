//! The part of the replicated state that is about the group itself.

use super::alarms::{Alarm, AlarmChange, Alarms};
use super::change::{self, Expect, Face, Order};
use super::leader::NamedLeader;
use super::note::{self, ADDRESSES_MAX};
use super::payload_safety;
use super::rule::{Invalid, judge};
use crate::version::{ALARM_LEVEL, PUBLISHING_LEVEL, USERS_LEVEL};
use quorate_core::{
    Admission, Catalogue, Chain, Decoder, Encoder, Epoch, ReplicaId, Slot, Wire, WireError,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a group knows of itself. It is in every snapshot, and changes with applied orders alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupState {
    /// The epochs; the newest orders commands.
    pub chain: Chain,
    /// Where replicas are reached, members or not.
    pub addresses: BTreeMap<ReplicaId, String>,
    /// What commands mean, and which protocols there are: raised by an order once all replicas run a
    /// program that knows it.
    pub level: u32,
    /// The first epoch of those whose members do not yet have all live payloads safely.
    pub unsettled: Option<u64>,
    /// The last epoch in which that came to an end: payloads of the epochs before it are kept under its
    /// code. 0 if there was none.
    pub settled: u64,
    /// Whether any command so far had payloads: some may be live. Which are is no part of this, as
    /// every replica forgets dead ones in its own time.
    pub has_payloads: bool,
    /// Which fragments the members of the newest epoch keep: a member keeps its place from epoch to
    /// epoch, so that nothing it holds has to be made anew because others come and go.
    pub places: BTreeMap<ReplicaId, u8>,
    /// What members and those with an address say of themselves to clients; nothing before feature
    /// level 2.
    pub faces: BTreeMap<ReplicaId, Face>,
    /// The alarms that are raised; none before feature level 3.
    pub alarms: Alarms,
    /// The leader by name; nobody before feature level 4.
    pub leader: NamedLeader,
    /// Replicas with an address that do not become members by themselves; none before feature level 4.
    pub learners: BTreeSet<ReplicaId>,
}

/// In the place of the first unsettled epoch: no command has had payloads.
const NO_PAYLOADS: u64 = u64::MAX;

/// What an order came to where it was applied: the command's result, the same on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The epoch is sealed; this one begins with the next slot.
    Sealed(Expect),
    /// A reconfiguration that did nothing.
    Refused(Invalid),
    /// All live payloads are safe in the newest epoch.
    Settled,
    /// An address or a feature level was noted.
    Noted,
    /// Nothing: what it says is known, or is no longer so.
    Nothing,
}

impl GroupState {
    /// That of a group which begins with this epoch.
    #[must_use]
    pub fn new(first: Epoch, level: u32) -> GroupState {
        let places = (0..).zip(&first.members);
        GroupState {
            places: places.map(|(place, member)| (member.id, place)).collect(),
            chain: Chain::new(first),
            addresses: BTreeMap::new(),
            level,
            unsettled: None,
            settled: 0,
            has_payloads: false,
            faces: BTreeMap::new(),
            alarms: Alarms::default(),
            leader: NamedLeader::default(),
            learners: BTreeSet::new(),
        }
    }

    /// Which commands are carried out while these alarms are raised.
    #[must_use]
    pub fn admission(&self, catalogue: &(impl Catalogue + ?Sized)) -> Admission {
        let failures = self.failures(catalogue);
        self.alarms.admission(self.chain.newest(), failures)
    }

    /// The members of the newest epoch that may fail while the others decide; none if its protocol is not known.
    #[must_use]
    pub fn failures(&self, catalogue: &(impl Catalogue + ?Sized)) -> usize {
        let numbers = catalogue.numbers(self.level, self.chain.newest());
        numbers.map_or(0, |numbers| numbers.failures)
    }

    /// Applies an order at its slot.
    ///
    /// After [`Effect::Sealed`] nothing that the epoch decided behind this order may be applied,
    /// neither in later slots nor in the rest of the same entry.
    pub fn apply(
        &mut self,
        slot: Slot,
        order: &Order,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Effect {
        match order {
            Order::Reconfigure(change) => match judge(self, slot, change, catalogue) {
                Ok(next) => self.seal(next, catalogue),
                Err(why) => Effect::Refused(why),
            },
            Order::Settled { epoch } if *epoch == self.chain.newest().number => {
                match self.unsettled.take() {
                    Some(_) => {
                        self.settled = *epoch;
                        Effect::Settled
                    }
                    None => Effect::Nothing,
                }
            }
            Order::Settled { .. } | Order::Opened { .. } => Effect::Nothing,
            Order::Address { id, address } if address.is_empty() => {
                match self.addresses.remove(id) {
                    Some(_) => {
                        self.forget_left(&[*id]);
                        Effect::Noted
                    }
                    None => Effect::Nothing,
                }
            }
            Order::Address { id, address } => {
                let is_full = self.addresses.len() >= ADDRESSES_MAX;
                if is_full && !self.addresses.contains_key(id) {
                    return Effect::Nothing;
                }
                self.addresses.insert(*id, address.clone());
                Effect::Noted
            }
            Order::Level { level } if *level > self.level => {
                self.level = *level;
                Effect::Noted
            }
            Order::Level { .. } => Effect::Nothing,
            Order::Publish { id, face } => self.publish(*id, face),
            Order::Alarm { alarm, change } => self.change_alarm(*alarm, *change),
            Order::Lead { id, after } => self.name_leader(*id, *after),
            Order::Learn { id } => self.keep_learner(*id),
        }
    }

    /// A member is named as the leader.
    fn name_leader(&mut self, id: ReplicaId, after: u64) -> Effect {
        let may_lead = self.level >= USERS_LEVEL && self.chain.newest().index_of(id).is_some();
        match may_lead && self.leader.name(id, after) {
            true => Effect::Noted,
            false => Effect::Nothing,
        }
    }

    /// A replica is to stay a learner until it is promoted.
    fn keep_learner(&mut self, id: ReplicaId) -> Effect {
        let may_stay = self.level >= USERS_LEVEL && self.is_learner(id);
        match may_stay && self.learners.insert(id) {
            true => Effect::Noted,
            false => Effect::Nothing,
        }
    }

    /// Whether a replica follows the group and is no member.
    fn is_learner(&self, id: ReplicaId) -> bool {
        self.addresses.contains_key(&id) && self.chain.newest().index_of(id).is_none()
    }

    /// An alarm is raised or ends.
    fn change_alarm(&mut self, alarm: Alarm, change: AlarmChange) -> Effect {
        match self.level >= ALARM_LEVEL && self.alarms.change(alarm, change) {
            true => Effect::Noted,
            false => Effect::Nothing,
        }
    }

    /// A replica says something of itself to clients.
    fn publish(&mut self, id: ReplicaId, face: &Face) -> Effect {
        let is_new = self.faces.get(&id) != Some(face);
        if self.level < PUBLISHING_LEVEL || !self.is_of_group(id) || !is_new {
            return Effect::Nothing;
        }
        self.faces.insert(id, face.clone());
        Effect::Noted
    }

    fn is_of_group(&self, id: ReplicaId) -> bool {
        self.chain.newest().index_of(id).is_some() || self.addresses.contains_key(&id)
    }

    /// These may have left the group: then what they said of themselves goes, and so do their alarms.
    fn forget_left(&mut self, candidates: &[ReplicaId]) {
        let mut faces = std::mem::take(&mut self.faces);
        faces.retain(|id, _| self.is_of_group(*id));
        self.faces = faces;
        let mut alarms = std::mem::take(&mut self.alarms);
        alarms.forget(|id| candidates.contains(&id) && !self.is_of_group(id));
        self.alarms = alarms;
        let newest = self.chain.newest();
        self.leader.forget(|id| newest.index_of(id).is_none());
        let mut learners = std::mem::take(&mut self.learners);
        learners.retain(|id| self.is_learner(*id));
        self.learners = learners;
    }

    /// A new cluster begins with this epoch, which was made by hand, and has all payloads there are, whole.
    pub(crate) fn force(&mut self, next: Epoch) {
        self.places = (0..).zip(&next.members).map(|(at, m)| (m.id, at)).collect();
        self.addresses.clear();
        (self.unsettled, self.settled) = (None, next.number);
        let former = self.member_ids();
        let pushed = self.chain.push(next);
        pushed.expect("an epoch made behind the newest follows it");
        self.forget_left(&former);
        // What was made by hand is what is right.
        self.alarms.clear();
    }

    fn member_ids(&self) -> Vec<ReplicaId> {
        let members = self.chain.newest().members.iter();
        members.map(|member| member.id).collect()
    }

    fn seal(&mut self, next: Epoch, catalogue: &(impl Catalogue + ?Sized)) -> Effect {
        let moves = self.has_payloads && !payload_safety::nothing_to_move(self, &next, catalogue);
        if moves && self.unsettled.is_none() {
            self.unsettled = Some(next.number);
        }
        self.places = places_behind(&self.places, &next);
        let (expect, former) = (Expect::of(&next), self.member_ids());
        let pushed = self.chain.push(next);
        pushed.expect("an epoch made behind the newest follows it");
        self.forget_left(&former);
        Effect::Sealed(expect)
    }
}

/// Who stays keeps its place, who comes gets the first that is free.
fn places_behind(before: &BTreeMap<ReplicaId, u8>, next: &Epoch) -> BTreeMap<ReplicaId, u8> {
    let stays = |id: &ReplicaId| next.index_of(*id).is_some();
    let mut places = before.clone();
    places.retain(|id, _| stays(id));
    for member in &next.members {
        if !places.contains_key(&member.id) {
            let is_free = |place: &u8| places.values().all(|taken| taken != place);
            let place = (0..=u8::MAX).find(is_free).expect("members are few");
            places.insert(member.id, place);
        }
    }
    places
}

impl Wire for GroupState {
    fn encode(&self, out: &mut Encoder) {
        self.chain.encode(out);
        note::encode_addresses(&self.addresses, out);
        out.varint(u64::from(self.level));
        // Epochs count from 1.
        out.varint(match (self.unsettled, self.has_payloads) {
            (Some(epoch), _) => epoch,
            (None, true) => 0,
            (None, false) => NO_PAYLOADS,
        });
        out.varint(self.settled);
        self.places.values().for_each(|place| out.u8(*place));
        if self.level >= PUBLISHING_LEVEL {
            out.varint(self.faces.len() as u64);
            for (id, face) in &self.faces {
                id.encode(out);
                face.encode(out);
            }
        }
        if self.level >= ALARM_LEVEL {
            self.alarms.encode(out);
        }
        if self.level >= USERS_LEVEL {
            self.leader.encode(out);
            out.varint(self.learners.len() as u64);
            self.learners.iter().for_each(|id| id.encode(out));
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let chain = Chain::decode(input)?;
        let addresses = note::decode_addresses(input)?;
        let level = change::level(input)?;
        let (unsettled, has_payloads) = match input.varint()? {
            0 => (None, true),
            NO_PAYLOADS => (None, false),
            number if number <= chain.newest().number => (Some(number), true),
            _ => return Err(WireError::Range("epoch that is not settled")),
        };
        let settled = input.varint()?;
        if settled > chain.newest().number {
            return Err(WireError::Range("settled epoch"));
        }
        let members = &chain.newest().members;
        let mut places = BTreeMap::new();
        for member in members {
            let place = input.u8()?;
            if places.values().any(|taken| *taken == place) {
                return Err(WireError::Range("place of a member"));
            }
            places.insert(member.id, place);
        }
        let faces = match level >= PUBLISHING_LEVEL {
            true => decode_faces(input)?,
            false => BTreeMap::new(),
        };
        let alarms = match level >= ALARM_LEVEL {
            true => Alarms::decode(input)?,
            false => Alarms::default(),
        };
        let (leader, learners) = match level >= USERS_LEVEL {
            true => (NamedLeader::decode(input)?, decode_learners(input)?),
            false => (NamedLeader::default(), BTreeSet::new()),
        };
        Ok(GroupState {
            leader,
            learners,
            alarms,
            faces,
            places,
            chain,
            addresses,
            level,
            unsettled,
            settled,
            has_payloads,
        })
    }
}

fn decode_faces(input: &mut Decoder) -> Result<BTreeMap<ReplicaId, Face>, WireError> {
    let count = input.count(4)?;
    if count > ADDRESSES_MAX + Epoch::MEMBERS_MAX {
        return Err(WireError::Range("number of replicas"));
    }
    let mut faces = BTreeMap::new();
    for _ in 0..count {
        let id = ReplicaId::decode(input)?;
        if faces.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(WireError::Range("order of replicas"));
        }
        faces.insert(id, Face::decode(input)?);
    }
    Ok(faces)
}

fn decode_learners(input: &mut Decoder) -> Result<BTreeSet<ReplicaId>, WireError> {
    let count = input.count(1)?;
    if count > ADDRESSES_MAX {
        return Err(WireError::Range("number of learners"));
    }
    let mut learners = BTreeSet::new();
    for _ in 0..count {
        let id = ReplicaId::decode(input)?;
        if learners.last().is_some_and(|last| *last >= id) {
            return Err(WireError::Range("order of learners"));
        }
        learners.insert(id);
    }
    Ok(learners)
}

const SEALED: u8 = 0;
const REFUSED: u8 = 1;
const SETTLED: u8 = 2;
const NOTED: u8 = 3;
const NOTHING: u8 = 4;

impl Wire for Effect {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Effect::Sealed(next) => {
                out.u8(SEALED);
                next.encode(out);
            }
            Effect::Refused(why) => {
                out.u8(REFUSED);
                why.encode(out);
            }
            Effect::Settled => out.u8(SETTLED),
            Effect::Noted => out.u8(NOTED),
            Effect::Nothing => out.u8(NOTHING),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            SEALED => Effect::Sealed(Expect::decode(input)?),
            REFUSED => Effect::Refused(Invalid::decode(input)?),
            SETTLED => Effect::Settled,
            NOTED => Effect::Noted,
            NOTHING => Effect::Nothing,
            tag => return Err(WireError::Tag("effect of an order", tag)),
        })
    }
}
