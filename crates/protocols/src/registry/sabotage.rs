//! A machine around a machine, which breaks it on purpose: every checker drives the protocol
//! through it when it is to find a mutant, so that a mutant is the same fault everywhere.

use crate::registry::Sabotage;
use bytes::Bytes;
use quorate_core::{
    Decoder, EntryId, Input, Introspect, Lsn, Machine, Now, Out, Output, Past, ReplicaId,
    WireError, Written,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A machine, and what is done to it: nothing, or one sabotage.
#[derive(Clone)]
pub struct Sabotaged<M: Machine> {
    inner: M,
    sabotage: Option<Sabotage<M>>,
    scratch: Out<M>,
    /// The outer number of each record not known durable yet, and the last inner number that is
    /// durable with it. Number 0 stands for records that were forgotten before any was kept.
    kept: VecDeque<(Lsn, Lsn)>,
    /// The last outer number known durable.
    durable: Lsn,
    /// What each peer said last, where that matters.
    heard: BTreeMap<ReplicaId, Bytes>,
}

/// The protocol's configuration, and the sabotage.
#[derive(Clone)]
pub struct SabotagedConfig<M: Machine> {
    /// As the protocol made it.
    pub inner: M::Config,
    /// What to break.
    pub sabotage: Option<Sabotage<M>>,
}

impl<M: Machine> fmt::Debug for SabotagedConfig<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}, sabotaged: {}",
            self.inner,
            self.sabotage.is_some()
        )
    }
}

impl<M: Machine> Machine for Sabotaged<M> {
    type Message = M::Message;
    type Record = M::Record;
    type Timer = M::Timer;
    type Base = M::Base;
    type Config = SabotagedConfig<M>;

    fn message(protocol: &str, input: &mut Decoder) -> Result<Self::Message, WireError> {
        M::message(protocol, input)
    }

    fn record(protocol: &str, input: &mut Decoder) -> Result<Self::Record, WireError> {
        M::record(protocol, input)
    }

    fn recover(config: &Self::Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let sabotage = config.sabotage;
        let mut inner_config = config.inner.clone();
        if let Some(Sabotage::Config(edit)) = sabotage {
            edit(&mut inner_config);
        }
        let mut scratch = Out::default();
        let past = inner_past(past, sabotage);
        let inner = M::recover(&inner_config, past, now, &mut scratch);
        let mut machine = Sabotaged {
            inner,
            sabotage,
            scratch,
            kept: VecDeque::new(),
            durable: Lsn(0),
            heard: BTreeMap::new(),
        };
        machine.settle(now, out);
        machine
    }

    fn step(&mut self, now: Now, mut input: Input<Self>, out: &mut Out<Self>) {
        match &mut input {
            Input::Message { from, message } => {
                if let Some(from) = self.repeats(*from, message) {
                    let message = message.clone();
                    self.inner
                        .step(now, Input::Message { from, message }, &mut self.scratch);
                }
            }
            Input::Durable(lsn) => {
                self.durable = *lsn;
                return self.settle(now, out);
            }
            Input::Installed { base, .. } => forget_base(self.sabotage, base),
            Input::Submit(_)
            | Input::Withdraw(_)
            | Input::Timer(_)
            | Input::Held(_)
            | Input::Prefer(_)
            | Input::Applied { .. }
            | Input::Link { .. } => {}
        }
        self.inner.step(now, input.pass_on(), &mut self.scratch);
        self.settle(now, out);
    }

    quorate_core::delegate!(Machine: M, config => &config.inner, Sabotaged { inner, .. } => inner);

    fn rests_on(config: &Self::Config, record: &Self::Record) -> Option<EntryId> {
        M::rests_on(&config.inner, record)
    }
}

impl<M: Machine> Introspect for Sabotaged<M> {
    fn fingerprint(&self, to: &mut impl Hasher) {
        self.inner.fingerprint(to);
        for (outer, _) in &self.kept {
            outer.0.saturating_sub(self.durable.0).hash(to);
        }
        self.heard.hash(to);
    }

    quorate_core::delegate!(Introspect: Sabotaged { inner, .. } => inner);
}

impl<M: Machine> Sabotaged<M> {
    /// The machine inside.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// For a replica that counts messages instead of senders: on behalf of which other peer a
    /// message counts that came before.
    fn repeats(&mut self, from: ReplicaId, message: &M::Message) -> Option<ReplicaId> {
        if !matches!(self.sabotage, Some(Sabotage::CountMessages)) {
            return None;
        }
        let bytes = message.written();
        let before = self.heard.insert(from, bytes.clone());
        let others = self.heard.keys().filter(|peer| **peer != from);
        before.filter(|before| *before == bytes)?;
        others.copied().next()
    }

    /// Hands on what the inner machine said, and tells it of records that were forgotten: with
    /// nothing kept before them that is still to become durable, they count as durable at once.
    fn settle(&mut self, now: Now, out: &mut Out<Self>) {
        let is_hasty = matches!(self.sabotage, Some(Sabotage::Hasty));
        let mut told = Lsn(0);
        loop {
            self.forward(out);
            let written = self.scratch.persisted();
            let through = if is_hasty && told < written {
                told = written;
                Some(written)
            } else {
                self.take_durable()
            };
            match through {
                Some(lsn) => self.inner.step(now, Input::Durable(lsn), &mut self.scratch),
                None => return,
            }
        }
    }

    /// The last inner number that became durable, if any did since the last call.
    fn take_durable(&mut self) -> Option<Lsn> {
        let mut through = None;
        while let Some((_, inner)) = self.kept.pop_front_if(|(outer, _)| *outer <= self.durable) {
            through = Some(inner);
        }
        through
    }

    fn forward(&mut self, out: &mut Out<Self>) {
        let outputs: Vec<Output<M>> = self.scratch.drain().collect();
        for mut output in outputs {
            if let Some(Sabotage::Output(keeps)) = self.sabotage
                && !keeps(&mut output)
            {
                continue;
            }
            if let Some(Sabotage::Knowing(change)) = self.sabotage {
                change(&self.inner, &mut output);
            }
            match output {
                Output::Persist { lsn, record } => self.persist(lsn, record, out),
                output => out.pass_on(output),
            }
        }
    }

    fn persist(&mut self, inner: Lsn, record: M::Record, out: &mut Out<Self>) {
        let is_forgotten =
            matches!(self.sabotage, Some(Sabotage::Forget(forgets)) if forgets(&record));
        if !is_forgotten {
            let outer = out.persist(record);
            self.kept.push_back((outer, inner));
            return;
        }
        match self.kept.back_mut() {
            Some((_, through)) => *through = inner,
            None => self.kept.push_back((self.durable, inner)),
        }
    }
}

fn inner_past<M: Machine>(past: Past<Sabotaged<M>>, sabotage: Option<Sabotage<M>>) -> Past<M> {
    match past {
        Past::Fresh => Past::Fresh,
        Past::Intact {
            next,
            mut base,
            records,
        } => {
            forget_base(sabotage, &mut base);
            Past::Intact {
                next,
                base,
                records,
            }
        }
        Past::Lost { next, base } if matches!(sabotage, Some(Sabotage::Amnesia)) => Past::Intact {
            next,
            base,
            records: Vec::new(),
        },
        Past::Lost { next, mut base } => {
            forget_base(sabotage, &mut base);
            Past::Lost { next, base }
        }
    }
}

fn forget_base<M: Machine>(sabotage: Option<Sabotage<M>>, base: &mut M::Base) {
    if matches!(sabotage, Some(Sabotage::ForgetBase)) {
        *base = M::Base::default();
    }
}
