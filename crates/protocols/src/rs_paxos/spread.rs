//! Large values go ahead of their slots, so that small ones pass: until enough members have a
//! fragment, a value takes no slot, and nothing waits for it. A fragment that was spread is kept in
//! memory and promises nothing; the Accept that follows goes without it.

use super::Replica;
use super::messages::{Accept, Message};
use super::role::{PendingEntry, Role, is_whole};
use crate::shared::rejoins::Rejoins;
use crate::shared::under_way::UnderWay;
use quorate_core::{Entry, EntryId, Event, MemberIndex, MemberSet, Out};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// A value that a leader spreads.
#[derive(Clone, Debug)]
pub(super) struct Spreading {
    pub(super) entry: Entry,
    pub(super) code: u8,
    /// Others that have a fragment under the code.
    pub(super) holders: MemberSet,
    /// Members to which a fragment went.
    pub(super) attached: UnderWay,
    pub(super) is_fresh: bool,
    /// Election timers that came due meanwhile.
    pub(super) timeouts: u32,
}

impl Hash for Spreading {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.entry.id, self.code, self.holders).hash(to);
        (self.attached, self.is_fresh, self.timeouts).hash(to);
    }
}

/// Fragments that came ahead of their slots, the oldest first.
#[derive(Clone, Default, Debug)]
pub(super) struct Parked(VecDeque<Entry>);

impl Parked {
    /// Keeps one, and forgets the oldest if it gets too much: whoever wants that one sends it again.
    fn keep(&mut self, entry: Entry) {
        self.forget(entry.id);
        self.0.push_back(entry);
        let bytes = |parked: &VecDeque<Entry>| parked.iter().map(len).sum::<usize>();
        while self.0.len() > 1 && (self.0.len() > PARKED_MAX || bytes(&self.0) > PARKED_BYTES_MAX) {
            self.0.pop_front();
        }
    }

    fn get(&self, id: EntryId, code: u8) -> Option<&Entry> {
        let is_it = |entry: &&Entry| entry.id == id && has_code(entry, code);
        self.0.iter().find(is_it)
    }

    /// Whether there is a fragment of an entry.
    pub(super) fn has(&self, id: EntryId) -> bool {
        self.0.iter().any(|entry| entry.id == id)
    }

    /// An entry is on the disk now, or decided.
    pub(super) fn forget(&mut self, id: EntryId) {
        self.0.retain(|entry| entry.id != id);
    }
}

impl Hash for Parked {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for entry in &self.0 {
            (entry.id, entry.share().map(|share| share.code)).hash(to);
        }
    }
}

fn len(entry: &Entry) -> usize {
    entry.share().map_or(0, |share| share.len())
}

fn has_code(entry: &Entry, code: u8) -> bool {
    entry.share().is_some_and(|share| share.code == code)
}

impl Replica {
    /// Begins to spread a value.
    pub(super) fn spread(&mut self, entry: Entry, out: &mut Out<Self>) {
        let (code, others) = (self.code_of(Some(&entry)), self.config.seating.others());
        self.say_spread(others, &entry, code, true, out);
        let now_ns = self.now_ns();
        let until_ns = self.line.put(Some(&entry), code, others, now_ns);
        let attached = UnderWay::new(others, until_ns);
        if let Role::Leader(leader) = &mut self.role {
            leader.spreading.push(Spreading {
                entry,
                code,
                holders: MemberSet::EMPTY,
                attached,
                is_fresh: true,
                timeouts: 0,
            });
        }
        self.queue_spread();
    }

    fn say_spread(
        &self,
        to: MemberSet,
        entry: &Entry,
        code: u8,
        is_attached: bool,
        out: &mut Out<Self>,
    ) {
        let entry = entry.clone();
        let entry = if is_attached {
            entry
        } else {
            entry.with_share(None)
        };
        let message = Message::Spread {
            entry,
            code,
            is_attached,
        };
        self.say_early(to, &message, out);
    }

