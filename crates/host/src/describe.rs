//! Frames in words, for people who look at a trace.

use crate::frame::{Body, decode};
use crate::version::SupportedVersions;
use bytes::Bytes;
use quorate_core::{Decoder, WireError};

/// What a frame says, a line for each thing; `words` puts a message of the protocol on one.
#[must_use]
///
/// `words` takes a message from the front of what it is given.
pub fn describe_frame(
    frame: &Bytes,
    words: impl Fn(&mut Decoder) -> Result<String, WireError>,
) -> Vec<String> {
    let (header, body) = match decode(frame.clone(), SupportedVersions::REHEARSED) {
        Ok(parts) => parts,
        Err(error) => return vec![error.to_string()],
    };
    let line = match body {
        Body::Messages(messages) => return messages_in_words(messages, words),
        Body::Attached { message, fragments } => {
            let bytes: usize = fragments.iter().map(|(_, bytes)| bytes.len()).sum();
            let mut lines = messages_in_words(message, words);
            lines.push(format!("with {} fragments, {bytes} B", fragments.len()));
            return lines;
        }
        Body::WantFragment(payload) => format!("want a fragment of {payload:?}"),
        Body::Fragment { payload, fragment } => match fragment {
            Some((header, _)) => format!("fragment {} of {payload:?}", header.index),
            None => format!("no fragment of {payload:?}"),
        },
        Body::Note { note, .. } => format!("{note:?}"),
        Body::GatewayResults { entry, results } => format!("what came of {entry:?}: {results:?}"),
        Body::AskRemembered { .. } => "what do you remember of me".to_owned(),
        Body::Remembered { remembered, .. } => format!("of you I remember {remembered:?}"),
        Body::AskDigest { slot, .. } => format!("want your digest before {slot:?}"),
        Body::Digest { slot, digest, .. } => format!("digest before {slot:?}: {digest:016x}"),
        Body::WantMark { number } => format!("want where reads may be answered, question {number}"),
        Body::Mark { number, slot } => {
            format!("reads may be answered at {slot:?}, question {number}")
        }
        Body::Beat => format!("beat: applied before {:?}", header.applied),
        Body::Fetch { from } => format!("fetch from {from:?}"),
        Body::Decided { from, entries } => {
            format!("{} decided slots from {from:?}", entries.len())
        }
        Body::Offer(snapshot) => format!("offer of snapshot {:?}", snapshot.slot),
        Body::Taken(snapshot) => format!("took snapshot {:?}", snapshot.slot),
        Body::WantPiece { slot, offset, .. } => format!("want snapshot {slot:?} from {offset}"),
        Body::Piece {
            slot,
            offset,
            bytes,
        } => format!("snapshot {slot:?}, {} B from {offset}", bytes.len()),
    };
    vec![line]
}

fn messages_in_words(
    messages: Bytes,
    words: impl Fn(&mut Decoder) -> Result<String, WireError>,
) -> Vec<String> {
    let mut input = Decoder::new(messages);
    let mut lines = Vec::new();
    while input.remaining() > 0 {
        match words(&mut input) {
            Ok(line) => lines.push(line),
            Err(error) => {
                lines.push(error.to_string());
                break;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Header, begin_messages, encode};
    use crate::version::WireVersion;
    use quorate_core::{Encoder, Group, Slot, Wire};

    #[test]
    fn every_message_of_a_frame_is_put_in_words() {
        let header = Header {
            version: WireVersion(1),
            group: Group(0),
            epoch: 1,
            applied: Slot(4),
            checkpoint: (Slot(0), 0),
            claim: None,
        };
        let mut frame = Encoder::new();
        begin_messages(&header, &mut frame);
        Slot(7).encode(&mut frame);
        Slot(9).encode(&mut frame);
        let words = |input: &mut Decoder| Slot::decode(input).map(|slot| format!("about {slot:?}"));
        let said = describe_frame(&frame.take_chunks()[0], words);
        assert_eq!(said, ["about s7", "about s9"]);
        let fetch = Body::Fetch { from: Slot(5) };
        let said = describe_frame(&encode(&header, &fetch)[0], words);
        assert_eq!(said, ["fetch from s5"]);
        assert_eq!(describe_frame(&Bytes::from_static(b"\xff"), words).len(), 1);
    }
}
