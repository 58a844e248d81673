//! Connections on which something else is spoken after a request of HTTP/1 asked for that.
//!
//! What goes on with such a connection runs in the connection's own task, so that its place in the registry, its
//! deadlines and the end of the server are the same as for all others.

use super::exchange::OpenRequest;
use super::registry::ConnectionState;
use hyper::upgrade::{self, OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tonic::codegen::http::Request;

type Going = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a connection goes on with once HTTP is over, if anything.
#[derive(Clone, Default)]
pub(super) struct Successor(Arc<Mutex<Option<Going>>>);

impl Successor {
    pub(super) fn take(&self) -> Option<Going> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, going: Going) {
        let mut going_on = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *going_on = Some(going);
    }
}

/// A connection whose client asked for another protocol; it is among the extensions of that request.
#[derive(Clone)]
pub struct Takeover {
    state: Arc<ConnectionState>,
    successor: Successor,
}

impl fmt::Debug for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Takeover").finish_non_exhaustive()
    }
}

impl Takeover {
    /// Tells a request that its connection may be taken over, if that is what it asks for.
    pub(super) fn offer<B>(
        request: &mut Request<B>,
        state: &Arc<ConnectionState>,
        successor: &Successor,
    ) {
        if request.extensions().get::<OnUpgrade>().is_some() {
            request.extensions_mut().insert(Takeover {
                state: Arc::clone(state),
                successor: successor.clone(),
            });
        }
    }

    /// Has `serve` go on with the connection of a request once its answer was sent, which has to have status 101.
    /// False if the request asks for nothing of the kind.
    pub fn begin<B, F>(
        request: &mut Request<B>,
        serve: impl FnOnce(TakenOver) -> F + Send + 'static,
    ) -> bool
    where
        F: Future<Output = ()> + Send,
    {
        let Some(Takeover { state, successor }) = request.extensions_mut().remove() else {
            return false;
        };
        let upgraded = upgrade::on(request);
        let open = OpenRequest::begin(&state);
        successor.set(Box::pin(async move {
            // It fails where the connection ended before the answer was sent.
            if let Ok(upgraded) = upgraded.await {
                let inner = TokioIo::new(upgraded);
                serve(TakenOver { inner, state }).await;
            }
            drop(open);
        }));
        true
    }
}

/// A connection that was taken over. It counts as one with an open request, and as idle while nothing comes.
pub struct TakenOver {
    inner: TokioIo<Upgraded>,
    state: Arc<ConnectionState>,
}

impl fmt::Debug for TakenOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakenOver").finish_non_exhaustive()
    }
}

impl AsyncRead for TakenOver {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_read(context, buf))?;
        self.state.touch();
        Poll::Ready(Ok(()))
    }
}

write_through!(whole TakenOver);
