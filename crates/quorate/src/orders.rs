//! How a node or a gateway has commands ordered.

use crate::envelope::{Envelope, Outcome};
use crate::error::Error;
use crate::message::Message;
use crate::replicated::Replicated;
use crate::state_machine::{ClientId, StateMachine};
use bytes::Bytes;
use quorate_core::{Principal, Wire};
use quorate_server::{Failure, Handle};
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// The pause before a request that came too early is made again.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// What commands are ordered through, and how long one may take.
pub(crate) struct Orders<'a, S: StateMachine> {
    handle: &'a Handle<Replicated<S>>,
    timeout: Duration,
}

impl<S: StateMachine> Clone for Orders<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: StateMachine> Copy for Orders<'_, S> {}

impl<'a, S: StateMachine> Orders<'a, S> {
    pub(crate) fn new(handle: &'a Handle<Replicated<S>>, timeout: Duration) -> Self {
        Orders { handle, timeout }
    }

    pub(crate) fn timeout(self) -> Duration {
        self.timeout
    }

    /// Has a command applied on behalf of somebody; it is sent once.
    pub(crate) async fn submit(self, who: u32, command: &S::Command) -> Result<S::Reply, Error> {
        let body = encoded(command)?;
        let deadline = Instant::now() + self.timeout;
        let outcome = self.order(&Envelope::Once(body), who, deadline).await?;
        reply::<S>(outcome)
    }

    /// Begins a client, and returns its name.
    pub(crate) async fn open(self) -> Result<ClientId, Error> {
        let deadline = Instant::now() + self.timeout;
        match self.order(&Envelope::Open, 0, deadline).await? {
            Outcome::Opened(id) => Ok(id),
            other => Err(no_reply(other)),
        }
    }

    /// Orders a command, and asks again until the deadline where nothing was done.
    pub(crate) async fn order(
        self,
        envelope: &Envelope,
        who: u32,
        deadline: Instant,
    ) -> Result<Outcome, Error> {
        let body = envelope.to_bytes();
        loop {
            let write = self.handle.write(body.clone(), Principal(who));
            let written = timeout_at(deadline.into(), write).await;
            let failure = match written.unwrap_or(Err(Failure::Timeout)) {
                Ok(result) => return read_outcome(result),
                Err(failure) => failure,
            };
            if !is_early(failure) || Instant::now() >= deadline {
                return Err(Error::of_submit(failure));
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Whether nothing was done, and the same may work in a moment.
pub(crate) fn is_early(failure: Failure) -> bool {
    matches!(failure, Failure::NotServing | Failure::Overloaded)
}

fn read_outcome(result: Bytes) -> Result<Outcome, Error> {
    let unreadable = |error| Error::Unknown(format!("the result cannot be read: {error}"));
    Outcome::from_bytes(result).map_err(unreadable)
}

/// The bytes of a command.
pub(crate) fn encoded<C: Message>(command: &C) -> Result<Bytes, Error> {
    let body = command.to_bytes();
    body.map_err(|error| Error::Refused(format!("the command cannot be written: {error}")))
}

/// The state machine's reply in an outcome.
pub(crate) fn reply<S: StateMachine>(outcome: Outcome) -> Result<S::Reply, Error> {
    let unreadable = |error| Error::Unknown(format!("the reply cannot be read: {error}"));
    match outcome {
        Outcome::Reply(reply) => S::Reply::from_bytes(&reply).map_err(unreadable),
        other => Err(no_reply(other)),
    }
}

/// Why an outcome is no reply.
fn no_reply(outcome: Outcome) -> Error {
    match outcome {
        Outcome::Refused(why) => Error::Refused(why),
        Outcome::Forgotten => Error::Unknown(
            "the client is not known any more, after it was silent for long: begin a new one"
                .to_owned(),
        ),
        Outcome::Overtaken => {
            Error::Unknown("a later request of this client was applied before".to_owned())
        }
        Outcome::Unreplied(why) => Error::Unknown(format!(
            "the command was carried out, and its reply has no form: {why}"
        )),
        Outcome::Reply(_) | Outcome::Opened(_) => {
            Error::Unknown("the result is that of another kind of command".to_owned())
        }
    }
}
