//! What is said on the connection that an association of datagrams lives and dies with: the terms, once, and then
//! reports of what arrives.

use super::packet::Secret;
use crate::peer::opening::Opening;
use quorate_core::{Decoder, Encoder, Wire, WireError};

/// How datagrams are taken here. The acceptor says it behind its welcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    /// What every datagram begins with.
    pub(crate) secret: Secret,
    /// How much may be charged for datagrams that no report covers.
    pub(crate) window: u64,
}

impl Opening for Terms {
    const MAGIC: [u8; 8] = *b"QUORDGRM";
}

impl Wire for Terms {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.secret.0 as u64);
        out.u64((self.secret.0 >> 64) as u64);
        out.u64(self.window);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (low, high) = (u128::from(input.u64()?), u128::from(input.u64()?));
        Ok(Terms {
            secret: Secret(high << 64 | low),
            window: input.u64()?,
        })
    }
}

/// What has arrived in an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Report {
    /// Datagrams up to the one with the highest number, that one included, arrived or not.
    pub(crate) sent: u64,
    /// How many did arrive.
    pub(crate) received: u64,
    /// The highest charge that one named.
    pub(crate) charged: u64,
    /// Length of the longest probe since the report before.
    pub(crate) probed: u32,
}

/// Length of a report; all are alike.
pub(crate) const REPORT_BYTES: usize = 28;

impl Report {
    pub(crate) fn to_bytes(self) -> [u8; REPORT_BYTES] {
        let mut bytes = [0; REPORT_BYTES];
        bytes[..8].copy_from_slice(&self.sent.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.received.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.charged.to_le_bytes());
        bytes[24..].copy_from_slice(&self.probed.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; REPORT_BYTES]) -> Report {
        let word = |at: usize| {
            let word = bytes[at..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(word)
        };
        Report {
            sent: word(0),
            received: word(8),
            charged: word(16),
            probed: (word(20) >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_and_reports_are_read_as_they_were_written() {
        let terms = Terms {
            secret: Secret(u128::MAX / 3),
            window: 1 << 40,
        };
        assert_eq!(Terms::from_bytes(terms.to_bytes()), Ok(terms));
        let report = Report {
            sent: 1 << 33,
            received: 2,
            charged: u64::MAX,
            probed: 0x0102_0304,
        };
        assert_eq!(Report::from_bytes(&report.to_bytes()), report);
    }
}
