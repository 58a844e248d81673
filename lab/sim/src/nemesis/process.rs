//! Replicas that crash, stop, restart and lose their disks.

use super::Sequel;
use crate::disk::Disk;
use crate::network::exponential;
use crate::node::Power;
use crate::recording::What;
use crate::subject::Subject;
use crate::world::{Event, World};
use quorate_core::{Durability, Epoch, Incarnation, MICROS, MILLIS, Machine};
use quorate_host::SupportedVersions;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Power fails at one replica.
    pub(crate) fn crash(&mut self, index: usize) {
        if self.nodes[index].host.is_none() || self.is_crash_forbidden(index) {
            return;
        }
        self.totals.crashes += 1;
        self.totals.hit("crash");
        self.end_life(index, Power::Fails);
        let delay = self.rng.u64(..=self.plan.outage_max_ns);
        self.queue.after(delay, Event::Restart { node: index });
    }

    /// What a replica held in memory is gone, and its connections break.
    pub(crate) fn end_life(&mut self, index: usize, power: Power) {
        let now_ns = self.queue.now_ns();
        let is_damaged = power == Power::Fails && self.nodes[index].damaged;
        let before = is_damaged.then(|| self.nodes[index].disk.clone());
        self.nodes[index].fall(&mut self.rng, power);
        self.servers_end(index);
        if let Some(before) = before {
            self.bear_power_cut(index, before);
        }
        self.move_watchers(index);
        self.record(|| What::Down(index + 1));
        self.trace
            .event(now_ns, "crash", &[index as u64, power as u64], || {
                format!("r{}, power {power:?}", index + 1)
            });
        for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
            self.network.reset(index, peer);
            if self.rng.bool() {
                let delay = self.rng.u64(..5 * MILLIS);
                self.tell_of_link((peer, index), false, now_ns, delay);
            }
        }
    }

    /// Power may have taken what showed that damage to this disk does no harm. Where that would be
    /// too much, it was written just in time.
    fn bear_power_cut(&mut self, index: usize, before: Disk) {
        if !self.would_be_out(index) {
            return;
        }
        if self.without_promises(index) >= self.failures_survived() {
            self.nodes[index].disk.log = before.log;
        } else {
            self.nodes[index].lost = true;
        }
    }

    /// Without disks each crash costs promises: no more at a time than the protocol survives.
    pub(crate) fn is_crash_forbidden(&self, index: usize) -> bool {
        self.setup.durability == Durability::Memory
            && self.without_promises(index) >= self.failures_survived()
    }

    /// Members that may be without promises at once, in the newest epoch and in those that may follow.
    pub(crate) fn failures_survived(&self) -> usize {
        let is_ahead = |epoch: &&Epoch| epoch.number > self.reached.number;
        let may_follow = self.asked_for.iter().filter(is_ahead);
        let epochs = may_follow.chain([&self.reached]);
        let failures = epochs.map(|epoch| self.failures_of(epoch)).min();
        failures.unwrap_or(0).min(self.setup.failures_survived)
    }

    /// Members of an epoch that may fail at once.
    pub(crate) fn failures_of(&self, epoch: &Epoch) -> usize {
        let (catalogue, level) = (
            self.setup.known.catalogue,
            SupportedVersions::SHIPPED.level(),
        );
        let numbers = catalogue.numbers(level, epoch);
        numbers.map_or(0, |numbers| numbers.failures)
    }

    /// Replicas, but for one, that lost their promises and have not recovered yet.
    pub(crate) fn without_promises(&self, but: usize) -> usize {
        let others = (0..self.nodes.len()).filter(|index| *index != but);
        others
            .filter(|index| self.is_without_promises(*index))
            .count()
    }

    /// Whether a replica does not vote, or would not if it started.
    pub(crate) fn is_out_of_votes(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        match &node.host {
            // One that has not started yet has nothing.
            None => self.setup.durability == Durability::Memory || node.lost || !node.started,
            Some(host) => !host.look().has_recovered(),
        }
    }

    /// Whether a replica lost its promises, or will have when it starts, or is left out.
    pub(crate) fn is_without_promises(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        match &node.host {
            _ if node.left_out || self.is_out_of_votes(index) || self.has_forgotten(index) => true,
            host => host
                .as_ref()
                .is_some_and(|host| host.look().lacks_fragments()),
        }
    }

    /// A replica dies, and its disk is replaced by an empty one.
    pub(super) fn wipe(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        let is_too_much = self.without_promises(index) >= self.failures_survived()
            || !self.may_lose_fragments(index).unwrap_or(false);
        if is_too_much || self.nodes[index].host.is_none() || !self.nodes[index].started {
            return;
        }
        self.crash(index);
        self.totals.hit("wipe");
        let node = &mut self.nodes[index];
        node.disk = Disk::new(self.plan.disk.recycle);
        (node.wiped, node.lost, node.old_copy) = (true, true, None);
        // Its upper half numbers the lives that follow each other.
        node.disk_life = Incarnation(u128::from(node.life) << 96);
    }

    /// Half of the crashes hit a disk that is just writing.
    pub(super) fn aim_crash(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        if self.rng.bool() {
            self.nodes[index].crash_at_flush = true;
        } else {
            self.crash(index);
        }
    }

    pub(crate) fn crash_all(&mut self) {
        if self.setup.durability == Durability::Memory {
            return;
        }
        self.totals.hit("blackout");
        (0..self.nodes.len()).for_each(|index| self.crash(index));
    }

    /// A replica is stopped for a while, as by SIGSTOP; what arrives meanwhile waits.
    pub(super) fn pause(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        let until_ns = self.queue.now_ns() + self.rng.u64(..=self.plan.outage_max_ns);
        let node = &mut self.nodes[index];
        node.busy_until_ns = node.busy_until_ns.max(until_ns);
        self.record(|| What::Paused(index + 1, until_ns));
        self.totals.hit("pause");
    }

    /// A replica that runs is killed and started again.
    pub(super) fn restart_one(&mut self) {
        let node = self.nemesis.rng.usize(..self.nodes.len());
        self.restart(node);
    }

    /// A process is killed: what it had written and not synced is still there.
    pub(crate) fn restart(&mut self, index: usize) {
        if self.nodes[index].host.is_none() || self.is_crash_forbidden(index) {
            return;
        }
        self.totals.hit("restart");
        self.end_life(index, Power::Stays);
        let delay = self.nemesis.rng.u64(100 * MICROS..50 * MILLIS);
        self.queue.after(delay, Event::Restart { node: index });
    }

    /// Each replica restarts.
    pub(super) fn restart_all_in_turn(&mut self) {
        self.totals.hit("rolling restart");
        self.in_turn(|node| Sequel::Restart { node });
    }

    /// All replicas change over to a program that speaks a newer wire version too, or back to the
    /// one that does not, in turn. The next change may begin before this one is through.
    pub(super) fn change_over_in_turn(&mut self) {
        let is_newer = self
            .nodes
            .iter()
            .all(|node| node.supported == SupportedVersions::REHEARSED);
        let (supported, what) = if is_newer {
            (SupportedVersions::SHIPPED, "rolling downgrade")
        } else {
            (SupportedVersions::REHEARSED, "rolling upgrade")
        };
        self.totals.hit(what);
        self.in_turn(|node| Sequel::ChangeOver { node, supported });
    }

    /// One replica does. One that is down starts as the other program later; nobody has a connection
    /// with it until then, so nothing said to the program before may reach it.
    pub(super) fn change_over(&mut self, index: usize, supported: SupportedVersions) {
        if self.nodes[index].host.is_none() {
            for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
                self.network.reset(index, peer);
            }
        } else if self.is_crash_forbidden(index) {
            return;
        }
        self.nodes[index].supported = supported;
        self.restart(index);
    }

    /// Something happens to each replica, with time to come back before the next.
    fn in_turn(&mut self, happens: impl Fn(usize) -> Sequel) {
        let rng = &mut self.nemesis.rng;
        let (first, gap) = (rng.usize(..self.nodes.len()), rng.u64(5..300) * MILLIS);
        for step in 0..self.nodes.len() {
            let sequel = happens((first + step) % self.nodes.len());
            self.queue.after(gap * step as u64, Event::Sequel(sequel));
        }
    }

    /// A replica that dies as soon as it has started, several times.
    pub(super) fn begin_storm(&mut self) {
        self.totals.hit("restart storm");
        let rng = &mut self.nemesis.rng;
        let (node, left) = (rng.usize(..self.nodes.len()), rng.u8(2..12));
        self.storm(node, left);
    }

    pub(super) fn storm(&mut self, index: usize, left: u8) {
        let up = self.nodes[index].host.is_some();
        if up && !self.is_crash_forbidden(index) {
            self.totals.hit("crash");
            self.totals.crashes += 1;
            let power = [Power::Fails, Power::Stays][self.nemesis.rng.usize(..2)];
            self.end_life(index, power);
            let down = self.nemesis.rng.u64(..2 * MILLIS);
            self.queue.after(down, Event::Restart { node: index });
        }
        if let Some(left) = left.checked_sub(1) {
            let delay = 2 * MILLIS + exponential(&mut self.nemesis.rng, 3 * MILLIS);
            let sequel = Sequel::Storm { node: index, left };
            self.queue.after(delay, Event::Sequel(sequel));
        }
    }
}
