//! What a holder keeps of values that are not decided.
//!
//! An acknowledgement says that the segment is on the disk and stays there until the log, the epoch or the
//! origin's roster says otherwise. So it is sent behind the record of the segment, and nothing here is
//! let go by a timer.

use super::Replica;
use super::config::Config;
use super::life::Life;
use super::messages::{Manifest, Message, Record, SegAck, Spread};
use crate::rabia::weak_mvc;
use quorate_core::{ENTRY_BYTES_MAX, Entry, EntryId, Event, Lsn, MemberIndex, Now, Out, ReplicaId};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// An undecided manifest that is written here.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// With nothing at hand.
    pub(super) manifest: Manifest,
    /// Whether the own segment is with it.
    pub(super) is_held: bool,
    /// The record that says so.
    pub(super) written: Lsn,
}

/// All of them.
#[derive(Clone, Default, Debug)]
pub(super) struct Segments(BTreeMap<EntryId, Segment>);

impl Segments {
    pub(super) fn get(&self, id: EntryId) -> Option<&Segment> {
        self.0.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&EntryId, &Segment)> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, segment: Segment) {
        self.0.insert(segment.manifest.entry.id, segment);
    }

    /// A manifest whose segment is to be gathered.
    pub(super) fn await_segment(&mut self, manifest: Manifest) {
        self.insert(Segment {
            manifest: manifest.bare(),
            is_held: false,
            written: Lsn(u64::MAX),
        });
    }

    pub(super) fn remove(&mut self, id: EntryId) {
        self.0.remove(&id);
    }

    /// Whether the own segment of an entry is here under a code.
    pub(super) fn holds(&self, id: EntryId, code: u8) -> bool {
        let segment = self.0.get(&id);
        segment.is_some_and(|segment| segment.is_held && segment.manifest.code == code)
    }

    /// Whether the own segment is here as of an earlier life.
    fn is_older(&self, id: EntryId, code: u8, life: Life) -> bool {
        let segment = self.0.get(&id);
        self.holds(id, code) && segment.is_some_and(|segment| segment.manifest.life < life)
    }

    /// Drops what is decided.
    pub(super) fn retain(&mut self, is_open: impl Fn(EntryId) -> bool) {
        self.0.retain(|id, _| is_open(*id));
    }

    /// Bytes of the segments of one origin.
    fn bytes_of(&self, origin: ReplicaId) -> u64 {
        let its = self.0.iter().filter(|(id, _)| id.origin == origin);
        its.filter(|(_, segment)| segment.is_held)
            .map(|(_, segment)| segment.manifest.segment_len())
            .sum()
    }

    /// A record of Weak-MVC, as it is written here: that a coded entry may be proposed is said together
    /// with whether its segment is here, since the last record of an entry says all.
    pub(super) fn record_of(&self, record: weak_mvc::Record, config: &Config) -> Record {
        match record {
            weak_mvc::Record::Batch { entry } if entry.bulk_len() > 0 => {
                let kept = self.0.get(&entry.id);
                let (code, life) = kept.map_or((config.code, Life::default()), |segment| {
                    (segment.manifest.code, segment.manifest.life)
                });
                Record::Manifest {
                    is_held: kept.is_some_and(|segment| segment.is_held),
                    manifest: Manifest { entry, code, life },
                    is_candidate: true,
                }
            }
            record => Record::Mvc(record),
        }
    }

    pub(super) fn fingerprint(&self, durable: Lsn, to: &mut impl Hasher) {
        for (id, segment) in &self.0 {
            let Segment {
                manifest, is_held, ..
            } = segment;
            (id, manifest.code, manifest.life, is_held).hash(to);
            (segment.written <= durable).hash(to);
        }
    }
}

