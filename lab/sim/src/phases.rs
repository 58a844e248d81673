//! How a seed goes: the cluster is hurt, a part of it is healed and must do, all of it is healed and
//! must come to the same.

use crate::gateways::RemoteGateway;
use crate::node::Power;
use crate::recording::What;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, TICK_NS, World};
use quorate_core::{Machine, SECONDS};
use quorate_host::Host;

/// From then on no new outage begins: a plan too harsh for progress still ends.
const OUTAGES_UNTIL_NS: u64 = 20 * SECONDS;
/// The operations should be done by then, for loss alone must not stop a cluster; more than
/// [`USUAL_OPS`] have longer. Over the worst networks it may take some times as long, if operations go on
/// ending.
const PROGRESS_NS: u64 = 120 * SECONDS;
const USUAL_OPS: u64 = 500;
const PATIENCE: u64 = 4;
/// An operation must end in so much time where they are late.
const STANDSTILL_NS: u64 = 20 * SECONDS;
/// Once all is well, everything must be finished within this time.
const HEALED_NS: u64 = 20 * SECONDS;
/// A quorum that must do without the rest may take longer: its clients go on trying the others.
const QUORUM_NS: u64 = 60 * SECONDS;

/// How far a seed is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Clients work while things break.
    Faults,
    /// Nothing breaks any more; those not left out must finish every operation and agree.
    Quorum { since_ns: u64 },
    /// All replicas work; every operation must finish.
    Healed { since_ns: u64 },
    /// Every key is read through every replica.
    Reading { since_ns: u64 },
    /// All replicas must come to the same state.
    Converging { since_ns: u64 },
    /// Over.
    Done,
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Checks whether a phase is over.
    pub(crate) fn tick(&mut self) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        self.queue.after(TICK_NS, Event::Tick);
        match self.phase {
            Phase::Faults => {
                if !self.has_begun_measuring() {
                    self.measure_figures();
                }
                if now_ns >= OUTAGES_UNTIL_NS {
                    self.nemesis.tired = true;
                }
                let schedule = self.setup.schedule;
                if now_ns >= schedule.hurt_ns && self.clients.completed >= schedule.ops {
                    if self.rig.is_some() {
                        // What was to be measured is.
                        self.phase = Phase::Done;
                        return Ok(());
                    }
                    return self.end_faults();
                }
                if self.progress.0 < self.clients.completed {
                    self.progress = (self.clients.completed, now_ns);
                }
                let usual_ns = PROGRESS_NS / USUAL_OPS * schedule.ops.max(USUAL_OPS);
                let is_moving = now_ns < self.progress.1 + STANDSTILL_NS;
                if now_ns >= usual_ns && !is_moving || now_ns >= PATIENCE * usual_ns {
                    return Err(self.stuck("operations make no progress although most links work"));
                }
            }
            Phase::Quorum { .. } if self.clients.idle() && self.converged() => {
                return self.heal_all();
            }
            Phase::Quorum { since_ns } => {
                if now_ns > since_ns + QUORUM_NS {
                    return Err(self.stuck("all faults are over for a quorum"));
                }
            }
            // A change of members that is under way may take a replica out of service.
            Phase::Healed { since_ns } if self.clients.idle() && self.converged() => {
                self.phase = Phase::Reading { since_ns };
                self.read_everything();
            }
            Phase::Reading { since_ns } if self.clients.idle() => {
                self.phase = Phase::Converging { since_ns };
            }
            Phase::Converging { .. }
                if self.converged() && self.leases_are_over()? && self.servers_rest() =>
            {
                // A change of members may have been under way when all was healed.
                self.watch_members();
                self.read_last_changes()?;
                self.phase = Phase::Done;
            }
            Phase::Healed { since_ns }
            | Phase::Reading { since_ns }
            | Phase::Converging { since_ns } => {
                if now_ns > since_ns + HEALED_NS + self.servers_patience_ns() {
                    return Err(self.stuck("all faults are over"));
                }
            }
            Phase::Done => {}
        }
        Ok(())
    }

    /// Nothing breaks any more, and clients begin nothing new.
    fn end_faults(&mut self) -> Result<(), Violation> {
        self.measure_figures();
        self.plan.heal();
        self.nemesis.tired = true;
        self.clients.stopped = true;
        self.heal_servers();
        // A copy that one replica needs may be that of one which would be left out.
        let is_whole = self.nodes.iter().all(|node| !(node.damaged && node.lost));
        if self.plan.quorum_first && is_whole && self.setup.failures_survived > 0 {
            return self.heal_quorum();
        }
        self.heal_all()
    }

    /// As many replicas fail, for good, as the protocol survives: the rest must do.
    fn heal_quorum(&mut self) -> Result<(), Violation> {
        let since_ns = self.queue.now_ns();
        self.network.mend_all();
        for node in self.least_useful() {
            self.nodes[node].left_out = true;
            self.network.isolate(node);
            if self.nemesis.rng.bool() && !self.is_crash_forbidden(node) {
                self.end_life(node, Power::Fails);
            }
        }
        self.trace.event(since_ns, "heal", &[1], || {
            let nodes = self.nodes.iter().enumerate();
            let out = nodes.filter(|(_, node)| node.left_out);
            let names = out.map(|(index, _)| format!(" r{}", index + 1));
            format!("all but{}", names.collect::<String>())
        });
        self.record(|| What::Healed);
        for node in (0..self.nodes.len()).filter(|node| self.nodes[*node].left_out) {
            self.record(|| What::Note(format!("r{} is left out", node + 1)));
        }
        self.phase = Phase::Quorum { since_ns };
        self.totals.hit("quorum healed first");
        let healed = (0..self.nodes.len()).filter(|node| !self.nodes[*node].left_out);
        healed
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|node| self.revive(node))
    }

    /// The replicas to fail: those that have lost their promises first, for they count as failed; then
    /// those that lack fragments, which others can make good.
    fn least_useful(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        self.nemesis.rng.shuffle(&mut order);
        order.sort_by_key(|node| {
            (
                !self.is_out_of_votes(*node),
                !self.is_without_promises(*node),
            )
        });
        order.truncate(self.setup.failures_survived);
        order
    }

    /// All links work, all replicas run.
    fn heal_all(&mut self) -> Result<(), Violation> {
        let since_ns = self.queue.now_ns();
        self.trace.event(since_ns, "heal", &[], String::new);
        self.record(|| What::Healed);
        self.phase = Phase::Healed { since_ns };
        self.network.mend_all();
        for node in 0..self.nodes.len() {
            self.nodes[node].left_out = false;
            self.revive(node)?;
        }
        self.watch_members();
        Ok(())
    }

    /// A replica runs, and its peers know.
    pub(crate) fn revive(&mut self, node: usize) -> Result<(), Violation> {
        self.nodes[node].crash_at_flush = false;
        self.nodes[node].full_until_ns = 0;
        let busy_until_ns = self.nodes[node].busy_until_ns;
        self.nodes[node].busy_until_ns = busy_until_ns.min(self.queue.now_ns());
        self.open(node)?;
        self.greet(node);
        self.turn_soon(node);
        Ok(())
    }

    /// A replica that is down starts, unless it is to stay down.
    pub(crate) fn open_unless_left_out(&mut self, node: usize) -> Result<(), Violation> {
        if self.nodes[node].left_out {
            return Ok(());
        }
        self.open(node)
    }

    /// Whether the replicas have applied the same, and have answered whatever they were asked; and, where
    /// the group has changed, all payloads are where they should be.
    fn converged(&self) -> bool {
        let newest = self.newest_epoch();
        let has_changed = newest.number > 1;
        let in_service = (0..self.nodes.len()).filter(|index| !self.nodes[*index].left_out);
        let members = in_service.filter(|index| newest.has(self.member(*index)));
        let count = members.clone().count();
        let is_done = |host: &Host<M, A>| {
            let can_settle = count >= host.look().members_to_settle();
            !can_settle || host.look().is_settled() && !host.look().lacks_fragments()
        };
        let state = |host: &Host<M, A>| {
            let unfinished = usize::from(has_changed && !is_done(host));
            (host.look().digest(), host.look().waiting() + unfinished)
        };
        let states = members.map(|index| self.nodes[index].host.as_ref().map(state));
        let states: Vec<_> = states.collect();
        self.gateways.iter().all(RemoteGateway::is_idle)
            && states.iter().all(|state| matches!(state, Some((_, 0))))
            && states.windows(2).all(|pair| pair[0] == pair[1])
    }
}
