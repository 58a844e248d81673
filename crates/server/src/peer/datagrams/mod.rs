//! Frames as UDP datagrams, beside the connections.
//!
//! What is short need not wait behind what is long, nor for what a network lost before it. So a replica that was told
//! to sends short frames to a peer as datagrams, and all others on the connections, which are there as ever.
//!
//! **An association** is what makes datagrams from one replica to another good. The replica that wants to send dials
//! the other a third time, on a lane of its own, and says who it is as on the others: cluster, incarnation, epoch and
//! protocol are compared as for every connection. The other answers with *terms* (`terms.rs`): a secret drawn for
//! this association, and how much may be under way. It ends with that connection, with the sender's connection for
//! messages, and when a new one takes its place. What does not begin with the secret of an association is counted and
//! forgotten, so nothing that strangers, former starts of a peer or former associations sent is taken. Who can read
//! the network can read the secret: datagrams are as safe as connections are without TLS, and no safer. Once peers
//! speak TLS to each other, datagrams have to be sealed with keys of these connections, or refused (`security.rs`).
//!
//! **What is expected of datagrams** is what protocols and hosts expect of connections anyway: frames may be lost,
//! come twice and overtake each other, within and between the ways they take. That a frame is whole is up to a
//! checksum; a damaged datagram is a lost one. What a connection promises beside frames it promises still: whether a
//! peer is there is seen by the connection for messages alone, and the version agreed there is the one of datagrams.
//! One thing is different: without a reset, nobody says that frames may have been lost; timers find out, as after a
//! lost frame in the simulator.
//!
//! **Whether they arrive** is not taken for granted. The sender sends probes of several lengths; only what the receiver
//! reported to have seen is used, and after a loss, longer ones have to show themselves again. While datagrams are sent
//! at all, one in each [`REPORT_EVERY`] asks for a report, which comes by the connection. Without it within
//! [`REPORT_TIMEOUT`] frames go by connection again, until probes arrive.
//!
//! **No more than the receiver has room for** is under way: its kernel drops what is too much and tells nobody. Each
//! datagram is charged with the most it may take there (`packet.rs`); what would go beyond the receiver's window goes
//! by connection, where it waits. A receiver behind reports what it saw every quarter of the window.

mod associations;
pub(crate) mod packet;
mod path;
mod socket;
pub(crate) mod terms;
#[cfg(test)]
mod tests;

pub(super) use path::{Path, Unfit};

use super::handshake::Lane;
use super::opening::{self, HandshakeError};
use super::outgoing::{self, Shared};
use super::{Arrivals, PeerContext};
use crate::metrics::PeerMetrics;
use crate::run::random_u64;
use crate::security::Connection;
use associations::Associations;
use bytes::Bytes;
use metrics::Counter;
use packet::Secret;
use quorate_core::ReplicaId;
use socket::{Received, Socket};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use terms::{REPORT_BYTES, Report, Terms};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// How often a report is asked for, while there is traffic.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// How long one may take.
const REPORT_TIMEOUT: Duration = Duration::from_millis(250);
/// How often probes are sent before they are taken for lost.
const PROBES_MAX: usize = 4;
/// Before datagrams are tried again.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// An association that held for so long has shown that there is a way.
const PROVEN_AFTER: Duration = Duration::from_secs(10);
/// Senders that share the room there is for datagrams, at the least: a few more do no harm, for half of it is kept
/// free.
const SENDERS_MIN: usize = 2;

/// What a replica has for datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: Arc<Socket>,
    associations: Associations,
    /// Under way from each peer, at the most.
    window: u64,
}

impl Datagrams {
    /// On a bound port. So many peers may send.
    ///
    /// Must be called inside the runtime that drives them.
    pub(crate) fn new(port: std::net::UdpSocket, peers: usize) -> io::Result<Datagrams> {
        let socket = Socket::new(port)?;
        Ok(Datagrams {
            window: socket.buffer_bytes() / 2 / peers.max(SENDERS_MIN) as u64,
            socket: Arc::new(socket),
            associations: Associations::default(),
        })
    }

