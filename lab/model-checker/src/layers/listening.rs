//! What a replica may come to in a layer by hearing others, in any order.

use super::essence::Look;
use super::{LayerState, Local, Outcome, Place, Search};
use crate::host_model::Fault;
use crate::interner::Code;
use crate::node::{Node, Print};
use quorate_core::Plain;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What a replica may have heard in a turn: which others, in which order, and whether its timers
/// fired.
pub(super) type Heard = (Order, bool);

/// Some replicas in some order, four bits each, the first lowest; 0 ends it.
pub(super) type Order = u32;

/// What a replica comes to, and the first way to each.
pub(super) type Outcomes = Rc<[(Outcome, Heard)]>;

/// What a replica may come to in a layer, and by hearing whom.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Prospect {
    pub(super) end: End,
    /// What those heard look like, in their order.
    looks: Rc<[Look]>,
    fires: bool,
}

/// What comes of a turn, for the rest of the instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    /// It decided this.
    Decided(Code),
    /// It looks like this in the next layer, and took this value if the coin had a say in it.
    Said(Look, Option<u8>),
    /// It has nothing to say in this layer.
    Silent,
}

/// By coin, what may have been decided, what a replica looks like, and what the others do.
pub(super) type Situation = (usize, Option<Code>, Look, Vec<Look>);

/// All that a replica may come to in a layer.
pub(super) type Prospects = Rc<[Prospect]>;

/// The replicas of an order.
pub(super) fn members(order: Order) -> impl Iterator<Item = usize> {
    let nibbles = (0..8).map(move |place| order >> (4 * place) & 15);
    nibbles
        .take_while(|nibble| *nibble != 0)
        .map(|nibble| nibble as usize - 1)
}

/// An order with one more replica at its end.
fn and(order: Order, other: usize) -> Order {
    order | (other as u32 + 1) << (4 * members(order).count())
}

/// What a replica, and the records that it began with, came to in a turn.
struct Ends {
    outcomes: Vec<(Outcome, Heard)>,
    /// Messages for one of the others, by what was said in a turn: where nothing about it was
    /// written, and in all turns.
    unwritten: BTreeSet<u32>,
    said: BTreeSet<Vec<u32>>,
}

