//! What hosts say to each other.
//!
//! A frame is a header, which names version, group and epoch and tells how far the sender is, and a
//! body: machine messages, a request for decided slots or for a part of a snapshot, or the answer.

use crate::api::SnapshotId;
use crate::divergence::DigestOf;
use crate::epochs::Note;
use crate::gateway_results::GatewayResult;
use crate::rollback::{Claim, Remembered};
use crate::version::{SupportedVersions, WireVersion};
use bytes::Bytes;
use quorate_core::{
    Decoder, Encoder, Entry, EntryId, Group, Incarnation, PayloadId, RequestId, Slot, Wire,
    WireError,
};
use quorate_erasure::FragmentHeader;
use std::fmt;

/// In front of every frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// What the frame is written in. It comes first in every version.
    pub(crate) version: WireVersion,
    pub(crate) group: Group,
    pub(crate) epoch: u64,
    /// The sender's first slot not applied.
    pub(crate) applied: Slot,
    /// The sender's latest checkpoint: the slot, and the digest of what was applied before it.
    pub(crate) checkpoint: (Slot, u64),
    /// How far the sender's promises go, if it says so.
    pub(crate) claim: Option<Claim>,
}

/// As before there were claims, without one: what was recorded then is compared with it.
impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Header");
        fields.field("version", &self.version);
        fields.field("group", &self.group);
        fields.field("epoch", &self.epoch);
        fields.field("applied", &self.applied);
        fields.field("checkpoint", &self.checkpoint);
        if let Some(claim) = &self.claim {
            fields.field("claim", claim);
        }
        fields.finish()
    }
}

/// What follows the header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// Machine messages, each a complete encoding, until the end of the frame.
    Messages(Bytes),
    /// Nothing: the header is the news.
    Beat,
    /// Please send decided slots from here on.
    Fetch {
        /// The first slot wanted.
        from: Slot,
    },
    /// Decided slots without gaps.
    Decided {
        /// The slot of the first.
        from: Slot,
        /// What was decided; `None` is a no-op.
        entries: Vec<Option<Entry>>,
    },
    /// The slots wanted are no longer in the log here, but this snapshot is.
    Offer(SnapshotId),
    /// "I took this snapshot": whoever took one at the same slot compares.
    Taken(SnapshotId),
    /// Please send the bytes of a snapshot from here on.
    WantPiece {
        /// Which snapshot.
        slot: Slot,
        /// Its digest: another one is of no use.
        digest: u64,
        /// The first byte wanted.
        offset: u64,
    },
    /// Bytes of a snapshot.
    Piece {
        /// Which snapshot.
        slot: Slot,
        /// Where in it.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// A machine message and what is attached to it.
    Attached {
        /// The message, encoded.
        message: Bytes,
        /// Of each payload of its entry, in order, the fragment for the receiver.
        fragments: Vec<Fragment>,
    },
    /// Please send what you have of this payload.
    WantFragment(PayloadId),
    /// Some of a payload; nothing if the sender has nothing of it.
    Fragment {
        /// Which payload.
        payload: PayloadId,
        /// What the sender has of it.
        fragment: Option<Fragment>,
    },
    /// About epochs, whichever the sender is in.
    Note {
        /// The sender's life.
        incarnation: Incarnation,
        /// What it says.
        note: Note,
    },
    /// To a remote gateway: an entry of its own is decided, and this came of its requests.
    GatewayResults {
        /// The entry.
        entry: EntryId,
        /// Its requests, and what came of them.
        results: Vec<(RequestId, GatewayResult)>,
    },
    /// Please say what you remember of the sender's promises.
    AskRemembered {
        /// The sender's life, as epochs list it.
        incarnation: Incarnation,
    },
    /// What the sender remembers of the receiver's promises.
    Remembered {
        /// The receiver's life.
        incarnation: Incarnation,
        /// The furthest claim heard of it, if any was.
        remembered: Option<Remembered>,
        /// Whether the sender waits for such answers itself.
        waits: bool,
    },
    /// Please say your digest.
    AskDigest {
        /// The state that the digest is of.
        of: DigestOf,
        /// The first slot that is not part of it.
        slot: Slot,
    },
    /// The sender's digest.
    Digest {
        /// The state that the digest is of.
        of: DigestOf,
        /// The first slot that is not part of it.
        slot: Slot,
        /// The digest of the sender.
        digest: u64,
    },
    /// Please say where a read may be answered that begins now.
    WantMark {
        /// The question's number.
        number: u64,
    },
    /// A read that began with the question may be answered once every slot before this one is applied.
    Mark {
        /// The question's number.
        number: u64,
        /// The first slot that need not be applied.
        slot: Slot,
    },
}

