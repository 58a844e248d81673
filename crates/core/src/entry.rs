//! Entries: what carries commands through the log.

use crate::command::{Class, Command};
use crate::ids::EntryId;
use crate::payload::{Payload, Share};
use crate::wire::{Decoder, Encoder, Wire, WireError};
use bytes::Bytes;
use std::sync::Arc;

/// An entry's commands never encode to more than this; the host refuses larger commands. Frames
/// and log records are bounded by it.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// A batch of commands under one name: the unit protocols order. Cloning shares the bytes.
///
/// An entry may hold no command at all: a read barrier, or what keeps a log moving.
///
/// What protocols order is complete but for the payloads of its commands. Of those an entry may
/// have a [`Share`] at hand, which is no part of its encoding, nor of what it is equal to.
#[derive(Clone)]
pub struct Entry {
    /// The unique name of the entry.
    pub id: EntryId,
    /// The origin's hybrid clock when it was formed, ns since the Unix epoch. The host makes it
    /// monotone at apply; Rabia orders its queue by it.
    pub stamp_ns: u64,
    /// How many commands.
    count: u32,
    /// The encoded commands, one after the other.
    body: Bytes,
    is_order: bool,
    /// Bytes of all payloads.
    bulk_len: u64,
    share: Option<Arc<Share>>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        let name = |entry: &Entry| {
            let counts = (entry.count, entry.is_order, entry.bulk_len);
            (entry.id, entry.stamp_ns, counts)
        };
        name(self) == name(other) && self.body == other.body
    }
}

impl Eq for Entry {}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?}[{} cmds, {} B]",
            self.id,
            self.count,
            self.body.len()
        )
    }
}

impl Entry {
    /// How many commands it holds.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// An entry without commands, that tells all replicas' machines something in the protocol's own words.
    #[must_use]
    pub fn notice(id: EntryId, stamp_ns: u64, body: Bytes) -> Entry {
        Entry {
            id,
            stamp_ns,
            count: 0,
            body,
            is_order: false,
            bulk_len: 0,
            share: None,
        }
    }

    /// What the entry tells, if it is a notice.
    #[must_use]
    pub fn told(&self) -> Option<&Bytes> {
        (self.count == 0 && !self.body.is_empty()).then_some(&self.body)
    }

    /// Whether its only command is an order, which may end the epoch where it is applied. A machine
    /// lets nobody see what lies behind it, and no read be done before it, until it is decided.
    #[must_use]
    pub fn is_order(&self) -> bool {
        self.is_order
    }

    /// Size of the encoded commands, in bytes.
    #[must_use]
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Bytes of the payloads of all its commands.
    #[must_use]
    pub fn bulk_len(&self) -> u64 {
        self.bulk_len
    }

    /// What is at hand of its payloads.
    #[must_use]
    pub fn share(&self) -> Option<&Arc<Share>> {
        self.share.as_ref()
    }

    /// A copy of the entry with this, or nothing, at hand.
    #[must_use]
    pub fn with_share(mut self, share: Option<Arc<Share>>) -> Entry {
        self.share = share;
        self
    }

    /// The payloads of its commands in order: part 0, 1, and so on. None of a body that does not
    /// decode.
    pub fn payloads(&self) -> impl Iterator<Item = Payload> {
        let commands = (self.bulk_len > 0).then(|| self.commands());
        commands
            .into_iter()
            .flatten()
            .flat_map(|command| command.map_or(Vec::new(), |command| command.payloads))
    }

    /// The commands in order. A body that does not decode ends the iteration with the error.
    pub fn commands(&self) -> impl Iterator<Item = Result<Command, WireError>> {
        let mut input = Decoder::new(self.body.clone());
        let mut left = self.count;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            left -= 1;
            let command = Command::decode(&mut input);
            if command.is_err() {
                left = 0;
            }
            Some(command)
        })
    }
}

impl Wire for Entry {
    fn encode(&self, out: &mut Encoder) {
        self.id.encode(out);
        out.u64(self.stamp_ns);
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.bulk_len > 0, HAS_BULK) | flag(self.is_order, IS_ORDER);
        out.varint(u64::from(self.count) | flags);
        if self.bulk_len > 0 {
            out.varint(self.bulk_len);
        }
        out.bytes(&self.body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let id = EntryId::decode(input)?;
        let stamp_ns = input.u64()?;
        let count = input.varint()?;
        let bulk_len = if count & HAS_BULK == 0 {
            0
        } else {
            let len = input.varint()?;
            (len > 0)
                .then_some(len)
                .ok_or(WireError::Range("payload bytes"))?
        };
        let is_order = count & IS_ORDER != 0;
        let count = count & !(HAS_BULK | IS_ORDER);
        let count = u32::try_from(count).map_err(|_| WireError::Range("entry count"))?;
        if is_order && (count != 1 || bulk_len > 0) {
            return Err(WireError::Range("entry of an order"));
        }
        let body = input.bytes()?;
        Ok(Entry {
            id,
            stamp_ns,
            count,
            is_order,
            body,
            bulk_len,
            share: None,
        })
    }
}

/// Beside the count of commands: the length of payloads follows.
const HAS_BULK: u64 = 1 << 32;
/// Beside the count of commands: the only one is an order.
const IS_ORDER: u64 = 1 << 33;

/// Encodes commands into an entry as they come, so that a payload is copied exactly once.
#[derive(Default, Debug)]
pub struct EntryBuilder {
    count: u32,
    is_order: bool,
    body: Encoder,
    bulk_len: u64,
    /// The bytes of the payloads so far, as far as they are at hand.
    parts: Vec<Option<Bytes>>,
}

