//! A state machine as an application of the rings inside.

use crate::effects::{EffectEvent, EffectSender};
use crate::envelope::{Envelope, Outcome};
use crate::format::FormatError;
use crate::message::Message;
use crate::sessions::{Seen, Sessions};
use crate::state_machine::{Applied, RequestId, Snapshot, StateMachine, Timer};
use bytes::Bytes;
use quorate_core::{
    Admission, Application, At, CommandProperties, Countdown, Decoder, Encoder, Payload, Wire,
};
use std::fmt;
use std::sync::Arc;

/// What a snapshot begins with.
const MAGIC: u32 = u32::from_le_bytes(*b"QSM1");

/// A state machine with what surrounds it: the count of commands, and the clients that are known.
///
/// Programs have no use for it but one: `quorate_core::Application` is what simulators and benchmarks take.
pub struct Replicated<S: StateMachine> {
    state: S,
    /// How many commands were applied.
    count: u64,
    sessions: Sessions,
    /// The pieces of a snapshot that is being loaded.
    loading: Vec<u8>,
    effects: EffectSender,
}

impl<S: StateMachine> fmt::Debug for Replicated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicated")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl<S: StateMachine> Default for Replicated<S> {
    fn default() -> Self {
        Replicated::telling(EffectSender::default())
    }
}

/// A snapshot of a [`Replicated`] that is being taken.
pub struct Cut {
    pieces: Snapshot,
    /// What is left of a piece that was longer than wanted.
    rest: Bytes,
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cut")
    }
}

impl<S: StateMachine> Replicated<S> {
    /// What commands say by themselves, to replicas and to gateways alike.
    pub(crate) const COMMAND_PROPERTIES: CommandProperties = CommandProperties::UNKNOWN;

    pub(crate) fn telling(effects: EffectSender) -> Self {
        Replicated {
            state: S::default(),
            count: 0,
            sessions: Sessions::default(),
            loading: Vec::new(),
            effects,
        }
    }

    /// The state as it is.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// How many commands were applied: the [`Applied::token`] of the last.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.count
    }

    /// The command in a body that [`Replicated::body`] made.
    ///
    /// # Errors
    /// Why there is none.
    pub fn command(body: &Bytes) -> Result<S::Command, FormatError> {
        match Envelope::from_bytes(body.clone()) {
            Ok(Envelope::Once(body) | Envelope::Request(_, body)) => S::Command::from_bytes(&body),
            Ok(Envelope::Open) => Err(FormatError::new("a client begins here")),
            Err(error) => Err(FormatError::new(error)),
        }
    }

    /// The body in the log of a command that is sent once.
    ///
    /// # Errors
    /// Why the command has no form in bytes.
    pub fn body(command: &S::Command) -> Result<Bytes, FormatError> {
        Ok(Envelope::Once(command.to_bytes()?).to_bytes())
    }

    /// The reply in a result that [`Application::apply`] gave.
    ///
    /// # Errors
    /// Why the command was refused, or the result is none.
    pub fn reply(result: &Bytes) -> Result<S::Reply, FormatError> {
        match Outcome::from_bytes(result.clone()) {
            Ok(Outcome::Reply(reply)) => S::Reply::from_bytes(&reply),
            Ok(other) => Err(FormatError::new(format!("{other:?}"))),
            Err(error) => Err(FormatError::new(error)),
        }
    }

    fn carry_out(&mut self, at: At, envelope: Envelope) -> Outcome {
        if at.admission != Admission::All {
            return Outcome::Refused(refused(at.admission).to_owned());
        }
        let (request, body) = match envelope {
            Envelope::Open => {
                self.count += 1;
                return Outcome::Opened(self.sessions.open(self.count));
            }
            Envelope::Once(body) => (None, body),
            Envelope::Request(id, body) => match self.sessions.look(id) {
                Seen::Known(outcome) => return outcome,
                Seen::New => (Some(id), body),
            },
        };
        let command = match S::Command::from_bytes(&body) {
            Ok(command) => command,
            Err(error) => return Outcome::Refused(format!("the command cannot be read: {error}")),
        };
        self.apply_command(at, request, command)
    }

    fn apply_command(
        &mut self,
        at: At,
        request: Option<RequestId>,
        command: S::Command,
    ) -> Outcome {
        self.count += 1;
        let applied = Applied {
            slot: at.slot.0,
            index: at.index,
            time_ns: at.stamp_ns,
            who: at.principal.0,
            request,
            token: self.count,
        };
        let reply = self.state.apply(&applied, command).to_bytes();
        // It was done, whatever can be said of it.
        let (reply, error) = match reply {
            Ok(reply) => (reply, None),
            Err(error) => (Bytes::new(), Some(error)),
        };
        if let Some(id) = request {
            self.sessions.answered(id, self.count, reply.clone());
        }
        if let Some(error) = error {
            return Outcome::Unreplied(error.to_string());
        }
        (self.effects).send(|| EffectEvent::Applied(applied, reply.clone()));
        Outcome::Reply(reply)
    }

    fn header(&self) -> Bytes {
        let mut out = Encoder::new();
        out.u32(MAGIC);
        out.varint(self.count);
        self.sessions.encode(&mut out);
        out.into_bytes()
    }
}

