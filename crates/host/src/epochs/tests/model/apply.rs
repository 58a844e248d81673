//! What a node does with decided slots: the model of the host's apply loop.

use super::node::{Applied, CLIENT};
use super::{Body, Fault, Mutant, Sample, Value, World};
use crate::epochs::{Effect, Expect, Input, Order};
use crate::sessions::Verdict;
use bytes::Bytes;
use quorate_core::{RequestId, Slot, Wire};
use xxhash_rust::xxh3::xxh3_64;

impl World {
    /// A node learns that an epoch decided a slot.
    pub(super) fn learn(&mut self, place: usize, epoch: u64, slot: Slot) -> Result<(), Fault> {
        let value = self.chosen[&(epoch, slot)];
        self.take_decided(place, epoch, slot, value)
    }

    pub(super) fn take_decided(
        &mut self,
        place: usize,
        epoch: u64,
        slot: Slot,
        value: Value,
    ) -> Result<(), Fault> {
        let is_blind = self.has(Mutant::SlotAlone);
        let node = &mut self.nodes[place];
        let epoch = if is_blind { node.current() } else { epoch };
        let is_news = node.window.put(epoch, slot, value);
        if is_news && self.has(Mutant::AnswersWhenDecided) {
            self.answer(place, value, slot);
        }
        self.apply_ready(place)
    }

    fn apply_ready(&mut self, place: usize) -> Result<(), Fault> {
        let mut moved = false;
        while let Some((slot, value)) = self.nodes[place].window.take() {
            self.apply_one(place, slot, value)?;
            moved = true;
        }
        match moved {
            true => self.feed(place, Input::Progress),
            false => Ok(()),
        }
    }

    fn apply_one(&mut self, place: usize, slot: Slot, value: Value) -> Result<(), Fault> {
        let epoch = self.nodes[place].current();
        let body = value.map(|request| self.body(place, request));
        let with_sessions = !self.has(Mutant::NoSessions);
        let entry = value.zip(body.as_ref());
        let live = &mut self.nodes[place].live;
        let effect = apply(live, slot, entry, with_sessions)?;
        let digest = xxh3_64(&live.state.to_bytes());
        self.compare(slot, (epoch, value, digest))?;
        self.confirm_ahead(place, value);
        if let Some(Effect::Sealed(next)) = effect {
            self.nodes[place].ahead.clear();
            let void = self.nodes[place].window.seal(next.epoch);
            self.counts.voids += void.len() as u64;
            if self.has(Mutant::AppliesPastTheSeal) {
                for (slot, value) in void {
                    self.nodes[place].window.put(next.epoch, slot, value);
                }
            }
            self.feed(place, Input::Progress)?;
        }
        self.answer(place, value, slot);
        Ok(())
    }

    /// What a request asks for, as this node understands it.
    fn body(&self, place: usize, request: u16) -> Body {
        let mut body = self.requests[usize::from(request)].clone();
        if let Body::Order(Order::Reconfigure(change)) = &mut body {
            if self.has(Mutant::LastChangeWins) {
                for (_, later) in self.nodes[place].window.ahead() {
                    let later = later.map(|later| &self.requests[usize::from(later)]);
                    if let Some(Body::Order(Order::Reconfigure(later))) = later
                        && later.expect == change.expect
                    {
                        *change = later.clone();
                    }
                }
            }
            if self.has(Mutant::NoExpect) {
                change.expect = Expect::of(self.nodes[place].live.state.chain.newest());
            }
        }
        body
    }

    /// E1, E2 and E12: what is applied at a slot, in which epoch, and what it leads to is the same
    /// everywhere.
    fn compare(&mut self, slot: Slot, applied: (u64, Value, u64)) -> Result<(), Fault> {
        let at = slot.0 as usize;
        if let Some(before) = self.canon.get(at) {
            return match *before == applied {
                true => Ok(()),
                false => Err(format!(
                    "divergent logs: slot {at} is {applied:x?} and was {before:x?}"
                )),
            };
        }
        if at != self.canon.len() {
            return Err(format!("slot {at} is applied, {} was not", at - 1));
        }
        self.canon.push(applied);
        let (_, value, _) = applied;
        let mut answered = self.answered.iter().filter(|(_, of)| **of == slot);
        if let Some((request, _)) = answered.find(|(request, _)| value != Some(**request)) {
            return Err(format!(
                "void: request {request} was answered for slot {slot}, which is {value:?}"
            ));
        }
        let body = value.map(|request| self.requests[usize::from(request)].clone());
        let entry = value.zip(body.as_ref());
        let effect = apply(&mut self.truth, slot, entry, true)?;
        self.counts.slots += 1;
        self.counts.seals += u64::from(matches!(effect, Some(Effect::Sealed(_))));
        self.counts.refused += u64::from(matches!(effect, Some(Effect::Refused(_))));
        Ok(())
    }

    /// A node answers its client.
    pub(super) fn answer(&mut self, place: usize, value: Value, slot: Slot) {
        let Some(request) = value else { return };
        if self.nodes[place].own.remove(&request) {
            self.counts.answers += 1;
            self.answered.entry(request).or_insert(slot);
            self.seen = self.seen.max(slot.next());
        }
    }

    /// A node takes over the state of another, which is further.
    pub(super) fn fetch(&mut self, place: usize, from: usize) -> Result<(), Fault> {
        let live = self.nodes[from].live.clone();
        let node = &mut self.nodes[place];
        node.live = live;
        node.ahead.clear();
        node.window.install(node.current(), node.live.next);
        let own: Vec<u16> = node.own.iter().copied().collect();
        for request in own {
            let known = self.nodes[place].live.sessions.result(id(request));
            if let Some((slot, _)) = known {
                self.answer(place, Some(request), slot);
            }
        }
        self.feed(place, Input::Progress)?;
        self.apply_ready(place)
    }
}

pub(super) fn id(request: u16) -> RequestId {
    RequestId {
        client: CLIENT,
        seq: u64::from(request) + 1,
    }
}

/// Applies a slot; E7: what was executed is not executed again.
fn apply(
    applied: &mut Applied,
    slot: Slot,
    entry: Option<(u16, &Body)>,
    with_sessions: bool,
) -> Result<Option<Effect>, Fault> {
    applied.next = slot.next();
    let Some((request, body)) = entry else {
        return Ok(None);
    };
    let verdict = applied.sessions.judge(id(request), 0, slot);
    if verdict != Verdict::Execute && with_sessions {
        return Ok(None);
    }
    if applied.log.contains(&request) {
        return Err(format!(
            "double execution: request {request} in slot {slot}"
        ));
    }
    applied.log.push(request);
    let effect = match body {
        Body::Write => None,
        Body::Value => {
            applied.has_values = true;
            None
        }
        Body::EndSession => {
            applied.sessions.end(CLIENT);
            None
        }
        Body::Order(order) => {
            applied.state.has_payloads = applied.has_values;
            Some(applied.state.apply(slot, order, &Sample))
        }
    };
    let result = effect.map_or(Bytes::new(), |effect| effect.to_bytes());
    applied.sessions.record(id(request), slot, result);
    Ok(effect)
}
