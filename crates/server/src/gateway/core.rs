//! The core of a gateway: takes what has arrived, lets the host make of it what follows, and carries that out.

use super::Upstream;
use super::members::{MemberEvent, Members};
use crate::any_application::AnyValue;
use crate::clock::{Alarm, Clock};
use crate::error::ServerError;
use crate::group::ChangeError;
use crate::handle::{Failure, Request, first_url};
use crate::log_limit::LogLimit;
use crate::metrics::{Metrics, ProtocolGauges};
use crate::peer::Arrival;
use crate::peer::gateways::{GatewayHello, GatewayWelcome};
use crate::replies::{Replies, Reply};
use crate::run::random_u64;
use crate::tls::PeerSecurity;
use quorate_core::{
    Boot, ClusterId, CommandProperties, Epoch, Event, Group, MILLIS, Now, ReplicaId, Seat,
};
use quorate_host::{
    Answer, Gateway, GatewayConfig, GatewayEffects, HostEvent, Limits, Request as HostRequest,
    SupportedVersions,
};
use quorate_protocols::{RemoteGatewayConfig, RemoteGatewayMachine, remote_gateway_config};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Arrivals of each kind taken in one turn: bounds how long a turn takes.
const TURN_ARRIVALS_MAX: usize = 1024;
/// The time between two questions to members for an epoch that one of them spoke of, in ns.
const ASK_AGAIN_NS: u64 = 100 * MILLIS;

/// What a gateway is run with, as far as the core knows.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) cluster: Option<ClusterId>,
    pub(super) learns: bool,
    pub(super) supported: SupportedVersions,
    pub(super) security: PeerSecurity,
    pub(super) limits: Limits,
    pub(super) patience: Duration,
    pub(super) jitter_seed: u64,
}

impl Settings {
    /// The hello of a gateway that has just drawn a number.
    pub(super) fn hello(&self) -> io::Result<GatewayHello> {
        let number = random_u64()? as u16 | ReplicaId::GATEWAYS;
        Ok(GatewayHello {
            cluster: self.cluster.unwrap_or_default(),
            me: ReplicaId(number),
            boot: Boot(random_u64()?),
            group: Group(0),
        })
    }
}

pub(super) struct Core {
    settings: Settings,
    commands: CommandProperties,
    members: Members,
    clock: Clock,
    metrics: Arc<Metrics>,
    tell: watch::Sender<Upstream>,
    /// The gateway's hello and host, once a member has answered.
    life: Option<(GatewayHello, Gateway<RemoteGatewayMachine>)>,
    hello: Option<GatewayHello>,
    /// The members that can be reached, and the URL at which each serves clients.
    reached: BTreeMap<ReplicaId, String>,
    replies: Replies<AnyValue>,
    branches: BTreeMap<&'static str, metrics::Counter>,
    protocol_gauges: ProtocolGauges,
    ask_again_ns: Option<u64>,
    /// The limit for log lines that members can cause.
    log: LogLimit,
}

impl Core {
    pub(super) fn new(
        settings: Settings,
        commands: CommandProperties,
        members: Members,
        clock: Clock,
        metrics: Arc<Metrics>,
        tell: watch::Sender<Upstream>,
    ) -> Self {
        Core {
            replies: Replies::new(settings.patience),
            settings,
            commands,
            hello: Some(members.hello()),
            members,
            clock,
            metrics,
            tell,
            life: None,
            reached: BTreeMap::new(),
            branches: BTreeMap::new(),
            protocol_gauges: ProtocolGauges::default(),
            ask_again_ns: None,
            log: LogLimit::default(),
        }
    }

    /// Runs as a task of the present runtime until it is told to stop.
    pub(super) fn spawn(
        self,
        requests: mpsc::Receiver<Request>,
        stop: watch::Receiver<bool>,
    ) -> JoinHandle<Result<(), ServerError>> {
        tokio::spawn(self.run(requests, stop))
    }

