//! E11: when faults stop, a fresh write is answered and everything answered before is there.

use super::act::Act;
use super::node::Life;
use super::{Body, Fault, World};
use crate::epochs::Order;

/// Rounds of everything that anybody can do. An epoch takes a handful, and few are begun at the end.
const ROUNDS: usize = 60;

impl World {
    /// Lets everything that is possible happen until a fresh write is answered.
    pub(super) fn drain(&mut self) -> Result<(), Fault> {
        self.read = None;
        for place in 0..self.nodes.len() {
            if self.nodes[place].life == Life::Down {
                self.boot(place)?;
            }
        }
        self.requests.push(Body::Write);
        let fresh = (self.requests.len() - 1) as u16;
        for _ in 0..ROUNDS {
            self.settle_down()?;
            if self.is_done(fresh) {
                return self.check_answered();
            }
            self.decide(fresh)?;
        }
        Err(self.blocked(fresh))
    }

    /// Everything but rounds, once.
    fn settle_down(&mut self) -> Result<(), Fault> {
        for place in 0..self.nodes.len() {
            if !self.nodes[place].is_up() {
                continue;
            }
            if let Some(from) = self.furthest()
                && self.nodes[from].live.next > self.nodes[place].live.next
            {
                self.fetch(place, from)?;
            }
            self.flush(place)?;
            if self.nodes[place].is_armed {
                self.act(&Act::Timer(place))?;
            }
            self.learn_all(place)?;
        }
        self.gather_enough();
        // What these lead to is for the next round.
        for _ in 0..self.notes.len() {
            let (from, to, note) = self.notes.remove(0);
            self.notes.push((from, to, note));
            self.act(&Act::Note(self.notes.len() - 1))?;
        }
        Ok(())
    }

    fn learn_all(&mut self, place: usize) -> Result<(), Fault> {
        let node = &self.nodes[place];
        let (epoch, next) = (node.current(), node.live.next);
        let votes = node.running() == Some(epoch);
        let known = self.chosen.range((epoch, next)..);
        let known = known.take_while(|((of, _), _)| *of == epoch && votes);
        let slots: Vec<_> = known.map(|((_, slot), _)| *slot).collect();
        for slot in slots {
            // Whoever votes for it again may learn it, too.
            self.learn(place, epoch, slot)?;
        }
        Ok(())
    }

    /// A round about the next slot, of every epoch that has voters.
    fn decide(&mut self, fresh: u16) -> Result<(), Fault> {
        for proposer in 0..self.nodes.len() {
            let Some(epoch) = self.nodes[proposer].running() else {
                continue;
            };
            let node = &self.nodes[proposer];
            let (slot, is_current) = (node.live.next, node.current() == epoch);
            let voting = self.voting(epoch);
            let quorum = self
                .epoch(epoch)
                .map(|epoch| super::numbers(epoch).quorum());
            let is_decided = self.chosen.contains_key(&(epoch, slot));
            if !is_current || is_decided || quorum.is_none_or(|quorum| voting.len() < quorum) {
                continue;
            }
            let all = voting.iter().fold(0, |mask, place| mask | 1 << place);
            let value = self.settled().map_or(fresh, |order| self.settle(order));
            self.act(&Act::Round {
                epoch,
                slot,
                proposer,
                read: all,
                write: all,
                value: Some(value),
            })?;
        }
        Ok(())
    }

    /// The furthest state that anybody has.
    fn furthest(&self) -> Option<usize> {
        let up = (0..self.nodes.len()).filter(|place| self.nodes[*place].is_up());
        up.max_by_key(|place| self.nodes[*place].live.next)
    }

    fn is_done(&self, fresh: u16) -> bool {
        let newest = self.truth.state.chain.newest();
        let mut members = self.nodes.iter().filter(|node| newest.has(node.me));
        let is_applied = members.all(|node| !node.is_up() || node.live.log.contains(&fresh));
        // Whoever is no longer needed was told so.
        let mut leavers = self.nodes.iter().filter(|node| {
            node.is_up() && !newest.has(node.me) && self.truth.state.chain.lists(node.me)
        });
        is_applied && self.truth.log.contains(&fresh) && leavers.next().is_none()
    }

    fn check_answered(&self) -> Result<(), Fault> {
        for (request, slot) in &self.answered {
            if !self.truth.log.contains(request) {
                return Err(format!(
                    "lost: request {request} was answered for slot {slot} and is not there"
                ));
            }
        }
        self.check_readable()
    }

    fn blocked(&self, fresh: u16) -> Fault {
        let nodes = self.nodes.iter().map(|node| {
            format!(
                "{:?}/{} {:?} epoch {} next {} runs {:?}",
                node.me.id,
                node.me.incarnation.0,
                node.life,
                node.current(),
                node.live.next,
                node.running()
            )
        });
        let nodes: Vec<_> = nodes.collect();
        let newest = self.truth.state.chain.newest();
        let members = newest.members.iter();
        let members: Vec<_> = members.map(|m| (m.id, m.incarnation.0)).collect();
        format!(
            "blocked: request {fresh} in epoch {} of {members:?} from {}: {nodes:?}",
            newest.number, newest.first_slot
        )
    }
}

impl World {
    /// The request that says that all payloads are safe.
    fn settle(&mut self, order: Order) -> u16 {
        let body = Body::Order(order);
        if let Some(at) = self.requests.iter().position(|other| *other == body) {
            return at as u16;
        }
        self.requests.push(body);
        (self.requests.len() - 1) as u16
    }
}
