//! Commands, and the entries that carry them through the log.

use crate::ids::{ClientId, EntryId};
use crate::payload::{Payload, Share};
use crate::wire::{Decoder, Encoder, Wire, WireError};
use bytes::Bytes;
use std::sync::Arc;

/// An entry's commands never encode to more than this; the host refuses larger commands. Frames
/// and log records are bounded by it.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// Names one request of one client, for at-most-once execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId {
    /// Who asks.
    pub client: ClientId,
    /// Counts that client's requests, from 1.
    pub seq: u64,
}

impl Wire for RequestId {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.client.0);
        out.varint(self.seq);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(RequestId {
            client: ClientId(input.u64()?),
            seq: input.varint()?,
        })
    }
}

/// Who asked, so that rights are checked where a command is applied. 0 is the operator of a
/// cluster without authentication.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Principal(pub u32);

/// What a command is to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Applied by the application.
    Write,
    /// A linearizable read. Never in an entry: the machine answers with the slot it may be read at.
    Read,
    /// Opens the session of `id.client`. The body names the session's owner, whose earlier
    /// sessions it ends.
    OpenSession,
    /// Ends the session of `id.client`: its later commands are refused, never executed.
    EndSession,
}

impl Wire for Class {
    fn encode(&self, out: &mut Encoder) {
        out.u8(match self {
            Class::Write => 0,
            Class::Read => 1,
            Class::OpenSession => 2,
            Class::EndSession => 3,
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Class::of_tag(input.u8()?)
    }
}

impl Class {
    fn of_tag(tag: u8) -> Result<Self, WireError> {
        Ok(match tag {
            0 => Class::Write,
            1 => Class::Read,
            2 => Class::OpenSession,
            3 => Class::EndSession,
            tag => return Err(WireError::Tag("class", tag)),
        })
    }
}

/// What a client wants applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Whose request this is; the same id is executed at most once.
    pub id: RequestId,
    /// The client has its answers to every sequence number up to this one: their results may go.
    pub acked: u64,
    /// What kind of command.
    pub class: Class,
    /// Who asked.
    pub principal: Principal,
    /// The application's own encoding: of all of it, or of all but the payloads.
    pub body: Bytes,
    /// The bulky parts that are kept apart. Only a write has any.
    pub payloads: Vec<Payload>,
}

/// In the place of a class: a write with payloads.
const WRITE_APART: u8 = 4;

impl Command {
    /// An upper bound of the encoded size, in bytes.
    #[must_use]
    pub fn encoded_len_max(&self) -> usize {
        48 + self.body.len() + 24 * self.payloads.len()
    }

    /// Bytes of its payloads.
    #[must_use]
    pub fn bulk_len(&self) -> u64 {
        self.payloads.iter().map(|part| u64::from(part.len)).sum()
    }
}

impl Wire for Command {
    fn encode(&self, out: &mut Encoder) {
        self.id.encode(out);
        out.varint(self.acked);
        if self.payloads.is_empty() {
            self.class.encode(out);
        } else {
            debug_assert_eq!(self.class, Class::Write);
            out.u8(WRITE_APART);
            out.varint(self.payloads.len() as u64);
            self.payloads.iter().for_each(|payload| payload.encode(out));
        }
        out.varint(u64::from(self.principal.0));
        out.bytes(&self.body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (id, acked) = (RequestId::decode(input)?, input.varint()?);
        let mut payloads = Vec::new();
        let class = match input.u8()? {
            WRITE_APART => {
                for _ in 0..input.count(Payload::BYTES_MIN)? {
                    payloads.push(Payload::decode(input)?);
                }
                Class::Write
            }
            tag => Class::of_tag(tag)?,
        };
        Ok(Command {
            id,
            acked,
            class,
            principal: Principal(
                u32::try_from(input.varint()?).map_err(|_| WireError::Range("principal"))?,
            ),
            body: input.bytes()?,
            payloads,
        })
    }
}

/// A batch of commands under one name: the unit protocols order. Cloning shares the bytes.
///
/// An entry may hold no command at all: a read barrier, or what keeps a log moving.
///
/// What protocols order is complete but for the payloads of its commands. Of those an entry may
/// have a [`Share`] at hand, which is no part of its encoding, nor of what it is equal to.
#[derive(Clone)]
pub struct Entry {
    /// Its unique name.
    pub id: EntryId,
    /// The origin's hybrid clock when it was formed, ns since the Unix epoch. The host makes it
    /// monotone at apply; Rabia orders its queue by it.
    pub stamp_ns: u64,
    /// How many commands.
    count: u32,
    /// The encoded commands, one after the other.
    body: Bytes,
    /// Bytes of all payloads.
    bulk_len: u64,
    share: Option<Arc<Share>>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        let name = |entry: &Entry| (entry.id, entry.stamp_ns, entry.count, entry.bulk_len);
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

    /// The same entry with this, or nothing, at hand.
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
        if self.bulk_len == 0 {
            out.varint(u64::from(self.count));
        } else {
            out.varint(u64::from(self.count) | HAS_BULK);
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
        let count =
            u32::try_from(count & !HAS_BULK).map_err(|_| WireError::Range("entry count"))?;
        let body = input.bytes()?;
        Ok(Entry {
            id,
            stamp_ns,
            count,
            body,
            bulk_len,
            share: None,
        })
    }
}

/// Beside the count of commands: the length of payloads follows.
const HAS_BULK: u64 = 1 << 32;

/// Encodes commands into an entry as they come, so that a payload is copied exactly once.
#[derive(Default, Debug)]
pub struct EntryBuilder {
    count: u32,
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
    pub fn push(&mut self, command: &Command) {
        self.count += 1;
        self.bulk_len += command.bulk_len();
        let payloads = command.payloads.iter();
        self.parts
            .extend(payloads.map(|payload| payload.bytes.clone()));
        command.encode(&mut self.body);
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
            body: self.body.into_bytes(),
            bulk_len: self.bulk_len,
            share: parts.map(|parts| Arc::new(Share::whole(parts))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Boot, ReplicaId};

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
