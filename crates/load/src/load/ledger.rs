//! What one client knows about the keys only it writes.

use bytes::Bytes;

use super::payload::Payload;

/// What must be found under a key when nobody writes any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The client that wrote the key.
    pub client: u32,
    /// The key that was written.
    pub key: Bytes,
    /// Sequence number and revision of the last acknowledged write.
    pub acknowledged: Option<(u64, i64)>,
    /// The write after it whose fate is unknown, if any.
    pub unknown: Option<u64>,
}

/// One client's slots, each standing for one key at a time.
///
/// After a write of unknown fate the client leaves the key alone and takes a new one: that write
/// may still happen much later, and every key's last value must stay predictable.
#[derive(Debug)]
pub struct Ledger {
    client: u32,
    slots: Vec<Slot>,
    /// With overwriting off, every write takes the next slot.
    slots_max: Option<u64>,
    settled: Vec<(u64, Slot, u64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    life: u32,
    acknowledged: Option<(u64, i64)>,
}

impl Ledger {
    /// A client's ledger over `slots_max` keys, or a new key for every write.
    pub fn new(client: u32, slots_max: Option<u64>) -> Ledger {
        Ledger {
            client,
            slots: Vec::new(),
            slots_max,
            settled: Vec::new(),
        }
    }

    /// The slot to write next.
    pub fn slot_to_write(&mut self, random: &mut fastrand::Rng) -> u64 {
        let slot = match self.slots_max {
            Some(max) => random.u64(..max),
            None => self.slots.len() as u64,
        };
        if self.slots.len() as u64 <= slot {
            self.slots.resize(slot as usize + 1, Slot::default());
        }
        slot
    }

    /// A slot to read: one this client has written, unless it has written none.
    pub fn slot_to_read(&mut self, random: &mut fastrand::Rng) -> u64 {
        match self.slots.len() as u64 {
            0 => self.slot_to_write(random),
            written => random.u64(..written),
        }
    }

    /// The key a slot stands for now.
    pub fn key(&self, payload: &Payload, slot: u64) -> Bytes {
        payload.own_key(self.client, slot, self.slots[slot as usize].life)
    }

    /// The sequence number and revision that a read of the slot must find now.
    pub fn expected(&self, slot: u64) -> Option<(u64, i64)> {
        self.slots[slot as usize].acknowledged
    }

    /// A write was acknowledged at `revision`.
    pub fn acknowledge(&mut self, slot: u64, sequence: u64, revision: i64) {
        self.slots[slot as usize].acknowledged = Some((sequence, revision));
    }

    /// A write was sent and its fate is unknown.
    pub fn doubt(&mut self, slot: u64, sequence: u64) {
        let entry = &mut self.slots[slot as usize];
        self.settled.push((slot, *entry, sequence));
        *entry = Slot {
            life: entry.life + 1,
            acknowledged: None,
        };
    }

    /// Everything that can be checked at the end.
    pub fn expectations(&self, payload: &Payload) -> Vec<Expectation> {
        let doubted = self
            .settled
            .iter()
            .map(|&(slot, entry, sequence)| (slot, entry, Some(sequence)));
        let open = (0..)
            .zip(&self.slots)
            .map(|(slot, entry)| (slot, *entry, None));
        doubted
            .chain(open)
            .filter(|(_, entry, unknown)| entry.acknowledged.is_some() || unknown.is_some())
            .map(|(slot, entry, unknown)| Expectation {
                client: self.client,
                key: payload.own_key(self.client, slot, entry.life),
                acknowledged: entry.acknowledged,
                unknown,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_a_write_in_doubt_is_never_written_again() {
        let payload = Payload::new(1, 0, 64);
        let mut ledger = Ledger::new(0, Some(1));
        let mut random = fastrand::Rng::with_seed(1);
        let slot = ledger.slot_to_write(&mut random);
        let key = ledger.key(&payload, slot);
        ledger.acknowledge(slot, 1, 10);
        ledger.doubt(slot, 2);
        assert_ne!(ledger.key(&payload, slot), key);
        assert_eq!(ledger.expected(slot), None);
        ledger.acknowledge(slot, 3, 12);
        let expectation = |life, acknowledged, unknown| Expectation {
            client: 0,
            key: payload.own_key(0, 0, life),
            acknowledged,
            unknown,
        };
        assert_eq!(
            ledger.expectations(&payload),
            [
                expectation(0, Some((1, 10)), Some(2)),
                expectation(1, Some((3, 12)), None)
            ]
        );
    }

    #[test]
    fn without_overwriting_every_write_has_its_own_key() {
        let mut ledger = Ledger::new(0, None);
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(ledger.slot_to_write(&mut random), 0);
        assert_eq!(ledger.slot_to_write(&mut random), 1);
        assert!(ledger.slot_to_read(&mut random) < 2);
    }
}
