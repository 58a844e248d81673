//! The session of the host's own requests: every boot has one, and a new one in the place of each that it loses.

use super::{OwnSession, Requests};
use quorate_core::{Boot, ClientId, ReplicaId, RequestId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

impl<Q> Requests<Q> {
    /// A client's session is gone. If it is the own one, the opening of an earlier boot's was
    /// decided late and has ended it: what the machine has not got moves to a new session.
    pub(crate) fn session_lost(&mut self, client: ClientId) {
        if client != self.client {
            return;
        }
        self.renewals += 1;
        self.client = own_client(self.me, self.boot, self.renewals);
        self.session = OwnSession::Closed;
        for command in self
            .queue
            .iter_mut()
            .filter(|command| command.id.client == client)
        {
            let write = self.writes.remove(&command.id);
            command.id.client = self.client;
            if let Some(mut write) = write {
                write.command.id = command.id;
                self.writes.insert(command.id, write);
            }
        }
    }

    /// The own session had ended before the turn of a write under it. No write that waits was executed under it, nor
    /// will be: all move to a new session, in their order, those that the machine has as well.
    pub(crate) fn session_ended(&mut self, client: ClientId) {
        if client != self.client {
            return;
        }
        self.session_lost(client);
        let ids = [0, u64::MAX].map(|seq| RequestId { client, seq });
        let taken = self.writes.range(ids[0]..=ids[1]);
        let taken = taken.filter(|(_, write)| !write.is_withdrawn);
        let taken: Vec<RequestId> = taken.map(|(id, _)| *id).collect();
        for id in taken.into_iter().rev() {
            if let Some(mut write) = self.writes.remove(&id) {
                write.command.id.client = self.client;
                write.waiting.ordered_ns = 0;
                write.is_doubtful = false;
                self.queue.push_front(write.command.clone());
                self.writes.insert(write.command.id, write);
            }
        }
    }
}

/// A session of its own for every boot, and a new one for each that was lost: requests of an
/// earlier one can never be mistaken for new ones.
pub(super) fn own_client(me: ReplicaId, boot: Boot, renewals: u64) -> ClientId {
    let name = [boot.0.to_le_bytes(), renewals.to_le_bytes()].concat();
    ClientId(xxh3_64_with_seed(&name, u64::from(me.0)))
}
