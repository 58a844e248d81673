//! The registered protocols, as epochs know them.

use crate::registry::{Protocol, Visitor, visit};
use bytes::Bytes;
use quorate_core::{
    Boot, Catalogue, Entry, Epoch, Group, Machine, Numbers, Record, Seat, Unfit, Wire, WireError,
};

/// All registered protocols. What they make of an epoch is part of the feature level: it must never
/// change for one that has been in use.
#[derive(Clone, Copy, Debug)]
pub struct Registered;

impl Catalogue for Registered {
    fn numbers(&self, _level: u32, epoch: &Epoch) -> Result<Numbers, Unfit> {
        visit(&epoch.protocol, Judge(epoch)).unwrap_or(Err(Unfit::Protocol))
    }

    fn level_of(&self, protocol: &str) -> u32 {
        visit(protocol, LevelOf).unwrap_or(1)
    }

    fn entry_of(&self, protocol: &str, record: Bytes) -> Result<Option<Entry>, WireError> {
        let unknown = Err(WireError::Range("name of a protocol"));
        visit(protocol, Read(record)).unwrap_or(unknown)
    }
}

/// The feature level that one protocol needs.
struct LevelOf;

impl Visitor for LevelOf {
    type Output = u32;

    fn visit<P: Protocol>(self) -> u32 {
        P::LEVEL
    }
}

/// What a record of one protocol carries.
pub(crate) struct Read(pub(crate) Bytes);

impl Visitor for Read {
    type Output = Result<Option<Entry>, WireError>;

    fn visit<P: Protocol>(self) -> Self::Output {
        let record = <P::Machine as Machine>::Record::from_bytes(self.0)?;
        Ok(record.entry().cloned())
    }
}

/// What one protocol makes of an epoch.
pub(crate) struct Judge<'a>(pub(crate) &'a Epoch);

impl Visitor for Judge<'_> {
    type Output = Result<Numbers, Unfit>;

    fn visit<P: Protocol>(self) -> Self::Output {
        let epoch = self.0;
        let first = epoch.members.first();
        let none = || Unfit::Parameters("an epoch without members".into());
        let seat = Seat {
            group: Group(0),
            epoch: epoch.clone(),
            me: first.ok_or_else(none)?.id,
            boot: Boot(0),
        };
        let config = P::config(&seat).map_err(Unfit::Parameters)?;
        let rule = P::Machine::payloads(&config);
        Ok(Numbers {
            n: epoch.n(),
            failures: P::failures_survived(epoch),
            code: rule.map_or(1, |rule| usize::from(rule.code)),
        })
    }
}