impl<M: Plain> Search<'_, M> {
    /// All that a replica may come to in a layer, with the first way to each: worked out once for
    /// all that look like it, among others that look like these.
    pub(super) fn prospects(
        &mut self,
        state: &LayerState,
        me: usize,
        (layer, coin): (usize, usize),
    ) -> Result<Prospects, Fault> {
        let looks = self.looks(&state.places, layer);
        let mut others = looks.clone();
        others.swap_remove(me);
        others.sort_unstable();
        let key = (coin, state.decided, looks[me], others);
        if let Some(prospects) = self.prospects.get(&key) {
            return Ok(Rc::clone(prospects));
        }
        let outcomes = self.outcomes(coin, me, state);
        let prospects = outcomes.map(|outcomes| {
            let prospects = outcomes.iter().map(|(outcome, (order, fires))| Prospect {
                end: self.end_of(*outcome, layer),
                looks: members(*order).map(|other| looks[other]).collect(),
                fires: *fires,
            });
            let mut known = BTreeSet::new();
            let prospects = prospects.filter(|prospect| known.insert(prospect.end));
            prospects.collect::<Rc<[_]>>()
        });
        // What failed once is not tried again while the way to it is told.
        let known = prospects.as_ref().map_or_else(|_| Rc::from([]), Rc::clone);
        self.prospects.insert(key, known);
        prospects
    }

    fn end_of(&mut self, outcome: Outcome, layer: usize) -> End {
        match outcome {
            Outcome::Decided(code) => End::Decided(code),
            Outcome::Said(local) if self.layer_of(local) <= layer => End::Silent,
            Outcome::Said(local) => {
                let taken = self.value_of(local, layer);
                let tossed = taken.filter(|taken| taken.is_tossed);
                End::Said(self.look(local, layer + 1), tossed.map(|taken| taken.value))
            }
        }
    }

    /// Where a prospect leads in a state, and whom a replica hears for it. That others who look
    /// like those heard do as well is often so; values of former layers may let it decide instead.
    pub(super) fn realise(
        &mut self,
        prospect: &Prospect,
        look: Look,
        state: &LayerState,
        me: usize,
        (layer, coin): (usize, usize),
    ) -> Result<(Local, Heard), Fault> {
        let locals = state.locals();
        let heard = self.heard(prospect, &state.places, me, layer);
        let outcome = self.turn(coin, me, heard, &locals)?;
        if let Outcome::Said(local) = outcome
            && self.look(local, layer + 1) == look
        {
            return Ok((local, heard));
        }
        for (outcome, heard) in self.outcomes(coin, me, state)?.iter() {
            if let Outcome::Said(local) = *outcome
                && self.look(local, layer + 1) == look
            {
                return Ok((local, *heard));
            }
        }
        let what = format!(
            "replica {}: not as another did that {}",
            me + 1,
            hears(heard)
        );
        Err(Fault::new("who look alike come to the same", what))
    }

    /// Whom a replica hears for a prospect, among these.
    pub(super) fn heard(
        &mut self,
        prospect: &Prospect,
        places: &[Place],
        me: usize,
        layer: usize,
    ) -> Heard {
        let looks = self.looks(places, layer);
        let order = prospect.looks.iter().fold(0, |order, look| {
            let is_next = |other: &usize| {
                *other != me && looks[*other] == *look && members(order).all(|one| one != *other)
            };
            let next = (0..looks.len()).find(is_next);
            and(order, next.expect("the others look the same"))
        });
        (order, prospect.fires)
    }

    /// All that one replica may come to in a state, with the first way to each.
    fn outcomes(&mut self, coin: usize, me: usize, state: &LayerState) -> Result<Outcomes, Fault> {
        let key = (coin, me, state.locals());
        if let Some(outcomes) = self.outcomes.get(&key) {
            return Ok(Rc::clone(outcomes));
        }
        let outcomes: Outcomes = self.listen(coin, me, &key.2)?.into();
        self.outcomes.insert(key, Rc::clone(&outcomes));
        Ok(outcomes)
    }

    /// It hears any of the others in any order. Orders that come to the same are taken for one
    /// before it hears more.
    fn listen(
        &mut self,
        coin: usize,
        me: usize,
        locals: &[Local],
    ) -> Result<Vec<(Outcome, Heard)>, Fault> {
        let others = (0..locals.len()).filter(|other| *other != me);
        let others = others.map(|other| (other, self.mails(locals[other], me)));
        let others = others.collect::<Vec<_>>();
        // Once it has spoken its timers only make it repeat itself.
        let has_spoken = self.locals[locals[me] as usize].records() > 0;
        let mut open = vec![(self.begin(coin, locals[me])?, 0)];
        let mut seen = BTreeSet::new();
        let mut ended: BTreeSet<Print> = BTreeSet::new();
        let mut ends = Ends {
            outcomes: Vec::new(),
            unwritten: BTreeSet::new(),
            said: BTreeSet::new(),
        };
        let mut begun = 0;
        while begun < open.len() {
            let (node, order) = open[begun].clone();
            begun += 1;
            if ended.insert(node.print()) {
                for fires in [false, true].into_iter().take(2 - usize::from(has_spoken)) {
                    let node = self.end(coin, &node, (order, fires))?;
                    self.note(locals[me], node, (order, fires), &mut ends);
                }
            }
            for (other, mails) in &others {
                if members(order).any(|heard| heard == *other) {
                    continue;
                }
                let order = and(order, *other);
                let next = self.hear(coin, &node, mails, order)?;
                let heard = members(order).fold(0, |mask, member| mask | 1u32 << member);
                if seen.insert((next.print(), heard)) {
                    open.push((next, order));
                }
            }
        }
        self.judge_speech(me, locals.len(), &ends)?;
        Ok(ends.outcomes)
    }

    /// One turn in one order.
    pub(super) fn turn(
        &mut self,
        coin: usize,
        me: usize,
        (order, fires): Heard,
        locals: &[Local],
    ) -> Result<Outcome, Fault> {
        let mut node = self.begin(coin, locals[me])?;
        for other in members(order) {
            let mails = self.mails(locals[other], me);
            node = self.hear(coin, &node, &mails, order)?;
        }
        let node = self.end(coin, &node, (order, fires))?;
        Ok(self.outcome(locals[me], node))
    }

    fn begin(&mut self, coin: usize, local: Local) -> Result<Node<M>, Fault> {
        let (model, interner) = (&self.model[coin], &mut self.interner);
        let node = &self.locals[local as usize];
        self.guard.run(|| model.reborn(node, interner))
    }

    fn hear(
        &mut self,
        coin: usize,
        node: &Node<M>,
        mails: &[u32],
        order: Order,
    ) -> Result<Node<M>, Fault> {
        let (model, interner) = (&self.model[coin], &mut self.interner);
        let hear = |node, mail: &u32| model.hear(node, *mail, interner);
        self.guard
            .run(|| mails.iter().try_fold(node.clone(), hear))
            .map_err(|fault| blame(fault, node.me, (order, false)))
    }

    fn end(&mut self, coin: usize, node: &Node<M>, heard: Heard) -> Result<Node<M>, Fault> {
        let (model, interner, offers) =
            (&self.model[coin], &mut self.interner, &self.offers[node.me]);
        self.guard
            .run(|| model.end_turn(node.clone(), heard.1, offers, interner))
            .map_err(|fault| blame(fault, node.me, heard))
    }

    /// What a turn came to that began with the records of `before`.
    fn outcome(&mut self, before: Local, node: Node<M>) -> Outcome {
        let decided = node.chosen.first().copied();
        let node = node.undecided();
        let has_said_more = node.records() > self.locals[before as usize].records();
        match decided {
            Some(code) if !has_said_more => Outcome::Decided(code),
            _ => Outcome::Said(self.local(node)),
        }
    }

    fn note(&mut self, before: Local, node: Node<M>, heard: Heard, ends: &mut Ends) {
        let listener = (node.me + 1) % self.model[0].scope.n;
        let for_listener = |mail: &&u32| self.interner.mail(**mail).to == listener;
        let said = node.sent.iter().filter(for_listener).copied();
        let said = said.collect::<Vec<_>>();
        let written = node.disk.lines.len();
        if written == self.locals[before as usize].disk.lines.len() {
            ends.unwritten.extend(&said);
        }
        ends.said.insert(said);
        let outcome = self.outcome(before, node);
        if ends.outcomes.iter().all(|(known, _)| *known != outcome) {
            ends.outcomes.push((outcome, heard));
        }
    }

    /// What was said and not written may be followed by any other turn, after a crash: it must
    /// have been nothing new. One of the others listens.
    fn judge_speech(&mut self, me: usize, n: usize, ends: &Ends) -> Result<(), Fault> {
        let mut listener = Node::new((me + 1) % n);
        listener = self
            .guard
            .run(|| self.model[0].reborn(&listener, &mut self.interner))?;
        let before = ends.unwritten.iter().copied().collect::<Vec<_>>();
        let listener = self.hear(0, &listener, &before, and(0, me))?;
        for said in &ends.said {
            self.hear(0, &listener, said, and(0, me))?;
        }
        Ok(())
    }

    fn mails(&self, heard: Local, to: usize) -> Vec<u32> {
        let sent = self.locals[heard as usize].sent.iter();
        let sent = sent.filter(|mail| self.interner.mail(**mail).to == to);
        sent.copied().collect()
    }
}

/// Says in which turn a fault showed.
fn blame(fault: Fault, me: usize, heard: Heard) -> Fault {
    let what = format!("replica {} {}: {}", me + 1, hears(heard), fault.what);
    Fault { what, ..fault }
}

/// What a replica heard, in words.
pub(super) fn hears((order, fires): Heard) -> String {
    let others = members(order).map(|other| (other + 1).to_string());
    let others = others.collect::<Vec<_>>().join(" ");
    let timers = if fires { ", its timers fire" } else { "" };
    format!("hears {{{others}}}{timers}")
}
