//! What replicas say of a slot, and what a slot is decided for.

use super::trail::Trail;
use quorate_core::EntryId;

/// What a slot was proposed for, or decided for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum SlotValue {
    /// Nothing is known yet.
    #[default]
    Unheard,
    /// NULL: no request.
    Null,
    /// The request that takes effect.
    Request(EntryId),
}

impl SlotValue {
    /// Whether anything is known.
    pub(crate) fn is_heard(&self) -> bool {
        *self != SlotValue::Unheard
    }

    /// The request, if the value is one.
    pub(crate) fn request(self) -> Option<EntryId> {
        match self {
            SlotValue::Request(id) => Some(id),
            SlotValue::Unheard | SlotValue::Null => None,
        }
    }
}

/// As messages and records write it: `None` is NULL.
impl From<Option<EntryId>> for SlotValue {
    fn from(value: Option<EntryId>) -> SlotValue {
        value.map_or(SlotValue::Null, SlotValue::Request)
    }
}

/// What one replica has said in a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Voice {
    /// The replica's proposal.
    pub(crate) prop: SlotValue,
    /// The replica's values in the binary stage.
    pub(crate) trail: Trail,
}

impl Voice {
    /// The proposal of a replica that has made one; `None` is NULL.
    pub(crate) fn proposal(&self) -> Option<EntryId> {
        assert!(self.prop.is_heard(), "who speaks has proposed");
        self.prop.request()
    }
}
