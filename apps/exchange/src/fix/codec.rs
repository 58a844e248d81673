//! Messages as bytes: fields of a tag and a value, between a length and a checksum.

use super::tag;
use std::fmt;

/// The most bytes of a message between its length and its checksum.
pub const BODY_MAX: usize = 4096;
/// The most fields of a message.
pub const FIELDS_MAX: usize = 128;

/// The byte that ends a field.
const END: u8 = 1;
/// How every message begins, up to the digits of its length.
const BEGIN: &[u8] = b"8=FIX.4.4\x019=";
/// How many digits a length has at most.
const LENGTH_DIGITS: usize = 4;
/// How many bytes the checksum has with its tag and its end.
const TRAILER: usize = 7;

/// A message: its type, and its fields in order, without begin, length and checksum.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The type of the message (tag 35).
    pub kind: String,
    /// The fields behind the type, by tag.
    pub fields: Vec<(u32, String)>,
    /// The first thing that is wrong with the fields, where something is.
    pub defect: Option<Defect>,
}

/// What is wrong with the fields of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// A field has no tag: what is before its `=` is no number.
    NoTag,
    /// The field of this tag has no value.
    NoValue(u32),
    /// The field of this tag comes twice: no group of fields is known here.
    Repeated(u32),
    /// There are more than [`FIELDS_MAX`] fields.
    TooMany,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defect::NoTag => f.write_str("a field has no tag"),
            Defect::NoValue(tag) => write!(f, "tag {tag} has no value"),
            Defect::Repeated(tag) => write!(f, "tag {tag} comes twice: groups are not known here"),
            Defect::TooMany => write!(f, "the message has more than {FIELDS_MAX} fields"),
        }
    }
}

/// Why no message can ever be read from a connection again: nobody knows where the next one begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The bytes do not begin as a message of this version does.
    Begin,
    /// The length is no number, or above [`BODY_MAX`].
    Length,
    /// Where the length says that the message ends there is no checksum.
    Trailer,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Begin => f.write_str("that does not begin with 8=FIX.4.4 and a length (9)"),
            FrameError::Length => write!(f, "the length (9) is no number up to {BODY_MAX}"),
            FrameError::Trailer => {
                f.write_str("there is no checksum (10) where the length (9) says")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Shows no password.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(tag, value): &(u32, String)| match *tag {
            tag::PASSWORD => (*tag, "(not shown)".to_owned()),
            _ => (*tag, value.clone()),
        };
        let fields: Vec<_> = self.fields.iter().map(shown).collect();
        let mut shown = f.debug_struct("Message");
        shown.field("kind", &self.kind).field("fields", &fields);
        shown.field("defect", &self.defect).finish()
    }
}

impl Message {
    /// A message without fields.
    #[must_use]
    pub fn new(kind: &str) -> Message {
        Message {
            kind: kind.to_owned(),
            ..Message::default()
        }
    }

    /// Adds a field at the end.
    #[must_use]
    pub fn with(mut self, tag: u32, value: impl fmt::Display) -> Message {
        self.push(tag, value);
        self
    }

    /// Adds a field at the end. A value is never empty, and has no byte that ends a field.
    pub fn push(&mut self, tag: u32, value: impl fmt::Display) {
        let value = value.to_string().replace(char::from(END), " ");
        self.fields.push((tag, value));
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, tag: u32) -> Option<&str> {
        let field = self.fields.iter().find(|(found, _)| *found == tag);
        field.map(|(_, value)| value.as_str())
    }

    /// Whether a field says yes.
    #[must_use]
    pub fn is_set(&self, tag: u32) -> bool {
        self.get(tag) == Some("Y")
    }

    /// The number in a field of digits alone.
    #[must_use]
    pub fn number(&self, tag: u32) -> Option<u64> {
        self.get(tag).and_then(digits)
    }

    /// The bytes of the message, with its length and its checksum.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = format!("35={}\x01", self.kind);
        for (tag, value) in &self.fields {
            body += &format!("{tag}={value}\x01");
        }
        let mut bytes = BEGIN.to_vec();
        bytes.extend(format!("{}\x01", body.len()).bytes());
        bytes.extend(body.bytes());
        bytes.extend(format!("10={:03}\x01", sum(&bytes)).bytes());
        bytes
    }

    /// Takes the first message out of what a connection has received; `None` where its end is still to come. What has
    /// a wrong checksum was hurt on its way, and is left out: its number will be missing.
    ///
    /// # Errors
    /// Why no message can ever begin so; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<Message>, FrameError> {
        while let Some((begin, end)) = frame(received)? {
            let whole = end + TRAILER;
            let is_whole = checksum(&received[end..whole]) == Some(sum(&received[..end]));
            let message = is_whole.then(|| Message::parse(&received[begin..end]));
            received.drain(..whole);
            if let Some(Some(message)) = message {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// The message between a length and a checksum; `None` where its type is not the first field.
    fn parse(body: &[u8]) -> Option<Message> {
        let mut fields = body.strip_suffix(&[END])?.split(|byte| *byte == END);
        let kind = fields.next()?.strip_prefix(b"35=")?;
        let mut message = Message::new(&String::from_utf8_lossy(kind));
        for field in fields {
            if message.fields.len() == FIELDS_MAX {
                message.defect.get_or_insert(Defect::TooMany);
                break;
            }
            message.parse_field(field);
        }
        Some(message)
    }

    fn parse_field(&mut self, field: &[u8]) {
        let text = String::from_utf8_lossy(field);
        let parts = text.split_once('=');
        let parts = parts.and_then(|(tag, value)| Some((u32::try_from(digits(tag)?).ok()?, value)));
        let Some((tag, value)) = parts.filter(|(tag, _)| *tag > 0) else {
            self.defect.get_or_insert(Defect::NoTag);
            return;
        };
        if value.is_empty() {
            self.defect.get_or_insert(Defect::NoValue(tag));
        } else if self.get(tag).is_some() {
            self.defect.get_or_insert(Defect::Repeated(tag));
        } else {
            self.fields.push((tag, value.to_owned()));
        }
    }
}

/// Where the body of the first message begins, and where its checksum does; `None` where these are still to come.
fn frame(received: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    let begun = received.len().min(BEGIN.len());
    if received[..begun] != BEGIN[..begun] {
        return Err(FrameError::Begin);
    }
    let rest = &received[begun..];
    let Some(length_digits) = rest.iter().position(|byte| *byte == END) else {
        let is_begun = rest.len() <= LENGTH_DIGITS && rest.iter().all(u8::is_ascii_digit);
        return is_begun.then_some(None).ok_or(FrameError::Length);
    };
    let length = rest
        .get(..length_digits)
        .filter(|length| length.len() <= LENGTH_DIGITS);
    let length = length.and_then(|length| digits(std::str::from_utf8(length).ok()?));
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length
        .filter(|length| *length <= BODY_MAX)
        .ok_or(FrameError::Length)?;
    let begin = begun + length_digits + 1;
    let end = begin + length;
    match received.get(end..end + TRAILER) {
        None => Ok(None),
        Some(trailer) if checksum(trailer).is_some() => Ok(Some((begin, end))),
        Some(_) => Err(FrameError::Trailer),
    }
}

fn checksum(trailer: &[u8]) -> Option<u8> {
    let value = trailer.strip_prefix(b"10=")?.strip_suffix(&[END])?;
    let value = digits(std::str::from_utf8(value).ok()?)?;
    u8::try_from(value).ok()
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// A number of digits alone.
pub(super) fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}