/// A fragment of a payload and what it says of itself.
pub(crate) type Fragment = (FragmentHeader, Bytes);

/// Payloads in one entry, at most.
const PARTS_MAX: usize = 64 << 10;

/// Decided slots in one frame, at most.
pub(crate) const DECIDED_SLOTS_MAX: usize = 1024;

/// A request and what came of it take no less.
const GATEWAY_RESULT_BYTES_MIN: usize = 3;

/// At the end of a header in versions that have it.
const MARK: u32 = 0x4b52_414d;

const MESSAGES: u8 = 0;
const BEAT: u8 = 1;
const FETCH: u8 = 2;
const DECIDED: u8 = 3;
const OFFER: u8 = 4;
const TAKEN: u8 = 5;
const WANT_PIECE: u8 = 6;
const PIECE: u8 = 7;
const ATTACHED: u8 = 8;
const WANT_FRAGMENT: u8 = 9;
const FRAGMENT: u8 = 10;
const NOTE: u8 = 11;
const GATEWAY_RESULTS: u8 = 12;
const ASK_REMEMBERED: u8 = 13;
const REMEMBERED: u8 = 14;
const ASK_DIGEST: u8 = 15;
const DIGEST: u8 = 16;
const WANT_MARK: u8 = 17;
const READ_MARK: u8 = 18;

impl Wire for SnapshotId {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        out.varint(self.bytes);
        out.u64(self.digest);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(SnapshotId {
            slot: Slot::decode(input)?,
            bytes: input.varint()?,
            digest: input.u64()?,
        })
    }
}

impl Header {
    fn encode(&self, out: &mut Encoder) {
        out.varint(u64::from(self.version.0));
        self.group.encode(out);
        out.varint(self.epoch);
        self.applied.encode(out);
        self.checkpoint.0.encode(out);
        out.u64(self.checkpoint.1);
        if self.version.has_claims() {
            self.claim.encode(out);
        }
        if self.version.has_mark() {
            out.u32(MARK);
        }
    }

    fn decode(input: &mut Decoder, supported: SupportedVersions) -> Result<Self, FrameError> {
        let version = u32::try_from(input.varint()?).map_or(WireVersion(u32::MAX), WireVersion);
        if !supported.includes(version) {
            return Err(FrameError::Version { version, supported });
        }
        let header = Header {
            version,
            group: Group::decode(input)?,
            epoch: input.varint()?,
            applied: Slot::decode(input)?,
            checkpoint: (Slot::decode(input)?, input.u64()?),
            claim: match version.has_claims() {
                true => Option::decode(input)?,
                false => None,
            },
        };
        if version.has_mark() && input.u32()? != MARK {
            return Err(WireError::Range("mark of a header").into());
        }
        Ok(header)
    }
}

/// Why a frame means nothing here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FrameError {
    /// It is in a version that is not spoken here.
    Version {
        /// The frame's.
        version: WireVersion,
        /// Those that are.
        supported: SupportedVersions,
    },
    /// It is not as its version has it.
    Wire(WireError),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Version { version, supported } => {
                write!(
                    f,
                    "it is in wire version {version}, this replica speaks {supported}"
                )
            }
            FrameError::Wire(error) => write!(f, "{error}"),
        }
    }
}

impl From<WireError> for FrameError {
    fn from(error: WireError) -> Self {
        FrameError::Wire(error)
    }
}

/// Begins a frame of machine messages; the caller encodes them behind it.
pub(crate) fn begin_messages(header: &Header, out: &mut Encoder) {
    header.encode(out);
    out.u8(MESSAGES);
}