fn refused(admission: Admission) -> &'static str {
    match admission {
        Admission::All => "",
        Admission::NoGrowth => "space is short: no command is carried out until the alarm is ended",
        Admission::Nothing => "replicas hold different states: no command is carried out",
    }
}

impl<S: StateMachine> Application for Replicated<S> {
    type Query = Arc<S::Query>;
    type Answer = S::Answer;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, _: &[Payload]) -> Bytes {
        let outcome = match Envelope::from_bytes(body.clone()) {
            Ok(envelope) => self.carry_out(at, envelope),
            Err(error) => Outcome::Refused(format!("the command cannot be read: {error}")),
        };
        outcome.to_bytes()
    }

    fn command_properties(&self) -> CommandProperties {
        Self::COMMAND_PROPERTIES
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        let timers = self.state.take_timers().into_iter();
        let countdown = |timer: Timer<S::Command>| match timer {
            Timer::Start { id, after, command } => Countdown::Start {
                id,
                after_ns: u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
                // A command without a form is told of where it comes up: it cannot be read.
                command: Self::body(&command).unwrap_or_default(),
            },
            Timer::Stop { id } => Countdown::Stop { id },
        };
        timers.map(countdown).collect()
    }

    fn query(&self, query: &Arc<S::Query>) -> S::Answer {
        self.state.query(query)
    }

    fn cut(&mut self) -> Cut {
        Cut {
            pieces: self.state.snapshot(),
            rest: self.header(),
        }
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        while cut.rest.is_empty() {
            cut.rest = cut.pieces.next()?;
        }
        let length = cut.rest.len().min(bytes.max(1));
        Some(cut.rest.split_to(length))
    }

    fn release(&mut self, cut: Cut) {
        drop(cut);
    }

    fn empty(&self) -> Self {
        Replicated::telling(self.effects.clone())
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.loading.extend_from_slice(&piece);
        Ok(())
    }

    fn loaded(&mut self) -> Result<(), String> {
        let bytes = Bytes::from(std::mem::take(&mut self.loading));
        let mut input = Decoder::new(bytes.clone());
        let mut header = || {
            let (magic, count) = (input.u32()?, input.varint()?);
            Ok((magic, count, Sessions::decode(&mut input)?))
        };
        let (magic, count, sessions) =
            header().map_err(|error: quorate_core::WireError| error.to_string())?;
        if magic != MAGIC {
            return Err("it is no snapshot of a state machine".to_owned());
        }
        (self.count, self.sessions) = (count, sessions);
        self.state = S::load(&bytes[bytes.len() - input.remaining()..])?;
        Ok(())
    }

    fn installed(&mut self) {
        self.effects.send(|| EffectEvent::Skipped);
    }
}

#[cfg(test)]
mod tests;
