//! Payloads of earlier epochs on their way to the members of a new one.
//!
//! While an epoch is not settled, each of its members makes its own fragment of every payload that
//! earlier epochs left, under the epoch's code, and says when all of them are durable. Once so many
//! members have said so that the rest may fail, and that `h >= X' + F'` holds for all of them
//! ([`members_to_settle`]), somebody has that decided ([`Order::Settled`]). Only
//! then fragments under other codes are dropped, and only then those who left may go.
//!
//! Making them costs the others what is read for it, so it is held to a rate
//! ([`Limits::recode_rate`](crate::Limits)), as is the rebuilding of others that are lacking: each member
//! begins no more bytes of whole payloads in a second.
//!
//! A payload says which epoch it is of: its entry was named by a machine of that epoch
//! ([`Boot::of_epoch`](quorate_core::Boot::of_epoch)).

use super::{PayloadHandler, Payloads};
use crate::apply::Applier;
use crate::epochs::payload_safety::members_to_settle;
use crate::epochs::{Expect, Note, Order};
use crate::frame::Body;
use crate::timers::Timer;
use quorate_core::{
    Application, MILLIS, Machine, Member, Now, Numbers, PayloadId, Peers, ReplicaId,
};
use std::collections::BTreeSet;

/// How often members look whether they are done, and say so, in ns.
const LOOKS_EVERY_NS: u64 = 100 * MILLIS;
/// Payloads of which superseded fragments are dropped in one go.
const DROPPED_AT_ONCE: usize = 256;

/// How far this replica is, and what it heard.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// The epoch that this is about; 0 for none.
    epoch: u64,
    own: Own,
    /// Members that hold all of it.
    safe_on: BTreeSet<ReplicaId>,
    /// Superseded fragments behind this payload, or all, are yet to be dropped.
    dropping: Option<Option<PayloadId>>,
    /// Bytes of the live payloads that earlier epochs left, and of those counted since.
    bytes: u64,
    counted_bytes: u64,
}

/// How far this replica is with the payloads that earlier epochs left, in bytes of whole payloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recoded {
    /// Those of which its own fragment is here, under the present epoch's code.
    pub done_bytes: u64,
    /// All.
    pub total_bytes: u64,
}

impl Settling {
    /// Some of the live payloads were looked at, the first or the last of them, and so many bytes are of
    /// earlier epochs.
    pub(super) fn count(&mut self, bytes: u64, is_first: bool, is_last: bool) {
        let before = if is_first { 0 } else { self.counted_bytes };
        self.counted_bytes = before + bytes;
        if is_last {
            self.bytes = self.counted_bytes;
        }
    }
}

/// What this replica has of payloads that earlier epochs left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Own {
    /// Some fragments are lacking.
    #[default]
    Lacking,
    /// All are here, and a flush is asked for.
    Here,
    /// That flush is under way.
    Flushing,
    /// They are durable.
    Safe,
}

impl<M: Machine> Payloads<M> {
    /// How far this replica is with the payloads that earlier epochs left. Those that died since they were
    /// counted are done.
    pub(crate) fn recoded(&self) -> Recoded {
        let lacking_bytes = self.lacking.moving_bytes();
        let total_bytes = self.settling.bytes.max(lacking_bytes);
        Recoded {
            done_bytes: total_bytes - lacking_bytes,
            total_bytes,
        }
    }

    /// Members that must hold all of their fragments before the newest epoch is settled.
    pub(crate) fn members_to_settle<A: Application>(&self, applier: &Applier<A>) -> usize {
        members_to_settle(&Numbers {
            n: applier.newest().n(),
            failures: applier.failures(),
            code: self.code.into(),
        })
    }

    /// A flush was taken, with everything that was not written.
    pub(crate) fn settling_flushes(&mut self, is_synced: bool) {
        let own = &mut self.settling.own;
        if *own == Own::Here && is_synced {
            *own = Own::Flushing;
        }
    }

    /// The flush that was taken last is done.
    pub(crate) fn settling_flushed(&mut self) {
        let own = &mut self.settling.own;
        if *own == Own::Flushing {
            *own = Own::Safe;
        }
    }
}

