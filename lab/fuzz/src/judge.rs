//! One input's way through a decoder, and what is asked of it.

use allocation_counter::measure;
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What a decoder may take for an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes it may hold at once, whatever the input.
    pub base_bytes: u64,
    /// Bytes it may hold at once for each byte of the input.
    pub bytes_per_byte: u64,
    /// Time of its thread.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            base_bytes: 4 << 10,
            bytes_per_byte: 16,
            time: Duration::from_millis(100),
        }
    }
}

impl Limits {
    /// Bytes a decoder may hold at once for an input of this length.
    pub(crate) fn bytes(&self, input_bytes: usize) -> u64 {
        self.base_bytes + self.bytes_per_byte * input_bytes as u64
    }
}

/// What one input came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    /// In short, what the decoder said: equal for inputs that went the same way.
    pub(crate) shape: String,
    /// The most bytes it held at once.
    pub(crate) peak_bytes: u64,
    pub(crate) time: Duration,
    /// What was wrong, if anything.
    pub(crate) wrong: Option<String>,
}

/// Decodes an input within limits, and has the result checked.
pub(crate) fn judge<T: Debug, E: Display>(
    input: &Bytes,
    limits: &Limits,
    decode: &impl Fn(Bytes) -> Result<T, E>,
    check: &impl Fn(&Bytes, &T),
) -> Outcome {
    let mut decoded = None;
    let mut began = Duration::ZERO;
    let mut ended = Duration::ZERO;
    let info = measure(|| {
        let input = input.clone();
        began = thread_time();
        decoded = Some(caught(|| decode(input)));
        ended = thread_time();
    });
    let mut outcome = Outcome {
        shape: String::new(),
        peak_bytes: info.bytes_max,
        time: ended.saturating_sub(began),
        wrong: None,
    };
    let most = limits.bytes(input.len());
    match decoded.unwrap_or_else(|| Err("it did not run".into())) {
        Err(panic) => outcome.wrong = Some(format!("the decoder panicked: {panic}")),
        Ok(_) if info.bytes_max > most => {
            outcome.wrong = Some(format!(
                "{} B held for an input of {} B, where {most} B are the most",
                info.bytes_max,
                input.len()
            ));
        }
        Ok(_) if outcome.time > limits.time => {
            outcome.wrong = Some(format!("it took {:?}", outcome.time));
        }
        Ok(Err(error)) => outcome.shape = shape(&error.to_string()),
        Ok(Ok(value)) => {
            outcome.shape = shape(&format!("{value:?}"));
            let checked = caught(|| check(input, &value));
            outcome.wrong = checked.err().map(|panic| format!("its result: {panic}"));
        }
    }
    outcome
}

/// Runs it; a panic gives its message.
fn caught<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "without a message".into())
    })
}

const SHAPE_BYTES_MAX: usize = 400;

/// A text without what it quotes, its numbers and its repetitions.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut last = "";
    for unquoted in text.split('"').step_by(2) {
        for word in unquoted.split(|letter: char| !letter.is_alphabetic()) {
            if word.is_empty() || word == last {
                continue;
            }
            shape.push_str(word);
            shape.push(' ');
            last = word;
            if shape.len() > SHAPE_BYTES_MAX {
                return shape;
            }
        }
    }
    shape
}

/// Other threads, and other programs, do not count.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    type Decode = fn(Bytes) -> Result<Vec<u8>, String>;

    fn wrong(input: &'static [u8], decode: Decode) -> Option<String> {
        let limits = Limits {
            base_bytes: 64,
            bytes_per_byte: 2,
            time: Duration::from_millis(5),
        };
        let check = |input: &Bytes, output: &Vec<u8>| assert_eq!(input, &output[..]);
        judge(&Bytes::from_static(input), &limits, &decode, &check).wrong
    }

    #[test]
    fn every_kind_of_misbehaviour_is_noticed_and_none_made_up() {
        assert_eq!(wrong(b"good", |input| Ok(input.to_vec())), None);
        assert_eq!(wrong(b"refused", |_| Err("no".into())), None);
        let cases: [(Decode, &str); 4] = [
            (|input| Ok(vec![input[9]]), "panicked: index out of bounds"),
            (|_| Ok(vec![0; 1000]), "1000 B held for an input of 3 B"),
            (|_| Ok(b"odd".to_vec()), "its result: assertion"),
            (
                |input| {
                    let until = thread_time() + Duration::from_millis(6);
                    while thread_time() < until {}
                    Ok(input.to_vec())
                },
                "it took",
            ),
        ];
        for (decode, expected) in cases {
            let found = wrong(b"bad", decode).unwrap_or_default();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn a_shape_has_neither_numbers_nor_data() {
        assert_eq!(
            shape("unknown tag 7 for frame"),
            shape("unknown tag 9 for frame")
        );
        assert_eq!(shape("[1, 2, 3] None None b\"xyz\""), "None b ");
    }
}
