//! What can happen, and what comes of it.

use super::node::{Applied, Life, Node};
use super::{Body, Fault, Mutant, Value, World, first_epoch, member, numbers};
use crate::epochs::{GroupState, Input, Order, Output, Record, Standing, Succession};
use quorate_core::Slot;
use std::collections::BTreeSet;

/// Something happens. Nodes go by their place, sets of them are masks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// A client sends a request.
    Request(Body),
    /// A round about a slot; `value` is proposed unless another is adopted.
    Round {
        epoch: u64,
        slot: Slot,
        proposer: usize,
        read: u32,
        write: u32,
        value: Value,
    },
    /// A node learns of a decision.
    Learn(usize, u64, Slot),
    Flush(usize),
    /// A node's records become durable, and its state does not yet: that may be on its way as a
    /// snapshot.
    FlushRecords(usize),
    /// A note arrives.
    Note(usize),
    /// A note is lost.
    Lose(usize),
    Timer(usize),
    Fetch(usize, usize),
    /// A node executes what it voted for next ahead of its decision.
    Ahead(usize),
    /// Clients learn that quorums voted for what a node has executed.
    AnswerAhead(usize),
    /// The bytes of a value arrive.
    Gather(usize, u16),
    Crash(usize),
    Boot(usize),
    /// A disk is lost.
    Wipe(usize),
    /// A node comes back without data.
    Return(usize),
    BeginRead(usize),
    Ask(usize),
    FinishRead,
}

impl World {
    /// Does it. What is impossible does nothing.
    pub(super) fn act(&mut self, act: &Act) -> Result<(), Fault> {
        match *act {
            Act::Request(ref body) => self.requests.push(body.clone()),
            Act::Round {
                epoch,
                slot,
                proposer,
                read,
                write,
                value,
            } => return self.round(epoch, slot, proposer, (read, write), value),
            Act::Learn(place, epoch, slot) => return self.learn(place, epoch, slot),
            Act::Flush(place) => return self.flush(place),
            Act::FlushRecords(place) => return self.flush_records(place),
            Act::Note(at) => {
                let (from, to, note) = self.notes.swap_remove(at);
                if let Some(place) = self.place(to).filter(|place| self.hears(*place)) {
                    return self.feed(place, Input::Heard { from, note });
                }
            }
            Act::Lose(at) => {
                self.notes.swap_remove(at);
            }
            Act::Timer(place) => {
                self.nodes[place].is_armed = false;
                return self.feed(place, Input::Timer);
            }
            Act::Fetch(place, from) => return self.fetch(place, from),
            Act::Ahead(place) => self.execute_ahead(place),
            Act::AnswerAhead(place) => self.answer_ahead(place),
            Act::Gather(place, request) => {
                self.counts.gathered += 1;
                self.gather(place, request);
            }
            Act::Crash(place) => self.nodes[place].forget(Life::Down),
            Act::Boot(place) => return self.boot(place),
            Act::Wipe(place) => {
                self.wipe(place);
                return self.check_readable();
            }
            Act::Return(place) => return self.come_back(place),
            Act::BeginRead(place) => self.begin_read(place),
            Act::Ask(place) => self.ask(place),
            Act::FinishRead => return self.finish_read(),
        }
        Ok(())
    }

    fn hears(&self, place: usize) -> bool {
        let node = &self.nodes[place];
        // A process that has left may still answer.
        node.is_up() || node.life == Life::Left && node.succession.is_some()
    }

    fn round(
        &mut self,
        epoch: u64,
        slot: Slot,
        proposer: usize,
        (read, write): (u32, u32),
        value: Value,
    ) -> Result<(), Fault> {
        let votes = self.nodes.iter().enumerate();
        let votes = votes.filter(|(place, _)| read >> place & 1 == 1);
        let votes = votes.filter_map(|(_, node)| node.votes.get(&(epoch, slot)));
        let adopted = votes
            .max_by_key(|(round, _)| *round)
            .map(|(_, value)| *value);
        let value = adopted.unwrap_or(value);
        let earlier = self
            .voters
            .range((epoch, slot, 0)..=(epoch, slot, u32::MAX));
        let round = earlier.last().map_or(0, |((.., round), _)| *round) + 1;
        if adopted.is_none()
            && let Some(request) = value
        {
            self.nodes[proposer].own.insert(request);
            if self.is_value(request) {
                self.nodes[proposer].bytes.insert(request);
            }
        }
        let voters = (0..self.nodes.len()).filter(|place| write >> place & 1 == 1);
        let voters: BTreeSet<usize> = voters.collect();
        if let Some(request) = value {
            self.send_bytes(request, &voters);
        }
        for place in voters {
            self.vote(place, (epoch, slot, round), value)?;
        }
        Ok(())
    }

    fn vote(
        &mut self,
        place: usize,
        (epoch, slot, round): (u64, Slot, u32),
        value: Value,
    ) -> Result<(), Fault> {
        if self.nodes[place].current() == epoch {
            self.retract_ahead(place, slot, value);
        }
        let node = &mut self.nodes[place];
        node.votes.insert((epoch, slot), (round, value));
        let me = node.me;
        let voted = self.voters.entry((epoch, slot, round));
        let (_, voters) = voted.or_insert_with(|| (value, BTreeSet::new()));
        voters.insert(me);
        let count = voters.len();
        self.check_voter(me, epoch)?;
        let quorum = self.epoch(epoch).map(|epoch| numbers(epoch).quorum());
        if quorum.is_some_and(|quorum| count == quorum) {
            self.choose(epoch, slot, value)?;
        }
        let body = value.map(|request| &self.requests[usize::from(request)]);
        let changes = matches!(body, Some(Body::Order(order)) if order.seals());
        let node = &self.nodes[place];
        let is_next = node.current() == epoch && node.live.next == slot;
        if self.has(Mutant::StartsOnVotes) && changes && is_next {
            return self.take_decided(place, epoch, slot, value);
        }
        Ok(())
    }

