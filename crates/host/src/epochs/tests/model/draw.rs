//! What happens next, drawn at random.

use super::act::Act;
use super::node::Life;
use super::{Body, World, member, numbers};
use crate::epochs::{Configuration, Expect, Order, Reconfigure};
use fastrand::Rng;
use quorate_core::{Epoch, ReplicaId, Slot};

/// Slots ahead of the first one not applied that may be proposed.
const AHEAD: u64 = 3;
const WRITES_MAX: usize = 40;
const CHANGES_MAX: usize = 10;
const NOTES_MAX: usize = 60;

impl World {
    /// Something that can happen; sometimes nothing comes to mind.
    pub(super) fn draw(&mut self, rng: &mut Rng) -> Option<Act> {
        if self.notes.len() > NOTES_MAX {
            return Some(Act::Lose(rng.usize(..self.notes.len())));
        }
        let place = rng.usize(..self.nodes.len());
        let life = self.nodes[place].life;
        let up = life == Life::Up;
        if let Some(act) = self.draw_apart(place, rng) {
            return Some(act);
        }
        match rng.u8(..100) {
            0..24 => self.draw_round(place, rng),
            24..44 => self.draw_learn(place, rng),
            44..52 => up.then_some(Act::Flush(place)),
            52..54 => up.then_some(Act::FlushRecords(place)),
            54..68 => {
                let count = self.notes.len();
                (count > 0).then(|| Act::Note(rng.usize(..count)))
            }
            68..71 => self.nodes[place].is_armed.then_some(Act::Timer(place)),
            71..80 => self.draw_fetch(place, rng),
            80 => up.then_some(Act::Crash(place)),
            81..87 => match life {
                Life::Down => Some(Act::Boot(place)),
                Life::Gone | Life::Left => Some(Act::Return(place)),
                Life::Up => None,
            },
            87 => {
                let wipes = matches!(life, Life::Up | Life::Down);
                let me = self.nodes[place].me;
                (wipes && self.may_lose(me)).then_some(Act::Wipe(place))
            }
            88..92 => self.draw_request(place, rng),
            92 => {
                let begins = up && self.read.is_none();
                begins.then_some(Act::BeginRead(place))
            }
            93..97 => self.read.is_some().then_some(Act::Ask(place)),
            _ => self.read.is_some().then_some(Act::FinishRead),
        }
    }

    /// What only some scopes have: executing ahead, and bytes that arrive late.
    fn draw_apart(&self, place: usize, rng: &mut Rng) -> Option<Act> {
        if self.scope.is_ahead && rng.u8(..8) == 0 {
            let act = if rng.bool() {
                Act::Ahead
            } else {
                Act::AnswerAhead
            };
            return Some(act(place));
        }
        if self.scope.has_values && rng.u8(..100) == 0 {
            let lacking = self.lacking(place);
            return rng
                .choice(&lacking)
                .map(|request| Act::Gather(place, *request));
        }
        None
    }

    fn draw_round(&self, proposer: usize, rng: &mut Rng) -> Option<Act> {
        let epoch = self.nodes[proposer].running()?;
        let voting = self.voting(epoch);
        let quorum = numbers(self.epoch(epoch)?).quorum();
        let ahead = if rng.bool() { 0 } else { rng.u64(..AHEAD) };
        let slot = Slot(self.nodes[proposer].live.next.0 + ahead);
        // Often nearly all, for the larger quorums.
        let [read, write] = [(); 2].map(|()| {
            let per_cent = if rng.bool() { 95 } else { 60 };
            subset(&voting, rng, per_cent)
        });
        let value = match rng.u8(..20) {
            0 => None,
            _ if self.requests.is_empty() => None,
            _ => Some(self.draw_value(rng)),
        };
        (read.count_ones() as usize >= quorum && write != 0).then_some(Act::Round {
            epoch,
            slot,
            proposer,
            read,
            write,
            value,
        })
    }

    /// Any request may be submitted again, wherever it is; most often a late one is.
    fn draw_value(&self, rng: &mut Rng) -> u16 {
        let count = self.requests.len();
        let from = if rng.bool() {
            count.saturating_sub(4)
        } else {
            0
        };
        rng.usize(from..count) as u16
    }

