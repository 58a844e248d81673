//! Performing what a host wants done: what takes time is done by later events.

use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, World};
use quorate_core::{MICROS, Machine, Now, Seat};
use quorate_host::{Driver, Effects, Host, LogRead, Pace};

/// Rounds of performing effects in one turn; more are an endless loop.
const ROUNDS_MAX: usize = 1_000;

/// A replica of the world that has a turn.
pub(super) struct Replica<'a, 'w, M: Machine, A: Subject> {
    pub(super) world: &'a mut World<'w, M, A>,
    pub(super) index: usize,
    /// How often effects were performed in this turn.
    pub(super) rounds: usize,
}

impl<M: Machine, A: Subject> Driver for Replica<'_, '_, M, A> {
    type Machine = M;
    type App = A;
    type Error = Violation;
    const PACE: Pace = Pace::Later;

    fn host(&mut self) -> Option<&mut Host<M, A>> {
        self.world.nodes[self.index].host.as_mut()
    }

    fn now(&mut self) -> Now {
        let now_ns = self.world.queue.now_ns();
        self.world.nodes[self.index].clock.now(now_ns)
    }

    fn configure(&mut self, seat: &Seat) -> Result<M::Config, Violation> {
        let config = (self.world.setup.configure)(seat);
        Ok(config.expect("it was judged before it was ordered"))
    }

    fn perform(&mut self, _now: Now, effects: Effects<A::Answer>) -> Result<bool, Violation> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            let what = format!(
                "replica {} has always more to do within one turn",
                self.index + 1
            );
            return Err(Violation::new("bound", what));
        }
        self.world.perform(self.index, effects)
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Begins to do what a host wants done. Says whether it may want more.
    fn perform(&mut self, index: usize, effects: Effects<A::Answer>) -> Result<bool, Violation> {
        let Effects {
            frames,
            answers,
            reads,
            events,
            countdowns,
            flush,
            fragment_step,
            coding,
            snapshot_writes,
            snapshot_reads,
            release,
            released_fragments,
        } = effects;
        let node = &mut self.nodes[index];
        node.lost &= node
            .host
            .as_ref()
            .is_none_or(|host| !host.look().has_recovered());
        // A replica that has not recorded its first start yet does not speak.
        node.started |= flush.is_none() && node.in_flight.is_none();
        assert!(node.started || frames.is_empty(), "it is silent");
        if let Some(release) = release {
            self.totals.released += node.disk.release(release);
        }
        if !released_fragments.is_empty() {
            node.disk.bulk.release(&released_fragments);
            self.totals.hit("bulk released");
        }
        let busy = flush.is_some() || !frames.is_empty() || !reads.is_empty();
        let may_want_more = busy || !answers.is_empty() || !events.is_empty();
        self.perform_snapshots(index, snapshot_writes, snapshot_reads);
        self.perform_long(index, fragment_step, coding);
        let noted = self.note_events(index, events);
        self.tolerate(noted)?;
        let counted = self.set_countdowns(index, countdowns);
        self.tolerate(counted)?;
        frames.iter().for_each(|frame| self.send(index, frame));
        for (token, answer) in answers {
            let left = self.answer_leaves(index, token, answer);
            self.tolerate(left)?;
        }
        self.perform_reads(index, reads);
        if let Some(flush) = flush {
            self.flush(index, flush);
            self.check_disk(index)?;
        }
        Ok(may_want_more)
    }

    fn perform_reads(&mut self, node: usize, reads: Vec<LogRead>) {
        for read in reads {
            let delay = self.rng.u64(20 * MICROS..200 * MICROS);
            let life = self.nodes[node].life;
            self.queue
                .after(delay, Event::ReadDone { node, life, read });
        }
    }
}
