//! Commands get their places, and replicas apply them.

use crate::log::{Ordered, Read};
use crate::world::{Event, World};
use quorate_core::{Application, At};
use quorate_redis_effects::{Input, StreamQuery};

impl World {
    pub(crate) fn order(&mut self, ordered: Ordered) {
        self.reference.order(&ordered.body);
        self.log.entries.push(ordered);
        for index in 0..self.nodes.len() {
            self.schedule_apply(index);
        }
    }

    pub(crate) fn schedule_apply(&mut self, index: usize) {
        if self.wanted.is_some() {
            return;
        }
        let node = &mut self.nodes[index];
        if !std::mem::replace(&mut node.is_applying, true) {
            let life = node.life;
            let slow = node.slowness;
            let delay_ns = self.trip() * slow;
            self.after(delay_ns, Event::Apply(index, life));
        }
    }

    pub(crate) fn apply(&mut self, index: usize, life: u64) {
        let node = &self.nodes[index];
        let frozen = node.frozen_until_ns.max(node.applies_after_ns);
        if self.nodes[index].life != life || !self.nodes[index].is_up {
            return;
        }
        if frozen > self.now_ns {
            return self.after(frozen - self.now_ns, Event::Apply(index, life));
        }
        self.nodes[index].is_applying = false;
        let most = self.rng.usize(1..20);
        for _ in 0..most {
            let node = &mut self.nodes[index];
            let Some(entry) = self.log.entries.get(node.applied).cloned() else {
                break;
            };
            node.attempt_in_vain(&mut self.rng, &self.log.entries);
            let at = At::default();
            let node = &mut self.nodes[index];
            let result = match self.rng.bool() {
                true => node.stream.apply(at, &entry.body, &[]),
                false => {
                    let result = node.stream.attempt(at, &entry.body);
                    node.stream.keep();
                    result
                }
            };
            node.applied += 1;
            if let Some((_, life, token)) = entry.by.filter(|by| by.0 == index) {
                let result = Some(result);
                self.after(0, Event::Tell(index, life, Input::Result { token, result }));
            }
        }
        self.tell(index, life, Input::Shared);
        self.answer_reads(index);
        self.maybe_cut(index);
        if self.nodes[index].applied < self.log.entries.len() {
            self.schedule_apply(index);
        }
    }

    pub(crate) fn answer_reads(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (applied, life) = (node.applied, node.life);
        let state = node.stream.query(&StreamQuery);
        let is_answered = |read: &Read| read.by == (index, life) && read.after <= applied;
        let answered: Vec<Read> = self.log.reads.iter().copied().filter(is_answered).collect();
        self.log.reads.retain(|read| !is_answered(read));
        for Read { token, .. } in answered {
            let state = Some(state).filter(|_| self.rng.u8(..) >= self.faults.lost_of_256);
            let input = Input::ReadResult { token, state };
            self.after(0, Event::Tell(index, life, input));
        }
    }
}
