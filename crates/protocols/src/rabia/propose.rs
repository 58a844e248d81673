//! Which slots to start, and with what (Algorithm 1, lines 1 to 3, for a window of slots).

use super::Replica;
use super::messages::{Message, Record, SlotMessage, Timer};
use super::slot::{Instance, Next, View, Wait};
use quorate_core::{Due, EntryId, Event, Out, Peers, Slot};

/// What to do about a slot that is not started here.
enum Choice {
    /// Nobody needs it.
    Leave,
    /// Somebody proposed a batch that is not here yet but may come.
    Await,
    /// Start it with this.
    Propose(Option<EntryId>),
}

impl Replica {
    /// Starts what should be started: lone batches get one slot, an idle replica gets none.
    pub(super) fn open_slots(&mut self, out: &mut Out<Self>) {
        if !self.voting {
            return;
        }
        for offset in 0..self.config.window {
            let is_open =
                |instance: &Instance| instance.is_proposed() || instance.decided.is_some();
            if self.slots.get(offset).is_some_and(is_open) {
                continue;
            }
            match self.choose(offset) {
                Choice::Leave => break,
                Choice::Await => self.await_batch(offset, out),
                Choice::Propose(prop) => self.propose(offset, prop, out),
            }
        }
    }

    fn choose(&self, offset: usize) -> Choice {
        if self.config.echo
            && let Some(id) = self.echo(offset)
        {
            return Choice::Propose(Some(id));
        }
        // Every slot below a started one must end, for the log has no gaps.
        let is_needed = self.ap.0 + (offset as u64) < self.nudged.0
            || self.slots.iter().skip(offset).any(Instance::is_started);
        if self.narrow && offset > 0 && !is_needed {
            return Choice::Leave;
        }
        if let Some(id) = self.free_head(offset) {
            return Choice::Propose(Some(id));
        }
        if !is_needed {
            return Choice::Leave;
        }
        match self.slots.get(offset) {
            Some(slot) if slot.adopt != Wait::Over && self.names_a_lacking(slot) => Choice::Await,
            _ => Choice::Propose(None),
        }
    }

    /// The batch most often proposed by peers in this slot, unless it has its slot elsewhere.
    fn echo(&self, offset: usize) -> Option<EntryId> {
        let slot = self.slots.get(offset)?;
        let named = slot.voices.iter().filter_map(|voice| voice.prop.flatten());
        named
            .filter(|id| self.pool.holds(*id) && !self.has_slot_elsewhere(*id, offset))
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
        others.any(|(_, slot)| match slot.decided {
            Some(value) => value == Some(id),
            None => slot.support(id) >= majority,
        })
    }

    /// The oldest batch that no other slot may still choose: a batch proposed in two slots at
    /// once would take both, the second in vain.
    ///
    /// After a forfeit it is the oldest by stamp. Ranks depend on the local clock, so that two
    /// replicas whose clocks are wrong may each rank the other's batch first (or each its own)
    /// and forfeit for ever; stamps are the same everywhere.
    fn free_head(&self, offset: usize) -> Option<EntryId> {
        let may_go_elsewhere = |id: EntryId| {
            let mut slots = self.slots.iter().enumerate();
            slots.any(|(other, slot)| {
                other != offset && slot.may_choose(id, &self.config.thresholds)
            })
        };
        if self.narrow {
            return self.pool.by_stamp().find(|id| !may_go_elsewhere(*id));
        }
        self.pool.oldest_first().find(|id| !may_go_elsewhere(*id))
    }

    fn names_a_lacking(&self, slot: &Instance) -> bool {
        let mut named = slot.voices.iter().filter_map(|voice| voice.prop.flatten());
        named.any(|id| !self.pool.holds(id) && !self.done.0.contains(id))
    }

    fn await_batch(&mut self, offset: usize, out: &mut Out<Self>) {
        let slot = &mut self.slots[offset];
        if slot.adopt == Wait::Ahead {
            slot.adopt = Wait::Running;
            let timer = Timer::Adopt(Slot(self.ap.0 + offset as u64));
            out.arm(timer, Due::After(self.config.adopt_wait_ns));
        }
    }