    /// A fragment of a large value, or the question whether it is here.
    pub(super) fn on_spread(
        &mut self,
        from: MemberIndex,
        entry: Entry,
        code: u8,
        is_attached: bool,
        out: &mut Out<Self>,
    ) {
        if code > self.config.code_max || entry.bulk_len() == 0 {
            return self.misbehaved(from, "nothing to spread", out);
        }
        if !self.is_voting() || self.done.entries.contains(entry.id) {
            return;
        }
        let id = entry.id;
        if is_attached && has_code(&entry, code) && !self.holds(id, code) {
            self.parked.keep(entry);
        }
        let is_here = self.holds(id, code);
        let answer = Message::Has {
            entry: id,
            code,
            is_here,
        };
        out.send_early(self.peer(from), answer);
    }

    fn holds(&self, id: EntryId, code: u8) -> bool {
        let mut accepted = self.slots.iter().filter_map(|slot| slot.accepted.as_ref());
        self.parked.get(id, code).is_some()
            || accepted.any(|own| own.name() == Some(id) && own.fragments.has(code))
    }

    /// What an Accept goes without may have come ahead of it.
    pub(super) fn attach_parked(&self, accept: &mut Accept) {
        let id = accept.value.as_ref().map(|entry| entry.id);
        let parked = id.and_then(|id| self.parked.get(id, accept.code));
        if let Some(parked) = parked.filter(|parked| accept.value.as_ref() == Some(*parked)) {
            (accept.value, accept.is_attached) = (Some(parked.clone()), true);
        }
    }

    /// A member has a fragment of what is spread, or has not.
    pub(super) fn on_has(
        &mut self,
        from: MemberIndex,
        id: EntryId,
        code: u8,
        is_here: bool,
        out: &mut Out<Self>,
    ) {
        let now_ns = self.now_ns();
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let is_it = |spreading: &&mut Spreading| spreading.entry.id == id && spreading.code == code;
        let Some(spreading) = leader.spreading.iter_mut().find(is_it) else {
            return;
        };
        self.presence.hear(from);
        if is_here {
            spreading.holders.insert(from);
        } else if !spreading.attached.is_to(from) {
            let (entry, it) = (spreading.entry.clone(), MemberSet::only(from));
            let until_ns = self.line.put(Some(&entry), code, it, now_ns);
            spreading.attached.sent(it, until_ns);
            self.say_spread(it, &entry, code, true, out);
        }
        self.queue_spread();
    }

    /// What enough members have waits for its slot like everything else.
    fn queue_spread(&mut self) {
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let is_spread = |spreading: &mut Spreading| {
            let enough = self.config.thresholds.write_of(spreading.code);
            spreading.holders.len() + 1 >= enough
        };
        for spread in leader.spreading.extract_if(.., is_spread) {
            leader.pending.push_back(PendingEntry {
                entry: spread.entry,
                spread_code: Some(spread.code),
            });
        }
    }

    /// Asks who has not answered whether it has its fragment; under a smaller code, if too few do.
    pub(super) fn repeat_spreading(&mut self, out: &mut Out<Self>) {
        let (others, alive) = (self.config.seating.others(), self.alive());
        let code = self.config.code_for(alive);
        let is_chance = self.config.thresholds.write_of(code) <= alive;
        let now_ns = self.now_ns();
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let mut said = Vec::new();
        for spreading in &mut leader.spreading {
            if std::mem::take(&mut spreading.is_fresh) {
                continue;
            }
            let is_smaller = code < spreading.code && is_chance;
            if is_smaller {
                (spreading.code, spreading.holders) = (code, MemberSet::EMPTY);
            }
            spreading.is_fresh = is_smaller;
            if is_smaller {
                let until_ns = self.line.put(Some(&spreading.entry), code, others, now_ns);
                spreading.attached.sent(others, until_ns);
            } else {
                spreading.attached.expire(now_ns);
            }
            let to = others - spreading.holders;
            said.push((to, spreading.entry.clone(), spreading.code, is_smaller));
        }
        for (to, entry, code, is_smaller) in said {
            if is_smaller {
                out.emit(Event::Branch("smaller code"));
            }
            self.say_spread(to, &entry, code, is_smaller, out);
        }
    }

    /// Whether a value is spread before it gets its slot.
    pub(super) fn is_large(&self, entry: &Entry) -> bool {
        entry.bulk_len() >= self.config.spread_min && is_whole(Some(entry))
    }
}

/// Fragments kept ahead of their slots, at most.
const PARKED_MAX: usize = 64;
/// Bytes of fragments kept ahead of their slots, at most, unless one alone is larger.
const PARKED_BYTES_MAX: usize = 256 << 20;
