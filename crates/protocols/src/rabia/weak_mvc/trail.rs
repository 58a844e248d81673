//! What a replica said in the binary stage of one slot, as one small value.

use quorate_core::{Decoder, Encoder, Wire, WireError};
use std::fmt;

/// Values a trail can hold: 64 phases. With a coin the scheduler does not know a slot outlives
/// them with probability below 2^-60; a replica that reaches the end falls silent in that slot,
/// which is safe.
pub const TRAIL_VALUES_MAX: usize = 128;

const VALUES_PER_WORD: usize = 32;

/// The first step of the binary stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Replicas vote as soon as they have seen the proposals: `Vote 0, State 1, Vote 1, ...`.
    #[default]
    TwoStep,
    /// The paper's order (Algorithm 2): `State 1, Vote 1, State 2, ...`.
    ThreeStep,
}

impl Mode {
    /// The step that the value at `index` of a trail belongs to. The modes differ only in where
    /// they enter the sequence `Vote 0, State 1, Vote 1, State 2, ...`.
    #[must_use]
    pub fn step(self, index: usize) -> Step {
        let position = index + self.first_vote();
        let phase = position.div_ceil(2) as u32;
        if position.is_multiple_of(2) {
            Step::Vote(phase)
        } else {
            Step::State(phase)
        }
    }

    /// Index of the first vote in a trail.
    #[must_use]
    pub fn first_vote(self) -> usize {
        match self {
            Mode::TwoStep => 0,
            Mode::ThreeStep => 1,
        }
    }
}

/// One round of the binary stage, with its phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Round 1 of a phase (Algorithm 2, line 12).
    State(u32),
    /// Round 2 of a phase (line 19).
    Vote(u32),
}

/// A value of the binary stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// Forfeit the slot.
    Zero,
    /// Give the slot to the one request with a majority of proposals.
    One,
    /// `?`: a vote for neither.
    Unsure,
}

impl Value {
    fn from_bits(bits: u64) -> Option<Value> {
        match bits {
            0 => Some(Value::Zero),
            1 => Some(Value::One),
            2 => Some(Value::Unsure),
            _ => None,
        }
    }
}

/// The ordered list of a replica's binary-stage values in one slot, two bits each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Trail {
    mode: Mode,
    len: u8,
    words: [u64; TRAIL_VALUES_MAX / VALUES_PER_WORD],
}

impl Trail {
    /// Nothing said yet.
    #[must_use]
    pub fn new(mode: Mode) -> Trail {
        Trail {
            mode,
            ..Trail::default()
        }
    }

    /// The step that the list begins with.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether nothing was said yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no value fits any more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() == TRAIL_VALUES_MAX
    }

    /// The value at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value> {
        if index >= self.len() {
            return None;
        }
        let word = self.words[index / VALUES_PER_WORD];
        Value::from_bits(word >> (2 * (index % VALUES_PER_WORD)) & 3)
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = Value> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Appends a value; the trail must not be full.
    pub fn push(&mut self, value: Value) {
        assert!(!self.is_full(), "a full trail takes no value");
        let index = self.len();
        self.words[index / VALUES_PER_WORD] |= (value as u64) << (2 * (index % VALUES_PER_WORD));
        self.len += 1;
    }

    /// Whether `longer` begins with everything said here.
    #[must_use]
    pub fn is_prefix_of(&self, longer: &Trail) -> bool {
        self.mode == longer.mode
            && self.len <= longer.len
            && (0..self.len()).all(|index| self.get(index) == longer.get(index))
    }

    /// The step of the last value.
    #[must_use]
    pub fn last_step(&self) -> Option<Step> {
        self.len().checked_sub(1).map(|index| self.mode.step(index))
    }

    /// Whether the speaker has gone beyond its first vote: the slot may be one in which it will
    /// not decide without help.
    #[must_use]
    pub fn is_past_first_vote(&self) -> bool {
        self.len() > self.mode.first_vote() + 1
    }

    /// Whether every value is one its step allows: a State is never `?`.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.iter().enumerate().all(|(index, value)| {
            value != Value::Unsure || matches!(self.mode.step(index), Step::Vote(_))
        })
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (index, value) in self.iter().enumerate() {
            let name = match self.mode.step(index) {
                Step::State(phase) => format!("S{phase}"),
                Step::Vote(phase) => format!("V{phase}"),
            };
            let digit = match value {
                Value::Zero => '0',
                Value::One => '1',
                Value::Unsure => '?',
            };
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{name}={digit}")?;
        }
        write!(f, "]")
    }
}

