//! Schedules that are written down: which message arrives when, whose clock is ahead, who crashes. Replicas
//! count from 0; 0 leads view 0, 1 leads view 1.

use super::super::{Config, Message, Replica, Timer, describe};
use super::mutants::broken;
use super::net::Net;
use super::random::{commutativity, settle};
use quorate_core::{Class, Input, MICROS, MILLIS, RequestId};
use quorate_testkit::{Cluster, Packet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What happens to so many replicas.
pub(super) struct Schedule {
    pub(super) n: usize,
    /// Whether commands that share no key commute.
    pub(super) commutes: bool,
    pub(super) run: fn(&mut Net),
}

impl Schedule {
    /// Of commands that all conflict.
    pub(super) fn of(n: usize, run: fn(&mut Net)) -> Schedule {
        let commutes = false;
        Schedule { n, commutes, run }
    }

    pub(super) fn of_keys(n: usize, run: fn(&mut Net)) -> Schedule {
        let commutes = true;
        Schedule { n, commutes, run }
    }

    /// The schedule comes to a good end.
    pub(super) fn holds(&self) -> Net {
        self.play(|_| {})
    }

    fn play(&self, change: fn(&mut Config)) -> Net {
        let changes = [commutativity(self.commutes), change];
        let mut net = Net::new(self.n, 0, true, &changes);
        net.watch.is_eager = true;
        (self.run)(&mut net);
        settle(&mut net);
        net.watch.history.check_all();
        net
    }

    /// The schedule comes to a good end, but not with this fault: then clients or hosts see something that
    /// may not be, in these words.
    pub(super) fn shows(&self, mutant: &str, words: &str) {
        self.holds();
        let (change, _) = broken(mutant);
        let played = catch_unwind(AssertUnwindSafe(|| drop(self.play(change))));
        let Err(said) = played else {
            panic!("{mutant} goes unnoticed");
        };
        let said = said
            .downcast::<String>()
            .map_or(String::new(), |said| *said);
        assert!(said.contains(words), "{mutant} shows otherwise: {said}");
    }
}

/// The first word that is said of a message.
fn kind(message: &Message) -> String {
    let words = describe::message(message);
    words.split(' ').next().unwrap_or_default().to_owned()
}

/// Whether a packet goes from one to another and is of a kind.
fn is_it(packet: &Packet<Replica>, from: usize, to: usize, what: &str) -> bool {
    let is_on_its_way = (packet.from, packet.to) == (from, to);
    is_on_its_way && packet.message().is_some_and(|said| kind(said) == what)
}

impl Net {
    /// Takes what is on its way from one to another, of a kind, in the order it was sent.
    pub(super) fn take(&mut self, from: usize, to: usize, what: &str) -> Vec<Message> {
        let taken = self.take_packets(|packet| is_it(packet, from, to, what));
        let messages = taken.iter().filter_map(|packet| packet.message().cloned());
        messages.collect()
    }

    /// What there is of it arrives.
    pub(super) fn pass(&mut self, from: usize, to: usize, what: &str) -> usize {
        let taken = self.take_packets(|packet| is_it(packet, from, to, what));
        for packet in &taken {
            self.past.push(packet.clone());
            self.receive(packet.clone());
        }
        taken.len()
    }

    /// What arrived before arrives again.
    pub(super) fn again(&mut self, from: usize, to: usize, what: &str) {
        let past = self.past.iter();
        let copies: Vec<Packet<Replica>> = past
            .filter(|packet| is_it(packet, from, to, what))
            .cloned()
            .collect();
        assert!(!copies.is_empty(), "no {what} from {from} to {to} arrived");
        copies.into_iter().for_each(|packet| self.receive(packet));
    }

    /// Everything arrives, in the order it was sent, and what that leads to.
    pub(super) fn exchange(&mut self) {
        self.run();
    }

    pub(super) fn later(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// A client of a replica writes: some keys, or all.
    pub(super) fn write(&mut self, me: usize, keys: &[u8]) -> RequestId {
        // Later than what was written before.
        self.later(50 * MICROS);
        self.submit_keys(me, Class::Write, keys.to_vec())
    }

    /// By this one's clock, for a moment, all that it holds is due.
    pub(super) fn ripen(&mut self, me: usize) {
        let clock_ns = self.nodes[me].clock_ns;
        self.nodes[me].clock_ns += 2 * MILLIS as i64;
        self.step(me, Input::Timer(Timer::Release));
        self.nodes[me].clock_ns = clock_ns;
    }

    pub(super) fn fire(&mut self, me: usize, timer: Timer) {
        assert!(Cluster::fire(self, me, timer), "{me} waits for {timer:?}");
    }

    /// A replica crashes, and what it said last is lost.
    pub(super) fn fall(&mut self, me: usize) {
        self.crash(me);
        self.wire.retain(|packet| packet.from != me);
    }

    /// A replica begins a new life, without its disk.
    pub(super) fn reborn(&mut self, me: usize) {
        self.fall(me);
        self.restart(me, true);
    }

    /// A follower has not heard its leader for long.
    pub(super) fn suspect(&mut self, me: usize) {
        // The first time it may have heard something since it looked last.
        for _ in 0..2 {
            self.nodes[me].timers.remove(&Timer::Suspect);
            self.step(me, Input::Timer(Timer::Suspect));
        }
    }

    /// The leader of the next view begins it with these.
    pub(super) fn begin_view(&mut self, leader: usize, others: &[usize]) {
        self.suspect(leader);
        for other in others {
            self.pass(leader, *other, "view-change-req");
            self.pass(*other, leader, "view-change");
        }
        for other in others {
            self.pass(leader, *other, "fetch");
            self.pass(*other, leader, "bodies");
        }
        for other in others {
            self.pass(leader, *other, "start-view");
            self.pass(*other, leader, "fetch");
            self.pass(leader, *other, "bodies");
        }
    }

    /// A client of a leader writes, and these follow.
    pub(super) fn agree(&mut self, leader: usize, others: &[usize], keys: &[u8]) -> RequestId {
        let id = self.write(leader, keys);
        for other in others {
            self.pass(leader, *other, "request");
        }
        self.ripen(leader);
        for other in others {
            self.pass(leader, *other, "log-mod");
            self.pass(*other, leader, "synced");
        }
        id
    }

    /// Requests of a gateway reach these in time, and are released there.
    pub(super) fn spread(&mut self, gateway: usize, to: &[usize]) {
        for other in to {
            self.pass(gateway, *other, "request");
        }
        to.iter().for_each(|other| self.ripen(*other));
    }

    /// A replica without promises asks these until it has a log.
    pub(super) fn rejoin(&mut self, me: usize, others: &[usize]) {
        let questions = ["crash-vector-req", "recovery-req", "state-req"];
        let answers = ["crash-vector-rep", "recovery-rep", "start-view"];
        for (question, answer) in questions.into_iter().zip(answers) {
            for other in others {
                self.pass(me, *other, question);
                self.pass(*other, me, answer);
            }
        }
    }

    pub(super) fn is_answered(&self, id: RequestId) -> bool {
        self.watch.history.answered.contains_key(&id)
    }
}
