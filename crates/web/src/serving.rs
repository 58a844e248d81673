//! Taking connections, and ending.

use quorate_server::{Connection, Listener};
use std::future::Future;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;

/// Connections that passed the door which all connections of a replica pass.
pub fn connections(listener: Listener) -> impl Stream<Item = Connection> {
    let (passed, connections) = mpsc::channel(CONNECTIONS_WAITING_MAX);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                (connection, _) = listener.accept() => {
                    if passed.send(connection).await.is_err() {
                        return;
                    }
                }
                () = passed.closed() => return,
            }
        }
    });
    ReceiverStream::new(connections)
}

/// Serves until `shutdown` completes, then lets open requests finish for a while. `serve` makes what serves
/// of a future that tells it to take no more.
pub async fn until_drained<E, S>(
    shutdown: impl Future<Output = ()> + Send + 'static,
    drain: Duration,
    serve: impl FnOnce(ShutDown) -> S,
) -> Result<(), E>
where
    S: Future<Output = Result<(), E>>,
{
    let (told, stopping) = oneshot::channel::<()>();
    let serving = serve(Box::pin(async move {
        shutdown.await;
        let _ = told.send(());
    }));
    let overdue = async move {
        if stopping.await.is_ok() {
            tokio::time::sleep(drain).await;
        } else {
            // Serving ended by itself, and says how.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        result = serving => result,
        () = overdue => Ok(()),
    }
}

/// Completes when no more requests are to be taken.
pub type ShutDown = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Connections between the door and the server; more wait in the kernel.
const CONNECTIONS_WAITING_MAX: usize = 64;
