//! What an origin left that too few hold (`merged`).
//!
//! Where holders propose, nothing that is held may be let go of on the word of its origin: it may have been proposed,
//! and its slot may be open. Nor can it be left as it is when its origin has no more of it: with fewer than `T`
//! holders it would be proposed in vain for ever. So a holder has the log make it void: an own entry names what is
//! dead here, and wherever that is decided (`../rabia/weak_mvc/held.rs`) all let go of it.
//!
//! Dead is what its origin spread in an earlier life, as its roster says or as it knows itself, and everything
//! of an origin that was not heard of for long. The latter may be wrong. Then the origin, which finds its value void,
//! spreads it anew under another name; nothing was executed of it.
//!
//! An epoch that ends makes everything undecided void, and the entries that say so with it. What is held of the next
//! one is named in entries of the next one.

use super::Replica;
use super::messages::Manifest;
use super::mutants::Fault;
use super::segments::Segment;
use super::spread::Spreading;
use crate::shared::decided;
use quorate_core::{EntryId, Event, MemberIndex, MemberSet, Now, Out, ReplicaId};
use std::hash::{Hash, Hasher};

/// Values that one entry names, at most.
const NAMED_MAX: usize = 256;
/// The patience with a member doubles up to this many times.
const DOUBLINGS_MAX: u32 = 16;

/// Members that were not heard of for long (`merged`).
#[derive(Clone, Debug)]
pub(super) struct Absence {
    /// When each member was heard last.
    last: Vec<LastHeard>,
    /// Members that were not heard of for so long that what they left is void.
    gone: MemberSet,
}

/// When a member was heard last.
#[derive(Clone, Copy, Debug)]
struct LastHeard {
    /// The own clock then.
    heard_ns: u64,
    /// How often the member was wrongly taken for gone.
    mistakes: u32,
}

impl Hash for Absence {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.gone.hash(to);
    }
}

impl Absence {
    /// At a start, all members were heard just now.
    pub(super) fn at_start(members: usize, now_ns: u64) -> Absence {
        let heard = LastHeard {
            heard_ns: now_ns,
            mistakes: 0,
        };
        Absence {
            last: vec![heard; members],
            gone: MemberSet::EMPTY,
        }
    }

    /// A member is alive.
    fn hear(&mut self, member: MemberIndex, now_ns: u64) {
        let last = &mut self.last[member];
        last.heard_ns = now_ns;
        if self.gone.remove(member) {
            last.mistakes = (last.mistakes + 1).min(DOUBLINGS_MAX);
        }
    }

    /// Takes those of these members for gone that were not heard of for `limit_ns`, twice as long after
    /// each mistake, so that values come through however long they are under way.
    pub(super) fn note_gone(&mut self, members: MemberSet, now_ns: u64, limit_ns: u64) {
        let is_gone = |member: &MemberIndex| {
            let last = self.last[*member];
            now_ns.saturating_sub(last.heard_ns) >= limit_ns << last.mistakes
        };
        self.gone = members.iter().filter(is_gone).collect();
    }
}

impl Replica {
    /// A member is alive.
    pub(super) fn hear_from(&mut self, from: ReplicaId) {
        if let Some(member) = self.config.member(from) {
            self.absence.hear(member, self.now.mono_ns);
        }
    }

    /// Has the log make void what is dead here, one entry at a time.
    pub(super) fn order_voids(&mut self, now: Now, out: &mut Out<Self>) {
        if !self.config.merged || !self.is_voting() || self.config.faults.is(Fault::SkipVoids) {
            return;
        }
        self.voiding = self.voiding.filter(|id| !self.mvc.is_done(*id));
        if self.voiding.is_some() {
            return;
        }
        let dead = self.segments.iter().filter(|one| self.is_left(one));
        let dead: Vec<EntryId> = dead.map(|(id, _)| *id).take(NAMED_MAX).collect();
        if dead.is_empty() {
            return;
        }
        out.emit(Event::Branch("void ordered"));
        let id = self.mvc.name_entry(now).id;
        self.voiding = Some(id);
        self.within(out, |mvc, out| {
            mvc.order(now, decided::void(id, &dead), out)
        });
    }

    /// Whether nobody completes a value any more.
    fn is_left(&self, (id, segment): &(&EntryId, &Segment)) -> bool {
        let life = segment.manifest.life;
        match self.config.member(id.origin) {
            Some(me) if me == self.config.mvc.me => life < self.life,
            Some(origin) => {
                self.absence.gone.contains(origin) || self.rosters.is_dead(origin, **id, life)
            }
            None => true,
        }
    }

    /// Lets go of what the log made void. Own values of this life are spread anew.
    pub(super) fn heed_voids(&mut self, now: Now, out: &mut Out<Self>) {
        for id in self.mvc.take_voided() {
            out.emit(Event::Branch("value made void"));
            self.forget_value(id, out);
            self.spread_under_another_name(now, id, out);
        }
    }

    /// The log went on without this replica: whether own values were executed or made void it does not know.
    /// Nobody makes one void of this life before it was silent for long after having spread it; clocks run alike as
    /// far as that.
    pub(super) fn spread_skipped(&mut self, now: Now, out: &mut Out<Self>) {
        if !self.config.merged {
            return;
        }
        let age_ns = self.config.origin_gone_ns / 2;
        let may_be_void = |(id, own): &(&EntryId, &Spreading)| {
            let is_old = now.mono_ns.saturating_sub(own.since_ns) >= age_ns;
            is_old && self.mvc.is_done(**id)
        };
        let own = self.spreading.iter().filter(may_be_void);
        let skipped: Vec<EntryId> = own.map(|(id, _)| *id).collect();
        for id in skipped {
            self.spread_under_another_name(now, id, out);
        }
    }

    /// The commands are the same, and a session executes each once.
    fn spread_under_another_name(&mut self, now: Now, id: EntryId, out: &mut Out<Self>) {
        let Some(spreading) = self.spreading.remove(&id) else {
            return;
        };
        let Manifest {
            mut entry, code, ..
        } = spreading.manifest;
        let name = self.mvc.name_entry(now);
        (entry.id, entry.stamp_ns) = (name.id, name.stamp_ns);
        let life = self.life;
        self.spread_own(Manifest { entry, code, life }, out);
    }
}
