//! Requests, taken off the front of a buffer as their bytes arrive.

use crate::error::ProtocolError;
use crate::inline::split_words;
use crate::number::parse_integer;
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// The longest line of an inline request, of a number of arguments, or of the length of one, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Arguments that a client may send before it has said who it is.
const STRANGER_ARGUMENTS_MAX: i64 = 10;
/// The longest argument of a client that has not said who it is, in bytes.
const STRANGER_BULK_BYTES_MAX: i64 = 16 << 10;

/// The bounds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most arguments of a request, the name of the command among them.
    pub arguments_max: usize,
    /// The longest argument, in bytes.
    pub bulk_bytes_max: usize,
    /// The longest request, in bytes as they are sent.
    pub request_bytes_max: usize,
}

impl Default for Limits {
    /// Redis's own bound for one argument; a request may have two such.
    fn default() -> Self {
        Limits {
            arguments_max: 1 << 20,
            bulk_bytes_max: 512 << 20,
            request_bytes_max: 1 << 30,
        }
    }
}

/// Takes requests off the front of a buffer.
///
/// What is read of a request that is not complete is noted, so that a client which sends it byte by byte costs no more
/// than one which sends it at once.
#[derive(Debug)]
pub struct RequestParser {
    limits: Limits,
    is_stranger: bool,
    request: Partial,
}

/// What is known of a request that is not complete.
#[derive(Debug, Default)]
struct Partial {
    /// Where what is not understood yet begins.
    at: usize,
    /// How far the end of a line was looked for.
    searched: usize,
    /// The arguments that are yet to come; 0 before their number is known.
    left: usize,
    /// The length of the argument that is coming.
    bulk: Option<usize>,
    arguments: Vec<Range<usize>>,
}

impl RequestParser {
    /// A parser at the beginning of a connection.
    #[must_use]
    pub fn new(limits: Limits) -> RequestParser {
        RequestParser {
            limits,
            is_stranger: false,
            request: Partial::default(),
        }
    }

    /// Whether the client has yet to say who it is: then only short requests are taken.
    pub fn set_stranger(&mut self, is_stranger: bool) {
        self.is_stranger = is_stranger;
    }

    /// The next request, which has at least one argument; `None` if it is not complete. The arguments are slices of the
    /// buffer. Requests without arguments are skipped.
    ///
    /// # Errors
    /// How the client breaks the protocol: the rest of the buffer makes no sense.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        loop {
            let request = match input.first() {
                None => return Ok(None),
                Some(b'*') => self.next_multibulk(input)?,
                Some(_) => next_inline(input, &mut self.request.searched)?,
            };
            match request {
                Some(arguments) if arguments.is_empty() => {}
                request => return Ok(request),
            }
        }
    }

    /// Bytes that are certain to come before the request can be complete, at a buffer of which so many are there.
    #[must_use]
    pub fn missing_bytes(&self, buffered: usize) -> usize {
        let bulk = self.request.bulk.map_or(0, |length| length + CRLF);
        (self.request.at + bulk).saturating_sub(buffered)
    }

    fn next_multibulk(
        &mut self,
        input: &mut BytesMut,
    ) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        if self.request.left == 0 && !self.begin(input)? {
            return Ok(None);
        }
        while self.request.left > 0 {
            if !self.take_argument(input)? {
                return Ok(None);
            }
        }
        let request = std::mem::take(&mut self.request);
        let whole = input.split_to(request.at).freeze();
        let arguments = request.arguments.into_iter();
        Ok(Some(arguments.map(|range| whole.slice(range)).collect()))
    }

    /// Reads how many arguments follow; says whether that is there.
    fn begin(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let count = self
            .request
            .line(input, ProtocolError::MultibulkLineTooLong)?;
        let Some(count) = count else {
            return Ok(false);
        };
        let count = parse_integer(&count[1..]).ok_or(ProtocolError::MultibulkLength)?;
        if count > self.limits.arguments_max as i64 {
            return Err(ProtocolError::MultibulkLength);
        }
        if self.is_stranger && count > STRANGER_ARGUMENTS_MAX {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.request.left = usize::try_from(count).unwrap_or(0);
        Ok(true)
    }

    /// Reads one argument; says whether it is complete.
    fn take_argument(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let request = &mut self.request;
        let length = match request.bulk {
            Some(length) => length,
            None => {
                // A wrong first byte is told before the line is complete.
                if let Some(found) = input.get(request.at).filter(|byte| **byte != b'$') {
                    return Err(ProtocolError::NoDollar(*found));
                }
                let line = request.line(input, ProtocolError::BulkLineTooLong)?;
                let Some(line) = line else {
                    return Ok(false);
                };
                let length = self.limits.bulk_length(&line[1..], self.is_stranger)?;
                if request.at.saturating_add(length) > self.limits.request_bytes_max {
                    return Err(ProtocolError::RequestTooLong);
                }
                request.bulk = Some(length);
                length
            }
        };
        let end = request.at + length;
        if input.len() < end + CRLF {
            return Ok(false);
        }
        request.arguments.push(request.at..end);
        // As in Redis, nobody looks what the two bytes behind an argument are.
        request.at = end + CRLF;
        request.searched = request.at;
        request.bulk = None;
        request.left -= 1;
        Ok(true)
    }
}

/// The bytes at the end of a line.
const CRLF: usize = 2;

impl Partial {
    /// The next line without its end, once it is complete.
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        too_long: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let from = self.searched.max(self.at);
        let Some(end) = input[from..].iter().position(|byte| *byte == b'\r') else {
            self.searched = input.len();
            return match input.len() - self.at > LINE_BYTES_MAX {
                true => Err(too_long),
                false => Ok(None),
            };
        };
        let end = from + end;
        self.searched = end;
        if input.len() < end + CRLF {
            return Ok(None);
        }
        let line = &input[self.at..end];
        self.at = end + CRLF;
        self.searched = self.at;
        Ok(Some(line))
    }
}

impl Limits {
    /// The length of an argument.
    fn bulk_length(&self, text: &[u8], is_stranger: bool) -> Result<usize, ProtocolError> {
        let length = parse_integer(text).ok_or(ProtocolError::BulkLength)?;
        if length < 0 || length > self.bulk_bytes_max as i64 {
            return Err(ProtocolError::BulkLength);
        }
        if is_stranger && length > STRANGER_BULK_BYTES_MAX {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        usize::try_from(length).map_err(|_| ProtocolError::BulkLength)
    }
}

/// A request on a line of its own; `searched` says how far its end was looked for.
fn next_inline(
    input: &mut BytesMut,
    searched: &mut usize,
) -> Result<Option<Vec<Bytes>>, ProtocolError> {
    let end = input[*searched..].iter().position(|byte| *byte == b'\n');
    let Some(end) = end.map(|end| *searched + end) else {
        *searched = input.len();
        return match input.len() > LINE_BYTES_MAX {
            true => Err(ProtocolError::InlineTooLong),
            false => Ok(None),
        };
    };
    *searched = 0;
    let line = input.split_to(end + 1);
    let line = &line[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words = split_words(line);
    words.map(Some).ok_or(ProtocolError::UnbalancedQuotes)
}

/// Writes a request, behind whatever there is.
pub fn encode_request(arguments: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        let argument = argument.as_ref();
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests;
