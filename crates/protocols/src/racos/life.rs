//! Lives of origins: the start of an origin that is meant.

use quorate_core::{Decoder, Encoder, Wire, WireError};
use std::fmt;

/// One life of an origin within an epoch. Of two the later is the greater, and no clock has a say in that:
/// `rejoin.rs` argues that a loss has a number that no loss before had, and starts are counted on
/// the disk that was not lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Life {
    /// The number of the last loss of its disk; 0 if there was none.
    pub loss: u64,
    /// Starts since then, this one included; 0 is before all of them.
    pub start: u64,
}

impl Life {
    /// The life that begins a member's part in an epoch.
    pub(super) const FIRST: Life = Life { loss: 0, start: 1 };

    /// The first life after a loss.
    pub(super) fn after(loss: u64) -> Life {
        Life { loss, start: 1 }
    }

    /// The life of the next start.
    pub(super) fn next(self) -> Life {
        let start = self.start.saturating_add(1);
        Life { start, ..self }
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.loss, self.start)
    }
}

impl Wire for Life {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.loss);
        out.varint(self.start);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (loss, start) = (input.varint()?, input.varint()?);
        Ok(Life { loss, start })
    }
}

#[cfg(test)]
mod tests {
    use super::Life;

    #[test]
    fn a_life_after_a_loss_is_later_than_any_before_it() {
        let crashing = (0..9).fold(Life::FIRST, |life, _| life.next());
        assert!(Life::FIRST < crashing && crashing < Life::after(1));
        assert!(Life::default() < Life::FIRST && crashing.next() > crashing);
    }
}
