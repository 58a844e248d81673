//! A gateway's connections to the members, one to each: a member may be known at several addresses, as by a name
//! and by a number, and takes the newest connection of a gateway for the only one.

use super::core::Settings;
use crate::log_limit::LogLimit;
use crate::metrics::{Metrics, PeerMetrics};
use crate::peer::gateways::{FrameSink, GatewayHello, GatewayWelcome, LastHeard, call, converse};
use crate::peer::handshake::{Lane, PeerLane, RejectCode};
use crate::peer::long_frames::LongFrames;
use crate::peer::opening::HandshakeError;
use crate::peer::outgoing::{Framed, Outgoing, Shared};
use crate::peer::{Arrival, Arrivals};
use crate::tls::PeerSecurity;
use quorate_core::{Peers, ReplicaId};
use quorate_host::{Frame, SupportedVersions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// Addresses that are dialled, at most.
const MEMBERS_MAX: usize = 64;
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// What a connection has to say.
#[derive(Debug)]
pub(super) enum MemberEvent {
    /// A member answered.
    Welcome {
        /// The index of the address that was dialled.
        place: usize,
        /// The member's welcome, with what it knows of the group.
        welcome: Box<GatewayWelcome>,
    },
    /// A connection ended.
    Lost {
        /// The index of the address whose connection ended.
        place: usize,
    },
    /// Another gateway has the number of this one.
    Taken,
}

/// The connection to one address, and who answers there.
#[derive(Debug)]
struct AddressSlot {
    address: String,
    /// The member at the address, while connected.
    member: Option<ReplicaId>,
    link: Arc<Mutex<Option<Arc<Outgoing>>>>,
    again: Arc<Notify>,
}

/// The index of the address by which each member is reached.
type Reached = watch::Sender<BTreeMap<ReplicaId, usize>>;

/// A gateway's connections to all members.
#[derive(Debug)]
pub(super) struct Members {
    places: Vec<AddressSlot>,
    reached: Arc<Reached>,
    hello: Arc<Mutex<GatewayHello>>,
    supported: SupportedVersions,
    security: PeerSecurity,
    metrics: Arc<Metrics>,
    arrivals: Arrivals,
    tell: mpsc::UnboundedSender<MemberEvent>,
    long_frames: Arc<LongFrames>,
    pub(super) arrived: mpsc::Receiver<Arrival>,
    pub(super) news: mpsc::UnboundedReceiver<MemberEvent>,
}

impl Members {
    pub(super) fn start(
        addresses: Vec<String>,
        hello: GatewayHello,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Members {
        let (arrivals, arrived) = Arrivals::new();
        // One piece of news for each attempt to connect.
        let (tell, news) = mpsc::unbounded_channel();
        let mut members = Members {
            places: Vec::new(),
            reached: Arc::default(),
            hello: Arc::new(Mutex::new(hello)),
            supported: settings.supported,
            security: settings.security.clone(),
            metrics: Arc::clone(metrics),
            arrivals,
            tell,
            long_frames: Arc::default(),
            arrived,
            news,
        };
        addresses.iter().for_each(|address| members.meet(address));
        members
    }

    /// The hello with which the gateway introduces itself.
    pub(super) fn hello(&self) -> GatewayHello {
        lock(&self.hello).clone()
    }

    /// Dials an address from now on, unless it does.
    pub(super) fn meet(&mut self, address: &str) {
        let is_known = self.places.iter().any(|place| place.address == address);
        if is_known || self.places.len() >= MEMBERS_MAX {
            return;
        }
        let place = AddressSlot {
            address: address.to_owned(),
            member: None,
            link: Arc::default(),
            again: Arc::default(),
        };
        let dialer = Dialer {
            place: self.places.len(),
            address: address.to_owned(),
            reached: Arc::clone(&self.reached),
            hello: Arc::clone(&self.hello),
            supported: self.supported,
            security: self.security.clone(),
            metrics: Arc::clone(&self.metrics),
            arrivals: self.arrivals.clone(),
            tell: self.tell.clone(),
            long_frames: Arc::clone(&self.long_frames),
            link: Arc::clone(&place.link),
            again: Arc::clone(&place.again),
        };
        self.places.push(place);
        tokio::spawn(dialer.keep_connected());
    }

    /// Notes the member that answers at an address.
    pub(super) fn note(&mut self, place: usize, member: ReplicaId) {
        self.places[place].member = Some(member);
    }

    /// Nobody is at an address any more: who was, unless that member is reached by another one.
    pub(super) fn note_lost(&mut self, place: usize) -> Option<ReplicaId> {
        let lost = self.places[place].member.take()?;
        let is_lost = self.places.iter().all(|other| other.member != Some(lost));
        is_lost.then_some(lost)
    }

    /// Introduces itself as another gateway to all.
    pub(super) fn rename(&mut self, hello: GatewayHello) {
        *lock(&self.hello) = hello;
        self.ask_again();
    }

    /// Connects to all anew: they say which the newest epoch is.
    pub(super) fn ask_again(&self) {
        self.places
            .iter()
            .for_each(|place| place.again.notify_one());
    }

    /// Sends frames to the members they are for; frames for members that are not connected are lost.
    pub(super) fn send(&self, frames: &[Frame]) {
        for frame in frames {
            let Some(framed) = Framed::of(&frame.chunks) else {
                self.metrics.oversized_frames.increment(1);
                continue;
            };
            for (member, link) in self.links() {
                if frame.to == Peers::All || frame.to == Peers::One(member) {
                    link.shared().push(frame.version, &framed);
                }
            }
        }
        if !frames.is_empty() {
            self.links().for_each(|(_, link)| link.shared().flush());
        }
    }

    fn links(&self) -> impl Iterator<Item = (ReplicaId, Arc<Outgoing>)> {
        let link = |place: &AddressSlot| Some((place.member?, lock(&place.link).clone()?));
        self.places.iter().filter_map(link)
    }
}

/// Keeps a connection to one address.
struct Dialer {
    place: usize,
    address: String,
    reached: Arc<Reached>,
    hello: Arc<Mutex<GatewayHello>>,
    supported: SupportedVersions,
    security: PeerSecurity,
    metrics: Arc<Metrics>,
    arrivals: Arrivals,
    tell: mpsc::UnboundedSender<MemberEvent>,
    long_frames: Arc<LongFrames>,
    link: Arc<Mutex<Option<Arc<Outgoing>>>>,
    again: Arc<Notify>,
}

impl Dialer {
    async fn keep_connected(self) {
        let (mut backoff, mut complaint) = (BACKOFF_MIN, String::new());
        // For one that takes connections and ends them.
        let log = LogLimit::default();
        // Who was here last: nothing is said to one that is reached by another address.
        let mut last = None;
        loop {
            if let Some(member) = last {
                wait_until_lost(&self.reached, member).await;
            }
            let hello = lock(&self.hello).clone();
            match call(&self.address, &hello, self.supported, &self.security).await {
                Ok((connection, welcome, version)) => {
                    (backoff, complaint) = (BACKOFF_MIN, String::new());
                    let member = welcome.from;
                    if let Some(left_out) = log.admit("connected") {
                        tracing::info!(%member, address = self.address, left_out, "connected to a member");
                    }
                    let metrics = self.metrics.peer(member);
                    let shared = self.attach(member, &metrics);
                    let (place, welcome) = (self.place, Box::new(welcome));
                    if self
                        .tell
                        .send(MemberEvent::Welcome { place, welcome })
                        .is_err()
                    {
                        return;
                    }
                    metrics.connected.set(1.0);
                    last = Some(member);
                    self.reached.send_modify(|reached| {
                        reached.insert(member, place);
                    });
                    let sink = FrameSink {
                        arrivals: &self.arrivals,
                        metrics: &metrics,
                        long_frames: &self.long_frames,
                        heard: &LastHeard::now(),
                    };
                    let talk = converse(&shared, connection, member, version, sink);
                    let why = tokio::select! {
                        why = talk => why,
                        () = self.again.notified() => "to ask anew".to_owned(),
                    };
                    *lock(&self.link) = None;
                    let was_only = self.reached.send_if_modified(|reached| {
                        let is_here = reached.get(&member) == Some(&place);
                        is_here && reached.remove(&member).is_some()
                    });
                    if was_only {
                        metrics.connected.set(0.0);
                    }
                    if let Some(left_out) = log.admit("lost") {
                        let address = &self.address;
                        let why = if was_only {
                            &why
                        } else {
                            "the member is reached by another address"
                        };
                        tracing::info!(%member, address, left_out, "connection to a member ended: {why}");
                    }
                    if self.tell.send(MemberEvent::Lost { place }).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let is_taken = matches!(&error, HandshakeError::Rejected(rejection)
                        if rejection.code == RejectCode::Taken);
                    if is_taken && self.tell.send(MemberEvent::Taken).is_err() {
                        return;
                    }
                    let text = error.to_string();
                    if text != complaint {
                        tracing::warn!(
                            address = self.address,
                            "no member answers at the address, retrying: {text}"
                        );
                        complaint = text;
                    }
                }
            }
            let jitter = fastrand::f64().mul_add(0.5, 0.75);
            tokio::time::sleep(backoff.mul_f64(jitter)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn attach(&self, member: ReplicaId, metrics: &PeerMetrics) -> Arc<Shared> {
        let to = PeerLane {
            peer: member,
            lane: Lane::Messages,
        };
        let link = Arc::new(Outgoing::new(to, self.address.clone(), metrics.clone()));
        let shared = link.shared();
        *lock(&self.link) = Some(link);
        shared
    }
}

/// Waits until a member is not reached by any address.
async fn wait_until_lost(reached: &Reached, member: ReplicaId) {
    let mut seen = reached.subscribe();
    // The sender outlives this: a member is lost before nobody can say so.
    let _ = seen
        .wait_for(|reached| !reached.contains_key(&member))
        .await;
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
