//! A client, whose requests are applied at most once.

use crate::envelope::{Envelope, Outcome};
use crate::error::Error;
use crate::node::{Node, encoded, no_reply, reply};
use crate::state_machine::{ClientId, RequestId, StateMachine};
use std::fmt;
use std::time::Instant;

/// A client that the log knows: it numbers its requests, and the replicas remember the last reply to it, so that what
/// is sent again is not applied again.
///
/// It has one request under way at a time; who wants more begins more clients. The replicas know 10,000: the one that
/// was silent for longest is forgotten, and its requests are refused from then on.
pub struct Client<'a, S: StateMachine> {
    node: &'a Node<S>,
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

impl<S: StateMachine> Node<S> {
    /// Begins a client, whose requests are applied at most once however often they are sent.
    ///
    /// # Errors
    /// See [`Node::submit`]; asking again is harmless.
    pub async fn client(&self) -> Result<Client<'_, S>, Error> {
        let deadline = Instant::now() + self.timeout();
        match self.order(&Envelope::Open, 0, deadline).await? {
            Outcome::Opened(id) => Ok(Client::new(self, id, 1)),
            other => Err(no_reply(other)),
        }
    }

    /// Goes on with a client that was begun on another node, or before this process was started: `next` is the number
    /// of its next request, or of the last one, to learn what that came to.
    #[must_use]
    pub fn resume(&self, id: ClientId, next: u64) -> Client<'_, S> {
        Client::new(self, id, next)
    }
}

impl<'a, S: StateMachine> Client<'a, S> {
    pub(crate) fn new(node: &'a Node<S>, id: ClientId, next: u64) -> Self {
        Client {
            node,
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

    /// The client's name: with it and [`Client::next`], it goes on elsewhere ([`Node::resume`]).
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The number of the next request.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Has a command applied, at most once. It is sent again under the same number for twice the node's timeout.
    ///
    /// # Errors
    /// With [`Error::Unknown`] the number stays the next one: submit the same command to learn what it came to, here or
    /// through another node. After all others nothing was done.
    pub async fn submit(&mut self, command: &S::Command) -> Result<S::Reply, Error> {
        let id = RequestId {
            client: self.id,
            number: self.next,
        };
        let envelope = Envelope::Request(id, encoded(command)?);
        let deadline = Instant::now() + 2 * self.node.timeout();
        let outcome = loop {
            match self.node.order(&envelope, self.who, deadline).await {
                Err(Error::Unknown(_)) if Instant::now() < deadline => {}
                other => break other?,
            }
        };
        let reply = reply::<S>(outcome)?;
        self.next += 1;
        Ok(reply)
    }
}
