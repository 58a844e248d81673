//! A cluster whose messages and disks move only as told. It watches what replicas propose, append
//! and deliver, and fails on the first thing that contradicts what came before.

use crate::chora::{Chora, Config, Logged, Message, Reason, Record, Replica, Timer};
use crate::registry::Protocol;
use quorate_core::{EntryId, Introspect, Now, Outcome, RequestId, Seat, Slot};
use quorate_testkit::{Cluster, Watch};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// What is watched, and what is broken.
#[derive(Default)]
pub(super) struct Watched {
    /// Records that are not written.
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// The value of a slot and view.
    proposed: BTreeMap<(Slot, u64), Option<EntryId>>,
    /// Reads without an answer, and how many slots they must see.
    reads: BTreeMap<RequestId, usize>,
}

impl Watch<Replica> for Watched {
    fn now(cluster: &mut Cluster<Replica, Self>, _: usize) -> Now {
        Now {
            mono_ns: cluster.now_ns,
            clock_ns: 5_000_000_000,
            clock_error_ns: 0,
        }
    }

    fn on_record(cluster: &mut Cluster<Replica, Self>, _: usize, record: &Record) -> bool {
        let watched = &mut cluster.watch;
        if let Record::Append(Logged { slot, eview, value }) = record {
            let name = value.entry().map(|entry| entry.id);
            let first = watched.proposed.entry((*slot, *eview)).or_insert(name);
            assert_eq!(
                *first, name,
                "one value per slot and view (J1), {slot:?} v{eview}"
            );
        }
        !watched.forget.is_some_and(|forget| forget(record))
    }

    fn on_reply(cluster: &mut Cluster<Replica, Self>, me: usize, id: RequestId, outcome: Outcome) {
        let least = cluster.watch.reads.remove(&id);
        if let (Some(least), Outcome::ReadAt(at)) = (least, &outcome) {
            assert!(
                at.0 as usize >= least,
                "a read sees what completed before it"
            );
        }
        cluster.nodes[me].replies.push((id, outcome));
    }
}

/// A cluster of Chora's replicas.
pub(super) struct Net(Cluster<Replica, Watched>);

impl Deref for Net {
    type Target = Cluster<Replica, Watched>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

pub(super) fn seat(n: usize, me: usize, params: &[(&str, &str)]) -> Seat {
    quorate_testkit::seat(Chora::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::with(n, params, |_| {})
    }

    /// A cluster with something changed in every configuration.
    pub(super) fn with(n: usize, params: &[(&str, &str)], edit: fn(&mut Config)) -> Net {
        let configs: Vec<Config> = (0..n)
            .map(|me| {
                let mut config = Chora::config(&seat(n, me, params)).unwrap();
                edit(&mut config);
                config
            })
            .collect();
        Net(Cluster::new(n, Watched::default(), move |me, boot| {
            Config {
                boot,
                ..configs[me].clone()
            }
        }))
    }

    pub(super) fn restart(&mut self, me: usize) {
        self.nodes[me].is_stuck = false;
        self.0.restart(me);
    }

    /// A client of a replica reads; it must see all that was decided before.
    pub(super) fn read(&mut self, me: usize) -> RequestId {
        let logs = self.nodes.iter().map(|node| node.log.len());
        let (least, id) = (logs.max().unwrap_or(0), self.next_request());
        self.watch.reads.insert(id, least);
        self.0.read(me)
    }

    /// The positions of the proposers of the view that a replica is in, if it knows them.
    pub(super) fn pattern(&self, me: usize) -> Option<Vec<usize>> {
        let init = self.machine(me).init.as_ref()?;
        let positions = init.pattern.iter().map(|member| member.position());
        Some(positions.collect())
    }

    /// A replica asks for a new view, which nobody refuses but for its log.
    pub(super) fn stand(&mut self, me: usize) {
        self.stand_because(me, Reason::Restarted);
    }

    /// A replica asks for a new view for this reason.
    pub(super) fn stand_because(&mut self, me: usize, reason: Reason) {
        let node = &mut self.nodes[me];
        let machine = node.machine.as_mut().expect("it runs");
        machine.canvass(reason, &mut node.out);
        self.perform(me);
    }

    /// Delivers everything that is on its way, and what it causes, but for messages that are lost, by
    /// sender and receiver.
    pub(super) fn run_losing(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        self.0.run_losing(|packet| {
            let message = packet.message();
            message.is_some_and(|message| is_lost(packet.from, packet.to, message))
        });
    }

    /// How often a request is in a replica's log.
    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        self.nodes[me].times(request)
    }

    /// Lets everybody's timers fire, one after the other, until nobody waits for anything.
    pub(super) fn settle(&mut self) {
        self.settle_but(usize::MAX);
    }

    /// Lets the timers of all but one replica fire, one after the other, until nobody waits for anything.
    pub(super) fn settle_but(&mut self, out: usize) {
        let those: Vec<usize> = (0..self.nodes.len()).filter(|me| *me != out).collect();
        self.settle_timers(&those);
    }

    /// Lets the timers of these replicas fire, who hear nobody else, until nobody waits for anything.
    pub(super) fn settle_among(&mut self, those: &[usize]) {
        let kept = self.cut.clone();
        let is_out = |node: &usize| !those.contains(node);
        for out in (0..self.nodes.len()).filter(is_out) {
            self.isolate(out);
        }
        self.settle_timers(those);
        self.cut = kept;
    }

    fn settle_timers(&mut self, those: &[usize]) {
        for turn in 0..400 {
            self.run();
            let n = those.len();
            let order = (0..n).map(|place| those[(place + turn) % n]);
            let mut is_quiet = true;
            for me in order {
                self.now_ns += 1_000_000;
                for timer in [Timer::Gap, Timer::Round, Timer::Stall, Timer::Plan] {
                    is_quiet &= !self.fire(me, timer);
                }
                self.run();
            }
            if is_quiet {
                return;
            }
        }
        let states = self.nodes.iter().filter_map(|node| node.machine.as_ref());
        let states: Vec<String> = states.map(Introspect::explain).collect();
        panic!("nobody gets quiet:\n{}", states.join("\n"));
    }
}
