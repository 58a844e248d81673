//! Whole payloads in memory: those read or written last, within a bound of bytes.

use bytes::Bytes;
use quorate_core::PayloadId;
use std::collections::BTreeMap;

/// Shorter payloads are copied: they may be slices of a frame or a request with many of them, of
/// which one would keep all in memory. One of so many bytes is most of what it came in.
const KEPT_AS_IT_IS_BYTES_MIN: usize = 256 << 10;

/// The payloads used last.
#[derive(Debug)]
pub(crate) struct Cache {
    bytes_max: usize,
    bytes: usize,
    /// With the turn each was used last.
    payloads: BTreeMap<PayloadId, (u64, Bytes)>,
    /// By that turn.
    used: BTreeMap<u64, PayloadId>,
    turn: u64,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Cache {
        Cache {
            bytes_max,
            bytes: 0,
            payloads: BTreeMap::new(),
            used: BTreeMap::new(),
            turn: 0,
        }
    }

    /// Keeps a payload, at the expense of those not used for longest. One that would take more than
    /// a quarter of the room is not kept.
    pub(crate) fn insert(&mut self, id: PayloadId, bytes: Bytes) {
        if bytes.len() > self.bytes_max / 4 {
            return;
        }
        self.remove(id);
        self.turn += 1;
        let bytes = match bytes.len() < KEPT_AS_IT_IS_BYTES_MIN {
            true => Bytes::copy_from_slice(&bytes),
            false => bytes,
        };
        self.bytes += bytes.len();
        self.payloads.insert(id, (self.turn, bytes));
        self.used.insert(self.turn, id);
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.used.first_key_value()
        {
            self.remove(*oldest);
        }
    }

    /// A payload that is here.
    pub(crate) fn get(&mut self, id: PayloadId) -> Option<Bytes> {
        let (turn, bytes) = self.payloads.get_mut(&id)?;
        self.turn += 1;
        self.used.remove(turn);
        self.used.insert(self.turn, id);
        *turn = self.turn;
        Some(bytes.clone())
    }

    pub(crate) fn remove(&mut self, id: PayloadId) {
        if let Some((turn, bytes)) = self.payloads.remove(&id) {
            self.used.remove(&turn);
            self.bytes -= bytes.len();
        }
    }

    /// Bytes in use, and the most that may be.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.bytes, self.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::EntryId;

    fn id(part: u32) -> PayloadId {
        let entry = EntryId::default();
        PayloadId { entry, part }
    }

    #[test]
    fn what_was_used_last_stays_within_the_bound() {
        let mut cache = Cache::new(100);
        for part in 0..5 {
            cache.insert(id(part), Bytes::from(vec![part as u8; 20]));
        }
        assert!(cache.get(id(0)).is_some());
        cache.insert(id(9), Bytes::from(vec![9; 25]));
        assert!(cache.get(id(1)).is_none() && cache.get(id(2)).is_none());
        assert!(cache.get(id(0)).is_some() && cache.get(id(9)).is_some());
        assert_eq!(cache.size(), (85, 100));
        cache.insert(id(10), Bytes::from(vec![0; 26]));
        assert!(cache.get(id(10)).is_none(), "too large to be kept");
        for part in [0, 3, 4, 9] {
            cache.remove(id(part));
        }
        assert_eq!(cache.size(), (0, 100));
        assert!(cache.used.is_empty());
    }
}
