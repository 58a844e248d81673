//! The states that an instance may begin with.

use super::essence::combinations;
use super::{Keys, LayerState, Local, Outcome, Place, Search};
use crate::host_model::{Act, Fault, Told};
use crate::node::Node;
use crate::scope::Scope;
use quorate_core::{Class, Plain};
use std::collections::BTreeMap;

/// What comes of it if a replica without a request hears one other and is woken.
type Answers = BTreeMap<(Local, Local), Outcome>;

impl<M: Plain> Search<'_, M> {
    /// The first layer: everybody has one of the requests, or none, and whoever has none may have
    /// proposed a no-op because of somebody else's proposal.
    pub(super) fn open(&mut self, scope: &Scope) -> Result<(), Fault> {
        self.offer(scope)?;
        let mut props = Vec::new();
        for me in 0..scope.n {
            let mut of_me = vec![self.prepare(me, None)?];
            for request in 0..scope.requests.len() {
                of_me.push(self.prepare(me, Some(request))?);
            }
            props.push(of_me);
        }
        let mut keys = Keys::new();
        let mut answers = Answers::new();
        for choice in 0..props[0].len().pow(scope.n as u32) {
            let digit = |me: usize| choice / props[0].len().pow(me as u32) % props[0].len();
            let locals = (0..scope.n)
                .map(|me| props[me][digit(me)])
                .collect::<Vec<_>>();
            let empty = (0..scope.n)
                .filter(|me| digit(*me) == 0)
                .collect::<Vec<_>>();
            for nulls in 0..1u32 << empty.len() {
                let who = empty
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| nulls >> bit & 1 == 1);
                let who = who.map(|(_, me)| *me).collect::<Vec<_>>();
                self.open_with(&locals, &who, &mut answers, &mut keys)?;
            }
        }
        Ok(())
    }

    /// Adds what comes of it if these replicas, who have no request, propose a no-op.
    fn open_with(
        &mut self,
        locals: &[Local],
        nulls: &[usize],
        answers: &mut Answers,
        keys: &mut Keys,
    ) -> Result<(), Fault> {
        let speakers =
            (0..locals.len()).filter(|me| !self.locals[locals[*me] as usize].sent.is_empty());
        let speakers = speakers.collect::<Vec<_>>();
        if !nulls.is_empty() && speakers.is_empty() {
            return Ok(());
        }
        let mut options = locals.iter().map(|local| vec![*local]).collect::<Vec<_>>();
        for me in nulls {
            options[*me].clear();
            for speaker in &speakers {
                let pair = (locals[*me], locals[*speaker]);
                let outcome = match answers.get(&pair) {
                    Some(outcome) => *outcome,
                    None => self.turn(0, *me, (*speaker as u32 + 1, true), locals)?,
                };
                answers.insert(pair, outcome);
                if let Outcome::Said(local) = outcome {
                    options[*me].push(local);
                }
            }
        }
        let ways = options.iter().map(|locals| {
            let ways = locals
                .iter()
                .map(|local| (self.look(*local, 0), false, None));
            ways.collect::<Vec<_>>()
        });
        for (looks, chosen) in combinations(&ways.collect::<Vec<_>>()) {
            let locals = chosen
                .iter()
                .zip(&options)
                .map(|(place, locals)| locals[*place]);
            let place = |local| Place { local, gone: false };
            let state = LayerState {
                places: locals.map(place).collect(),
                decided: None,
                parent: 0,
                heard: Vec::new(),
                coin: 0,
            };
            self.add(state, (None, looks), keys);
        }
        Ok(())
    }

    /// Has the requests' entries formed, by former lives of the replicas that were asked.
    fn offer(&mut self, scope: &Scope) -> Result<(), Fault> {
        self.offers = vec![Vec::new(); scope.n];
        for (request, asked) in scope.requests.iter().enumerate() {
            assert_eq!(asked.class, Class::Write, "an instance is about writes");
            let node = self.model[0].first(asked.at, &mut self.interner, &mut Told(None))?;
            let submit = Act::Submit {
                request: request as u8,
                clock: 0,
                floor: 0,
            };
            let told = &mut Told(None);
            let asked_node = self.model[0].apply(&node, submit, &[], &mut self.interner, told)?;
            let sent = asked_node.expect("a request is within the search").sent;
            let offer = self.interner.mail(sent[0]).message.clone();
            for to in 0..scope.n {
                let from = (asked.at + usize::from(asked.at == to)) % scope.n;
                let mail = self.interner.post(from, to, &offer);
                self.offers[to].push(mail);
            }
        }
        Ok(())
    }

    /// A replica that has proposed the request given to it, if any.
    fn prepare(&mut self, me: usize, request: Option<usize>) -> Result<Local, Fault> {
        let (model, interner, offers) = (&self.model[0], &mut self.interner, &self.offers[me]);
        let node = self.guard.run(|| {
            let mut node = model.reborn(&Node::new(me), interner)?;
            if let Some(request) = request {
                node = model.hear(node, offers[request], interner)?;
            }
            model.settle(node, interner)
        })?;
        Ok(self.local(node))
    }
}
