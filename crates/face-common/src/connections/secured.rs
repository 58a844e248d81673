//! The handshake of TLS, before anything of HTTP.
//!
//! A connection has its place among all others from the beginning: where as many are open as may be, one whose
//! handshake stalls is idle, and gives way before its deadline.

use super::registry::{Order, Place};
use quorate_server::{Connection, PortTls};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

/// The common name of a client's certificate, as an extension of its requests: the user who asks. Only a certificate
/// that was verified has one, on a port where names are users.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommonName(pub Arc<str>);

/// An extension of requests that are not gRPC and came over TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encrypted;

/// Does the handshake with a client, unless an order ends it. `None` if there is nothing to be served.
pub(super) async fn accept(
    tls: &PortTls,
    connection: TcpStream,
    from: SocketAddr,
    place: &Place,
) -> Option<Connection> {
    let state = place.state();
    let accepted = tokio::select! {
        accepted = tls.accept(connection) => accepted,
        () = ordered(place) => return None,
    };
    match accepted {
        Ok(connection) => {
            state.touch();
            Some(connection)
        }
        Err(error) => {
            state.counts().tls_failed.increment(1);
            if let Some(left_out) = state.counts().log.admit(error.kind()) {
                tracing::warn!(%from, left_out, "a client's connection was refused: {error}");
            }
            None
        }
    }
}

/// Waits until the connection is to end, in whichever way.
async fn ordered(place: &Place) {
    match place.state().order().await {
        Order::Finish | Order::Close => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConnectionLimits, Face, serve};
    use super::*;
    use quorate_certificates::{Authority, Issued, Validity};
    use quorate_server::{Account, Door, Listener, bind};
    use quorate_tls::{Acceptor, AllowedNames, ClientFiles, Connector, Parameters, ServerFiles};
    use std::convert::Infallible;
    use std::future::{Ready, pending, ready};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tonic::body::Body;
    use tonic::codegen::http::{Request, Response};

    const HOST: &str = "127.0.0.1";

    /// Says in a header who asks.
    #[derive(Clone)]
    struct WhoAsks;

    impl Face for WhoAsks {
        type Body = Body;
        type Answering = Ready<Result<Response<Body>, Infallible>>;

        fn on_connection(&self, _: Account) -> Self {
            WhoAsks
        }

        fn answer(self, request: Request<Body>) -> Self::Answering {
            let asker = request.extensions().get::<CommonName>();
            let name = asker.map_or("nobody", |CommonName(name)| name);
            let response = Response::builder().header("asker", name);
            ready(Ok(response.body(Body::empty()).expect("a good response")))
        }

        fn is_stream(_: &str) -> bool {
            false
        }
    }

    struct World {
        dir: tempfile::TempDir,
        authority: Authority,
        server: Issued,
    }

    impl World {
        fn new() -> World {
            let dir = tempfile::tempdir().unwrap();
            let authority = Authority::new(dir.path(), "root");
            World {
                server: authority.issue("server", &[HOST], Validity::Usual),
                authority,
                dir,
            }
        }

        /// Serves, and says where.
        fn serve(&self, names_users: bool) -> SocketAddr {
            let acceptor = Acceptor::new(ServerFiles {
                certificate: self.server.certificate.clone(),
                key: self.server.key.clone(),
                authorities: Some(self.authority.path()),
                revoked: None,
                allowed: AllowedNames::default(),
                parameters: Parameters::default(),
                languages: &[b"http/1.1"],
            });
            let tls = PortTls::new(acceptor.unwrap(), names_users);
            let listener = Listener::new(bind("127.0.0.1:0").unwrap(), Door::Client).unwrap();
            let address = listener.local_addr().unwrap();
            let listener = listener.secured(Some(Arc::new(tls)));
            tokio::spawn(async move {
                let limits = ConnectionLimits::default();
                serve(listener, WhoAsks, &limits, |io| io, pending()).await;
            });
            address
        }

        /// What a client with this certificate is answered.
        async fn ask(&self, address: SocketAddr, shown: &Issued) -> String {
            let connector = Connector::new(ClientFiles {
                authorities: Some(self.authority.path()),
                certificate: Some((shown.certificate.clone(), shown.key.clone())),
                ..ClientFiles::default()
            });
            let tcp = TcpStream::connect(address).await.unwrap();
            let mut connection = connector.unwrap().connect(tcp, HOST).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            connection.write_all(request).await.unwrap();
            connection.flush().await.unwrap();
            let mut answer = String::new();
            let _ = connection.read_to_string(&mut answer).await;
            answer
        }
    }

    #[tokio::test]
    async fn the_face_is_told_who_asks_where_names_are_users() {
        let world = World::new();
        let alice = world.authority.issue("alice", &[], Validity::Usual);
        for (names_users, asker) in [(true, "asker: alice"), (false, "asker: nobody")] {
            let answer = world.ask(world.serve(names_users), &alice).await;
            assert!(answer.contains(asker), "{answer}");
        }
    }

    /// Scenario: a stranger's certificate has the name of a user.
    #[tokio::test]
    async fn a_name_that_was_not_verified_is_nobodys() {
        let world = World::new();
        let stranger = Authority::new(world.dir.path(), "stranger");
        let mallory = stranger.issue("alice", &[], Validity::Usual);
        assert_eq!(world.ask(world.serve(true), &mallory).await, "");
    }
}
