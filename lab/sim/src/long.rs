//! What is done about long payloads beside a replica's turns: their fragments are made, and written
//! step by step.

use crate::disk_io::disk_delay;
use crate::network::chance;
use crate::node::Inbound;
use crate::subject::Subject;
use crate::world::{Event, World};
use quorate_core::{MICROS, Machine};
use quorate_host::{Coding, Completed, Write};

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A replica has given this to others to do.
    pub(crate) fn perform_long(&mut self, index: usize, step: Option<Write>, coding: Vec<Coding>) {
        let life = self.nodes[index].life;
        if let Some(step) = step {
            self.totals.hit("step of a long fragment");
            let written = self.rig_writes_ns(index, (&[], std::slice::from_ref(&step)), true);
            let disk = &self.plan.disk;
            let drawn = || disk_delay(&mut self.rng, disk.slow, disk.slow_max_ns);
            let delay = written.unwrap_or_else(drawn);
            let node = &mut self.nodes[index];
            node.disk.bulk.write(std::slice::from_ref(&step));
            node.fragment_step = Some(step);
            let stored = Event::FragmentsStored { node: index, life };
            self.queue.after(delay, stored);
        }
        for one in coding {
            self.totals.hit("fragments made elsewhere");
            let delay = match self.rig {
                // Costs of bytes hold what is done to them.
                Some(_) => 0,
                None => self.rng.u64(10 * MICROS..500 * MICROS),
            };
            self.nodes[index].coding.push_back(one);
            self.queue.after(delay, Event::Coded { node: index, life });
        }
    }

    /// The disk has performed a step.
    pub(crate) fn fragments_stored(&mut self, node: usize, life: u32) {
        if self.nodes[node].life != life {
            return;
        }
        let failure = self.plan.disk.sync_failure;
        if failure > 0.0 && chance(&mut self.nemesis.rng, failure) {
            self.totals.hit("failed sync");
            return self.crash(node);
        }
        let target = &mut self.nodes[node];
        let step = target.fragment_step.take().expect("a step was under way");
        target.disk.bulk.sync(&[step]);
        self.arrive(node, Inbound::Completed(Completed::FragmentStep));
    }

    /// Fragments are made.
    pub(crate) fn coded(&mut self, node: usize, life: u32) {
        if self.nodes[node].life == life
            && let Some(coding) = self.nodes[node].coding.pop_front()
        {
            let made = Completed::Coding(coding.perform());
            self.arrive(node, Inbound::Completed(made));
        }
    }
}
