//! The fragments of a value that an acceptor has.

use super::quorum::CODED_MEMBERS_MAX;
use quorate_core::{Decoder, Encoder, Wire, WireError};
use std::fmt;

/// The codings under which an acceptor has accepted a value: bit `X - 1` for a code of which any
/// `X` fragments rebuild the value. Under each it holds the fragment of its place among the
/// members, or has lost it since.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fragments {
    held: u16,
    lost: u16,
}

impl Fragments {
    /// The whole value: its only fragment under `X = 1`, and as good as any other fragment.
    pub(super) const WHOLE: Fragments = Fragments { held: 1, lost: 0 };

    /// The fragment under `code` is here.
    pub(super) fn add(&mut self, code: u8) {
        self.held |= bit(code);
        self.lost &= !bit(code);
    }

    /// The fragment under `code` was here and is gone.
    pub(super) fn lose(&mut self, code: u8) {
        self.lost |= bit(code);
        self.held &= !bit(code);
    }

    /// Whether a fragment under `code` is here: itself, or the whole it can be made of.
    #[must_use]
    pub fn has(self, code: u8) -> bool {
        self.held & (1 | bit(code)) != 0
    }

    /// Whether one is here, or was once.
    pub(super) fn had(self, code: u8) -> bool {
        (self.held | self.lost) & (1 | bit(code)) != 0
    }

    /// Whether nothing was ever accepted.
    pub(super) fn is_empty(self) -> bool {
        self.held | self.lost == 0
    }

    /// As if nothing had been lost: a replica that says so lies.
    pub(super) fn restored(self) -> Fragments {
        let held = self.held | self.lost;
        Fragments { held, lost: 0 }
    }
}

fn bit(code: u8) -> u16 {
    debug_assert!((1..=CODED_MEMBERS_MAX).contains(&usize::from(code)));
    1 << (code - 1)
}

/// The codes, as `X3` or `X2+X3`; those of lost fragments as `-X3`.
impl fmt::Debug for Fragments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codes = 1..=CODED_MEMBERS_MAX as u8;
        let said = codes.flat_map(|code| {
            let held = (self.held & bit(code) != 0).then(|| format!("X{code}"));
            let lost = (self.lost & bit(code) != 0).then(|| format!("-X{code}"));
            [held, lost].into_iter().flatten()
        });
        f.write_str(&said.collect::<Vec<_>>().join("+"))
    }
}

impl Wire for Fragments {
    fn encode(&self, out: &mut Encoder) {
        out.varint(u64::from(self.held));
        out.varint(u64::from(self.lost));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let mut codes = || -> Result<u16, WireError> {
            let codes = input.varint()?;
            let codes = u16::try_from(codes).ok();
            let codes = codes.filter(|codes| *codes < 1 << CODED_MEMBERS_MAX);
            codes.ok_or(WireError::Range("codes"))
        };
        let (held, lost) = (codes()?, codes()?);
        Ok(Fragments { held, lost })
    }
}