    /// Passes what arrives to the core, for as long as the replica runs.
    pub(super) async fn receive(self: Arc<Self>, arrivals: Arrivals, refused: Counter) {
        let mut received = Received::new();
        loop {
            if let Err(error) = received.fill(&self.socket).await {
                // Without this, datagrams are lost, and peers find out.
                tracing::debug!("receiving datagrams failed: {error}");
                sleep(REPORT_EVERY).await;
            }
            for datagram in received.datagrams() {
                match self.take(datagram, &arrivals).await {
                    Taken::Good => {}
                    Taken::Refused => refused.increment(1),
                    Taken::NoCore => return,
                }
            }
        }
    }

    async fn take(&self, datagram: &[u8], arrivals: &Arrivals) -> Taken {
        let found = packet::secret(datagram).and_then(|secret| self.associations.find(secret));
        let Some(association) = found else {
            return Taken::Refused;
        };
        let Ok((header, frames)) = packet::open(datagram) else {
            return Taken::Refused;
        };
        association.note(&header, datagram.len(), self.window);
        let metrics = &association.metrics;
        metrics.received_bytes.increment(datagram.len() as u64);
        for frame in frames.flatten() {
            metrics.received_frames.increment(1);
            let frame = Bytes::copy_from_slice(frame);
            if arrivals.frame(association.peer, frame).await.is_none() {
                return Taken::NoCore;
            }
        }
        Taken::Good
    }

    /// Takes datagrams from a peer until the connection ends on which it asked for that. Returns what was wrong with
    /// its bytes.
    pub(super) async fn admit(
        &self,
        mut connection: Connection,
        peer: ReplicaId,
        metrics: PeerMetrics,
        context: &PeerContext,
    ) -> Option<String> {
        let terms = Terms {
            secret: fresh_secret().ok()?,
            window: self.window,
        };
        let association = self.associations.begin(peer, metrics, terms.secret);
        let _ends = Ends(|| self.associations.end(&association));
        let sent = opening::send(&mut connection, &terms, context.identity.supported).await;
        sent.ok()?;
        let (mut reading, mut writing) = tokio::io::split(connection);
        let mut byte = [0; 1];
        tokio::select! {
            () = association.report(&mut writing) => None,
            read = reading.read(&mut byte) => match read {
                Ok(0) | Err(_) => None,
                Ok(_) => Some("bytes where none belong".to_owned()),
            },
        }
    }

    /// To where the connection goes: the port has the same number.
    fn path(&self, to: SocketAddr, terms: Terms, asked: &Arc<Notify>) -> Path {
        Path::new(Arc::clone(&self.socket), to, terms, Arc::clone(asked))
    }
}

/// What became of a datagram.
enum Taken {
    Good,
    Refused,
    NoCore,
}

/// Does something when it goes, whatever makes it go.
struct Ends<F: Fn()>(F);

impl<F: Fn()> Drop for Ends<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn fresh_secret() -> io::Result<Secret> {
    let (low, high) = (random_u64()?, random_u64()?);
    Ok(Secret(u128::from(high) << 64 | u128::from(low)))
}