/// Memory that frames of messages share, bytes: little enough that what is kept of one of them keeps little else.
pub(crate) const PACKING_BYTES: usize = 8 << 10;

/// A frame of the other kinds.
pub(crate) fn encode(header: &Header, body: &Body) -> Vec<Bytes> {
    let mut out = Encoder::new();
    header.encode(&mut out);
    match body {
        Body::Messages(messages) => {
            out.u8(MESSAGES);
            out.slice(messages);
        }
        Body::Beat => out.u8(BEAT),
        Body::Fetch { from } => {
            out.u8(FETCH);
            from.encode(&mut out);
        }
        Body::Decided { from, entries } => {
            out.u8(DECIDED);
            from.encode(&mut out);
            out.varint(entries.len() as u64);
            entries.iter().for_each(|entry| entry.encode(&mut out));
        }
        Body::Offer(snapshot) => {
            out.u8(OFFER);
            snapshot.encode(&mut out);
        }
        Body::Taken(snapshot) => {
            out.u8(TAKEN);
            snapshot.encode(&mut out);
        }
        Body::WantPiece {
            slot,
            digest,
            offset,
        } => {
            out.u8(WANT_PIECE);
            slot.encode(&mut out);
            out.u64(*digest);
            out.varint(*offset);
        }
        Body::Piece {
            slot,
            offset,
            bytes,
        } => {
            out.u8(PIECE);
            slot.encode(&mut out);
            out.varint(*offset);
            out.bytes(bytes);
        }
        Body::Attached { message, fragments } => {
            out.u8(ATTACHED);
            out.bytes(message);
            out.varint(fragments.len() as u64);
            fragments
                .iter()
                .for_each(|part| encode_fragment(part, &mut out));
        }
        Body::WantFragment(payload) => {
            out.u8(WANT_FRAGMENT);
            payload.encode(&mut out);
        }
        Body::Fragment { payload, fragment } => {
            out.u8(FRAGMENT);
            payload.encode(&mut out);
            if let Some(fragment) = fragment {
                encode_fragment(fragment, &mut out);
            }
        }
        Body::Note { incarnation, note } => {
            out.u8(NOTE);
            incarnation.encode(&mut out);
            note.encode(&mut out);
        }
        Body::GatewayResults { entry, results } => {
            out.u8(GATEWAY_RESULTS);
            entry.encode(&mut out);
            out.varint(results.len() as u64);
            for (id, result) in results {
                id.encode(&mut out);
                result.encode(&mut out);
            }
        }
        Body::AskRemembered { incarnation } => {
            out.u8(ASK_REMEMBERED);
            incarnation.encode(&mut out);
        }
        Body::Remembered {
            incarnation,
            remembered,
            waits,
        } => {
            out.u8(REMEMBERED);
            incarnation.encode(&mut out);
            remembered.encode(&mut out);
            out.u8(u8::from(*waits));
        }
        Body::AskDigest { of, slot } => {
            out.u8(ASK_DIGEST);
            of.encode(&mut out);
            slot.encode(&mut out);
        }
        Body::Digest { of, slot, digest } => {
            out.u8(DIGEST);
            of.encode(&mut out);
            slot.encode(&mut out);
            out.u64(*digest);
        }
        Body::WantMark { number } => {
            out.u8(WANT_MARK);
            out.varint(*number);
        }
        Body::Mark { number, slot } => {
            out.u8(READ_MARK);
            out.varint(*number);
            slot.encode(&mut out);
        }
    }
    out.take_chunks()
}

