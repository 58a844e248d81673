//! A gateway's connections to the members.

use super::core::Settings;
use crate::metrics::{Metrics, PeerMetrics};
use crate::peer::gateways::{GatewayHello, GatewayWelcome, call, converse};
use crate::peer::handshake::{Lane, RejectCode};
use crate::peer::opening::HandshakeError;
use crate::peer::outgoing::{Framed, Outgoing, Shared};
use crate::peer::{Arrival, Arrivals};
use quorate_core::{Peers, ReplicaId};
use quorate_host::{Frame, Spoken};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Addresses that are dialled, at most.
const MEMBERS_MAX: usize = 64;
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// What a connection has to say.
#[derive(Debug)]
pub(super) enum News {
    /// A member answered.
    Welcome {
        /// At which address.
        place: usize,
        /// What it said.
        welcome: Box<GatewayWelcome>,
    },
    /// A connection ended.
    Lost {
        /// To which address.
        place: usize,
    },
    /// Another gateway has the number.
    Taken,
}

/// One address.
#[derive(Debug)]
struct Place {
    address: String,
    /// Who is there, while connected.
    member: Option<ReplicaId>,
    link: Arc<Mutex<Option<Arc<Outgoing>>>>,
    again: Arc<Notify>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Members {
    places: Vec<Place>,
    hello: Arc<Mutex<GatewayHello>>,
    spoken: Spoken,
    metrics: Arc<Metrics>,
    arrivals: Arrivals,
    tell: mpsc::UnboundedSender<News>,
    pub(super) arrived: mpsc::Receiver<Arrival>,
    pub(super) news: mpsc::UnboundedReceiver<News>,
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
            hello: Arc::new(Mutex::new(hello)),
            spoken: settings.spoken,
            metrics: Arc::clone(metrics),
            arrivals,
            tell,
            arrived,
            news,
        };
        addresses.iter().for_each(|address| members.meet(address));
        members
    }

    /// How it introduces itself.
    pub(super) fn hello(&self) -> GatewayHello {
        lock(&self.hello).clone()
    }

    /// Dials an address from now on, unless it does.
    pub(super) fn meet(&mut self, address: &str) {
        let is_known = self.places.iter().any(|place| place.address == address);
        if is_known || self.places.len() >= MEMBERS_MAX {
            return;
        }
        let place = Place {
            address: address.to_owned(),
            member: None,
            link: Arc::default(),
            again: Arc::default(),
        };
        let dialer = Dialer {
            place: self.places.len(),
            address: address.to_owned(),
            hello: Arc::clone(&self.hello),
            spoken: self.spoken,
            metrics: Arc::clone(&self.metrics),
            arrivals: self.arrivals.clone(),
            tell: self.tell.clone(),
            link: Arc::clone(&place.link),
            again: Arc::clone(&place.again),
        };
        self.places.push(place);
        tokio::spawn(dialer.keep_connected());
    }

    /// Who is at an address by now, or that nobody is.
    pub(super) fn note(&mut self, place: usize, member: Option<ReplicaId>) -> Option<ReplicaId> {
        std::mem::replace(&mut self.places[place].member, member)
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

    /// Sends frames.
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
        let link = |place: &Place| Some((place.member?, lock(&place.link).clone()?));
        self.places.iter().filter_map(link)
    }
}

/// Keeps a connection to one address.
struct Dialer {
    place: usize,
    address: String,
    hello: Arc<Mutex<GatewayHello>>,
    spoken: Spoken,
    metrics: Arc<Metrics>,
    arrivals: Arrivals,
    tell: mpsc::UnboundedSender<News>,
    link: Arc<Mutex<Option<Arc<Outgoing>>>>,
    again: Arc<Notify>,
}

impl Dialer {
    async fn keep_connected(self) {
        let (mut backoff, mut complaint) = (BACKOFF_MIN, String::new());
        loop {
            let hello = lock(&self.hello).clone();
            match call(&self.address, &hello, self.spoken).await {
                Ok((connection, welcome, version)) => {
                    (backoff, complaint) = (BACKOFF_MIN, String::new());
                    let member = welcome.from;
                    tracing::info!(%member, address = self.address, "connected to a member");
                    let metrics = self.metrics.peer(member);
                    let shared = self.attach(member, &metrics);
                    let (place, welcome) = (self.place, Box::new(welcome));
                    if self.tell.send(News::Welcome { place, welcome }).is_err() {
                        return;
                    }
                    metrics.connected.set(1.0);
                    let peer = (member, version);
                    let talk = converse(&shared, connection, peer, &self.arrivals, &metrics);
                    let why = tokio::select! {
                        why = talk => why,
                        () = self.again.notified() => "to ask anew".to_owned(),
                    };
                    tracing::info!(%member, "connection to a member ended: {why}");
                    metrics.connected.set(0.0);
                    *lock(&self.link) = None;
                    if self.tell.send(News::Lost { place }).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let is_taken = matches!(&error, HandshakeError::Rejected(rejection)
                        if rejection.code == RejectCode::Taken);
                    if is_taken && self.tell.send(News::Taken).is_err() {
                        return;
                    }
                    let text = error.to_string();
                    if text != complaint {
                        tracing::warn!(address = self.address, "no member there, retrying: {text}");
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
        let to = (member, Lane::Messages);
        let link = Arc::new(Outgoing::new(to, self.address.clone(), metrics.clone()));
        let shared = link.shared();
        *lock(&self.link) = Some(link);
        shared
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
