//! Bare machines in virtual time: what a message costs to process is given, and all else takes none. A
//! replica processes one message after the other; a timer that is due comes first.
//!
//! Whole hosts take turns, and everything that came since the last one is processed at once: rounds of a few
//! microseconds need a finer grain. What is decided must agree here, too.

use super::NAME;
use super::cost::Cost;
use super::trouble::{self, Trouble};
use super::worker::{Task, Worker};
use crate::network::exponential;
use crate::queue::Queue;
use crate::simulator::{sample_epoch, seat};
use fastrand::Rng;
use quorate_core::{
    Boot, Due, Durability, Event, Input, Introspect, Now, Outcome, Output, Peers, RequestId, Slot,
};
use quorate_protocols::Protocol;
use quorate_protocols::chora::{Chora, Config, Message, Record, Replica};
use quorate_testkit::{Cluster, Disagreement, Watch, id, index};

/// A replica under full load always has so many commands waiting.
const WAITING: u64 = 32;

/// How long messages are on their way: at least so long, and up to `range_ns` more, evenly. They may overtake
/// each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wiring {
    pub(super) least_ns: u64,
    pub(super) range_ns: u64,
}

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) replicas: usize,
    pub(super) params: Vec<(String, String)>,
    pub(super) wiring: Wiring,
    pub(super) cost: Cost,
    /// The mean time between two commands at a replica, ns; `None` for full load.
    pub(super) every_ns: Option<u64>,
    /// When measuring begins and ends, ns.
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// What goes wrong.
    pub(super) troubles: Vec<Trouble>,
    /// How often replicas are looked at, ns; `None` for never.
    pub(super) look_ns: Option<u64>,
    pub(super) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Commands committed at the first replica, by when.
    pub(super) committed_ns: Vec<u64>,
    /// From a command's arrival at a replica to when it is committed there, ascending.
    pub(super) latencies_ns: Vec<u64>,
    /// Messages said to everybody.
    pub(super) multicasts: u64,
    /// Rounds of the first replica, and those that ended early.
    pub(super) rounds: f64,
    pub(super) early: f64,
    /// Messages that found a full ring.
    pub(super) dropped: u64,
    /// How long messages were on their way, ascending.
    pub(super) delays_ns: Vec<u64>,
    /// What was seen of the replicas, where they are looked at; and of every command, when it was committed
    /// where it came from, and how long that took.
    pub(super) looks: Vec<Look>,
    pub(super) answers_ns: Vec<(u64, u64)>,
}

/// What replicas say of themselves at a time.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) at_ns: u64,
    /// By replica, whether it pulses.
    pub(super) pulsing: Vec<bool>,
    /// The highest view.
    pub(super) view: u64,
}

/// Something that happens at a time.
enum Happening {
    /// A message comes to a replica's ring.
    Arrives {
        from: usize,
        to: usize,
        message: Message,
    },
    /// A replica processes one message, or a timer fires.
    Turn { worker: usize, at_ns: u64 },
    /// A client of a replica asks for something.
    Asked { worker: usize },
    /// A trouble of the run begins, by its place there.
    Trouble(usize),
    /// What replicas say of themselves is noted.
    Look,
}

/// What is on its way to the replicas, what they have to do, and what was seen of them.
struct World<'a> {
    run: &'a Run,
    queue: Queue<Happening>,
    rng: Rng,
    workers: Vec<Worker>,
    seen: Seen,
    /// Cost of the turn under way so far, ns.
    turn_ns: u64,
    /// Cost of a message that is said in the turn under way, ns.
    send_ns: u64,
    /// What two replicas disagree about.
    disagreement: Option<String>,
}

type Net<'a> = Cluster<Replica, World<'a>>;

impl World<'_> {
    fn is_measured(&self) -> bool {
        self.queue.now_ns() >= self.run.from_ns
    }

    fn ask_later(&mut self, worker: usize) {
        if let Some(every_ns) = self.run.every_ns {
            let delay_ns = exponential(&mut self.rng, every_ns);
            self.queue.after(delay_ns, Happening::Asked { worker });
        }
    }

    /// A message leaves when what the turn did before is done.
    fn send(&mut self, from: usize, to: Peers, message: &Message) {
        self.turn_ns += self.send_ns;
        let is_measured = self.is_measured();
        self.seen.multicasts += u64::from(is_measured && to == Peers::All);
        for peer in 0..self.workers.len() {
            let is_meant = to == Peers::All || to == Peers::One(id(peer));
            if peer == from || !is_meant || !self.workers[peer].is_up {
                continue;
            }
            let now_ns = self.queue.now_ns();
            let Wiring { least_ns, range_ns } =
                trouble::wiring(&self.run.troubles, now_ns, self.run.wiring);
            let delay_ns = least_ns + self.rng.u64(..=range_ns);
            if is_measured {
                self.seen.delays_ns.push(delay_ns);
            }
            let arrives = Happening::Arrives {
                from,
                to: peer,
                message: message.clone(),
            };
            self.queue.after(self.turn_ns + delay_ns, arrives);
        }
    }
}

