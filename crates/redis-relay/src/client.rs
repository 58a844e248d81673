//! One client from its first byte to its last: it waits for an executor, and is served there.

use crate::hub::{Hub, Place, Waiting};
use crate::limits::{PLACE_AGAIN, RelayLimits};
use crate::local::Local;
use crate::metered::read;
use crate::tunnel::{self, Purpose};
use bytes::{Buf, Bytes};
use quorate_server::{Account, Budget, Connection, TunnelDialer};
use std::io;
use std::path::Path;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// The request for the address of operators, the one that is not the server's to answer.
const ADMIN: &[u8] = b"*2\r\n$7\r\nQUORATE\r\n$5\r\nADMIN\r\n";
/// What requests of HTTP begin with: Redis closes at the sight of them, be there an executor or not.
const HTTP: [&[u8]; 6] = [
    b"GET /",
    b"POST ",
    b"HEAD ",
    b"PUT /",
    b"OPTIONS ",
    b"DELETE /",
];
/// What a client is told before its connection is closed, when none of its bytes were given to a server. Two client
/// libraries send their request again when they read this; and it says that they may.
const NOTHING_DONE: &[u8] = b"-LOADING Quorate has no executor, nothing was done, try again\r\n";
/// What a client is told while another server's data is brought over: nothing of it was given to a server, either.
const IMPORTING: &[u8] =
    b"-LOADING Quorate follows another server and serves nobody until `quorate redis cutover`, \
                           nothing was done, try again\r\n";

/// What all clients of a relay have in common.
#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) hub: Rc<Hub>,
    pub(crate) limits: RelayLimits,
    pub(crate) dialer: Option<TunnelDialer>,
    /// The memory for bytes of clients.
    pub(crate) budget: Budget,
    /// The address for operators.
    pub(crate) admin: Option<String>,
}

/// Where a client is served.
enum Found {
    Here(UnixStream, Place),
    There(Connection, Place),
}

impl Clients {
    /// Serves a client until its connection ends.
    pub(crate) async fn serve(
        self,
        mut client: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let _counted = self.hub.count_client();
        let account = self.budget.account();
        let mut first = Bytes::new();
        while first.is_empty() {
            first = read(&mut client).await?;
            if first.is_empty() {
                return Ok(());
            }
            if first.starts_with(ADMIN) {
                first.advance(ADMIN.len());
                self.tell_admin(&mut client).await?;
            }
        }
        if is_http(&first) {
            return Ok(());
        }
        let mut places = self.hub.watch_place();
        let Some(found) = self.find_place(&mut places).await else {
            let is_importing = *places.borrow() == Place::Importing;
            let why = if is_importing {
                IMPORTING
            } else {
                NOTHING_DONE
            };
            client.write_all(why).await?;
            return client.shutdown().await;
        };
        match found {
            Found::Here(server, place) => {
                let local = self.local(account, server, place, places);
                local.relay(client, first).await
            }
            Found::There(far, place) => {
                let clients = (&self.hub, account, self.limits);
                tunnel::relay(clients, (client, first), far, place, places).await
            }
        }
    }

    /// Serves a client that came to another replica, if clients are served here in that epoch.
    pub(crate) async fn serve_tunnel(self, mut far: Connection, epoch: u64) -> io::Result<()> {
        let places = self.hub.watch_place();
        let place = places.borrow().clone();
        let server = match &place {
            Place::Here { epoch: now, folder } if *now == epoch => self.connect(folder).await.ok(),
            _ => None,
        };
        tunnel::answer(&mut far, server.is_some()).await?;
        match server {
            Some(server) => {
                let local = self.local(self.budget.account(), server, place, places);
                local.relay(far, Bytes::new()).await
            }
            None => Ok(()),
        }
    }

    /// Connects to the own server. Where nobody listens, whoever looks after it is told.
    async fn connect(&self, folder: &Path) -> io::Result<UnixStream> {
        let connected = quorate_redis_process::connect(folder).await;
        let kind = connected.as_ref().err().map(io::Error::kind);
        if let Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) = kind {
            self.hub.note_unreachable();
        }
        connected
    }

    fn local(
        &self,
        account: Account,
        server: UnixStream,
        place: Place,
        places: watch::Receiver<Place>,
    ) -> Local {
        Local {
            served: self.hub.count_served(),
            hub: Rc::clone(&self.hub),
            limits: self.limits,
            account,
            server,
            place,
            places,
        }
    }

    /// Waits for an executor, and connects to it; `None` if none takes the client in time: it was given to nobody.
    async fn find_place(&self, places: &mut watch::Receiver<Place>) -> Option<Found> {
        let waiting = Waiting::new(&self.hub);
        waiting.set(true);
        let deadline = Instant::now() + self.limits.answer_max;
        loop {
            let place = places.borrow_and_update().clone();
            let found = match (&place, &self.dialer) {
                (Place::Importing, _) => return None,
                (Place::Here { folder, .. }, _) => self
                    .connect(folder)
                    .await
                    .map(|server| Found::Here(server, place.clone())),
                (Place::There { epoch, executor }, Some(dialer)) => {
                    let purpose = Purpose::Client { epoch: *epoch };
                    tunnel::ask(dialer, *executor, purpose)
                        .await
                        .map(|far| Found::There(far, place.clone()))
                }
                _ => Err(io::ErrorKind::NotConnected.into()),
            };
            if let Ok(found) = found {
                return Some(found);
            }
            let again = async {
                tokio::select! {
                    // An error means that the hub is gone, and with it everything.
                    _ = places.changed() => {}
                    () = sleep(PLACE_AGAIN), if place != Place::Nowhere => {}
                }
            };
            timeout_at(deadline, again).await.ok()?;
        }
    }

    async fn tell_admin(&self, client: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let answer = match &self.admin {
            Some(admin) => format!("${}\r\n{admin}\r\n", admin.len()),
            None => "$-1\r\n".to_owned(),
        };
        client.write_all(answer.as_bytes()).await?;
        client.flush().await
    }
}

/// Whether a connection begins with a request of HTTP. An inline request may begin like one, but has no version.
fn is_http(first: &[u8]) -> bool {
    let line = first.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default();
    let has_version = line.windows(6).any(|part| part == b" HTTP/");
    has_version && HTTP.iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_told_from_inline_requests() {
        assert!(is_http(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert!(is_http(b"POST / HTTP/1.0\r\n"));
        for inline in [
            &b"GET /health\r\n"[..],
            b"GET a HTTP/1.1\r\n",
            b"GET /a\r\nSET b \" HTTP/1.1\"\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"",
        ] {
            assert!(!is_http(inline), "{inline:?}");
        }
    }
}
