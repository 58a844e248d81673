//! Connections from peers: a handshake, then frames in one direction.

use super::frame::FrameDecoder;
use super::gateways::{self, GatewayHello};
use super::handshake::{Hello, Lane, PeerLane, RejectCode, Rejection};
use super::opening::{self, Caller, HandshakeError};
use super::pending::Pending;
use super::tunnels::{self, TunnelHello};
use super::{Arrivals, HANDSHAKE_TIMEOUT, PeerContext};
use crate::metrics::PeerMetrics;
use crate::security::{Connection, Listener};
use quorate_host::WireVersion;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// What the acceptor knows of all peers.
pub(super) struct Acceptor {
    pub(super) context: PeerContext,
    pub(super) arrivals: Arrivals,
    /// For frames with bulk, which may not take all the room of the others.
    pub(super) bulk_arrivals: Arrivals,
    /// The runtime of bulk connections, if they have one of their own.
    pub(super) bulk_handle: Option<Handle>,
    pub(super) strangers: metrics::Counter,
    /// The metrics of all gateways together.
    pub(super) gateways: PeerMetrics,
}

/// A caller that was welcomed, and whose bytes follow.
enum Welcomed {
    Peer(PeerLane),
    Gateway(GatewayHello, WireVersion),
    Tunnel(TunnelHello),
}

/// Takes connections for as long as the replica runs.
pub(super) async fn accept_all(listener: Listener, acceptor: Arc<Acceptor>) {
    let pending = Pending::default();
    // They end with this.
    let mut callers = JoinSet::new();
    loop {
        let (connection, from) = listener.accept().await;
        while callers.try_join_next().is_some() {}
        let place = pending.begin(from.ip());
        let acceptor = Arc::clone(&acceptor);
        callers.spawn(async move {
            let greeted = tokio::select! {
                greeted = timeout(HANDSHAKE_TIMEOUT, welcome(connection, from, &acceptor)) => {
                    greeted.unwrap_or(Err(HandshakeError::Timeout))
                }
                () = place.gives_way() => Err(HandshakeError::Crowded),
            };
            drop(place);
            match greeted {
                Ok((_, None)) => {}
                Ok((connection, Some(Welcomed::Peer(caller)))) => {
                    serve_on_lane_thread(connection, caller, acceptor).await;
                }
                Ok((connection, Some(Welcomed::Gateway(hello, version)))) => {
                    let Acceptor { context, arrivals, .. } = &*acceptor;
                    let metrics = &acceptor.gateways;
                    gateways::serve(connection, hello, version, context, arrivals, metrics).await;
                }
                Ok((connection, Some(Welcomed::Tunnel(hello)))) => {
                    tunnels::admit(connection, hello, &acceptor.context);
                }
                Err(error) => {
                    acceptor.strangers.increment(1);
                    if let Some(left_out) = acceptor.context.log.admit(error.kind()) {
                        let why = why(&error);
                        tracing::warn!(%from, left_out, "connection to the peer port refused: {why}");
                    }
                }
            }
        });
    }
}

fn why(error: &HandshakeError) -> String {
    match error {
        HandshakeError::NotAPeer => "not a Quorate replica".to_owned(),
        other => other.to_string(),
    }
}

/// Secures a connection and answers the caller. Says whose frames follow.
async fn welcome(
    connection: TcpStream,
    from: SocketAddr,
    acceptor: &Acceptor,
) -> Result<(Connection, Option<Welcomed>), HandshakeError> {
    let secured = acceptor.context.security.accept(connection, from).await;
    let mut connection = secured.map_err(HandshakeError::Security)?;
    let welcomed = greet(&mut connection, acceptor).await?;
    Ok((connection, welcomed))
}