/// Takes a frame apart. The messages of a [`Body::Messages`] are not decoded yet.
pub(crate) fn decode(
    frame: Bytes,
    supported: SupportedVersions,
) -> Result<(Header, Body), FrameError> {
    let mut input = Decoder::new(frame.clone());
    let header = Header::decode(&mut input, supported)?;
    let body = match input.u8()? {
        MESSAGES => {
            return Ok((
                header,
                Body::Messages(frame.slice(frame.len() - input.remaining()..)),
            ));
        }
        BEAT => Body::Beat,
        FETCH => Body::Fetch {
            from: Slot::decode(&mut input)?,
        },
        DECIDED => Body::Decided {
            from: Slot::decode(&mut input)?,
            entries: decode_entries(&mut input)?,
        },
        OFFER => Body::Offer(SnapshotId::decode(&mut input)?),
        TAKEN => Body::Taken(SnapshotId::decode(&mut input)?),
        WANT_PIECE => Body::WantPiece {
            slot: Slot::decode(&mut input)?,
            digest: input.u64()?,
            offset: input.varint()?,
        },
        PIECE => Body::Piece {
            slot: Slot::decode(&mut input)?,
            offset: input.varint()?,
            bytes: input.bytes()?,
        },
        ATTACHED => Body::Attached {
            // Its small parts are kept for long, and must not keep the fragments' memory with them.
            message: Bytes::copy_from_slice(&input.bytes()?),
            fragments: decode_fragments(&mut input)?,
        },
        WANT_FRAGMENT => Body::WantFragment(PayloadId::decode(&mut input)?),
        FRAGMENT => Body::Fragment {
            payload: PayloadId::decode(&mut input)?,
            fragment: match input.remaining() {
                0 => None,
                _ => Some(decode_fragment(&mut input)?),
            },
        },
        NOTE => Body::Note {
            incarnation: Incarnation::decode(&mut input)?,
            note: Note::decode(&mut input)?,
        },
        GATEWAY_RESULTS => Body::GatewayResults {
            entry: EntryId::decode(&mut input)?,
            results: decode_gateway_results(&mut input)?,
        },
        ASK_REMEMBERED => Body::AskRemembered {
            incarnation: Incarnation::decode(&mut input)?,
        },
        REMEMBERED => Body::Remembered {
            incarnation: Incarnation::decode(&mut input)?,
            remembered: Option::decode(&mut input)?,
            waits: match input.u8()? {
                0 => false,
                1 => true,
                tag => return Err(WireError::Tag("wait for answers", tag).into()),
            },
        },
        ASK_DIGEST => Body::AskDigest {
            of: DigestOf::decode(&mut input)?,
            slot: Slot::decode(&mut input)?,
        },
        DIGEST => Body::Digest {
            of: DigestOf::decode(&mut input)?,
            slot: Slot::decode(&mut input)?,
            digest: input.u64()?,
        },
        WANT_MARK => Body::WantMark {
            number: input.varint()?,
        },
        READ_MARK => Body::Mark {
            number: input.varint()?,
            slot: Slot::decode(&mut input)?,
        },
        tag => return Err(WireError::Tag("frame", tag).into()),
    };
    input.finish()?;
    Ok((header, body))
}

fn decode_entries(input: &mut Decoder) -> Result<Vec<Option<Entry>>, WireError> {
    let count = input.count(1)?;
    if count > DECIDED_SLOTS_MAX {
        return Err(WireError::Range("decided slots"));
    }
    (0..count).map(|_| Option::<Entry>::decode(input)).collect()
}

fn encode_fragment((header, bytes): &Fragment, out: &mut Encoder) {
    header.encode(out);
    out.bytes(bytes);
}

/// Bytes that are not those the header speaks of are an error.
fn decode_fragment(input: &mut Decoder) -> Result<Fragment, WireError> {
    let (header, bytes) = (FragmentHeader::decode(input)?, input.bytes()?);
    if header.matches(&bytes) {
        Ok((header, bytes))
    } else {
        Err(WireError::Range("digest of a fragment"))
    }
}

fn decode_fragments(input: &mut Decoder) -> Result<Vec<Fragment>, WireError> {
    let count = input.count(1)?;
    if count > PARTS_MAX {
        return Err(WireError::Range("payloads of an entry"));
    }
    (0..count).map(|_| decode_fragment(input)).collect()
}

