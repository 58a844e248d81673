//! Copies of data folders that are put back at once, before peers had time to note what was promised since.
//!
//! The replica may not notice: it may help to decide slots a second time, and what was acknowledged meanwhile may be
//! lost. That much is documented. Whoever still holds another state than the others must be told so by digests: where
//! a majority is equal it goes on, and where none is the group takes no commands. What else a seed checks is not to be
//! had any more, so it ends there.

use super::{ORDER, Sequel};
use crate::node::Power;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, TICK_NS, World, replica};
use quorate_core::{Admission, MILLIS, Machine, SECONDS, majority};
use quorate_host::epochs::{Alarm, AlarmKind, Order, Scope};
use quorate_host::{ALARM_LEVEL, Comparison, Directive, Host, Request, Verdict, is_in_doubt};
use std::collections::BTreeSet;

/// A copy is put back so long after it was taken, at most, in ns.
const RECENT_NS: u64 = 350 * MILLIS;
/// Once nothing breaks any more, a difference is to be noticed and dealt with in so much time, in ns.
const NOTICED_NS: u64 = 60 * SECONDS;
/// Between two looks of a replica at its alarms, in ns.
const LOOKS_AGAIN_NS: u64 = SECONDS;
/// What may be broken by a replica that forgot promises and does not know.
const CONSEQUENCES: [&str; 9] = [
    "agreement",
    "answer",
    "application",
    "content",
    "honesty",
    "lease",
    "liveness",
    "snapshot",
    "watch",
];

/// What came of a copy that was put back at once.
#[derive(Default)]
pub(crate) struct Forgotten {
    /// The replica that runs on it.
    node: usize,
    /// What it broke first.
    broken: Option<Violation>,
    /// A replica found that states differ.
    is_noticed: bool,
    /// Those that found that a majority is equal without them.
    odd: BTreeSet<usize>,
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Takes a copy of a folder, to be put back soon; once in a seed.
    pub(super) fn copy_and_put_back(&mut self) -> Result<(), Violation> {
        let index = self.nemesis.rng.usize(..self.nodes.len());
        let is_pending = self.nodes.iter().any(|node| node.copy.is_some());
        if is_pending || !self.may_forget(index)? {
            return Ok(());
        }
        self.copy_folder(index);
        if self.nemesis.rng.u8(..4) > 0 {
            // They know nothing of what is decided meanwhile.
            let away = self.neighbours(index).take(self.setup.failures_survived);
            away.collect::<Vec<_>>()
                .into_iter()
                .for_each(|other| self.network.isolate(other));
        }
        let delay = self.nemesis.rng.u64(..RECENT_NS);
        let sequel = Sequel::PutBackAtOnce { node: index };
        self.queue.after(delay, Event::Sequel(sequel));
        Ok(())
    }

    /// Whether one more replica may forget what it promised.
    fn may_forget(&self, index: usize) -> Result<bool, Violation> {
        let is_too_much = self.without_promises(index) >= self.failures_survived()
            || self.forgotten.is_some()
            || self.newest_epoch().number > 1
            || self.nodes[index].host.is_none()
            || !self.may_lose_fragments(index)?;
        Ok(!is_too_much)
    }

    /// The other replicas, from the next one on.
    fn neighbours(&self, index: usize) -> impl DoubleEndedIterator<Item = usize> + use<M, A> {
        let n = self.nodes.len();
        (1..n).map(move |step| (index + step) % n)
    }

    /// Puts the copy back. Those that took part in what was decided since may be down for a while.
    pub(super) fn put_back_at_once(&mut self, index: usize) -> Result<(), Violation> {
        self.network.mend_all();
        let Some(copy) = self.nodes[index].copy.take() else {
            return Ok(());
        };
        if copy.life != self.nodes[index].disk_life || !self.may_forget(index)? {
            return Ok(());
        }
        self.totals.hit("copy put back at once");
        let down = match self.nemesis.rng.u8(..4) {
            0 => 0,
            1 => self.nodes.len() - 1,
            _ => self.setup.failures_survived,
        };
        let down: Vec<usize> = self.neighbours(index).rev().take(down).collect();
        down.into_iter().for_each(|other| self.crash(other));
        self.end_life(index, Power::Fails);
        let node = &mut self.nodes[index];
        node.disk = copy.disk;
        (node.started, node.damaged) = (true, true);
        self.forgotten = Some(Forgotten {
            node: index,
            ..Forgotten::default()
        });
        let delay = self.nemesis.rng.u64(..20 * MILLIS);
        self.queue.after(delay, Event::Restart { node: index });
        Ok(())
    }

    /// Whether a replica forgot promises and may not know.
    pub(crate) fn has_forgotten(&self, index: usize) -> bool {
        let forgotten = self.forgotten.as_ref();
        forgotten.is_some_and(|forgotten| forgotten.node == index)
    }

    /// What a replica that forgot promises may have broken ends the seed in its own way.
    pub(crate) fn tolerate(&mut self, checked: Result<(), Violation>) -> Result<(), Violation> {
        match (checked, &mut self.forgotten) {
            (Err(violation), Some(forgotten)) if CONSEQUENCES.contains(&violation.kind) => {
                forgotten.broken.get_or_insert(violation);
                Ok(())
            }
            (checked, _) => checked,
        }
    }

    /// Whether a replica that forgot promises has broken something.
    pub(crate) fn is_broken(&self) -> bool {
        let forgotten = self.forgotten.as_ref();
        forgotten.is_some_and(|forgotten| forgotten.broken.is_some())
    }