/// Answers a caller. Says whose frames follow; none follow a mere question.
async fn greet(
    connection: &mut Connection,
    acceptor: &Acceptor,
) -> Result<Option<Welcomed>, HandshakeError> {
    let context = &acceptor.context;
    let PeerContext {
        identity,
        incarnations,
        contacts,
        ..
    } = context;
    let supported = identity.supported;
    let judged = match opening::receive_caller(connection, supported).await {
        Ok(Caller::Peer(hello, _)) => meet(&hello, context).await,
        Ok(Caller::CallingBack(asked)) => {
            let answer = context.answer_call_back(&asked);
            let sent = opening::send(connection, &answer, supported).await;
            return sent.map(|()| None).map_err(HandshakeError::Io);
        }
        Ok(Caller::Gateway(hello, version)) => {
            gateways::welcome(connection, &hello, &acceptor.context).await?;
            return Ok(Some(Welcomed::Gateway(hello, version)));
        }
        Ok(Caller::Tunnel(hello)) => return Ok(Some(Welcomed::Tunnel(hello))),
        Ok(Caller::Asking(question)) => {
            let answer = identity.answer(&question, incarnations, contacts);
            let sent = opening::send(connection, &answer, supported).await;
            return sent.map(|()| None).map_err(HandshakeError::Io);
        }
        Err(HandshakeError::Version { theirs, mine }) => Err(Rejection {
            code: RejectCode::WireVersion,
            text: format!(
                "replica {} speaks {mine}, not {theirs}: upgrade the older one",
                identity.me
            ),
        }),
        Err(error) => return Err(error),
    };
    let welcome = identity.welcome(judged.as_ref().err().cloned());
    opening::send(connection, &welcome, supported)
        .await
        .map_err(HandshakeError::Io)?;
    let welcomed = judged.map(|caller| Some(Welcomed::Peer(caller)));
    welcomed.map_err(HandshakeError::Rejected)
}

/// Judges a hello. Says whose frames follow it, if any may.
async fn meet(hello: &Hello, context: &PeerContext) -> Result<PeerLane, Rejection> {
    let PeerContext {
        identity,
        contacts,
        datagrams,
        ..
    } = context;
    identity.judge(hello, contacts.knows(hello.from))?;
    if hello.lane == Lane::Datagrams && datagrams.is_none() {
        return Err(no_datagrams());
    }
    let about = context.verify(hello).await?;
    contacts.said(hello.from, about);
    Ok(PeerLane {
        peer: hello.from,
        lane: hello.lane,
    })
}

fn no_datagrams() -> Rejection {
    Rejection {
        code: RejectCode::Datagrams,
        text: "this replica takes no datagrams: start it with --peer-transport udp, too".to_owned(),
    }
}

/// A connection for bulk moves to the thread of these first.
async fn serve_on_lane_thread(connection: Connection, caller: PeerLane, acceptor: Arc<Acceptor>) {
    let Some(handle) = acceptor
        .bulk_handle
        .clone()
        .filter(|_| caller.lane == Lane::Bulk)
    else {
        return serve(connection, caller, &acceptor).await;
    };
    // Without it, the connection is lost, as connections are.
    let Ok(connection) = connection.detach() else {
        return;
    };
    handle.spawn(async move {
        if let Ok(connection) = Connection::attach(connection) {
            serve(connection, caller, &acceptor).await;
        }
    });
}

/// Passes a peer's frames to the core until the connection ends.
async fn serve(connection: Connection, caller: PeerLane, acceptor: &Acceptor) {
    let PeerLane { peer, lane } = caller;
    let Some((metrics, ends)) = acceptor.context.contacts.called(caller) else {
        return;
    };
    let from = connection.peer_addr().ok();
    tokio::select! {
        () = ends.notified() => {}
        why = read(connection, caller, acceptor, &metrics) => {
            if let Some(why) = why {
                acceptor.strangers.increment(1);
                if let Some(left_out) = acceptor.context.log.admit("frames") {
                    tracing::warn!(
                        %peer, ?lane, ?from, left_out,
                        "connection closed: the peer sent {why}"
                    );
                }
            }
        }
    }
}

/// Returns what was wrong with the bytes, or nothing if the connection just ended.
async fn read(
    mut connection: Connection,
    PeerLane { peer, lane }: PeerLane,
    acceptor: &Acceptor,
    metrics: &PeerMetrics,
) -> Option<String> {
    let arrivals = match (lane, &acceptor.context.datagrams) {
        (Lane::Messages, _) => &acceptor.arrivals,
        (Lane::Bulk, _) => &acceptor.bulk_arrivals,
        (Lane::Datagrams, None) => return None,
        (Lane::Datagrams, Some(datagrams)) => {
            let context = &acceptor.context;
            return datagrams
                .admit(connection, peer, metrics.clone(), context)
                .await;
        }
    };
    let mut decoder = FrameDecoder::default();
    loop {
        match connection.read_buf(&mut decoder.input()).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => metrics.received_bytes.increment(count as u64),
        }
        loop {
            match decoder.next() {
                Ok(Some(payload)) => {
                    metrics.received_frames.increment(1);
                    arrivals.frame(peer, payload).await?;
                }
                Ok(None) => break,
                Err(error) => return Some(error.to_string()),
            }
        }
    }
}
