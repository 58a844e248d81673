//! What a host tells a gateway apart of the requests of an entry that is decided: what its sessions know.

use crate::sessions::{Known, Sessions};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Refusal, RequestId, Slot, Wire, WireError};

/// What came of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// It was executed, at this slot; its result.
    Applied(Slot, Bytes),
    /// Its session is open: what there is to say of a session's opening.
    Open,
    /// There is no result.
    Refused(Refusal),
}

/// The refusals that are told.
const REFUSALS: [Refusal; 3] = [Refusal::NoSession, Refusal::Forgotten, Refusal::Unknown];

impl Told {
    /// What the sessions of the applied state say of a request that was decided there.
    pub(crate) fn of(sessions: &Sessions, id: RequestId) -> Told {
        if let Some((slot, result)) = sessions.result(id) {
            return Told::Applied(slot, result);
        }
        match sessions.known(id) {
            // Sessions are opened under number 0, and commands numbered from 1.
            Known::Open | Known::Forgotten if id.seq == 0 => Told::Open,
            Known::Forgotten => Told::Refused(Refusal::Forgotten),
            Known::Ended | Known::Nothing => Told::Refused(Refusal::NoSession),
            // Refused when it was its turn.
            Known::Open => Told::Refused(Refusal::Unknown),
        }
    }
}

impl Wire for Told {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Told::Applied(slot, result) => {
                out.u8(0);
                slot.encode(out);
                out.bytes(result);
            }
            Told::Open => out.u8(1),
            Told::Refused(refusal) => {
                let at = REFUSALS.iter().position(|one| one == refusal);
                out.u8(2 + at.unwrap_or(REFUSALS.len() - 1) as u8);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Told::Applied(Slot::decode(input)?, input.bytes()?),
            1 => Told::Open,
            tag => {
                let refusal = REFUSALS.get(usize::from(tag) - 2);
                Told::Refused(*refusal.ok_or(WireError::Tag("told", tag))?)
            }
        })
    }
}
