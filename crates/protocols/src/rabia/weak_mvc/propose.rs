//! The choice of slots to start, and with what (Algorithm 1, lines 1 to 3, for a window of slots).

use super::Replica;
use super::deliver::OwnValues;
use super::messages::{Bits, Message, Record, SlotMessage, Timer};
use super::slot::{Instance, Next, View};
use super::voice::SlotValue;
use super::waits::{Wait, begin_wait};
use quorate_core::{Due, EntryId, Event, Out, Peers, Slot};

/// What to do about a slot that is not started here.
enum Choice {
    /// Nobody needs it.
    Leave,
    /// Wait for this long at most: somebody proposed a batch that is not here yet but may come, or the
    /// owner of its lane is about to propose.
    Await(u64),
    /// Start it with this.
    Propose(Option<EntryId>),
}

impl Replica {
    /// Starts what should be started: lone batches get one slot, an idle replica gets none.
    pub(super) fn open_slots(&mut self, out: &mut Out<Self>) {
        if !self.is_voting() {
            return;
        }
        if self.slots.is_empty() && self.pool.is_empty() && self.nudged <= self.ap {
            return;
        }
        for offset in 0..self.config.window {
            let is_open = |instance: &Instance| instance.is_proposed() || instance.is_decided();
            if self.slots.get(offset).is_some_and(is_open) {
                continue;
            }
            match self.choose(offset) {
                Choice::Leave => break,
                Choice::Await(wait_ns) => self.await_batch(offset, wait_ns, out),
                Choice::Propose(prop) => self.propose(offset, prop, out),
            }
        }
    }

    /// A slot in which a former life may have proposed NULL. It is started only if it is needed.
    fn choose_forced(&self, offset: usize) -> Choice {
        let is_needed = self.slot_at(offset) < self.nudged
            || self.slots.iter().skip(offset).any(Instance::is_started)
            || (offset..self.config.lanes).any(|slot| self.head(slot, false).is_some());
        if is_needed {
            Choice::Propose(None)
        } else {
            Choice::Leave
        }
    }

    fn choose(&self, offset: usize) -> Choice {
        if self.slot_at(offset) < self.reserve.forced {
            return self.choose_forced(offset);
        }
        if self.config.echo
            && let Some(id) = self.echo(offset)
        {
            return Choice::Propose(Some(id));
        }
        // Every slot below a started one must end, for the log has no gaps.
        let is_needed = self.slot_at(offset) < self.nudged
            || self.slots.iter().skip(offset).any(Instance::is_started);
        if (is_needed || self.is_wide(offset))
            && let Some(id) = self.head(offset, is_needed)
        {
            return Choice::Propose(Some(id));
        }
        if !is_needed && !self.is_lane_waiting_behind(offset) {
            return Choice::Leave;
        }
        let slot = self.slots.get(offset);
        if slot.is_none_or(|slot| slot.adopt != Wait::Over) {
            if slot.is_some_and(|slot| self.names_a_lacking(slot)) {
                return Choice::Await(self.config.adopt_wait_ns);
            } else if self.has_busy_owner(offset) {
                return Choice::Await(self.config.more_hold_ns);
            }
        }
        Choice::Propose(None)
    }

    /// The slot at an offset from `ap`.
    pub(super) fn slot_at(&self, offset: usize) -> Slot {
        Slot(self.ap.0 + offset as u64)
    }

    /// The batch most often proposed by peers in this slot, unless it has its slot elsewhere.
    fn echo(&self, offset: usize) -> Option<EntryId> {
        let slot = self.slots.get(offset)?;
        let named = slot.voices.iter().filter_map(|voice| voice.prop.request());
        named
            .filter(|id| self.pool.may_propose(*id) && !self.has_slot_elsewhere(*id, offset))
            .max_by_key(|id| (slot.support(*id), std::cmp::Reverse(self.pool.key(*id))))
    }

