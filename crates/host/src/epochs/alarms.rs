//! Alarms: trouble that a group knows of, member by member, and what it means for commands.
//!
//! They are part of the replicated state from feature level 3 on. An alarm about one member says that this
//! one cannot do its part; the others go on as long as they decide without all those that have it. An alarm
//! about the group holds for everybody.

use quorate_core::{Admission, Decoder, Encoder, Epoch, ReplicaId, Wire, WireError};
use std::collections::BTreeMap;

/// Alarms that are raised at a time, at most: who may name any replica is not to fill the state.
const ALARMS_MAX: usize = 256;

/// The kinds of trouble that alarms tell of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AlarmKind {
    /// Space is short: commands that make the state larger are refused.
    NoSpace,
    /// States differ that should be equal: commands are refused.
    Corrupt,
}

/// Whom an alarm concerns. A greater one takes the place of a smaller one: that a member is found to be odd, of the
/// doubt who is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// The whole group, until it is known which member is in trouble.
    Undecided,
    /// The member it names.
    Member,
    /// The whole group.
    Group,
}

/// Trouble of one replica, or seen by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Alarm {
    /// The kind of trouble.
    pub kind: AlarmKind,
    /// The replica that is in trouble.
    pub id: ReplicaId,
}

/// How an alarm is to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlarmChange {
    /// It is raised, for this scope at least.
    Raise(Scope),
    /// It ends, unless its scope is greater than this one.
    End(Scope),
}

/// The alarms that are raised.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Alarms(BTreeMap<Alarm, Scope>);

impl Alarms {
    /// The scope of an alarm; `None` if it is not raised.
    #[must_use]
    pub fn scope(&self, alarm: Alarm) -> Option<Scope> {
        self.0.get(&alarm).copied()
    }

    /// All alarms with their scopes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Alarm, Scope)> {
        self.0.iter().map(|(alarm, scope)| (*alarm, *scope))
    }

    /// Whether a change of an alarm would change anything.
    #[must_use]
    pub fn would_change(&self, alarm: Alarm, change: AlarmChange) -> bool {
        let before = self.scope(alarm);
        let has_room = before.is_some() || self.0.len() < ALARMS_MAX;
        match change {
            AlarmChange::Raise(scope) => before < Some(scope) && has_room,
            AlarmChange::End(scope) => before.is_some_and(|before| before <= scope),
        }
    }

    /// Changes an alarm; says whether that changed anything.
    pub(crate) fn change(&mut self, alarm: Alarm, change: AlarmChange) -> bool {
        let changes = self.would_change(alarm, change);
        match change {
            AlarmChange::Raise(scope) if changes => drop(self.0.insert(alarm, scope)),
            AlarmChange::End(_) if changes => drop(self.0.remove(&alarm)),
            AlarmChange::Raise(_) | AlarmChange::End(_) => {}
        }
        changes
    }

    /// Replicas have left the group, and their alarms with them.
    pub(super) fn forget(&mut self, has_left: impl Fn(ReplicaId) -> bool) {
        self.0.retain(|alarm, _| !has_left(alarm.id));
    }

    /// All alarms end.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What is carried out in an epoch of which so many members may fail.
    pub(super) fn admission(&self, epoch: &Epoch, failures: usize) -> Admission {
        if self.0.is_empty() {
            return Admission::All;
        }
        let forbids = |kind: AlarmKind| {
            let of_kind = || self.iter().filter(|(alarm, _)| alarm.kind == kind);
            let is_member = |id: ReplicaId| epoch.index_of(id).is_some();
            let members = of_kind().filter(|(alarm, _)| is_member(alarm.id)).count();
            of_kind().any(|(_, scope)| scope != Scope::Member) || members > failures
        };
        if forbids(AlarmKind::Corrupt) {
            Admission::Nothing
        } else if forbids(AlarmKind::NoSpace) {
            Admission::NoGrowth
        } else {
            Admission::All
        }
    }
}

const NO_SPACE: u8 = 1;
const CORRUPT: u8 = 2;

impl Wire for Alarm {
    fn encode(&self, out: &mut Encoder) {
        out.u8(match self.kind {
            AlarmKind::NoSpace => NO_SPACE,
            AlarmKind::Corrupt => CORRUPT,
        });
        self.id.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Alarm {
            kind: match input.u8()? {
                NO_SPACE => AlarmKind::NoSpace,
                CORRUPT => AlarmKind::Corrupt,
                tag => return Err(WireError::Tag("kind of alarm", tag)),
            },
            id: ReplicaId::decode(input)?,
        })
    }
}

const MEMBER: u8 = 0;
const GROUP: u8 = 1;
const UNDECIDED: u8 = 2;

impl Wire for Scope {
    fn encode(&self, out: &mut Encoder) {
        out.u8(match self {
            Scope::Undecided => UNDECIDED,
            Scope::Member => MEMBER,
            Scope::Group => GROUP,
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            UNDECIDED => Ok(Scope::Undecided),
            MEMBER => Ok(Scope::Member),
            GROUP => Ok(Scope::Group),
            tag => Err(WireError::Tag("scope of an alarm", tag)),
        }
    }
}

const RAISE: u8 = 0;
const END: u8 = 1;

impl Wire for AlarmChange {
    fn encode(&self, out: &mut Encoder) {
        let (tag, scope) = match self {
            AlarmChange::Raise(scope) => (RAISE, scope),
            AlarmChange::End(scope) => (END, scope),
        };
        out.u8(tag);
        scope.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            RAISE => Ok(AlarmChange::Raise(Scope::decode(input)?)),
            END => Ok(AlarmChange::End(Scope::decode(input)?)),
            tag => Err(WireError::Tag("change of an alarm", tag)),
        }
    }
}

impl Wire for Alarms {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.0.len() as u64);
        for (alarm, scope) in &self.0 {
            alarm.encode(out);
            scope.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let count = input.count(3)?;
        if count > ALARMS_MAX {
            return Err(WireError::Range("number of alarms"));
        }
        let mut alarms = BTreeMap::new();
        for _ in 0..count {
            let alarm = Alarm::decode(input)?;
            if alarms
                .last_key_value()
                .is_some_and(|(last, _)| *last >= alarm)
            {
                return Err(WireError::Range("order of alarms"));
            }
            alarms.insert(alarm, Scope::decode(input)?);
        }
        Ok(Alarms(alarms))
    }
}
