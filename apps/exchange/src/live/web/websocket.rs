//! As much of WebSocket (RFC 6455) as the page needs: short texts that come whole.

use crate::wire::{Reader, WireError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// What a key is joined with before it is hashed (RFC 6455, section 1.3).
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The most bytes of a message from a page.
const MESSAGE_MAX: usize = 256;

/// A message from a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WebMessage {
    /// A text from the script of the page.
    Text(String),
    /// The page is there, and wants to know of us.
    Ping(Vec<u8>),
    /// An answer that nobody waits for.
    Pong,
    /// The page goes.
    Close,
}

/// The answer to a request for a WebSocket.
pub(super) fn accepted(key: &str) -> String {
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(MAGIC);
    let proof = STANDARD.encode(hash.finish());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {proof}\r\n\r\n"
    )
}

/// The frame of a text for a page.
pub(crate) fn text_frame(text: &str) -> Vec<u8> {
    frame(0x81, text.as_bytes())
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => bytes.push(length),
        (_, Ok(length)) => {
            bytes.push(126);
            bytes.extend(length.to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend((payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(payload);
    bytes
}

impl WebMessage {
    /// The frame that answers the message, if it wants one.
    pub(crate) fn answer(&self) -> Option<Vec<u8>> {
        match self {
            WebMessage::Ping(payload) => Some(frame(0x8a, payload)),
            _ => None,
        }
    }

    /// Takes the first message out of what a page has sent; `None` where its end is still to come.
    pub(crate) fn take(received: &mut Vec<u8>) -> Result<Option<WebMessage>, WireError> {
        Reader::take(received, WebMessage::read)
    }

    fn read(from: &mut Reader<'_>) -> Result<WebMessage, WireError> {
        let (kind, length) = (from.u8()?, from.u8()?);
        // What a browser sends is masked.
        let length = match length.checked_sub(0x80) {
            Some(126) => usize::from(from.u16()?),
            Some(length @ 0..126) => usize::from(length),
            _ => return Err(WireError::Value("length")),
        };
        if length > MESSAGE_MAX {
            return Err(WireError::Value("length"));
        }
        let mask = from.array::<4>()?;
        let mut payload = Vec::new();
        for byte in mask.iter().cycle().take(length) {
            payload.push(from.u8()? ^ byte);
        }
        match kind {
            0x81 => match String::from_utf8(payload) {
                Ok(text) => Ok(WebMessage::Text(text)),
                Err(_) => Err(WireError::Value("text")),
            },
            0x88 => Ok(WebMessage::Close),
            0x89 if length < 126 => Ok(WebMessage::Ping(payload)),
            0x8a => Ok(WebMessage::Pong),
            _ => Err(WireError::Value("kind of frame")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and its proof are those of RFC 6455, section 1.3.
    #[test]
    fn a_browser_is_answered_with_the_proof_that_it_wants() {
        let answer = accepted("dGhlIHNhbXBsZSBub25jZQ==");
        assert!(answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    /// The first frame is the masked one of RFC 6455, section 5.7.
    #[test]
    fn masked_frames_are_read_and_all_others_refused() {
        let hello = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        let mut received = hello[..10].to_vec();
        assert_eq!(WebMessage::take(&mut received), Ok(None));
        received.push(hello[10]);
        received.extend([0x89, 0x81, 0, 0, 0, 0, b'x']);
        let text = WebMessage::Text("Hello".to_owned());
        assert_eq!(WebMessage::take(&mut received), Ok(Some(text)));
        let ping = WebMessage::take(&mut received).unwrap().unwrap();
        assert_eq!(ping.answer(), Some(vec![0x8a, 1, b'x']));
        for refused in [
            vec![0x81, 0x05, b'H', b'e', b'l', b'l', b'o'],
            vec![0x01, 0x80, 0, 0, 0, 0],
            vec![0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
            vec![0x81, 0xfe, 0x10, 0, 0, 0, 0, 0],
        ] {
            assert!(
                WebMessage::take(&mut refused.clone()).is_err(),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn frames_say_how_long_they_are() {
        for (length, head) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            assert_eq!(frame(0x81, &vec![b'x'; length]).len(), length + head);
        }
    }
}
