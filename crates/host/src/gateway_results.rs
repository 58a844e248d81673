//! What a host tells a remote gateway of the requests of an entry that is decided: what its sessions know.

use crate::sessions::{Known, Sessions};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Refusal, RequestId, Slot, Wire, WireError};

/// What came of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum GatewayResult {
    /// It was executed, at this slot; its result.
    Applied(Slot, Bytes),
    /// Its session is open: what there is to say of a session's opening.
    Open,
    /// There is no result.
    Refused(Refusal),
}

/// The refusals that are told.
const REFUSALS: [Refusal; 3] = [Refusal::NoSession, Refusal::Forgotten, Refusal::Unknown];

impl GatewayResult {
    /// What the sessions of the applied state say of a request that was decided there.
    pub(crate) fn of(sessions: &Sessions, id: RequestId) -> GatewayResult {
        if let Some((slot, result)) = sessions.result(id) {
            return GatewayResult::Applied(slot, result);
        }
        match sessions.known(id) {
            // Sessions are opened under number 0, and commands numbered from 1.
            Known::Open | Known::Forgotten if id.seq == 0 => GatewayResult::Open,
            Known::Forgotten => GatewayResult::Refused(Refusal::Forgotten),
            Known::Ended | Known::Nothing => GatewayResult::Refused(Refusal::NoSession),
            // Refused when it was its turn.
            Known::Open => GatewayResult::Refused(Refusal::Unknown),
        }
    }
}

impl Wire for GatewayResult {
    fn encode(&self, out: &mut Encoder) {
        match self {
            GatewayResult::Applied(slot, result) => {
                out.u8(0);
                slot.encode(out);
                out.bytes(result);
            }
            GatewayResult::Open => out.u8(1),
            GatewayResult::Refused(refusal) => {
                let at = REFUSALS.iter().position(|one| one == refusal);
                out.u8(2 + at.unwrap_or(REFUSALS.len() - 1) as u8);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => GatewayResult::Applied(Slot::decode(input)?, input.bytes()?),
            1 => GatewayResult::Open,
            tag => {
                let refusal = REFUSALS.get(usize::from(tag) - 2);
                GatewayResult::Refused(*refusal.ok_or(WireError::Tag("gateway result", tag))?)
            }
        })
    }
}