    /// Whether a batch has, or all but has, another slot.
    fn has_slot_elsewhere(&self, id: EntryId, offset: usize) -> bool {
        let majority = self.config.thresholds.proposal;
        let mut others = self
            .slots
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != offset);
        others.any(|(_, slot)| match slot.is_decided() {
            true => slot.decided == SlotValue::Request(id),
            false => slot.support(id) >= majority,
        })
    }

    /// The oldest batch that no other slot may still choose: a batch proposed in two slots at
    /// once would take both, the second in vain.
    ///
    /// After a forfeit it is the oldest by stamp. Ranks depend on the local clock, so that two
    /// replicas whose clocks are wrong may each rank the other's batch first (or each its own)
    /// and forfeit for ever; stamps are the same everywhere.
    ///
    /// `frozen_too`: the slot is started anyway, so a batch need not wait for its age.
    pub(super) fn head(&self, offset: usize, frozen_too: bool) -> Option<EntryId> {
        let slot = self.slot_at(offset);
        let is_paced = self.config.holders_propose;
        let is_ripe = |id| frozen_too || !self.pool.is_frozen(id);
        let may_be = |id| match is_paced {
            true => self.pool.may_propose(id),
            false => self.config.freeze_ns == 0 || is_ripe(id),
        };
        let is_here = |id: &EntryId| {
            let origin = self.config.member(id.origin);
            let is_lane = || origin.is_some_and(|member| self.config.is_for(slot, member));
            (self.config.lanes == 1 || is_lane()) && may_be(*id)
        };
        let may_go_elsewhere = |id: EntryId| {
            let mut slots = self.slots.iter().enumerate();
            slots.any(|(other, slot)| {
                other != offset && slot.may_choose(id, &self.config.thresholds)
            })
        };
        let is_next = |id: &EntryId| is_here(id) && !may_go_elsewhere(*id);
        let next = match self.is_narrow(offset) {
            true => self.pool.by_stamp().find(is_next),
            false => self.pool.oldest_first().find(is_next),
        };
        // What waits after a proposal in vain is not overtaken, or replicas would go on with different ones.
        next.filter(|id| !is_paced || is_ripe(*id))
    }

    fn names_a_lacking(&self, slot: &Instance) -> bool {
        let mut named = slot.voices.iter().filter_map(|voice| voice.prop.request());
        named.any(|id| !self.pool.may_propose(id) && !self.done.entries.contains(id))
    }

    /// Invokes Weak-MVC (Algorithm 2, line 2). The batch and the proposal are written together,
    /// so that a decision implies `T` replicas that hold the payload (I6).
    fn propose(&mut self, offset: usize, prop: Option<EntryId>, out: &mut Out<Self>) {
        assert!(self.is_voting(), "only who kept its promises proposes");
        assert!(
            self.slot_at(offset) >= self.floor,
            "not below the floor (I9)"
        );
        assert!(
            offset < self.config.window,
            "slots start within the window (I8)"
        );
        if let Some(entry) = prop.and_then(|id| self.pool.take_unwritten(id)) {
            out.persist(Record::Batch { entry });
        }
        let slot = Slot(self.ap.0 + offset as u64);
        if prop.is_some() {
            self.mark = self.mark.max(slot.next());
        }
        let instance = self.instance_grown(offset);
        instance.propose(prop);
        if instance.adopt == Wait::Running {
            instance.adopt = Wait::Over;
            out.disarm(Timer::Adopt(slot));
        }
        let patience_ns = self.config.vote_hold_ns.max(self.config.grace_ns);
        if patience_ns > 0 && self.presence.probe_in(slot) {
            out.arm(Timer::Probe, Due::After(patience_ns));
        }
        self.progress(slot, true, out);
    }

    /// Draws every conclusion from what was heard in a slot: the decision, or the next own
    /// values, which are then written and said. `changed` if there already is something to say.
    pub(super) fn progress(&mut self, slot: Slot, mut changed: bool, out: &mut Out<Self>) {
        let Some(offset) = self.offset(slot) else {
            return;
        };
        let expected = self.presence.expected();
        let config = self.config.clone();
        let instance = &mut self.slots[offset];
        if instance.is_decided() {
            return;
        }
        instance.learn(&config.thresholds);
        if let Some(verdict) = instance.decision(&config, View::Durable) {
            self.decide(slot, verdict.value, out);
            out.emit(Event::Decided {
                slot,
                fast: verdict.fast,
                noop: verdict.value.is_none(),
                delays: verdict.delays,
            });
            return;
        }
        // A decision that waits only for the own disk makes further values pointless.
        while instance.is_proposed()
            && (instance.is_durable() || instance.decision(&config, View::All).is_none())
        {
            match instance.next_value(&config, slot, expected) {
                Next::Take(value) => {
                    instance.append(value);
                    changed = true;
                }
                Next::Settle(value, branch) => {
                    instance.append(value);
                    changed = true;
                    branch
                        .into_iter()
                        .for_each(|name| out.emit(Event::Branch(name)));
                }
                next => {
                    begin_wait(instance, next, slot, &config, out);
                    break;
                }
            }
        }
        if changed && self.is_bare_null(offset) {
            self.propose_bare_null(offset, out);
        } else if changed {
            self.write(slot, out);
            self.say(slot, Peers::All, false, out);
        }
    }

    /// Whether own requests wait that are proposed in no slot.
    pub(super) fn has_more(&self) -> bool {
        let is_unproposed = |id| {
            !self
                .slots
                .iter()
                .any(|slot| slot.own().prop == SlotValue::Request(id))
        };
        !self.queue.is_empty()
            || self.config.lanes > 1 && self.offers.iter().any(|offer| is_unproposed(offer.id))
    }

    /// Writes down everything this replica has said in a slot.
    fn write(&mut self, slot: Slot, out: &mut Out<Self>) {
        let instance = self.instance(slot).expect("what is written is stored");
        let own = instance.own();
        let record = Record::Own {
            slot,
            prop: own.proposal(),
            trail: own.trail,
            q: instance.q,
        };
        let trail_len = own.trail.len();
        let lsn = out.persist(record);
        self.disk.push(lsn, OwnValues { slot, trail_len });
    }

    /// Says everything this replica has said in a slot, once it is durable.
    pub(super) fn say(&mut self, slot: Slot, to: Peers, want: bool, out: &mut Out<Self>) {
        let offset = self.offset(slot).expect("what is said is stored");
        let instance = &self.slots[offset];
        if self.is_bare_null(offset) {
            let mut bits = Bits::default();
            bits.insert(offset);
            return self.say_these_nulls(bits, to, want, out);
        }
        let own = instance.own();
        let message = SlotMessage {
            slot,
            prop: own.proposal(),
            trail: own.trail,
            q: instance.q,
            want,
            more: self.has_more(),
        };
        out.send(to, Message::Slot(message));
    }
}