    async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), ServerError> {
        let mut alarm = Alarm::new()?;
        let (mut asked, mut arrived) = (Vec::new(), Vec::new());
        loop {
            let host = self.life.as_ref().map(|(_, gateway)| gateway);
            let wakes = [
                host.and_then(Gateway::next_wake),
                self.replies.next(),
                self.ask_again_ns,
            ];
            alarm.set(wakes.into_iter().flatten().min())?;
            tokio::select! {
                count = requests.recv_many(&mut asked, TURN_ARRIVALS_MAX) => {
                    if count == 0 { return Ok(()); }
                }
                count = self.members.arrived.recv_many(&mut arrived, TURN_ARRIVALS_MAX) => {
                    if count == 0 { return Ok(()); }
                }
                news = self.members.news.recv() => match news {
                    Some(news) => self.note(news)?,
                    None => return Ok(()),
                },
                result = alarm.wait() => result?,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            }
            while asked.len() < TURN_ARRIVALS_MAX
                && let Ok(request) = requests.try_recv()
            {
                asked.push(request);
            }
            let now = self.clock.now();
            for arrival in arrived.drain(..) {
                self.arrival(now, arrival);
            }
            for request in asked.drain(..) {
                self.request(now, request);
            }
            self.turn(now);
        }
    }

    fn note(&mut self, news: MemberEvent) -> Result<(), ServerError> {
        match news {
            MemberEvent::Welcome { place, welcome } => self.welcomed(place, *welcome),
            MemberEvent::Lost { place } => {
                if let Some(member) = self.members.note_lost(place) {
                    self.reached.remove(&member);
                    let now = self.clock.now();
                    if let Some((_, gateway)) = &mut self.life {
                        gateway.link(now, member, None);
                    }
                    self.publish();
                }
            }
            MemberEvent::Taken => self.rename()?,
        }
        Ok(())
    }

    /// A member answered, and said what it knows.
    pub(super) fn welcomed(&mut self, place: usize, welcome: GatewayWelcome) {
        let GatewayWelcome {
            cluster,
            from,
            client_url,
            epoch,
            peers,
            ..
        } = welcome;
        let known = *self.settings.cluster.get_or_insert(cluster);
        if cluster != known {
            // Whoever is there is of no use; nor is what it says.
            if let Some(left_out) = self.log.admit("other cluster") {
                tracing::warn!(
                    member = %from, left_out,
                    "the member is of cluster {cluster}, the others are of {known}"
                );
            }
            return;
        }
        self.members.note(place, from);
        self.reached.insert(from, first_url(&client_url).to_owned());
        let is_dialled = |id: ReplicaId| self.settings.learns && epoch.index_of(id).is_some();
        let dialled = peers.0.iter().filter(|(id, _)| is_dialled(*id));
        for (_, address) in dialled {
            self.members.meet(address);
        }
        let now = self.clock.now();
        match &mut self.life {
            Some((hello, gateway)) => {
                let machine = machine(&epoch, hello, self.commands);
                gateway.begin_epoch(now, epoch, machine.as_ref());
            }
            None => self.begin(now, epoch),
        }
        self.publish();
    }

    /// Begins as the gateway it has introduced itself as.
    fn begin(&mut self, now: Now, epoch: Epoch) {
        let Some(hello) = self.hello.take() else {
            return;
        };
        let machine = machine(&epoch, &hello, self.commands);
        tracing::info!(gateway = %hello.me, epoch = epoch.number, protocol = epoch.protocol,
            orders = machine.is_some(), "a member has answered");
        let config = GatewayConfig {
            group: hello.group,
            me: hello.me,
            boot: hello.boot,
            epoch,
            supported: self.settings.supported,
            limits: self.settings.limits,
            join: self.commands.join,
            jitter_seed: self.settings.jitter_seed,
        };
        let gateway = Gateway::new(config, machine.as_ref(), now);
        self.life = Some((hello, gateway));
    }

    /// Another gateway has drawn the same number: this one begins again, as another one. What it was asked
    /// for it may have had ordered, so nobody knows.
    fn rename(&mut self) -> Result<(), ServerError> {
        let hello = self.settings.hello()?;
        tracing::info!(gateway = %hello.me, "another gateway has the number of this one, which draws a new one");
        let now = self.clock.now();
        self.replies.fail_all();
        self.members.rename(hello.clone());
        self.hello = Some(hello);
        if let Some((_, before)) = self.life.take() {
            let epoch = before.epoch().clone();
            self.begin(now, epoch);
        }
        Ok(())
    }

    fn arrival(&mut self, now: Now, arrival: Arrival) {
        let Some((_, gateway)) = &mut self.life else {
            return;
        };
        match arrival {
            Arrival::Frame {
                from,
                payload,
                share,
            } => {
                gateway.frame(now, from, payload);
                drop(share);
            }
            Arrival::Link { peer, version } => gateway.link(now, peer, version),
        }
    }

    fn request(&mut self, now: Now, request: Request) {
        match request {
            Request::Write {
                body,
                payloads,
                principal,
                room: _,
                reply,
            } => {
                let Some((_, gateway)) = &mut self.life else {
                    let _ = reply.send(Err(Failure::NotServing));
                    return;
                };
                let token = self.replies.insert(now.mono_ns, Reply::Write(reply));
                let write = HostRequest::<()>::Write {
                    body,
                    payloads,
                    principal,
                };
                gateway.submit(now, token, write);
            }
            // Its face asks members for all this. What was written and cannot be shown is as good as unanswered.
            Request::Payload { reply, .. } => drop(reply.send(Err(Failure::Timeout))),
            Request::Read { reply, .. } => drop(reply.send(Err(Failure::NotServing))),
            Request::Remaining { reply, .. } => drop(reply.send(None)),
            Request::Change { reply, .. } => {
                drop(reply.send(Err(ChangeError::Failed(Failure::NotServing))));
            }
            // A gateway has no part in a quorum: calls that want one go to members.
            Request::Look => {}
            // Whoever asks has what is counted shown; there is no replica to tell of.
            Request::Status { reply } => {
                self.show_protocol_gauges();
                drop(reply);
            }
        }
    }

    fn show_protocol_gauges(&mut self) {
        let own = self.life.as_ref().map(|(_, gateway)| gateway.figures());
        let own = own.into_iter().flatten();
        let figures = own.map(|(name, value)| ((name, None), value));
        self.protocol_gauges.show(&self.metrics, figures.collect());
    }

    fn turn(&mut self, now: Now) {
        let has_left = self.replies.sweep(now.mono_ns);
        let Some((_, gateway)) = &mut self.life else {
            return;
        };
        if has_left {
            gateway.withdraw(now, |token| self.replies.is_wanted(token));
        }
        // One member may reach the others.
        gateway.hold_back(self.reached.is_empty());
        let GatewayEffects {
            frames,
            answers,
            events,
        } = gateway.turn(now);
        let is_behind = gateway.is_behind();
        self.metrics.waiting.set(gateway.waiting() as f64);
        self.members.send(&frames);
        for (token, answer) in answers {
            let answer = match answer {
                Answer::Applied(slot, result) => Answer::Applied(slot, result),
                Answer::Refused(refusal) => Answer::Refused(refusal),
                Answer::Read(..) | Answer::Payload(_) => continue,
            };
            self.replies.answer(token, answer);
        }
        for event in events {
            self.note_event(event);
        }
        if !is_behind {
            self.ask_again_ns = None;
        } else if self.ask_again_ns.is_none_or(|due| due <= now.mono_ns) {
            self.ask_again_ns = Some(now.mono_ns + ASK_AGAIN_NS);
            self.members.ask_again();
        }
    }

    fn note_event(&mut self, event: HostEvent) {
        match event {
            HostEvent::Spent(place, ns) => self.metrics.spent(place, ns),
            HostEvent::BadFrame { peer, why } => {
                self.metrics.bad_frames.increment(1);
                if let Some(left_out) = self.log.admit("bad frame") {
                    tracing::warn!(%peer, left_out, "a frame was dropped: {why}");
                }
            }
            HostEvent::Machine(Event::Branch(name)) => {
                let metrics = &self.metrics;
                let branch = self.branches.entry(name);
                branch.or_insert_with(|| metrics.branch(name)).increment(1);
            }
            HostEvent::Machine(Event::Misbehaved { peer, what }) => {
                self.metrics.misbehaved.increment(1);
                if let Some(left_out) = self.log.admit("misbehaved") {
                    tracing::warn!(%peer, left_out, "a message broke the protocol and was ignored: {what}");
                }
            }
            _ => {}
        }
    }

    /// Tells the face.
    fn publish(&self) {
        let Some((hello, gateway)) = &self.life else {
            return;
        };
        let urls = self.reached.values().filter(|url| !url.is_empty());
        self.tell.send_replace(Upstream {
            cluster: self.settings.cluster.unwrap_or_default(),
            me: hello.me,
            urls: urls.cloned().collect(),
            orders: gateway.is_serving(),
        });
    }
}

fn machine(
    epoch: &Epoch,
    hello: &GatewayHello,
    commands: CommandProperties,
) -> Option<RemoteGatewayConfig> {
    let seat = Seat {
        group: hello.group,
        epoch: epoch.clone(),
        me: hello.me,
        boot: hello.boot,
    };
    remote_gateway_config(&seat, commands.touches)
}
