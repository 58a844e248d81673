//! The orders of a book in memory: slots that are used again, and a list through those of each participant.

use super::event::Party;
use super::types::{
    OrderNumber, Owner, PARTICIPANTS_MAX, ParticipantId, SelfTrade, Side, TimeInForce,
};

/// No slot at all.
pub(super) const NONE: u32 = u32::MAX;

/// An order in the book, or a place for one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The order's name; `None` in a slot that is free.
    pub(super) number: Option<OrderNumber>,
    pub(super) owner: Owner,
    pub(super) side: Side,
    pub(super) post_only: bool,
    pub(super) self_trade: SelfTrade,
    pub(super) time_in_force: TimeInForce,
    /// The level of its price.
    pub(super) level: u32,
    pub(super) open: u64,
    pub(super) executed: u64,
    /// The neighbours in the level, the older one first.
    pub(super) before: u32,
    pub(super) after: u32,
    /// The neighbours among the participant's orders.
    pub(super) own_before: u32,
    pub(super) own_after: u32,
}

impl Slot {
    /// What the book keeps of an order that waits.
    pub(super) fn new(number: OrderNumber, owner: Owner, side: Side, level: u32) -> Self {
        Slot {
            number: Some(number),
            owner,
            side,
            post_only: false,
            self_trade: SelfTrade::Allow,
            time_in_force: TimeInForce::GoodTillCancel,
            level,
            open: 0,
            executed: 0,
            before: NONE,
            after: NONE,
            own_before: NONE,
            own_after: NONE,
        }
    }

    /// The order's names; the book's is only there in a slot in use.
    pub(super) fn party(&self) -> Party {
        Party {
            number: self.number.unwrap_or(OrderNumber(0)),
            owner: self.owner,
        }
    }
}

/// All slots of a book.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// The free slots below `slots.len()`; the last one is used first.
    pub(super) free: Vec<u32>,
    /// The newest order of each participant.
    own: Vec<u32>,
    most: u32,
}

impl Slots {
    /// Slots for at most this many orders.
    pub(super) fn new(most: u32) -> Self {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
            own: Vec::new(),
            most,
        }
    }

    /// The slot that the next order takes, unless all are taken.
    pub(super) fn next_free(&self) -> Option<u32> {
        let fresh = self.slots.len() as u32;
        let last = self.free.last().copied();
        last.or_else(|| (fresh < self.most).then_some(fresh))
    }

    /// Puts an order into the slot of [`Slots::next_free`].
    pub(super) fn insert(&mut self, slot: Slot) -> u32 {
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        self.put(at, slot);
        at
    }

    /// Puts an order into a slot that holds none.
    pub(super) fn put(&mut self, at: u32, mut slot: Slot) {
        let participant = usize::from(slot.owner.participant.0);
        debug_assert!(participant < usize::from(PARTICIPANTS_MAX));
        if self.own.len() <= participant {
            self.own.resize(participant + 1, NONE);
        }
        slot.own_before = self.own[participant];
        slot.own_after = NONE;
        if slot.own_before != NONE {
            self.slots[slot.own_before as usize].own_after = at;
        }
        self.own[participant] = at;
        self.extend_to(at + 1);
        self.slots[at as usize] = slot;
    }

    /// Has at least this many slots; new ones hold no order.
    pub(super) fn extend_to(&mut self, length: u32) {
        if self.slots.len() < length as usize {
            let owner = Owner {
                participant: ParticipantId(0),
                client_order: 0,
            };
            let mut empty = Slot::new(OrderNumber(0), owner, Side::Buy, 0);
            empty.number = None;
            self.slots.resize(length as usize, empty);
        }
    }

    /// Frees the slot of an order that is in no level any more.
    pub(super) fn remove(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.number = None;
        let (before, after) = (slot.own_before, slot.own_after);
        let participant = usize::from(slot.owner.participant.0);
        match after {
            NONE => self.own[participant] = before,
            after => self.slots[after as usize].own_before = before,
        }
        if before != NONE {
            self.slots[before as usize].own_after = after;
        }
        self.free.push(at);
    }

    /// The slot of an open order.
    pub(super) fn find(&self, number: OrderNumber) -> Option<u32> {
        let slot = self.slots.get(number.slot())?;
        (slot.number == Some(number)).then_some(number.slot() as u32)
    }

    pub(super) fn get(&self, at: u32) -> &Slot {
        &self.slots[at as usize]
    }

    pub(super) fn get_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.slots[at as usize]
    }

    /// Whether a participant has open orders.
    pub(super) fn has_orders(&self, participant: ParticipantId) -> bool {
        let newest = self.own.get(usize::from(participant.0));
        newest.is_some_and(|newest| *newest != NONE)
    }

    /// The names of a participant's open orders, the oldest first.
    pub(super) fn orders_of(&self, participant: ParticipantId) -> Vec<OrderNumber> {
        let mut numbers = Vec::new();
        let mut at = self.own.get(usize::from(participant.0)).copied();
        while let Some(slot) = at.filter(|at| *at != NONE).map(|at| self.get(at)) {
            numbers.extend(slot.number);
            at = Some(slot.own_before);
        }
        // The list has another order in a book that was loaded.
        numbers.sort_unstable();
        numbers
    }

    /// All open orders.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.number.is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many slots there are, free ones included.
    pub(super) fn end(&self) -> u32 {
        self.slots.len() as u32
    }
}