impl Wire for Trail {
    fn encode(&self, out: &mut Encoder) {
        out.varint(u64::from(self.len) << 1 | u64::from(self.mode == Mode::ThreeStep));
        for first in (0..self.len()).step_by(4) {
            let word = self.words[first / VALUES_PER_WORD];
            out.u8((word >> (2 * (first % VALUES_PER_WORD))) as u8);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let head = input.varint()?;
        let mode = if head & 1 == 0 {
            Mode::TwoStep
        } else {
            Mode::ThreeStep
        };
        let len = head >> 1;
        if len > TRAIL_VALUES_MAX as u64 {
            return Err(WireError::Range("trail length"));
        }
        let mut trail = Trail::new(mode);
        let mut byte = 0;
        for index in 0..len {
            if index % 4 == 0 {
                byte = input.u8()?;
            }
            let value = Value::from_bits(u64::from(byte & 3));
            trail.push(value.ok_or(WireError::Range("trail value"))?);
            byte >>= 2;
        }
        if byte != 0 {
            return Err(WireError::Range("trail padding"));
        }
        Ok(trail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(mode: Mode, values: &[Value]) -> Trail {
        let mut trail = Trail::new(mode);
        values.iter().for_each(|value| trail.push(*value));
        trail
    }

    #[test]
    fn the_modes_enter_one_sequence_at_different_steps() {
        use Step::{State, Vote};
        let steps = |mode: Mode| (0..4).map(|index| mode.step(index)).collect::<Vec<_>>();
        assert_eq!(steps(Mode::TwoStep), [Vote(0), State(1), Vote(1), State(2)]);
        assert_eq!(
            steps(Mode::ThreeStep),
            [State(1), Vote(1), State(2), Vote(2)]
        );
    }

    #[test]
    fn a_trail_of_any_length_round_trips_and_a_longer_one_is_an_error() {
        let cycle = [Value::Unsure, Value::Zero, Value::One];
        for mode in [Mode::TwoStep, Mode::ThreeStep] {
            for len in 0..=TRAIL_VALUES_MAX {
                let values = cycle.iter().copied().cycle().take(len).collect::<Vec<_>>();
                let trail = trail(mode, &values);
                assert_eq!(trail.iter().collect::<Vec<_>>(), values);
                assert_eq!(Trail::from_bytes(trail.to_bytes()), Ok(trail));
            }
        }
        let mut long = Encoder::new();
        long.varint((TRAIL_VALUES_MAX as u64 + 1) << 1);
        long.slice(&[0; 64]);
        assert_eq!(
            Trail::from_bytes(long.into_bytes()),
            Err(WireError::Range("trail length"))
        );
    }

    #[test]
    fn prefixes_are_compared_value_by_value() {
        let short = trail(Mode::TwoStep, &[Value::Unsure, Value::Zero]);
        let long = trail(Mode::TwoStep, &[Value::Unsure, Value::Zero, Value::Unsure]);
        let other = trail(Mode::TwoStep, &[Value::Unsure, Value::One, Value::Unsure]);
        assert!(short.is_prefix_of(&short) && short.is_prefix_of(&long));
        assert!(!long.is_prefix_of(&short) && !short.is_prefix_of(&other));
    }
}