impl EntryBuilder {
    /// An empty one, with room for this many bytes of encoded commands.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        EntryBuilder {
            body: Encoder::with_capacity(bytes),
            ..EntryBuilder::default()
        }
    }

    /// Adds a command.
    ///
    /// # Panics
    /// When an order is to be in one entry with something else.
    pub fn push(&mut self, command: &Command) {
        assert!(
            self.has_place_for(command),
            "an order is alone in its entry"
        );
        self.is_order = command.class == Class::Order;
        self.count += 1;
        self.bulk_len += command.bulk_len();
        let payloads = command.payloads.iter();
        self.parts
            .extend(payloads.map(|payload| payload.bytes.clone()));
        command.encode(&mut self.body);
    }

    /// Whether this command may be in it: an order is alone in its entry.
    #[must_use]
    pub fn has_place_for(&self, command: &Command) -> bool {
        self.count == 0 || !self.is_order && command.class != Class::Order
    }

    /// Commands added so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes encoded so far.
    #[must_use]
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Bytes of the payloads so far.
    #[must_use]
    pub fn bulk_len(&self) -> u64 {
        self.bulk_len
    }

    /// The finished entry, its payloads at hand if they all are.
    #[must_use]
    pub fn finish(self, id: EntryId, stamp_ns: u64) -> Entry {
        let parts: Option<Vec<Bytes>> = self.parts.into_iter().collect();
        let parts = parts.filter(|parts| !parts.is_empty());
        Entry {
            id,
            stamp_ns,
            count: self.count,
            is_order: self.is_order,
            body: self.body.into_bytes(),
            bulk_len: self.bulk_len,
            share: parts.map(|parts| Arc::new(Share::whole(parts))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Principal, RequestId};
    use crate::ids::{Boot, ClientId, ReplicaId};

    fn command(seq: u64, body: &'static [u8]) -> Command {
        Command {
            id: RequestId {
                client: ClientId(9),
                seq,
            },
            acked: seq - 1,
            class: Class::Write,
            principal: Principal(3),
            body: Bytes::from_static(body),
            payloads: Vec::new(),
        }
    }

    #[test]
    fn an_entry_gives_back_its_commands_in_order() {
        let commands = [command(1, b"one"), command(2, b""), command(3, &[5; 5000])];
        let mut builder = EntryBuilder::default();
        commands.iter().for_each(|c| builder.push(c));
        let id = EntryId {
            origin: ReplicaId(2),
            boot: Boot(77),
            seq: 4,
        };
        let entry = builder.finish(id, 123);
        let entry = Entry::from_bytes(entry.to_bytes()).unwrap();
        assert_eq!((entry.id, entry.stamp_ns, entry.count()), (id, 123, 3));
        assert_eq!(
            entry.commands().collect::<Result<Vec<_>, _>>().unwrap(),
            commands
        );
    }

    #[test]
    fn payloads_are_named_in_the_encoding_and_their_bytes_are_beside_it() {
        let mut first = command(1, b"one");
        first.payloads = vec![
            Payload::of(Bytes::from_static(b"long")),
            Payload::of(Bytes::from_static(b"longer")),
        ];
        let mut builder = EntryBuilder::default();
        builder.push(&first);
        builder.push(&command(2, b"two"));
        let entry = builder.finish(EntryId::default(), 1);
        let share = entry.share().expect("all are at hand");
        assert_eq!(
            (share.code, share.parts.len(), entry.bulk_len()),
            (1, 2, 10)
        );
        let again = Entry::from_bytes(entry.to_bytes()).unwrap();
        assert!(again == entry && again.share().is_none());
        assert_eq!(again.payloads().collect::<Vec<_>>(), first.payloads);
        assert_eq!(again.commands().count(), 2);
    }

    #[test]
    fn an_order_is_alone_in_its_entry_and_seen_without_decoding_it() {
        let order = Command {
            class: Class::Order,
            ..command(1, b"seal")
        };
        let mut builder = EntryBuilder::default();
        assert!(builder.has_place_for(&order));
        builder.push(&order);
        assert!(!builder.has_place_for(&command(2, b"")) && !builder.has_place_for(&order));
        let entry = builder.finish(EntryId::default(), 1);
        let again = Entry::from_bytes(entry.to_bytes()).unwrap();
        assert!(again.is_order() && again == entry);
        let mut builder = EntryBuilder::default();
        builder.push(&command(1, b""));
        assert!(builder.has_place_for(&command(2, b"")) && !builder.has_place_for(&order));
        assert!(!builder.finish(EntryId::default(), 1).is_order());
    }

    #[test]
    fn an_entry_that_claims_to_be_an_order_and_holds_two_commands_is_none() {
        let mut out = Encoder::new();
        EntryId::default().encode(&mut out);
        out.u64(0);
        out.varint(2 | IS_ORDER);
        out.bytes(&Bytes::new());
        assert!(Entry::from_bytes(out.into_bytes()).is_err());
    }

    #[test]
    fn a_count_beyond_the_body_is_an_error_not_a_panic() {
        let mut out = Encoder::new();
        EntryId::default().encode(&mut out);
        out.u64(0);
        out.varint(3);
        out.bytes(&Bytes::from_static(&[1, 2, 3]));
        let entry = Entry::from_bytes(out.into_bytes()).unwrap();
        assert!(entry.commands().last().unwrap().is_err());
    }
}
