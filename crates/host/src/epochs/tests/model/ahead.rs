//! Commands that execute before they are decided, and are answered once quorums have voted for all that
//! was executed before them: what a protocol that speculates does, with no more of it than the epochs
//! see.

use super::{Body, Mutant, Value, World};
use quorate_core::Slot;

impl World {
    /// What a node could execute next ahead of its decision: what it voted for in the slot behind those
    /// it has executed. Only plain commands are executed so, and nothing behind anything else.
    pub(super) fn next_ahead(&self, place: usize) -> Option<u16> {
        let node = &self.nodes[place];
        let epoch = node.current();
        if node.running() != Some(epoch) {
            return None;
        }
        let slot = Slot(node.live.next.0 + node.ahead.len() as u64);
        let (_, value) = *node.votes.get(&(epoch, slot))?;
        let request = value?;
        let is_plain = matches!(
            self.requests[usize::from(request)],
            Body::Write | Body::Value
        );
        let is_new = !node.live.log.contains(&request) && !node.ahead.contains(&request);
        (is_new && (is_plain || self.has(Mutant::ExecutesBehindChange))).then_some(request)
    }

    pub(super) fn execute_ahead(&mut self, place: usize) {
        if let Some(request) = self.next_ahead(place) {
            self.nodes[place].ahead.push(request);
        }
    }

    /// The first of what a node has executed that quorums have voted for, all before it included.
    pub(super) fn sure_ahead(&self, place: usize) -> impl Iterator<Item = (Slot, u16)> {
        let node = &self.nodes[place];
        let (epoch, next) = (node.current(), node.live.next.0);
        let slots = (next..).map(Slot).zip(node.ahead.iter().copied());
        slots.take_while(move |(slot, request)| {
            self.chosen.get(&(epoch, *slot)) == Some(&Some(*request))
        })
    }

    /// Clients count the votes themselves: whoever sent it is answered.
    pub(super) fn answer_ahead(&mut self, place: usize) {
        for (slot, request) in self.sure_ahead(place).collect::<Vec<_>>() {
            let is_order = matches!(self.requests[usize::from(request)], Body::Order(_));
            for client in (0..self.nodes.len()).filter(|_| !is_order) {
                if self.nodes[client].own.contains(&request) {
                    self.counts.early += 1;
                    self.answer(client, Some(request), slot);
                }
            }
        }
    }

    /// A slot is applied: if it came out as it was executed, that stands; if not, all is taken back.
    pub(super) fn confirm_ahead(&mut self, place: usize, value: Value) {
        let node = &mut self.nodes[place];
        match node.ahead.first() {
            Some(first) if Some(*first) == value => {
                node.ahead.remove(0);
            }
            _ => node.ahead.clear(),
        }
    }

    /// A node votes otherwise than it executed: that and what is behind it is taken back.
    pub(super) fn retract_ahead(&mut self, place: usize, slot: Slot, value: Value) {
        let node = &mut self.nodes[place];
        let at = slot.0.checked_sub(node.live.next.0);
        let at = at.and_then(|at| usize::try_from(at).ok());
        if let Some(at) = at
            && node.ahead.get(at).is_some_and(|one| Some(*one) != value)
        {
            node.ahead.truncate(at);
        }
    }
}
