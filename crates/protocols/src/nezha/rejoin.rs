//! A replica that lost its promises begins a new life: crash vectors tell what it says from what its
//! former lives said.

use super::Replica;
use super::messages::{Message, Record};
use super::mutants::Fault;
use super::replica::Status;
use quorate_core::{Event, MemberIndex, Out, Peers};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// What a replica without promises has heard.
#[derive(Clone, Debug)]
pub(super) struct Rejoin {
    /// Of this life: answers to others are no answers.
    pub(super) nonce: u64,
    /// What others know of crashes; complete when the own new count is made.
    known: BTreeMap<MemberIndex, Vec<u64>>,
    has_count: bool,
    /// By member: its view, and what it knew of crashes.
    views: BTreeMap<MemberIndex, (u64, Vec<u64>)>,
    /// The least view that will do, once enough are known.
    view: Option<u64>,
}

impl Hash for Rejoin {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.known, self.has_count, &self.views, self.view).hash(to);
    }
}

impl Rejoin {
    /// Whether the log of this view will do.
    pub(super) fn wants(&self, view: u64) -> bool {
        self.view.is_some_and(|least| view >= least)
    }
}

impl Message {
    /// The crash vector it carries.
    pub(super) fn cv(&self) -> Option<&[u64]> {
        match self {
            Message::LogMod(log_mod) => Some(&log_mod.cv),
            Message::Vc(vc) => Some(&vc.cv),
            Message::StartView(start) => Some(&start.cv),
            Message::VcReq { cv, .. }
            | Message::CvRep { cv, .. }
            | Message::RecReq { cv, .. }
            | Message::RecRep { cv, .. }
            | Message::StateReq { cv, .. } => Some(cv),
            _ => None,
        }
    }
}

impl Replica {
    /// The promises are lost.
    pub(super) fn begin_rejoin(&mut self, out: &mut Out<Self>) {
        self.status = Status::Recovering;
        self.log.sums = None;
        self.rejoin = Some(Rejoin {
            nonce: self.config.boot.0,
            known: BTreeMap::new(),
            has_count: false,
            views: BTreeMap::new(),
            view: None,
        });
        self.write_life(out);
        self.say_rejoin(out);
    }

    fn write_life(&self, out: &mut Out<Self>) {
        out.persist(Record::Life {
            cv: self.cv.clone(),
            is_recovering: self.status == Status::Recovering,
        });
    }

    /// Says what is to be answered next.
    pub(super) fn say_rejoin(&mut self, out: &mut Out<Self>) {
        let Some(rejoin) = &self.rejoin else {
            return;
        };
        let (nonce, cv) = (rejoin.nonce, self.cv.clone());
        if !rejoin.has_count {
            return out.send(Peers::All, Message::CvReq { nonce });
        }
        // It tells again whoever did not hear it, and finds later views.
        out.send(
            Peers::All,
            Message::RecReq {
                nonce,
                cv: cv.clone(),
            },
        );
        if let Some(view) = rejoin.view {
            let leader = self.config.leader_of(view);
            if leader != self.config.me {
                out.send(self.peer(leader), Message::StateReq { nonce, view, cv });
            }
        }
    }

    pub(super) fn on_cv_req(&mut self, from: MemberIndex, nonce: u64, out: &mut Out<Self>) {
        if self.status == Status::Normal {
            let cv = self.cv.clone();
            out.send(self.peer(from), Message::CvRep { nonce, cv });
        }
    }

    pub(super) fn on_cv_rep(
        &mut self,
        from: MemberIndex,
        nonce: u64,
        cv: Vec<u64>,
        out: &mut Out<Self>,
    ) {
        let enough = self.config.thresholds.rejoin;
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        if rejoin.nonce != nonce || rejoin.has_count {
            return;
        }
        rejoin.known.insert(from, cv);
        if rejoin.known.len() < enough {
            return;
        }
        rejoin.has_count = true;
        for cv in std::mem::take(&mut rejoin.known).into_values() {
            merge(&mut self.cv, &cv);
        }
        let count = &mut self.cv[self.config.me];
        *count = count.saturating_add(1);
        self.write_life(out);
        self.say_rejoin(out);
    }

    pub(super) fn on_rec_req(
        &mut self,
        from: MemberIndex,
        nonce: u64,
        cv: &[u64],
        out: &mut Out<Self>,
    ) {
        if self.status == Status::Recovering || !self.is_of_last_life(from, cv, out) {
            return;
        }
        if self.status != Status::Normal {
            return;
        }
        let (view, cv) = (self.view, self.cv.clone());
        out.send(self.peer(from), Message::RecRep { nonce, view, cv });
        if from == self.leader() {
            // It leads no more, and says so itself.
            self.start_change(self.view + 1, out);
        }
    }

    pub(super) fn on_rec_rep(
        &mut self,
        from: MemberIndex,
        nonce: u64,
        view: u64,
        cv: Vec<u64>,
        out: &mut Out<Self>,
    ) {
        let is_bound = !self.config.faults.is(Fault::HeedFormerAnswers);
        let is_mine = |rejoin: &Rejoin| rejoin.nonce == nonce || !is_bound;
        let is_asked = |rejoin: &Rejoin| is_mine(rejoin) && rejoin.has_count;
        if !self.rejoin.as_ref().is_some_and(is_asked) || !self.is_of_last_life(from, &cv, out) {
            return;
        }
        let (known, enough) = (self.cv.clone(), self.config.thresholds.rejoin);
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        rejoin.views.insert(from, (view, cv));
        // What somebody said before a crash that became known since counts for nothing.
        rejoin
            .views
            .retain(|from, (_, cv)| cv.get(from.position()) >= known.get(from.position()));
        if rejoin.views.len() < enough {
            return;
        }
        let least = rejoin.views.values().map(|(view, _)| *view).max();
        if least > rejoin.view {
            rejoin.view = least;
            self.say_rejoin(out);
        }
    }

    pub(super) fn on_state_req(
        &mut self,
        from: MemberIndex,
        nonce: u64,
        view: u64,
        cv: &[u64],
        out: &mut Out<Self>,
    ) {
        if self.is_of_last_life(from, cv, out) && self.leads() && self.view >= view {
            self.say_start(from, nonce, out);
        }
    }

    /// The replica has the log of a view, and takes part again.
    pub(super) fn rejoined(&mut self, out: &mut Out<Self>) {
        if self.rejoin.take().is_some() {
            out.emit(Event::Branch("rejoined"));
            self.write_life(out);
            self.joined = out.persisted();
        }
    }

    /// Whether somebody speaks in the last life that is known of it; takes note of what it knows of
    /// others (the crash-vector check).
    pub(super) fn is_of_last_life(
        &mut self,
        from: MemberIndex,
        cv: &[u64],
        out: &mut Out<Self>,
    ) -> bool {
        if cv.get(from.position()) < self.cv.get(from.position()) {
            out.emit(Event::Branch("word of a former life"));
            return false;
        }
        self.merge_lives(cv, out);
        true
    }

    /// Takes note of crashes; what rests on them waits for it.
    pub(super) fn merge_lives(&mut self, cv: &[u64], out: &mut Out<Self>) {
        // Every message brings some, and seldom news.
        let mut lives = self.cv.iter().zip(cv);
        if lives.any(|(mine, its)| its > mine) {
            merge(&mut self.cv, cv);
            self.write_life(out);
        }
    }
}

fn merge(into: &mut [u64], cv: &[u64]) {
    for (mine, its) in into.iter_mut().zip(cv) {
        *mine = (*mine).max(*its);
    }
}
