//! What commands come to, as this replica applies them.

use crate::format::FormatError;
use crate::message::Message;
use crate::state_machine::{Applied, StateMachine};
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Most effects that wait for one who watches.
const WAITING_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) enum EffectEvent {
    Applied(Applied, Bytes),
    /// A snapshot took the place of the state.
    Skipped,
}

/// The end that a state machine tells its effects to.
#[derive(Clone)]
pub(crate) struct EffectSender(broadcast::Sender<EffectEvent>);

impl Default for EffectSender {
    fn default() -> Self {
        EffectSender(broadcast::Sender::new(WAITING_MAX))
    }
}

impl EffectSender {
    /// Tells an effect to those who watch, if there are any.
    pub(crate) fn send(&self, event: impl FnOnce() -> EffectEvent) {
        if self.0.receiver_count() > 0 {
            // The last one may have left just now.
            let _ = self.0.send(event());
        }
    }

    pub(crate) fn watch<S: StateMachine>(&self) -> Effects<S> {
        Effects {
            events: self.0.subscribe(),
            of: PhantomData,
        }
    }
}

/// What a watch of effects sees next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect<R> {
    /// A command was applied here, and came to this reply.
    Applied(Applied, R),
    /// Some effects are not told: the watch was too slow, or a snapshot of a peer took the place of commands. Query the
    /// state, and go on from there.
    Missed,
}

/// The effects of commands on one replica, in the order of the log, from when the watch began.
pub struct Effects<S: StateMachine> {
    events: broadcast::Receiver<EffectEvent>,
    of: PhantomData<fn() -> S>,
}

impl<S: StateMachine> fmt::Debug for Effects<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effects")
    }
}

impl<S: StateMachine> Effects<S> {
    /// The next effect; `None` once the node has stopped.
    ///
    /// # Errors
    /// Why a reply cannot be read back, if its type writes what it cannot read.
    pub async fn next(&mut self) -> Result<Option<Effect<S::Reply>>, FormatError> {
        Ok(match self.events.recv().await {
            Ok(EffectEvent::Applied(at, reply)) => {
                Some(Effect::Applied(at, S::Reply::from_bytes(&reply)?))
            }
            Ok(EffectEvent::Skipped) | Err(RecvError::Lagged(_)) => Some(Effect::Missed),
            Err(RecvError::Closed) => None,
        })
    }
}