    /// The wait for a batch is over.
    pub(super) fn on_adopt(&mut self, slot: Slot, out: &mut Out<Self>) {
        if let Some(instance) = self.instance_mut(slot)
            && instance.adopt == Wait::Running
        {
            instance.adopt = Wait::Over;
            out.emit(Event::Branch("adopt wait expired"));
        }
    }

    /// Invokes Weak-MVC (Algorithm 2, line 2). The batch and the proposal are written together,
    /// so that a decision implies `T` replicas that hold the payload (I6).
    fn propose(&mut self, offset: usize, prop: Option<EntryId>, out: &mut Out<Self>) {
        assert!(self.voting, "only who kept its promises proposes");
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
        if self.late & self.up != 0 && self.probe.is_none() && self.config.vote_hold_ns > 0 {
            self.probe = Some(slot);
            out.arm(Timer::Probe, Due::After(self.config.vote_hold_ns));
        }
        self.progress(slot, true, out);
    }

    /// Draws every conclusion from what was heard in a slot: the decision, or the next own
    /// values, which are then written and said. `changed` if there already is something to say.
    pub(super) fn progress(&mut self, slot: Slot, mut changed: bool, out: &mut Out<Self>) {
        let Some(offset) = self.offset(slot) else {
            return;
        };
        let expected = self.up & !self.late;
        let config = self.config.clone();
        let instance = &mut self.slots[offset];
        if instance.decided.is_some() {
            return;
        }
        instance.learn(&config.thresholds);
        if let Some(verdict) = instance.decision(&config, View::Durable) {
            self.decide(slot, verdict.value, out);
            let (fast, noop) = (verdict.fast, verdict.value.is_none());
            out.emit(Event::Decided { slot, fast, noop });
            return;
        }
        // A decision that waits only for the own disk makes further values pointless.
        while instance.is_proposed() && instance.decision(&config, View::All).is_none() {
            let awaited = (instance.unheard() & expected).count_ones() as usize;
            match instance.next_value(&config, slot, awaited) {
                Next::Take(value, branch) => {
                    instance.append(value);
                    changed = true;
                    branch
                        .into_iter()
                        .for_each(|name| out.emit(Event::Branch(name)));
                }
                Next::Hold if instance.hold == Wait::Ahead => {
                    instance.hold = Wait::Running;
                    out.arm(Timer::Hold(slot), Due::After(config.vote_hold_ns));
                    break;
                }
                Next::Hold | Next::Wait => break,
            }
        }
        if changed {
            self.write(slot, out);
            self.say(slot, Peers::All, false, out);
        }
    }

    /// The first vote has waited long enough; whoever was waited for is not waited for again
    /// until it is in time for a probe, which waits for nobody.
    pub(super) fn on_hold(&mut self, slot: Slot, out: &mut Out<Self>) {
        let Some(instance) = self.instance_mut(slot) else {
            return;
        };
        if instance.hold == Wait::Running && instance.is_working() {
            instance.hold = Wait::Over;
            let unheard = instance.unheard();
            self.late |= unheard & self.up;
            out.emit(Event::Branch("vote hold expired"));
            self.progress(slot, false, out);
        }
    }

    /// Writes down everything this replica has said in a slot.
    fn write(&mut self, slot: Slot, out: &mut Out<Self>) {
        let instance = self.instance(slot).expect("what is written is stored");
        let own = instance.own();
        let record = Record::Own {
            slot,
            prop: own.prop.expect("who speaks has proposed"),
            trail: own.trail,
            q: instance.q,
        };
        let trail_len = own.trail.len();
        let lsn = out.persist(record);
        self.unflushed.push_back((lsn, slot, trail_len));
    }

    /// Says everything this replica has said in a slot, once it is durable.
    pub(super) fn say(&mut self, slot: Slot, to: Peers, want: bool, out: &mut Out<Self>) {
        let instance = self.instance(slot).expect("what is said is stored");
        let own = instance.own();
        let message = SlotMessage {
            slot,
            prop: own.prop.expect("who speaks has proposed"),
            trail: own.trail,
            q: instance.q,
            want,
            more: !self.queue.is_empty(),
        };
        out.send(to, Message::Slot(message));
    }
}
