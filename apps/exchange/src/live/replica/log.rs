//! What goes into the log, and what it came to.

use super::links::Served;
use super::{Event, Replica, TICK, delay, sequencer};
use crate::book::{BookRules, ParticipantId, Price};
use crate::exchange::{Answer, Command, Exchange, Query, Reply, SymbolId};
use crate::fair::StampedRequest;
use crate::link::{AnsweredRequest, FromReplica};
use crate::live::clock;
use quorate::{Error, Node, Status};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::mpsc;

/// The pause before the setting up of an exchange goes on.
const SET_UP_PAUSE: Duration = Duration::from_millis(200);
/// The prices of symbols in a new exchange.
const RULES: BookRules = BookRules {
    lowest: Price(1),
    levels: 200,
    orders_max: 1 << 16,
    reference: Price(100),
};

/// Has the orders of a participant cancelled whose connection was lost, if it is treated so, and tells the gateway.
/// Where this fails the gateway asks again.
pub(super) async fn cancel_lost(
    node: Arc<Node<Exchange>>,
    served: Served,
    participant: ParticipantId,
) {
    if node
        .submit(Command::Disconnected(participant))
        .await
        .is_ok()
    {
        served
            .outbox
            .send(FromReplica::Cancelled(participant).to_bytes());
    }
}

/// Tells the replica whether it is to lead, for as long as it runs.
pub(super) async fn watch_leader(node: Arc<Node<Exchange>>, me: u16, events: mpsc::Sender<Event>) {
    let mut led = false;
    loop {
        // A node that has too much to do to say how it is goes on as it was.
        let status = node.status().await;
        let leads = status.map_or(led, |status| is_to_lead(me, &status));
        if leads != led && events.send(Event::Leads(leads)).await.is_err() {
            return;
        }
        led = leads;
        tokio::time::sleep(TICK).await;
    }
}

/// A protocol without a leader has the first member that is there hold requests.
fn is_to_lead(me: u16, status: &Status) -> bool {
    let mut there = status.members.iter().filter(|member| member.is_connected);
    let first = there.next().map(|member| member.id);
    status.has_quorum && status.leader.or(first) == Some(me)
}

/// Sets a new exchange up, however often that takes.
async fn keep_setting_up(
    node: Arc<Node<Exchange>>,
    symbols: u16,
    participants: u16,
    cancels: bool,
) {
    while let Err(error) = set_up(&node, symbols, participants, cancels).await {
        eprintln!("the exchange is not set up yet: {error}");
        tokio::time::sleep(SET_UP_PAUSE).await;
    }
}

/// Has the first leader of a new exchange admit participants and begin symbols.
async fn set_up(
    node: &Node<Exchange>,
    symbols: u16,
    participants: u16,
    cancels_on_disconnect: bool,
) -> Result<(), Error> {
    let known = match node.query(Query::Symbols).await? {
        Answer::Symbols(known) => known.len(),
        _ => 0,
    };
    // Symbols come last: where there are all of them, everything is there.
    if known >= usize::from(symbols) {
        return Ok(());
    }
    for participant in (0..participants).map(ParticipantId) {
        let command = Command::SetParticipant {
            participant,
            cancels_on_disconnect,
        };
        node.submit(command).await?;
    }
    for symbol in (0..symbols).map(SymbolId) {
        let rules = RULES;
        node.submit(Command::AddSymbol { symbol, rules }).await?;
    }
    Ok(())
}

impl Replica {
    /// Begins or ends to lead. What was held comes again from the gateways.
    pub(super) fn lead(&mut self, leads: bool) {
        self.leads = leads;
        let before = std::mem::replace(&mut self.sequencer, sequencer(&self.options));
        self.sequenced.add(&before.stats());
        self.delay = delay(&self.options);
        // What is under way may be lost with the lead: it may come again.
        self.submitted.forget();
        self.links.send_to_all(&FromReplica::Leads(leads));
        if let Some(before) = self.setting_up.take() {
            before.abort();
        }
        if leads {
            eprintln!("replica {} leads", self.options.id);
            let node = Arc::clone(&self.node);
            let (symbols, participants) = (self.options.symbols, self.options.participants);
            let cancels = self.options.cancels_on_disconnect;
            let set_up = keep_setting_up(node, symbols, participants, cancels);
            self.setting_up = Some(tokio::spawn(set_up));
        }
    }

    /// Puts what may go into the log, and sets the timer to when something may go next.
    pub(super) fn release(&mut self) -> io::Result<()> {
        let mut now = clock::now();
        while self.submitted.has_room()
            && self.engine.free_in_ns(now.steady_ns) == 0
            && let Some(stamped) = self.sequencer.poll(now)
        {
            self.engine.take(now.steady_ns);
            self.submit(stamped);
            now = clock::now();
        }
        // Without room, the next reply is what wakes.
        let after_ns = self.sequencer.next_release_in_ns(now);
        let after_ns = after_ns.filter(|_| self.submitted.has_room());
        let engine_ns = self.engine.free_in_ns(now.steady_ns);
        let after_ns = after_ns.map(|after_ns| after_ns.max(engine_ns));
        let due_ns = after_ns.map(|after_ns| now.steady_ns.saturating_add(after_ns));
        // A wake-up that comes too early costs less than setting the timer for each request.
        if due_ns.is_some_and(|due_ns| self.armed_ns.is_none_or(|armed_ns| due_ns < armed_ns)) {
            self.timer.set(after_ns)?;
            self.armed_ns = due_ns;
        }
        Ok(())
    }

    /// Hands a request to the node now, so that the order of calls is that of the log, and waits elsewhere.
    fn submit(&mut self, stamped: StampedRequest) {
        self.submitted.begin(&stamped.request);
        let (node, events) = (Arc::clone(&self.node), self.events.clone());
        let command = Command::Order(stamped.stamp, stamped.request);
        let mut submitted = Box::pin(async move { node.submit(command).await });
        let mut context = Context::from_waker(Waker::noop());
        let first = submitted.as_mut().poll(&mut context);
        tokio::spawn(async move {
            let reply = match first {
                Poll::Ready(reply) => reply,
                Poll::Pending => submitted.await,
            };
            // The replica has ended otherwise.
            let _ = events.send(Event::Submitted(stamped, reply)).await;
        });
    }

    /// Answers a request. One that came to nothing comes again from its gateway.
    pub(super) fn submitted(&mut self, stamped: &StampedRequest, reply: Result<Reply, Error>) {
        let request = &stamped.request;
        self.submitted.end(request);
        if let Ok(reply) = reply {
            let answer = FromReplica::Answer(AnsweredRequest {
                symbol: request.symbol,
                participant: request.participant,
                number: request.number,
                outcome: reply.outcome,
                is_repeated: reply.is_repeated,
            });
            self.links.send_to(stamped.stamp.gateway, &answer);
        }
    }
}
