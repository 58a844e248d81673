//! A client, whose requests are applied at most once.

use crate::envelope::Envelope;
use crate::error::Error;
use crate::orders::{Orders, encoded, reply};
use crate::state_machine::{ClientId, RequestId, StateMachine};
use std::fmt;
use std::time::Instant;

/// A client that the log knows: it numbers its requests, and the replicas remember the last reply to it, so that what
/// is sent again is not applied again.
///
/// It has one request under way at a time; who wants more begins more clients. The replicas know 10,000: the one that
/// was silent for longest is forgotten, and its requests are refused from then on.
pub struct Client<'a, S: StateMachine> {
    orders: Orders<'a, S>,
    id: ClientId,
    next: u64,
    who: u32,
}

impl<S: StateMachine> fmt::Debug for Client<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<'a, S: StateMachine> Client<'a, S> {
    pub(crate) fn new(orders: Orders<'a, S>, id: ClientId, next: u64) -> Self {
        Client {
            orders,
            id,
            next,
            who: 0,
        }
    }

    /// Has requests applied on behalf of somebody ([`Applied::who`](crate::Applied::who)).
    #[must_use]
    pub fn on_behalf_of(mut self, who: u32) -> Self {
        self.who = who;
        self
    }

    /// The client's name: with it and [`Client::next`], it goes on elsewhere
    /// ([`Node::resume`](crate::Node::resume), [`Gateway::resume`](crate::Gateway::resume)).
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The number of the next request.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Has a command applied, at most once. It is sent again under the same number for twice the timeout
    /// of the node or gateway.
    ///
    /// # Errors
    /// With [`Error::Unknown`] the number stays the next one: submit the same command to learn what it came to, here or
    /// through another node or gateway. After all others nothing was done.
    pub async fn submit(&mut self, command: &S::Command) -> Result<S::Reply, Error> {
        let id = RequestId {
            client: self.id,
            number: self.next,
        };
        let envelope = Envelope::Request(id, encoded(command)?);
        let deadline = Instant::now() + 2 * self.orders.timeout();
        let outcome = loop {
            match self.orders.order(&envelope, self.who, deadline).await {
                Err(Error::Unknown(_)) if Instant::now() < deadline => {}
                other => break other?,
            }
        };
        let reply = reply::<S>(outcome)?;
        self.next += 1;
        Ok(reply)
    }
}