/// Records are durable at once: replicas are in memory.
impl Watch<Replica> for World<'_> {
    fn now(net: &mut Net<'_>, _: usize) -> Now {
        net.now_ns = net.watch.queue.now_ns();
        Now {
            mono_ns: net.now_ns,
            clock_ns: net.now_ns,
            clock_error_ns: u64::MAX,
        }
    }

    fn wait_ns(&mut self, due: &Due) -> u64 {
        match due {
            Due::After(ns) => *ns,
            Due::Within(range) => self.rng.u64(range.clone()),
        }
    }

    fn on_output(net: &mut Net<'_>, me: usize, output: &mut Output<Replica>) -> bool {
        match output {
            Output::Send { to, message, .. } => net.watch.send(me, *to, message),
            // A replica that is too far behind gets all at once from one that is not: the hosts'
            // part, and no time is counted for it.
            Output::Inform { peer, .. } => {
                let until = net.nodes[me].next();
                let to = index(*peer);
                net.watch.workers[to].take(Task::Install { from: me, until });
                turn_when_due(net, to);
            }
            Output::CatchUp { .. } => {}
            _ => return true,
        }
        false
    }

    fn on_record(_: &mut Net<'_>, _: usize, _: &Record) -> bool {
        false
    }

    fn on_deliver(net: &mut Net<'_>, me: usize, slot: Slot) {
        let entry = net.nodes[me].log[slot.0 as usize].as_ref();
        let world = &mut net.watch;
        let now_ns = world.queue.now_ns();
        let latencies_ns = world.workers[me].apply(entry, now_ns);
        if !world.is_measured() {
            return;
        }
        let seen = &mut world.seen;
        if world.run.look_ns.is_some() {
            let answers = latencies_ns.iter().map(|latency| (now_ns, *latency));
            seen.answers_ns.extend(answers);
        }
        seen.latencies_ns.extend(latencies_ns);
        if me == 0 {
            let count = entry.map_or(0, |entry| entry.count());
            seen.committed_ns.extend((0..count).map(|_| now_ns));
        }
    }

    fn on_disagreement(net: &mut Net<'_>, me: usize, what: Disagreement) {
        let replica = me + 1;
        let text = match what {
            Disagreement::Slot { slot, .. } => {
                format!("replica {replica} delivers another entry in {slot}")
            }
            Disagreement::Twice(slot, entry) => {
                format!("replica {replica} delivers {entry:?} again in {slot}")
            }
        };
        net.watch.disagreement.get_or_insert(text);
    }

    fn on_reply(_: &mut Net<'_>, _: usize, _: RequestId, _: Outcome) {}

    fn on_event(_: &mut Net<'_>, _: usize, _: Event) {}
}

/// Runs the machines until the end of the run.
///
/// # Errors
/// Says which parameter is wrong, or what two replicas disagree about.
pub(super) fn run(run: &Run) -> Result<Seen, String> {
    let mut net = begin(run)?;
    let mut before = None;
    while let Some(happening) = net.watch.queue.next() {
        let now_ns = net.watch.queue.now_ns();
        if now_ns >= run.from_ns {
            before.get_or_insert_with(|| rounds(&net));
        }
        if now_ns >= run.until_ns {
            break;
        }
        happen(&mut net, happening);
        if let Some(what) = net.watch.disagreement {
            return Err(what);
        }
    }
    let (before, after) = (before.unwrap_or_default(), rounds(&net));
    (0..run.replicas).for_each(|me| net.machine(me).check());
    let mut seen = net.watch.seen;
    (seen.rounds, seen.early) = (after.0 - before.0, after.1 - before.1);
    seen.latencies_ns.sort_unstable();
    seen.delays_ns.sort_unstable();
    Ok(seen)
}

/// Replicas that have started, with their first commands.
fn begin(run: &Run) -> Result<Net<'_>, String> {
    let params = run.params.iter().cloned().collect();
    let epoch = sample_epoch(NAME, run.replicas, Durability::Memory, &params);
    let config = |me: usize| {
        let mut seat = seat(&epoch, me);
        seat.boot = Boot(me as u64 + 1);
        Chora::config(&seat)
    };
    let configs = (0..run.replicas).map(config);
    let configs: Vec<Config> = configs.collect::<Result<_, _>>()?;
    let world = World {
        run,
        queue: Queue::new(),
        rng: Rng::with_seed(run.seed),
        workers: (0..run.replicas).map(Worker::new).collect(),
        seen: Seen::default(),
        turn_ns: 0,
        send_ns: run.cost.send_ns,
        disagreement: None,
    };
    let mut net = Cluster::new(run.replicas, world, move |me, _| configs[me].clone());
    net.is_checked = false;
    for me in 0..run.replicas {
        turn_when_due(&mut net, me);
        // Not all at once.
        net.watch.ask_later(me);
        fill(&mut net, me);
    }
    for (at, trouble) in run.troubles.iter().enumerate() {
        let happening = Happening::Trouble(at);
        net.watch.queue.after(trouble.begins_ns(), happening);
    }
    if run.look_ns.is_some() {
        net.watch.queue.after(run.from_ns, Happening::Look);
    }
    Ok(net)
}