    fn choose(&mut self, epoch: u64, slot: Slot, value: Value) -> Result<(), Fault> {
        let before = *self.chosen.entry((epoch, slot)).or_insert(value);
        if before != value {
            return Err(format!(
                "two decisions: slot {slot} of epoch {epoch} is {value:?} and was {before:?}"
            ));
        }
        self.check_decision(epoch)
    }

    /// A node's state and records become durable.
    pub(super) fn flush(&mut self, place: usize) -> Result<(), Fault> {
        let node = &mut self.nodes[place];
        node.disk = node.live.clone();
        let (me, next) = (node.me, node.disk.next);
        for epoch in node.disk.state.chain.epochs() {
            if epoch.first_slot <= next && epoch.has(me) {
                self.held.entry(epoch.number).or_default().insert(me);
            }
        }
        self.flush_records(place)?;
        self.feed(place, Input::Progress)
    }

    fn flush_records(&mut self, place: usize) -> Result<(), Fault> {
        let node = &mut self.nodes[place];
        let records = std::mem::take(&mut node.writing);
        node.records.extend(&records);
        let mut records = records.into_iter();
        records.try_for_each(|record| self.feed(place, Input::Durable(record)))
    }

    pub(super) fn boot(&mut self, place: usize) -> Result<(), Fault> {
        let mutant = self.scope.mutant;
        let node = &mut self.nodes[place];
        node.forget(Life::Up);
        let mut out = Vec::new();
        let succession = {
            let at = standing(node);
            Succession::recover(node.me, &node.records, &at, &mut out)
        };
        node.succession = Some(Node::sabotage(succession, mutant));
        self.perform(place, out)
    }

    fn wipe(&mut self, place: usize) {
        self.counts.losses += 1;
        let node = &mut self.nodes[place];
        self.lost.insert(node.me);
        node.forget(Life::Gone);
        node.records.clear();
        node.votes.clear();
        node.bytes.clear();
    }

    /// A node without data comes back in a new life.
    fn come_back(&mut self, place: usize) -> Result<(), Fault> {
        let keeps = self.has(Mutant::KeepsIncarnation);
        let me = self.nodes[place].me;
        let life = me.incarnation.0 + u128::from(!keeps);
        let first = self.truth.state.chain.get(1).cloned();
        let first = first.unwrap_or_else(|| first_epoch(1, 0));
        let mut state = GroupState::new(first, 1);
        state.addresses.clone_from(&self.truth.state.addresses);
        let applied = Applied::new(state);
        self.nodes[place] = Node::new(member(me.id.0, life), applied);
        self.boot(place)
    }

    /// Gives a node's succession an input, and does what comes of it.
    pub(super) fn feed(&mut self, place: usize, input: Input) -> Result<(), Fault> {
        let mut out = Vec::new();
        let Some(mut succession) = self.nodes[place].succession.take() else {
            return Ok(());
        };
        succession.step(&standing(&self.nodes[place]), input, &mut out);
        self.nodes[place].succession = Some(succession);
        self.perform(place, out)
    }

    fn perform(&mut self, place: usize, out: Vec<Output>) -> Result<(), Fault> {
        let me = self.nodes[place].me;
        for output in out {
            match output {
                Output::Seal { .. } | Output::Fetch { .. } => {}
                Output::Stop { epoch } => {
                    let votes = &mut self.nodes[place].votes;
                    votes.retain(|(of, _), _| *of > epoch);
                }
                Output::Persist(record) => self.nodes[place].writing.push(record),
                Output::Start { epoch, again } => self.check_start(place, epoch, again)?,
                Output::Propose(order) => self.propose(order),
                Output::Send { to, note } => self.notes.push((me, to, note)),
                Output::Arm { .. } => self.nodes[place].is_armed = true,
                Output::Leave => self.leave(place)?,
            }
        }
        Ok(())
    }

    fn propose(&mut self, order: Order) {
        let body = Body::Order(order);
        if !self.requests.contains(&body) {
            self.requests.push(body);
        }
    }

    fn leave(&mut self, place: usize) -> Result<(), Fault> {
        self.check_leave(self.nodes[place].me)?;
        self.counts.left += 1;
        let node = &mut self.nodes[place];
        node.life = Life::Left;
        node.votes.clear();
        node.own.clear();
        node.bytes.clear();
        self.check_readable()
    }

    /// Records of a node that start an epoch.
    pub(super) fn has_started(&self, place: usize, epoch: u64) -> bool {
        let started = Record::Started { epoch };
        self.nodes[place].records.contains(&started)
    }
}

fn standing(node: &Node) -> Standing<'_> {
    Standing {
        state: &node.live.state,
        failures: numbers(node.live.state.chain.newest()).failures,
        applied: node.live.next,
        durable: node.disk.next,
    }
}
