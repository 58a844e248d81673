//! What clients were told last, so that a request that comes again is not applied again.

use crate::envelope::Outcome;
use crate::state_machine::{ClientId, RequestId};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Wire, WireError};
use std::collections::BTreeMap;

/// Most clients that are remembered; the one that was silent for longest is forgotten first.
pub(crate) const CLIENTS_MAX: usize = 10_000;
/// Most bytes of replies that are remembered.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// The fewest bytes of a client in a snapshot.
const CLIENT_BYTES_MIN: usize = 4;

/// The clients that are known, the same on every replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    clients: BTreeMap<ClientId, Session>,
    /// Clients by the number of the command by which they were last heard of.
    by_use: BTreeMap<u64, ClientId>,
    reply_bytes: usize,
}

#[derive(Clone, Debug)]
struct Session {
    used: u64,
    number: u64,
    reply: Bytes,
}

/// What is to be done with a request.
pub(crate) enum Seen {
    /// The request is new.
    New,
    /// The request has this outcome already.
    Known(Outcome),
}

impl Sessions {
    /// Begins a client with the number of the command that asked for it.
    pub(crate) fn open(&mut self, token: u64) -> ClientId {
        let client = ClientId(token);
        self.put(client, token, 0, Bytes::new());
        client
    }

    pub(crate) fn look(&self, id: RequestId) -> Seen {
        let Some(session) = self.clients.get(&id.client) else {
            return Seen::Known(Outcome::Forgotten);
        };
        match id.number {
            number if number > session.number => Seen::New,
            number if number == session.number && number > 0 => {
                Seen::Known(Outcome::Reply(session.reply.clone()))
            }
            _ => Seen::Known(Outcome::Overtaken),
        }
    }

    /// Remembers the reply to a new request.
    pub(crate) fn answered(&mut self, id: RequestId, token: u64, reply: Bytes) {
        self.put(id.client, token, id.number, reply);
    }

    fn put(&mut self, client: ClientId, used: u64, number: u64, reply: Bytes) {
        self.reply_bytes += reply.len();
        let session = Session {
            used,
            number,
            reply,
        };
        if let Some(before) = self.clients.insert(client, session) {
            self.by_use.remove(&before.used);
            self.reply_bytes -= before.reply.len();
        }
        self.by_use.insert(used, client);
        while self.clients.len() > CLIENTS_MAX
            || self.reply_bytes > REPLY_BYTES_MAX && self.clients.len() > 1
        {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                return;
            };
            if let Some(forgotten) = self.clients.remove(&oldest) {
                self.reply_bytes -= forgotten.reply.len();
            }
        }
    }
}

impl Wire for Sessions {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.clients.len() as u64);
        for (client, session) in &self.clients {
            out.varint(client.0);
            out.varint(session.used);
            out.varint(session.number);
            out.bytes(&session.reply);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let mut sessions = Sessions::default();
        for _ in 0..input.count(CLIENT_BYTES_MIN)? {
            let client = ClientId(input.varint()?);
            let (used, number) = (input.varint()?, input.varint()?);
            sessions.put(client, used, number, input.bytes()?);
        }
        Ok(sessions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(client: ClientId, number: u64) -> RequestId {
        RequestId { client, number }
    }

    fn outcome(sessions: &Sessions, id: RequestId) -> Option<Outcome> {
        match sessions.look(id) {
            Seen::New => None,
            Seen::Known(outcome) => Some(outcome),
        }
    }

    #[test]
    fn a_request_that_comes_again_has_its_first_reply_and_older_ones_are_refused() {
        let mut sessions = Sessions::default();
        let client = sessions.open(7);
        assert_eq!(outcome(&sessions, request(client, 1)), None);
        let reply = Bytes::from_static(b"one");
        sessions.answered(request(client, 1), 8, reply.clone());
        let again = outcome(&sessions, request(client, 1));
        assert_eq!(again, Some(Outcome::Reply(reply)));
        assert_eq!(outcome(&sessions, request(client, 2)), None);
        sessions.answered(request(client, 3), 9, Bytes::new());
        assert_eq!(
            outcome(&sessions, request(client, 2)),
            Some(Outcome::Overtaken)
        );
        let stranger = request(ClientId(8), 1);
        assert_eq!(outcome(&sessions, stranger), Some(Outcome::Forgotten));
    }

    #[test]
    fn the_client_that_was_silent_for_longest_is_forgotten_first_also_after_a_snapshot() {
        let mut sessions = Sessions::default();
        let clients: Vec<_> = (1..=CLIENTS_MAX as u64)
            .map(|token| sessions.open(token))
            .collect();
        let next = CLIENTS_MAX as u64 + 1;
        sessions.answered(request(clients[0], 1), next, Bytes::from_static(b"r"));
        let mut sessions = Sessions::from_bytes(sessions.to_bytes()).unwrap();
        sessions.open(next + 1);
        assert_eq!(
            outcome(&sessions, request(clients[1], 1)),
            Some(Outcome::Forgotten)
        );
        let kept = outcome(&sessions, request(clients[0], 1));
        assert_eq!(kept, Some(Outcome::Reply(Bytes::from_static(b"r"))));
    }

    #[test]
    fn replies_are_bounded_in_bytes() {
        let mut sessions = Sessions::default();
        let long = Bytes::from(vec![0; REPLY_BYTES_MAX / 2 + 1]);
        let (first, second) = (sessions.open(1), sessions.open(2));
        sessions.answered(request(first, 1), 3, long.clone());
        sessions.answered(request(second, 1), 4, long);
        assert_eq!(
            outcome(&sessions, request(first, 1)),
            Some(Outcome::Forgotten)
        );
        assert!(matches!(
            outcome(&sessions, request(second, 1)),
            Some(Outcome::Reply(_))
        ));
    }
}
