//! The stream of another server, for a store that carries it out itself instead of having a server do so.

use crate::command::{Command, Outcome, flag};
use crate::shared::StreamState;
use crate::snapshot::{decode_state, encode_state};
use crate::state::State;
use bytes::Bytes;
use quorate_core::{Admission, Decoder, Encoder, Wire, WireError};

/// What of another server's stream is accepted, as it is for servers: in whole units, each byte once.
#[derive(Clone, Debug, Default)]
pub struct Intake {
    state: State,
}

impl Intake {
    /// Carries a command out: what it came to, and the whole units that are accepted with it. Nobody executes here, so
    /// a claim is refused; and whoever sends the stream waits for each piece, so none is kept that is ahead.
    pub fn carry_out(
        &mut self,
        admission: Admission,
        command: Result<Command, WireError>,
    ) -> (Outcome, Vec<Bytes>) {
        let refused = match &command {
            Ok(Command::Claim { .. }) => Some(Outcome::Malformed),
            Ok(Command::Effects { epoch, start, .. })
                if *epoch == self.state.stream.epoch && *start > self.state.end() =>
            {
                let len = self.state.stream.len;
                Some(Outcome::Beyond { len })
            }
            _ => None,
        };
        if let Some(outcome) = refused {
            return (outcome, Vec::new());
        }
        let (outcome, change) = self.state.carry_out(admission, command);
        (outcome, change.bytes)
    }

    /// The epoch, the length and the import of the stream.
    #[must_use]
    pub fn stream(&self) -> &StreamState {
        &self.state.stream
    }

    /// The parts of a unit that is not complete.
    #[must_use]
    pub fn unit(&self) -> &[Bytes] {
        &self.state.unit
    }

    /// The length of the unit that is not complete, in bytes.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        self.state.unit_bytes
    }

    /// Ends the epoch, since what came cannot be carried out: everything has to be brought over anew.
    pub fn fail(&mut self) {
        self.state.fail();
    }
}

impl Wire for Intake {
    fn encode(&self, out: &mut Encoder) {
        let state = &self.state;
        out.u8(u8::from(state.stream.import.is_some()));
        encode_state(state, out);
        out.varint(state.unit.len() as u64);
        state.unit.iter().for_each(|bytes| out.bytes(bytes));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let has_import = flag(input)?;
        let mut state = decode_state(input, has_import)?;
        for _ in 0..input.count(1)? {
            let bytes = input.bytes()?;
            state.unit_bytes += bytes.len() as u64;
            state.unit.push(bytes);
        }
        match state.stream.len.checked_add(state.unit_bytes) {
            Some(_) => Ok(Intake { state }),
            None => Err(WireError::Range("length of a stream")),
        }
    }
}