fn decode_gateway_results(
    input: &mut Decoder,
) -> Result<Vec<(RequestId, GatewayResult)>, WireError> {
    let count = input.count(GATEWAY_RESULT_BYTES_MIN)?;
    let one = |_| Ok((RequestId::decode(input)?, GatewayResult::decode(input)?));
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Boot, ClientId, EntryBuilder, Refusal, ReplicaId};

    fn header(version: WireVersion) -> Header {
        Header {
            version,
            group: Group(0),
            epoch: 1,
            applied: Slot(9),
            checkpoint: (Slot(8), 77),
            claim: None,
        }
    }

    #[test]
    fn every_body_round_trips() {
        let id = EntryId {
            origin: ReplicaId(1),
            boot: Boot(2),
            seq: 3,
        };
        let entry = EntryBuilder::default().finish(id, 4);
        let snapshot = SnapshotId {
            slot: Slot(7),
            bytes: 300,
            digest: 8,
        };
        let part = Bytes::from_static(b"part");
        let fragment = (FragmentHeader::new((5, 3), 4, 11, &part), part.clone());
        let payload = PayloadId { entry: id, part: 6 };
        let request = RequestId {
            client: ClientId(5),
            seq: 9,
        };
        let results = [
            GatewayResult::Applied(Slot(3), Bytes::from_static(b"result")),
            GatewayResult::Open,
            GatewayResult::Refused(Refusal::NoSession),
            GatewayResult::Refused(Refusal::Unknown),
        ];
        let bodies = [
            Body::Offer(snapshot),
            Body::Taken(snapshot),
            Body::WantPiece {
                slot: Slot(7),
                digest: 8,
                offset: 200,
            },
            Body::Piece {
                slot: Slot(7),
                offset: 200,
                bytes: Bytes::from_static(b"part"),
            },
            Body::Attached {
                message: Bytes::from_static(b"anything"),
                fragments: vec![fragment.clone(), fragment.clone()],
            },
            Body::WantFragment(payload),
            Body::Fragment {
                payload,
                fragment: Some(fragment),
            },
            Body::Fragment {
                payload,
                fragment: None,
            },
            Body::Messages(Bytes::from_static(b"anything")),
            Body::Beat,
            Body::Fetch { from: Slot(5) },
            Body::Decided {
                from: Slot(6),
                entries: vec![None, Some(entry), None],
            },
            Body::GatewayResults {
                entry: id,
                results: results.map(|result| (request, result)).to_vec(),
            },
            Body::WantMark { number: 300 },
            Body::Mark {
                number: 300,
                slot: Slot(9),
            },
        ];
        for body in bodies {
            for version in [
                SupportedVersions::SHIPPED.newest,
                SupportedVersions::REHEARSED.newest,
            ] {
                let frame = encode(&header(version), &body).concat();
                let decoded = decode(frame.into(), SupportedVersions::REHEARSED);
                assert_eq!(decoded, Ok((header(version), body.clone())));
            }
        }
    }

    #[test]
    fn a_message_that_is_kept_keeps_nothing_of_what_was_attached() {
        let part = Bytes::from(vec![7; 100_000]);
        let fragment = (FragmentHeader::new((5, 3), 4, 300_000, &part), part);
        let body = Body::Attached {
            message: Bytes::from(vec![1; 1000]),
            fragments: vec![fragment],
        };
        let version = SupportedVersions::SHIPPED.newest;
        let frame = Bytes::from(encode(&header(version), &body).concat());
        let (_, decoded) = decode(frame.clone(), SupportedVersions::SHIPPED).unwrap();
        let Body::Attached { message, fragments } = decoded else {
            panic!("another body");
        };
        assert_eq!((message.len(), fragments.len()), (1000, 1));
        assert!(!frame.as_ptr_range().contains(&message.as_ptr()));
    }

    #[test]
    fn a_frame_in_a_version_that_is_not_spoken_is_named() {
        let version = SupportedVersions::REHEARSED.newest;
        let supported = SupportedVersions::SHIPPED;
        let frame = encode(&header(version), &Body::Beat).concat();
        let error = decode(frame.into(), supported).unwrap_err();
        assert_eq!(error, FrameError::Version { version, supported });
        let said = format!("it is in wire version {version}, this replica speaks {supported}");
        assert_eq!(error.to_string(), said);
    }
}
