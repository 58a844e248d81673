//! Performing what a machine wants done.
//!
//! The search does not use `testkit::Cluster`, which owns all replicas of a cluster. A replica here is
//! a value: it is cloned for every step, interned, and told apart by its encoding, so that it holds
//! nothing but what its future depends on. Timers are a set without times, messages are numbers that
//! may arrive any number of times, and what must not happen is an error with the way to it.

use crate::host_model::{Fault, HostModel, Told};
use crate::interner::Interner;
use crate::kinds::is_kind;
use crate::node::{Line, Node};
use crate::scope::{Disks, replica};
use quorate_core::{Event, Input, Lsn, Out, Outcome, Output, Peers, Plain, RequestId, carried};

/// One step of one replica, on its way.
struct Turn<'a, M: Plain> {
    node: Node<M>,
    interner: &'a mut Interner<M>,
    told: &'a mut Told,
    persisted: bool,
    /// Kinds of messages that never leave.
    lost: &'static [&'static str],
}

impl<M: Plain> HostModel<'_, M> {
    /// Performs what the machine wants done.
    pub(crate) fn perform(
        &self,
        node: Node<M>,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        let mut turn = self.turn_of(node, interner, told);
        loop {
            let mut outputs = turn.node.out.drain().collect::<Vec<_>>();
            if outputs.iter().any(|output| self.is_last(output)) {
                outputs.retain(|output| !matches!(output, Output::Send { .. }));
            }
            for output in outputs {
                self.perform_one(&mut turn, output)?;
            }
            let persisted = turn.node.out.persisted();
            if std::mem::take(&mut turn.persisted) {
                let end = turn.node.disk.lines.len();
                turn.node.disk.writes.push_back((end, persisted));
            }
            if self.scope.disks != Disks::None || turn.node.disk.flushed >= persisted {
                break;
            }
            turn.node.disk.writes.clear();
            turn.node.disk.durable = turn.node.disk.lines.len();
            turn.node.disk.flushed = persisted;
            turn.release(self.scope.n);
            let Some(machine) = &mut turn.node.machine else {
                break;
            };
            machine.step(self.now(0), Input::Durable(persisted), &mut turn.node.out);
            machine.check();
        }
        let mut node = turn.node;
        if node.decided.len() >= self.scope.slots {
            retire(&mut node);
        }
        Ok(node)
    }

    /// What waited for the disk leaves.
    pub(crate) fn release(
        &self,
        node: Node<M>,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Node<M> {
        let mut turn = self.turn_of(node, interner, told);
        turn.release(self.scope.n);
        turn.node
    }

    fn turn_of<'t>(
        &self,
        node: Node<M>,
        interner: &'t mut Interner<M>,
        told: &'t mut Told,
    ) -> Turn<'t, M> {
        Turn {
            node,
            interner,
            told,
            persisted: false,
            lost: self.scope.lost,
        }
    }

    /// Whether a replica is through with the search now. What it says in that step is lost.
    fn is_last(&self, output: &Output<M>) -> bool {
        matches!(output, Output::Deliver { slot, .. } if slot.0 + 1 >= self.scope.slots as u64)
    }

    fn perform_one(&self, turn: &mut Turn<'_, M>, output: Output<M>) -> Result<(), Fault> {
        turn.told.say(|| describe(&output));
        match output {
            Output::Send { to, message, after } => {
                if after <= turn.node.disk.flushed {
                    turn.post(to, &message, self.scope.n);
                } else {
                    turn.node.gated.push_back((after, to, message));
                }
            }
            Output::Persist { record, .. } => {
                turn.persisted = true;
                let record = carried(&record, turn.node.me as u8);
                turn.node.disk.lines.push(Line::Record(record));
            }
            Output::Note(record) => turn.node.disk.lines.push(Line::Record(record)),
            Output::Arm { timer, .. } => {
                turn.node.timers.insert(timer);
            }
            Output::Disarm(timer) => {
                turn.node.timers.remove(&timer);
            }
            Output::Deliver { slot, entry } => {
                let next = turn.node.decided.len();
                // One step may deliver slots beyond those that are searched, of which none is noted.
                let is_beyond = next == self.scope.slots && slot.0 >= next as u64;
                if slot.0 != next as u64 && !is_beyond {
                    let what = format!("slot {slot} is delivered out of turn");
                    return Err(Fault::new("order", what));
                }
                if next < self.scope.slots {
                    self.decide(&mut turn.node, entry, turn.interner)?;
                }
            }
            Output::Reply { id, outcome } => turn.reply(id, outcome)?,
            Output::Emit(Event::Misbehaved { peer, what }) => {
                let what = format!(
                    "replica {} finds that {peer} broke the protocol: {what}",
                    turn.node.me + 1
                );
                return Err(Fault::new("honesty", what));
            }
            Output::Gather(entry) => turn.node.gathers.push(entry),
            Output::Forget(entry) => turn.node.gathers.retain(|wanted| wanted.id != entry),
            // Nothing is executed ahead in the model, and there are no gateways apart.
            Output::Tell { .. }
            | Output::CatchUp { .. }
            | Output::Inform { .. }
            | Output::Execute { .. }
            | Output::Retract { .. }
            | Output::Emit(_) => {}
        }
        Ok(())
    }
}