/// Rounds of the first replica so far, and those that ended early.
fn rounds(net: &Net<'_>) -> (f64, f64) {
    let [rounds, early] = figures(net, 0, ["rounds_total", "rounds_early_total"]);
    (rounds, early)
}

/// What a replica says of itself under these names.
fn figures<const N: usize>(net: &Net<'_>, me: usize, names: [&str; N]) -> [f64; N] {
    let all = net.machine(me).figures();
    let of = |wanted: &str| all.iter().find(|(name, _)| *name == wanted);
    names.map(|name| of(name).map_or(0.0, |(_, value)| *value))
}

fn happen(net: &mut Net<'_>, happening: Happening) {
    let world = &mut net.watch;
    match happening {
        Happening::Arrives { from, to, message } => {
            let is_taken = world.workers[to].take(Task::Hear { from, message });
            world.seen.dropped += u64::from(!is_taken && world.is_measured());
            turn_when_due(net, to);
        }
        Happening::Turn { worker, at_ns } if world.workers[worker].turn_at_ns == Some(at_ns) => {
            turn(net, worker);
        }
        Happening::Turn { .. } => {}
        Happening::Asked { worker } => {
            ask(net, worker, 1);
            net.watch.ask_later(worker);
        }
        Happening::Trouble(at) => begin_trouble(net, at),
        Happening::Look => look(net),
    }
}

fn begin_trouble(net: &mut Net<'_>, at: usize) {
    let world = &mut net.watch;
    match &world.run.troubles[at] {
        Trouble::Stop { node, .. } => world.workers[*node].is_up = false,
        Trouble::Pause { node, time } => {
            world.workers[*node].be_busy_until(time.end);
            turn_when_due(net, *node);
        }
        // They are asked for whenever something is sent or done.
        Trouble::Slow { .. } | Trouble::Delays { .. } => {}
    }
}

fn look(net: &mut Net<'_>) {
    let replicas = 0..net.nodes.len();
    let said = replicas.map(|me| figures(net, me, ["pulsing", "view"]));
    let said: Vec<[f64; 2]> = said.collect();
    let world = &mut net.watch;
    world.seen.looks.push(Look {
        at_ns: world.queue.now_ns(),
        pulsing: said.iter().map(|[pulsing, _]| *pulsing > 0.0).collect(),
        view: said.iter().map(|[_, view]| *view as u64).max().unwrap_or(0),
    });
    if let Some(look_ns) = world.run.look_ns {
        world.queue.after(look_ns, Happening::Look);
    }
}

fn ask(net: &mut Net<'_>, me: usize, commands: u64) {
    let world = &mut net.watch;
    let now_ns = world.queue.now_ns();
    let task = world.workers[me].commands(commands, now_ns);
    world.workers[me].take(task);
    turn_when_due(net, me);
}

/// Full load: there is always a next command.
fn fill(net: &mut Net<'_>, me: usize) {
    if net.watch.run.every_ns.is_none() && net.watch.workers[me].waiting() < WAITING {
        ask(net, me, WAITING);
    }
}

/// A replica processes one message, or a timer fires.
fn turn(net: &mut Net<'_>, me: usize) {
    let world = &mut net.watch;
    let now_ns = world.queue.now_ns();
    let worker = &mut world.workers[me];
    worker.turn_at_ns = None;
    if let Some(task) = worker.next_task(&net.nodes[me].timers, now_ns) {
        let cost = trouble::cost(&world.run.troubles, (me, now_ns), world.run.cost);
        (world.turn_ns, world.send_ns) = (task.cost_ns(&cost), cost.send_ns);
        match task {
            Task::Hear { from, message } => {
                let from = id(from);
                net.step(me, Input::Message { from, message });
            }
            Task::Submit(commands) => net.step(me, Input::Submit(commands)),
            Task::Install { from, until } => net.give_slots(from, me, until.0 as usize),
            Task::Fire(timer) => drop(net.fire(me, timer)),
        }
        net.watch.workers[me].free_ns = now_ns + net.watch.turn_ns;
    }
    fill(net, me);
    turn_when_due(net, me);
}

fn turn_when_due(net: &mut Net<'_>, me: usize) {
    let world = &mut net.watch;
    let now_ns = world.queue.now_ns();
    let worker = &mut world.workers[me];
    let due_ns = worker.due_ns(&net.nodes[me].timers);
    let Some(at_ns) = due_ns.map(|due_ns| due_ns.max(now_ns)) else {
        return;
    };
    if worker.turn_at_ns.is_none_or(|planned| planned > at_ns) {
        worker.turn_at_ns = Some(at_ns);
        let turn = Happening::Turn { worker: me, at_ns };
        world.queue.after(at_ns - now_ns, turn);
    }
}
