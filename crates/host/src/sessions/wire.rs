//! Sessions in a snapshot: a flat list of items, cut into pieces anywhere between two.

use super::{Session, Sessions};
use bytes::Bytes;
use quorate_core::{ClientId, Decoder, Encoder, Slot, Wire, WireError};

/// A session begins; the results that follow are its.
const SESSION: u8 = 0;
/// A result.
const RESULT: u8 = 1;
/// A session that ended.
const ENDED: u8 = 2;

impl Sessions {
    /// Everything, in pieces of about `piece_bytes`.
    pub(crate) fn pieces(&self, piece_bytes: usize) -> Vec<Bytes> {
        let mut pieces = Pieces::new(piece_bytes);
        for (client, session) in &self.sessions {
            let out = pieces.item(SESSION);
            client.encode(out);
            out.varint(session.owner);
            out.varint(session.acked);
            session.used.encode(out);
            for (seq, (slot, result)) in &session.results {
                let out = pieces.item(RESULT);
                out.varint(*seq);
                slot.encode(out);
                out.bytes(result);
            }
        }
        for client in &self.ended {
            client.encode(pieces.item(ENDED));
        }
        pieces.finish()
    }

    /// Takes the next piece; `last` is the session that results belong to.
    pub(crate) fn load(
        &mut self,
        last: &mut Option<ClientId>,
        piece: Bytes,
    ) -> Result<(), WireError> {
        let mut input = Decoder::new(piece);
        while input.remaining() > 0 {
            match input.u8()? {
                SESSION => {
                    let client = ClientId::decode(&mut input)?;
                    let session = Session {
                        owner: input.varint()?,
                        acked: input.varint()?,
                        used: Slot::decode(&mut input)?,
                        ..Session::default()
                    };
                    self.sessions.insert(client, session);
                    *last = Some(client);
                }
                RESULT => {
                    let seq = input.varint()?;
                    let result = (Slot::decode(&mut input)?, input.bytes()?);
                    let session = last.and_then(|client| self.sessions.get_mut(&client));
                    let session = session.ok_or(WireError::Range("session of a result"))?;
                    session.results.insert(seq, result);
                }
                ENDED => {
                    let client = ClientId::decode(&mut input)?;
                    self.ended.push_back(client);
                    self.ended_set.insert(client);
                }
                tag => return Err(WireError::Tag("session item", tag)),
            }
        }
        Ok(())
    }
}

/// Items, collected into pieces.
struct Pieces {
    piece_bytes: usize,
    done: Vec<Bytes>,
    building: Encoder,
}

impl Pieces {
    fn new(piece_bytes: usize) -> Self {
        Pieces {
            piece_bytes,
            done: Vec::new(),
            building: Encoder::new(),
        }
    }

    /// Begins an item.
    fn item(&mut self, tag: u8) -> &mut Encoder {
        if self.building.len() >= self.piece_bytes {
            let full = std::mem::take(&mut self.building);
            self.done.push(full.into_bytes());
        }
        self.building.u8(tag);
        &mut self.building
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.building.is_empty() {
            self.done.push(self.building.into_bytes());
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::RequestId;

    #[test]
    fn every_session_result_and_ending_comes_back_from_pieces_of_any_length() {
        let mut sessions = Sessions::new(3);
        for client in 1..=5 {
            sessions.open(ClientId(client), client % 2, Slot(client));
            for seq in 2..5 {
                let id = RequestId {
                    client: ClientId(client),
                    seq,
                };
                sessions.judge(id, client % 3, Slot(10 + client));
                sessions.record(
                    id,
                    Slot(10 + client),
                    Bytes::from(format!("{client}/{seq}")),
                );
            }
        }
        for piece_bytes in 1..200 {
            let (mut loaded, mut last) = (Sessions::new(3), None);
            for piece in sessions.pieces(piece_bytes) {
                loaded.load(&mut last, piece).unwrap();
            }
            assert_eq!(loaded, sessions);
        }
    }
}
