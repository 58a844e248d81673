//! Taking connections: of clients, of other relays, and of the own server.

use crate::client::Clients;
use crate::engine::Happening;
use crate::limits::TUNNELS_MAX;
use crate::tunnel::Purpose;
use quorate_server::{Connection, Listener, Tunnel};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// What a client is told for whom there is no room.
const NO_ROOM: &[u8] = b"-ERR max number of clients reached\r\n";
/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections of clients for as long as this is polled.
pub(crate) async fn accept_clients(listener: Listener, clients: Clients) {
    let counts = listener.counts();
    counts.allowed.set(clients.limits.connections_max as f64);
    let open = Rc::new(Cell::new(0_usize));
    loop {
        let (stream, from) = listener.accept().await;
        if open.get() >= clients.limits.connections_max {
            counts.refused.increment(1);
            // The kernel has room for this, or the client is told nothing.
            let _ = stream.try_write(NO_ROOM);
            continue;
        }
        let place = OpenPlace::take(&open);
        counts.open.set(open.get() as f64);
        let (clients, tls, counts) = (clients.clone(), listener.tls(), listener.counts());
        spawn_local(async move {
            let connection: Option<Connection> = match &tls {
                None => Some(stream.into()),
                Some(tls) => match tls.accept(stream).await {
                    Ok(connection) => Some(connection),
                    Err(error) => {
                        counts.tls_failed.increment(1);
                        if let Some(left_out) = counts.log.admit(error.kind()) {
                            tracing::warn!(%from, left_out, "a client's connection was refused: {error}");
                        }
                        None
                    }
                },
            };
            if let Some(connection) = connection {
                ended(clients.serve(connection).await);
            }
            let open = Rc::clone(&place.0);
            drop(place);
            counts.open.set(open.get() as f64);
        });
    }
}

/// One of the connections that are open.
struct OpenPlace(Rc<Cell<usize>>);

impl OpenPlace {
    fn take(open: &Rc<Cell<usize>>) -> OpenPlace {
        open.set(open.get() + 1);
        OpenPlace(Rc::clone(open))
    }
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection is over, of which nobody needs to be told.
fn ended(how: io::Result<()>) {
    if let Err(error) = how {
        tracing::trace!("a client's connection ended: {error}");
    }
}

/// Takes tunnels of other relays for as long as there may be some.
pub(crate) async fn accept_tunnels(
    mut arrived: mpsc::Receiver<Tunnel>,
    clients: Clients,
    happenings: mpsc::UnboundedSender<Happening>,
) {
    let open = Rc::new(Cell::new(0));
    while let Some(tunnel) = arrived.recv().await {
        let purpose = Purpose::of(&tunnel.purpose);
        let (Some(purpose), Ok(connection)) = (purpose, tunnel.open()) else {
            continue;
        };
        match purpose {
            Purpose::Probe { epoch } => {
                // Nobody listens any more once all is being stopped.
                let _ = happenings.send(Happening::Probed(connection, epoch));
            }
            Purpose::Offer { epoch } => {
                let _ = happenings.send(Happening::Offered(connection, epoch));
            }
            Purpose::Client { epoch } if open.get() < TUNNELS_MAX => {
                let (clients, place) = (clients.clone(), OpenPlace::take(&open));
                spawn_local(async move {
                    ended(clients.serve_tunnel(connection, epoch).await);
                    drop(place);
                });
            }
            Purpose::Client { .. } => {}
        }
    }
}

/// Takes links. Whether the own server has begun them is looked at by who knows its process.
pub(crate) async fn accept_links(
    listener: TcpListener,
    happenings: mpsc::UnboundedSender<Happening>,
) {
    loop {
        match listener.accept().await.map(|(stream, _)| stream) {
            Ok(stream) => {
                // It carries what is waited for.
                let _ = stream.set_nodelay(true);
                let _ = happenings.send(Happening::Linked(stream));
            }
            Err(error) => {
                tracing::warn!("the port for the server: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