/// A replica that has delivered every slot of the search takes no further part: what it would say
/// and write from now on is lost with it. It may still crash, and then be in the middle again.
fn retire<M: Plain>(node: &mut Node<M>) {
    node.machine = None;
    node.out = Out::default();
    node.gated.clear();
    node.gathers.clear();
    node.timers.clear();
    node.reads.clear();
    node.fired = 0;
    node.disk.writes.clear();
    node.disk.flushed = Lsn(0);
}

impl<M: Plain> Turn<'_, M> {
    /// What waited for the disk leaves.
    fn release(&mut self, n: usize) {
        while let Some((after, ..)) = self.node.gated.front()
            && *after <= self.node.disk.flushed
        {
            let (_, to, message) = self.node.gated.pop_front().expect("there is a front");
            self.post(to, &message, n);
        }
    }

    fn post(&mut self, to: Peers, message: &M::Message, n: usize) {
        let me = self.node.me;
        if self.lost.iter().any(|kind| is_kind(message, kind)) {
            return;
        }
        let is_for = |other: &usize| match to {
            Peers::All => *other != me,
            Peers::One(peer) => peer == replica(*other),
        };
        for other in (0..n).filter(is_for) {
            let mail = self.interner.post(me, other, message);
            self.node.has_sent(mail);
        }
    }

    fn reply(&mut self, id: RequestId, outcome: Outcome) -> Result<(), Fault> {
        let place = self.node.reads.iter().position(|(seq, _)| *seq == id.seq);
        let Some((_, floor)) = place.map(|place| self.node.reads.remove(place)) else {
            return Ok(());
        };
        match outcome {
            Outcome::ReadAt(slot) if slot < floor => {
                let what = format!(
                    "replica {} answers a read before slot {slot}; slot {floor} begins what it \
                     need not see",
                    self.node.me + 1
                );
                Err(Fault::new("reads are fresh", what))
            }
            _ => Ok(()),
        }
    }
}

/// An output in words.
fn describe<M: Plain>(output: &Output<M>) -> String {
    match output {
        Output::Send { to, message, after } => {
            let waits = if after.0 > 0 { ", once written" } else { "" };
            match to {
                Peers::All => format!("says to all{waits}: {message:?}"),
                Peers::One(peer) => format!("says to {peer}{waits}: {message:?}"),
            }
        }
        Output::Persist { record, .. } => format!("writes {record:?}"),
        Output::Deliver { slot, entry } => match entry {
            None => format!("DECIDES slot {slot}: NULL"),
            Some(entry) => format!("DECIDES slot {slot}: {:?}", entry.id),
        },
        Output::Execute { slot, entry } => format!("executes {:?} as slot {slot}", entry.id),
        Output::Retract { from } => format!("takes back slots from {from} on"),
        Output::Note(record) => format!("notes {record:?}"),
        Output::Arm { timer, .. } => format!("arms {timer:?}"),
        Output::Disarm(timer) => format!("disarms {timer:?}"),
        Output::Gather(entry) => format!("gathers the payloads of {:?}", entry.id),
        Output::Forget(entry) => format!("forgets {entry:?}"),
        Output::CatchUp { from, through } => format!("wants slots through {through} from {from}"),
        Output::Inform { peer, from } => format!("has slots from {from} on for {peer}"),
        Output::Tell { gateway, entry, .. } => format!("has {entry:?} told to {gateway}"),
        Output::Reply { id, outcome } => format!("answers request {}: {outcome:?}", id.seq),
        Output::Emit(event) => format!("notices {event:?}"),
    }
}