impl<M: Machine, A: Application> PayloadHandler<'_, M, A> {
    /// Whether members should hold a payload under the code of the present epoch: those of the epochs
    /// before one that is settled, or is to be. Later ones may rightly have smaller codes.
    pub(super) fn is_moving(&self, id: PayloadId) -> bool {
        let (state, newest) = (self.context.epochs(), self.context.epoch().number);
        let since = match state.unsettled {
            Some(_) => newest,
            None if state.settled == 0 => return false,
            None => state.settled,
        };
        let boot = id.entry.boot;
        (since..=newest).all(|number| !boot.is_of_epoch(number))
    }

    /// An epoch begins here, or is found to have begun. A member that was away may have to make up for
    /// what is settled among the others.
    pub(crate) fn watch_settling(&mut self, now: Now) {
        let state = self.context.epochs();
        if self.context.is_member() && (state.unsettled.is_some() || state.settled > 0) {
            self.payloads.settling = Settling {
                epoch: self.context.epoch().number,
                ..Settling::default()
            };
            self.payloads.look_again();
            self.context
                .timers
                .arm(Timer::Settle, now.mono_ns + LOOKS_EVERY_NS);
        }
    }

    /// Time to look whether all is here, and whether others say so.
    /// Returns an order to have decided, if there is one.
    pub(crate) fn settle_further(&mut self, now: Now) -> Option<Order> {
        let newest = self.context.epoch();
        let expect = Expect::of(newest);
        if !self.context.is_member() || self.payloads.settling.epoch != newest.number {
            return None;
        }
        self.look_at_own();
        let is_safe = self.payloads.settling.own == Own::Safe;
        if self.context.epochs().unsettled.is_none() {
            match is_safe {
                true => self.payloads.settling.dropping = Some(None),
                false => self
                    .context
                    .timers
                    .arm(Timer::Settle, now.mono_ns + LOOKS_EVERY_NS),
            }
            return None;
        }
        self.context
            .timers
            .arm(Timer::Settle, now.mono_ns + LOOKS_EVERY_NS);
        if is_safe {
            self.payloads
                .settling
                .safe_on
                .insert(self.context.membership.me.id);
            let incarnation = self.context.membership.me.incarnation;
            let note = Note::Safe { epoch: expect };
            self.context
                .post(Peers::All, &Body::Note { incarnation, note });
        }
        let needed = self.payloads.members_to_settle(&self.context.applier);
        let is_safe = self.payloads.settling.safe_on.len() >= needed;
        let epoch = expect.epoch;
        is_safe.then_some(Order::Settled { epoch })
    }

    fn look_at_own(&mut self) {
        let is_behind = self
            .context
            .storage
            .fragments
            .as_ref()
            .is_some_and(|store| store.behind_bytes() > 0);
        let settling = &mut self.payloads.settling;
        if settling.own == Own::Lacking && !self.payloads.is_lacking() && !is_behind {
            self.payloads.settling.own = Own::Here;
            if let Some(log) = &mut self.context.storage.log {
                log.want_sync();
            }
        }
    }

    /// A member says that it holds all that earlier epochs left.
    pub(crate) fn hear_safe(&mut self, from: Member, epoch: Expect) {
        let newest = self.context.epoch();
        let is_meant = epoch == Expect::of(newest) && newest.has(from);
        let settling = &mut self.payloads.settling;
        if is_meant && settling.epoch == epoch.epoch {
            settling.safe_on.insert(from.id);
        }
    }

    /// Drops some superseded fragments; says whether there are more.
    pub(super) fn drop_superseded(&mut self) -> bool {
        let Some(after) = self.payloads.settling.dropping else {
            return false;
        };
        if self.payloads.settling.epoch != self.context.epoch().number {
            self.payloads.settling.dropping = None;
            return false;
        }
        let mut live = self.context.app().live(after, DROPPED_AT_ONCE);
        self.payloads.settling.dropping = live.last().map(|(id, _)| Some(*id));
        live.retain(|(id, _)| self.is_moving(*id));
        let (code, me) = (self.payloads.code, self.payloads.me);
        if let Some(store) = &mut self.context.storage.fragments {
            for (id, _) in live {
                if store.has_own(id, code..=code, me) {
                    store.free_other(id, code);
                }
            }
        }
        self.payloads.settling.dropping.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_counts_once_all_is() {
        let mut settling = Settling::default();
        settling.count(5, true, false);
        settling.count(6, false, false);
        assert_eq!(settling.bytes, 0);
        settling.count(7, false, true);
        assert_eq!(settling.bytes, 18);
        settling.count(3, true, true);
        assert_eq!(settling.bytes, 3);
    }
}
