//! A datagram: `secret u128 | crc32c of the rest u32 | flags u8 | number u64 | charged u64 | records`, all
//! little-endian, a record being `length u16 | frame`. A probe has zeros in the place of records.

use std::fmt;

/// Bytes before the records.
pub(super) const HEADER_BYTES: usize = 37;
/// Bytes before each frame.
pub(super) const RECORD_BYTES: usize = 2;
/// The longest datagram that is ever sent.
pub(super) const DATAGRAM_BYTES_MAX: usize = 16 << 10;

const CHECKED_FROM: usize = 20;
const REPORT: u8 = 1;
const PROBE: u8 = 2;

/// What makes a datagram one of an association, and tells it from all others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) u128);

/// Not to be found in logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a datagram says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Of which association it is.
    pub(crate) secret: Secret,
    /// The sender wants to be told what has arrived.
    pub(crate) wants_report: bool,
    /// The datagram is sent to see whether one of its length arrives.
    pub(crate) is_probe: bool,
    /// How many were sent before it in this association.
    pub(crate) number: u64,
    /// What was charged for those and for itself; see [`charge`].
    pub(crate) charged: u64,
}

/// Why bytes are no datagram of any replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketError {
    /// Too short for a header.
    Short,
    /// The checksum does not match.
    Checksum,
    /// The flags mean nothing.
    Flags(u8),
    /// A record that goes beyond the end, or is empty.
    Record,
}

impl Header {
    /// Completes a datagram that has room for its header.
    ///
    /// # Panics
    /// If it does not.
    pub(super) fn seal(&self, datagram: &mut [u8]) {
        assert!(datagram.len() >= HEADER_BYTES, "no room for a header");
        let flags = u8::from(self.wants_report) * REPORT + u8::from(self.is_probe) * PROBE;
        datagram[20] = flags;
        datagram[21..29].copy_from_slice(&self.number.to_le_bytes());
        datagram[29..HEADER_BYTES].copy_from_slice(&self.charged.to_le_bytes());
        let checksum = crc_fast::crc32_iscsi(&datagram[CHECKED_FROM..]);
        datagram[..16].copy_from_slice(&self.secret.0.to_le_bytes());
        datagram[16..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The association that a datagram claims: the rest is looked at only if there is such a one.
pub(crate) fn secret(datagram: &[u8]) -> Option<Secret> {
    let bytes = datagram.first_chunk()?;
    Some(Secret(u128::from_le_bytes(*bytes)))
}

/// Reads a datagram: its header, and the frames in it.
pub(crate) fn open(datagram: &[u8]) -> Result<(Header, Records<'_>), PacketError> {
    let (head, records) = datagram
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or(PacketError::Short)?;
    let (secret, rest) = head.split_first_chunk().ok_or(PacketError::Short)?;
    let (checksum, rest) = rest.split_first_chunk().ok_or(PacketError::Short)?;
    let ([flags], rest) = rest.split_first_chunk().ok_or(PacketError::Short)?;
    let (number, rest) = rest.split_first_chunk().ok_or(PacketError::Short)?;
    let charged = rest.first_chunk().ok_or(PacketError::Short)?;
    if crc_fast::crc32_iscsi(&datagram[CHECKED_FROM..]) != u32::from_le_bytes(*checksum) {
        return Err(PacketError::Checksum);
    }
    if flags & !(REPORT | PROBE) != 0 {
        return Err(PacketError::Flags(*flags));
    }
    let header = Header {
        secret: Secret(u128::from_le_bytes(*secret)),
        wants_report: flags & REPORT != 0,
        is_probe: flags & PROBE != 0,
        number: u64::from_le_bytes(*number),
        charged: u64::from_le_bytes(*charged),
    };
    let records = if header.is_probe { &[] } else { records };
    // All or nothing: what is half nonsense is not from a replica.
    let records = Records(records);
    match records.clone().all(|frame| frame.is_some()) {
        true => Ok((header, records)),
        false => Err(PacketError::Record),
    }
}

/// The frames of a datagram. `None` stands for a record that is none.
#[derive(Clone, Debug)]
pub(crate) struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// The frames of a datagram made here.
    pub(super) fn of(datagram: &'a [u8]) -> Records<'a> {
        Records(datagram.get(HEADER_BYTES..).unwrap_or_default())
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let frame = self.0.split_first_chunk().and_then(|(length, rest)| {
            let length = usize::from(u16::from_le_bytes(*length));
            rest.split_at_checked(length).filter(|_| length > 0)
        });
        self.0 = frame.map_or(&[], |(_, rest)| rest);
        Some(frame.map(|(frame, _)| frame))
    }
}

/// What a datagram takes of its receiver's buffer, at the most: kernels round its length up to a power of two and
/// count what they keep about it.
pub(crate) fn charge(length: usize) -> u64 {
    2 * length as u64 + 1024
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn datagram(header: Header, frames: &[&[u8]]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_BYTES];
        for frame in frames {
            datagram.extend_from_slice(&(frame.len() as u16).to_le_bytes());
            datagram.extend_from_slice(frame);
        }
        header.seal(&mut datagram);
        datagram
    }

    pub(crate) const HEADER: Header = Header {
        secret: Secret(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        wants_report: true,
        is_probe: false,
        number: 7,
        charged: 9000,
    };

    #[test]
    fn frames_come_out_as_they_went_in() {
        let frames: [&[u8]; 3] = [b"one", &[7; 3000], b"three"];
        let bytes = datagram(HEADER, &frames);
        assert_eq!(secret(&bytes), Some(HEADER.secret));
        let (header, records) = open(&bytes).unwrap();
        assert_eq!(header, HEADER);
        assert_eq!(records.flatten().collect::<Vec<_>>(), frames);
    }

    #[test]
    fn a_probe_has_no_frames_whatever_its_length() {
        let probe = Header {
            is_probe: true,
            ..HEADER
        };
        let mut bytes = vec![0; 1200];
        probe.seal(&mut bytes);
        let (header, mut records) = open(&bytes).unwrap();
        assert_eq!((header, records.next()), (probe, None));
    }

    /// Scenario: a datagram is cut off at every length, and each of its bits is turned.
    #[test]
    fn what_is_not_as_it_was_sent_is_not_taken() {
        let whole = datagram(HEADER, &[b"one", b"two"]);
        for length in 0..whole.len() {
            assert!(open(&whole[..length]).is_err(), "cut off at {length}");
        }
        for at in 16..whole.len() {
            for bit in 0..8 {
                let mut turned = whole.clone();
                turned[at] ^= 1 << bit;
                assert_eq!(open(&turned).err(), Some(PacketError::Checksum));
            }
        }
    }

    #[test]
    fn each_kind_of_nonsense_is_named() {
        type Change = fn(&mut Vec<u8>);
        let sealed = |change: Change| {
            let mut bytes = datagram(HEADER, &[b"one"]);
            change(&mut bytes);
            let checksum = crc_fast::crc32_iscsi(&bytes[CHECKED_FROM..]);
            bytes[16..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
            open(&bytes).err()
        };
        let cases: [(Change, PacketError); 4] = [
            (|bytes| bytes[20] = 4, PacketError::Flags(4)),
            (|bytes| bytes[HEADER_BYTES] = 4, PacketError::Record),
            (|bytes| bytes[HEADER_BYTES] = 0, PacketError::Record),
            (|bytes| bytes.push(0), PacketError::Record),
        ];
        for (change, expected) in cases {
            assert_eq!(sealed(change), Some(expected));
        }
    }
}
