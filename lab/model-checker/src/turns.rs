//! What the search layer by layer does with a replica: each turn begins with a restart.

use crate::host_model::{Fault, HostModel, Told};
use crate::interner::Interner;
use crate::node::Node;
use crate::scope::replica;
use quorate_core::{Input, Past, Plain, Slot};

impl<M: Plain> HostModel<'_, M> {
    /// A replica that restarts with all of its log, in a life after that in which requests came.
    pub(crate) fn reborn(
        &self,
        node: &Node<M>,
        interner: &mut Interner<M>,
    ) -> Result<Node<M>, Fault> {
        let mut node = node.clone();
        node.crashes = 1;
        node.sent.clear();
        let (log, base, records) = node.disk.recover(node.disk.lines.len());
        let next = Slot(log.len() as u64);
        let past = Past::Intact {
            next,
            base,
            records,
        };
        self.start(node, past, interner, &mut Told(None))
    }

    /// It hears one message.
    pub(crate) fn hear(
        &self,
        node: Node<M>,
        mail: u32,
        interner: &mut Interner<M>,
    ) -> Result<Node<M>, Fault> {
        let mail = interner.mail(mail);
        let (from, message) = (replica(mail.from), mail.message.clone());
        self.step(
            node,
            Input::Message { from, message },
            0,
            interner,
            &mut Told(None),
        )
    }

    /// Everything written becomes durable.
    pub(crate) fn settle(
        &self,
        mut node: Node<M>,
        interner: &mut Interner<M>,
    ) -> Result<Node<M>, Fault> {
        while !node.disk.writes.is_empty() {
            let writes = node.disk.writes.len() as u8;
            node = self.flush(node, writes, interner, &mut Told(None))?;
        }
        Ok(node)
    }

    /// A turn ends: its timers fire or not, and at last it has every payload, so that a decision
    /// shows.
    pub(crate) fn end_turn(
        &self,
        mut node: Node<M>,
        fires: bool,
        payloads: &[u32],
        interner: &mut Interner<M>,
    ) -> Result<Node<M>, Fault> {
        if fires {
            for timer in std::mem::take(&mut node.timers) {
                node = self.step(node, Input::Timer(timer), 0, interner, &mut Told(None))?;
            }
        }
        // Payloads come last: what was written has been said before a decision shows.
        node = self.settle(node, interner)?;
        let has_spoken = !node.disk.lines.is_empty();
        for mail in payloads.iter().filter(|_| has_spoken) {
            node = self.hear(node, *mail, interner)?;
        }
        self.settle(node, interner)
    }
}