    fn draw_learn(&self, place: usize, rng: &mut Rng) -> Option<Act> {
        let node = &self.nodes[place];
        if !node.is_up() {
            return None;
        }
        // A late notice may be of an epoch that is over.
        let behind = Slot(node.live.next.0.saturating_sub(1));
        let known = self.chosen.keys().filter(|(_, slot)| *slot >= behind);
        let known: Vec<_> = known
            .filter(|(epoch, _)| self.epoch(*epoch).is_some_and(|e| e.has(node.me)))
            .collect();
        let next = (node.current(), node.live.next);
        if rng.bool() && known.contains(&&next) {
            return Some(Act::Learn(place, next.0, next.1));
        }
        let (epoch, slot) = **rng.choice(&known)?;
        Some(Act::Learn(place, epoch, slot))
    }

    fn draw_fetch(&self, place: usize, rng: &mut Rng) -> Option<Act> {
        let from = rng.usize(..self.nodes.len());
        let is_further = self.nodes[from].live.next > self.nodes[place].live.next;
        let both_up = self.nodes[place].is_up() && self.nodes[from].is_up();
        (is_further && both_up).then_some(Act::Fetch(place, from))
    }

    fn draw_request(&self, place: usize, rng: &mut Rng) -> Option<Act> {
        let changes = |body: &&Body| matches!(body, Body::Order(order) if order.seals());
        let asked = self.requests.iter().filter(changes).count();
        let is_write = |body: &&Body| matches!(body, Body::Write | Body::Value);
        let writes = self.requests.iter().filter(is_write);
        if rng.u8(..3) > 0 {
            let is_value = self.scope.has_values && rng.bool();
            let body = if is_value { Body::Value } else { Body::Write };
            return (writes.count() < WRITES_MAX).then_some(Act::Request(body));
        }
        if let Some(order) = self.settled()
            && rng.bool()
        {
            return Some(Act::Request(Body::Order(order)));
        }
        if asked >= CHANGES_MAX || !self.nodes[place].is_up() {
            return None;
        }
        let chain = &self.nodes[place].live.state.chain;
        let epochs: Vec<&Epoch> = chain.epochs().collect();
        let made_for = match rng.u8(..4) {
            0 => epochs[rng.usize(..epochs.len())],
            _ => chain.newest(),
        };
        let change = Reconfigure {
            expect: Expect::of(made_for),
            configuration: self.draw_configuration(made_for, rng),
        };
        let begun = change.configuration.behind(made_for, Slot(0));
        self.may_ask(&begun)
            .then_some(Act::Request(Body::Order(Order::Reconfigure(change))))
    }

    /// Any set of nodes in the lives they are in; of those with payloads under way, often the same
    /// ones.
    fn draw_configuration(&self, from: &Epoch, rng: &mut Rng) -> Configuration {
        let mut configuration = Configuration::of(from);
        let same = self.truth.state.unsettled.is_some() && rng.bool();
        let places = 0..self.nodes.len();
        let ids: Vec<u16> = match same {
            true => from.members.iter().map(|m| m.id.0).collect(),
            false => places.map(|at| at as u16 + 1).collect(),
        };
        let keep = if same { 100 } else { rng.u8(20..100) };
        let chosen = ids.into_iter().filter(|_| rng.u8(..100) < keep);
        let life = |id: u16| {
            let node = self.nodes.iter().find(|node| node.me.id == ReplicaId(id));
            node.map_or(1, |node| node.me.incarnation.0)
        };
        configuration.members = chosen.map(|id| member(id, life(id))).collect();
        if configuration.members.is_empty() {
            let place = rng.usize(..self.nodes.len());
            configuration.members.push(self.nodes[place].me);
        }
        if !same {
            let most = (configuration.members.len() - 1) / 2;
            let failures = rng.usize(..=most).to_string();
            configuration.params.insert("f".to_owned(), failures);
        }
        configuration
    }
}

/// Some of these, each with so many per cent.
fn subset(places: &[usize], rng: &mut Rng, per_cent: u8) -> u32 {
    let drawn = places.iter().filter(|_| rng.u8(..100) < per_cent);
    drawn.fold(0, |mask, place| mask | 1 << place)
}