/// Keeps a way for datagrams to one peer, while there is a connection for messages.
pub(super) async fn keep_associated(shared: &Shared, context: &PeerContext) -> Never {
    let Some(datagrams) = &context.datagrams else {
        return std::future::pending().await;
    };
    let (mut backoff, mut complaint) = (BACKOFF_MIN, String::new());
    loop {
        let began = Instant::now();
        let why = {
            let _ends = Ends(|| {
                shared.set_path(None);
                shared.goes_by_datagram(false);
            });
            match associate(shared, context, datagrams).await {
                Ok(never) => match never {},
                Err(why) => why,
            }
        };
        if why != complaint || began.elapsed() > PROVEN_AFTER {
            tracing::warn!(
                peer = %shared.peer,
                "no datagrams to the peer, frames go by TCP until there are: {why}"
            );
        }
        if began.elapsed() > PROVEN_AFTER {
            backoff = BACKOFF_MIN;
        }
        complaint = why;
        sleep(backoff.mul_f64(fastrand::f64().mul_add(0.5, 0.75))).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Never made: what would give it does not end.
pub(super) enum Never {}

/// One association, from its beginning to what ends it.
async fn associate(
    shared: &Shared,
    context: &PeerContext,
    datagrams: &Datagrams,
) -> Result<Never, String> {
    let dialled = outgoing::dial(shared, Lane::Datagrams, context).await;
    let (mut connection, _) = dialled.map_err(|error| refusal(&error))?;
    let terms = opening::receive::<Terms>(&mut connection, context.identity.supported);
    let terms = timeout(REPORT_TIMEOUT, terms).await;
    let (terms, _) = terms
        .unwrap_or(Err(HandshakeError::Timeout))
        .map_err(|error| error.to_string())?;
    let dialled = connection.peer_addr().map_err(|error| error.to_string())?;
    let asked = Arc::new(Notify::new());
    shared.set_path(Some(datagrams.path(dialled, terms, &asked)));
    let mut reports = Reports {
        connection,
        bytes: [0; REPORT_BYTES],
        filled: 0,
    };
    probe(shared, &mut reports).await?;
    shared.goes_by_datagram(true);
    tracing::info!(peer = %shared.peer, "short frames to the peer go by UDP");
    watch(shared, &asked, &mut reports).await
}

fn refusal(error: &HandshakeError) -> String {
    match error {
        // Programs that know of no datagrams take this for no handshake at all.
        HandshakeError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it does not know of them".to_owned()
        }
        other => other.to_string(),
    }
}

/// Sends probes until one is reported to have arrived.
async fn probe(shared: &Shared, reports: &mut Reports) -> Result<(), String> {
    for _ in 0..PROBES_MAX {
        shared.with_path(|path| path.probe(path::LADDER.len()));
        let deadline = Instant::now() + REPORT_EVERY;
        // All the time there is: a longer one may arrive after a shorter.
        while let Ok(report) = timeout_at(deadline, reports.next()).await {
            take_report(shared, report?)?;
        }
        if shared.with_path(|path| path.is_open()) == Some(true) {
            return Ok(());
        }
    }
    Err("none of those that were sent to try arrived".to_owned())
}

/// What is waited for beside reports.
enum Due {
    /// Nothing but traffic is waited for.
    Nothing,
    /// The report that was asked for.
    Report(Instant),
    /// The time to ask again.
    Question(Instant),
}

/// Takes reports, and sees to it that they come. Returns why they do not.
async fn watch(shared: &Shared, asked: &Notify, reports: &mut Reports) -> Result<Never, String> {
    let mut due = Due::Nothing;
    let is_asking = || shared.with_path(|path| path.is_asking()) == Some(true);
    shared.with_path(Path::ask);
    loop {
        let timer = async {
            match due {
                Due::Nothing => std::future::pending().await,
                Due::Report(at) | Due::Question(at) => sleep_until(at).await,
            }
        };
        tokio::select! {
            // This thread may have been busy for so long that both are there: then nothing is wrong.
            biased;
            report = reports.next() => {
                take_report(shared, report?)?;
                if matches!(due, Due::Report(_)) && !is_asking() {
                    due = Due::Question(Instant::now() + REPORT_EVERY);
                }
            }
            // The answer may have been there before this was heard of.
            () = asked.notified() => due = match is_asking() {
                true => Due::Report(Instant::now() + REPORT_TIMEOUT),
                false => Due::Question(Instant::now() + REPORT_EVERY),
            },
            () = timer => {
                if let Due::Report(_) = due {
                    let ms = REPORT_TIMEOUT.as_millis();
                    return Err(format!("no report of those that were sent within {ms} ms"));
                }
                due = Due::Nothing;
                shared.with_path(Path::ask);
            }
        }
    }
}

fn take_report(shared: &Shared, report: Report) -> Result<(), String> {
    match shared.with_path(|path| path.reported(report)) {
        Some(false) => Err("the peer reports what was never sent".to_owned()),
        _ => Ok(()),
    }
}

/// Reports as they come.
struct Reports {
    connection: Connection,
    bytes: [u8; REPORT_BYTES],
    filled: usize,
}

impl Reports {
    /// The next one. Whoever stops waiting loses nothing of it.
    async fn next(&mut self) -> Result<Report, String> {
        while self.filled < REPORT_BYTES {
            match self.connection.read(&mut self.bytes[self.filled..]).await {
                Ok(0) => return Err("the peer takes them no more".to_owned()),
                Ok(count) => self.filled += count,
                Err(error) => return Err(error.to_string()),
            }
        }
        self.filled = 0;
        Ok(Report::from_bytes(&self.bytes))
    }
}