    /// A replica says what it found when it compared states, and has the alarms say so.
    pub(crate) fn compared(&mut self, index: usize, found: &Comparison) -> Result<(), Violation> {
        let now = self.nodes[index].clock.now(self.queue.now_ns());
        let what = format!("replica {} reports {found:?}", index + 1);
        let violation = Violation::new("honesty", what);
        let (Some(forgotten), Some(host)) = (&mut self.forgotten, &mut self.nodes[index].host)
        else {
            return Err(violation);
        };
        if found.differing().next().is_some() {
            forgotten.is_noticed = true;
            forgotten.broken.get_or_insert(violation);
        }
        if found.verdict == Verdict::Odd {
            forgotten.odd.insert(index);
        }
        for (alarm, change) in found.changes(&host.look().epochs().alarms) {
            host.submit(now, ORDER, Request::Order(Order::Alarm { alarm, change }));
        }
        Ok(())
    }

    /// Nothing breaks any more: whoever differs is to be noticed.
    pub(crate) fn see_difference_noticed(&mut self) -> Result<(), Violation> {
        self.totals.hit("states differ within the window");
        self.plan.heal();
        self.nemesis.tired = true;
        self.clients.stopped = true;
        self.network.mend_all();
        for node in 0..self.nodes.len() {
            self.nodes[node].left_out = false;
            let revived = self.revive(node);
            self.tolerate(revived)?;
        }
        let until_ns = self.queue.now_ns() + NOTICED_NS;
        let mut looks_at_ns = 0;
        while !self.is_dealt_with()? {
            let now_ns = self.queue.now_ns();
            let event = self.queue.next().filter(|_| now_ns < until_ns);
            match event {
                None => return Err(self.not_dealt_with()),
                Some(Event::Tick) => {
                    self.queue.after(TICK_NS, Event::Tick);
                    if looks_at_ns <= now_ns {
                        looks_at_ns = now_ns + LOOKS_AGAIN_NS;
                        (0..self.nodes.len()).for_each(|node| self.look_at_alarms(node));
                    }
                }
                Some(event) => {
                    let happened = self.happen(event);
                    self.tolerate(happened)?;
                }
            }
        }
        Ok(())
    }

    /// A replica compares states again while there is doubt, and stops once the group knows that it is odd.
    fn look_at_alarms(&mut self, index: usize) {
        let is_odd = self.odd().contains(&index);
        let now = self.nodes[index].clock.now(self.queue.now_ns());
        let Some(host) = &mut self.nodes[index].host else {
            return;
        };
        let (id, kind) = (replica(index), AlarmKind::Corrupt);
        let state = host.look().epochs();
        let has_alarm = state.alarms.scope(Alarm { kind, id }) >= Some(Scope::Member);
        if is_odd && (has_alarm || state.level < ALARM_LEVEL) {
            self.nodes[index].left_out = true;
            return self.end_life(index, Power::Stays);
        }
        if is_in_doubt(&state.alarms, id) {
            host.direct(now, Directive::CompareStates);
            self.turn_soon(index);
        }
    }

    fn odd(&self) -> BTreeSet<usize> {
        let forgotten = self.forgotten.as_ref();
        forgotten.map_or_else(BTreeSet::new, |forgotten| forgotten.odd.clone())
    }

    /// Whether all hold the same, or those that differ know and do what follows.
    fn is_dealt_with(&mut self) -> Result<bool, Violation> {
        let (odd, n) = (self.odd(), self.nodes.len());
        if odd.len() > n - majority(n) {
            let what = format!("replicas {odd:?} all take themselves for odd");
            return Err(Violation::new("old copies", what));
        }
        let up = (0..n).filter(|index| !odd.contains(index));
        let up: Option<Vec<&Host<M, A>>> =
            up.map(|index| self.nodes[index].host.as_ref()).collect();
        let Some(up) = up.filter(|up| up.iter().all(|host| host.look().machine().is_some())) else {
            return Ok(false);
        };
        let has_alarms = up
            .iter()
            .all(|host| host.look().epochs().level >= ALARM_LEVEL);
        let admit =
            |admission| !has_alarms || up.iter().all(|host| host.look().admission() == admission);
        let is_equal = up
            .windows(2)
            .all(|pair| pair[0].look().digest() == pair[1].look().digest());
        let is_noticed = self
            .forgotten
            .as_ref()
            .is_some_and(|found| found.is_noticed);
        let has = |digest| {
            up.iter()
                .filter(|host| host.look().digest() == digest)
                .count()
        };
        let is_decided = up
            .iter()
            .any(|host| has(host.look().digest()) >= majority(n));
        let is_level = up
            .windows(2)
            .all(|pair| pair[0].look().applied() == pair[1].look().applied());
        if is_equal && up.len() >= majority(n) && admit(Admission::All) {
            self.totals.hit(match odd.is_empty() {
                true => "states are equal again",
                false => "odd replica noticed",
            });
            return Ok(true);
        }
        if is_noticed && is_level && !is_decided && admit(Admission::Nothing) {
            self.totals.hit("no majority is equal");
            return Ok(true);
        }
        Ok(false)
    }

    fn not_dealt_with(&self) -> Violation {
        let nodes = self.nodes.iter().map(|node| {
            let host = node.host.as_ref();
            host.map(|host| {
                (
                    host.look().digest(),
                    host.look().admission(),
                    host.look().machine().is_some(),
                )
            })
        });
        let nodes: Vec<_> = nodes.collect();
        let forgotten = self.forgotten.as_ref();
        let broken = forgotten.and_then(|forgotten| forgotten.broken.as_ref());
        let noticed = forgotten.is_some_and(|forgotten| forgotten.is_noticed);
        let what = format!(
            "states differ ({broken:?}), noticed: {noticed}, and it was not dealt with: {nodes:?}, odd {:?}",
            self.odd()
        );
        Violation::new("old copies", what)
    }
}
