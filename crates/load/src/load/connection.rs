//! A connection its clients share, and how it comes back after a failure.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::access::Access;
use super::rpc::Channel;

/// A connection to one endpoint, made again whenever it is lost.
#[derive(Debug)]
pub struct Connection {
    /// The number of the endpoint.
    pub endpoint: usize,
    authority: String,
    access: Access,
    state: Mutex<ConnectionState>,
}

/// A channel, and which attempt it came from: whoever reports a loss says which one was lost.
#[derive(Debug, Clone)]
pub struct Attached {
    /// The HTTP/2 channel, connected anew when it breaks.
    pub channel: Channel,
    generation: u64,
}

#[derive(Debug)]
struct ConnectionState {
    attached: Option<Attached>,
    generation: u64,
    retry_at: Instant,
    pause: Duration,
}

impl Connection {
    /// A connection to the endpoint of this index, not yet made.
    pub fn new(endpoint: usize, authority: &str) -> Connection {
        let state = ConnectionState {
            attached: None,
            generation: 0,
            retry_at: Instant::now(),
            pause: PAUSE_MIN,
        };
        Connection {
            endpoint,
            authority: authority.to_owned(),
            access: Access::default(),
            state: Mutex::new(state),
        }
    }

    /// Says how its endpoint is reached.
    #[must_use]
    pub fn by(self, access: Access) -> Connection {
        Connection { access, ..self }
    }

    /// The channel, connecting if there is none: one attempt, after the pause that earlier
    /// failures ask for. `None` when `over` says that nobody needs it any more.
    pub async fn attach(&self, over: impl Fn() -> bool) -> Option<Result<Attached, String>> {
        let mut state = self.state.lock().await;
        if let Some(attached) = &state.attached {
            return Some(Ok(attached.clone()));
        }
        if over() {
            return None;
        }
        tokio::time::sleep_until(state.retry_at).await;
        if over() {
            return None;
        }
        Some(
            match Channel::connect_as(&self.authority, &self.access, CONNECT_PATIENCE).await {
                Ok(channel) => Ok(state.connected(channel)),
                Err(text) => {
                    state.back_off();
                    Err(text)
                }
            },
        )
    }

    /// Reports that `lost` is of no further use, unless another client has replaced it already.
    pub async fn detach(&self, lost: &Attached) {
        let mut state = self.state.lock().await;
        if state
            .attached
            .as_ref()
            .is_some_and(|now| now.generation == lost.generation)
        {
            state.attached = None;
            // A server that accepts and hangs up at once must not be hammered either.
            state.retry_at = Instant::now() + PAUSE_MIN;
        }
    }
}

impl ConnectionState {
    fn connected(&mut self, channel: Channel) -> Attached {
        self.generation += 1;
        self.pause = PAUSE_MIN;
        let attached = Attached {
            channel,
            generation: self.generation,
        };
        self.attached = Some(attached.clone());
        attached
    }

    fn back_off(&mut self) {
        self.retry_at = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