impl Replica {
    /// An origin's manifest with the own segment, or the question whether that is here.
    pub(super) fn on_spread(&mut self, from: MemberIndex, spread: Spread, out: &mut Out<Self>) {
        let Spread {
            manifest,
            round,
            is_attached,
        } = spread;
        let id = manifest.entry.id;
        if self.config.member(id.origin) != Some(from) {
            return self.misbehaved(from, "a segment of another's value", out);
        }
        if !manifest.has_bulk()
            || manifest.code > self.config.code
            || manifest.entry.body_len() > ENTRY_BYTES_MAX
        {
            return self.misbehaved(from, "nothing to spread", out);
        }
        if self.mvc.is_done(id) || self.rosters.is_dead(from, id, manifest.life) {
            return;
        }
        let (code, life) = (manifest.code, manifest.life);
        let comes = is_attached && manifest.has_segment() && !self.segments.holds(id, code);
        if comes {
            let bytes = self.segments.bytes_of(id.origin) + manifest.segment_len();
            if bytes > self.config.quota_bytes {
                return out.emit(Event::Branch("spread quota full"));
            }
            self.keep(manifest, out);
        } else if self.segments.is_older(id, code, life) {
            // It is spread once more, after a loss: no roster from before says what becomes of it.
            out.emit(Event::Branch("segment in a later life"));
            self.keep(manifest, out);
        }
        // An acknowledgement says what losses are known here. With `merged` a proposal says enough, and an answer
        // is for who asks.
        if self.rejoin.is_some() || self.config.merged && is_attached {
            return;
        }
        let is_here = self.segments.holds(id, code);
        let message = Message::SegAck(SegAck {
            id,
            code,
            life,
            round,
            is_here,
            losses: self.losses.clone(),
        });
        out.send(self.peer(from), message);
    }

    /// Writes a manifest with the own segment, which is at hand, or can be made of what is, or is on the
    /// disk already.
    pub(super) fn keep(&mut self, mut manifest: Manifest, out: &mut Out<Self>) {
        let known = self.segments.get(manifest.entry.id);
        manifest.life = known.map_or(manifest.life, |known| {
            manifest.life.max(known.manifest.life)
        });
        let bare = manifest.bare();
        let entry = bare.entry.clone();
        let merged = self.config.merged;
        let written = out.persist(Record::Manifest {
            is_candidate: merged || self.mvc.holds(entry.id),
            manifest,
            is_held: true,
        });
        self.segments.insert(Segment {
            manifest: bare,
            is_held: true,
            written,
        });
        if merged {
            // Its proposal goes with the same flush.
            let now = self.now;
            self.within(out, |mvc, out| mvc.admit(now, entry, out));
        }
    }

    /// What the disk lost, or never had, was gathered from others.
    pub(super) fn on_held(&mut self, entry: &Entry, out: &mut Out<Self>) {
        let is_whole = entry.share().is_some_and(|share| share.is_whole());
        let Some(segment) = self.segments.get(entry.id) else {
            return;
        };
        if !is_whole {
            return;
        }
        let manifest = Manifest {
            entry: entry.clone(),
            ..segment.manifest
        };
        if !segment.is_held {
            out.emit(Event::Branch("segment rebuilt"));
            self.keep(manifest.clone(), out);
        }
        let is_own = self.orphans.contains(&entry.id) && !self.mvc.holds(entry.id);
        if is_own && self.rejoin.is_none() {
            self.spread_again(manifest, out);
        }
    }

    /// Drops what was decided, and what rosters leave out.
    pub(super) fn let_go(&mut self, now: Now, out: &mut Out<Self>) {
        self.heed_voids(now, out);
        let mvc = &self.mvc;
        self.segments.retain(|id| !mvc.is_done(id));
        let now_ns = self.now.mono_ns;
        let (backoff, pace) = (&mut self.backoff, &mut self.pace);
        let (merged, usual_ns) = (self.config.merged, self.config.mvc.rtx_max_ns);
        self.spreading.retain(|id, spreading| {
            let is_done = mvc.is_done(*id);
            if is_done && merged {
                // Proposals said that segments came.
                *backoff = 0;
                let took_ns = now_ns.saturating_sub(spreading.since_ns);
                pace.note(took_ns, spreading.ack_ns_max(usual_ns));
            }
            !is_done
        });
        self.heed_rosters(out);
    }
}
