//! The entries decided so far.

use quorate_core::{Base, Decoder, Encoder, Entry, EntryId, EntrySet, Slot, Wire, WireError};

/// The entries decided so far, complete and replicated, so that one decided a second time is
/// skipped everywhere alike.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Done(pub EntrySet);

impl Base for Done {
    fn advance(&mut self, _: Slot, entry: Option<&Entry>) {
        if let Some(entry) = entry {
            self.0.insert(entry.id);
        }
    }

    fn contains(&self, entry: EntryId) -> bool {
        self.0.contains(entry)
    }
}

impl Wire for Done {
    fn encode(&self, out: &mut Encoder) {
        self.0.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        EntrySet::decode(input).map(Done)
    }
}
