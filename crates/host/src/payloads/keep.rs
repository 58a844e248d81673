//! Fragments in the fragment store: when a record attaches them, when an entry is decided, and when the
//! application has no use for them any more.

use super::{PayloadHandler, Payloads};
use crate::api::{Answer, PayloadGone};
use crate::decided::Located;
use crate::flaw::Flaw;
use crate::log::Kind;
use crate::position::Position;
use quorate_core::{
    Application, Carry, Encoder, Entry, EntryId, Machine, Now, PayloadId, Record, Share, Written,
};

/// Payloads looked at in one go for those that lack a fragment.
const LOOKED_AT_ONCE: usize = 256;

impl<M: Machine, A: Application> PayloadHandler<'_, M, A> {
    /// Appends a machine's record; an entry it carries can be read from there later.
    pub(crate) fn append_record(&mut self, mut record: M::Record, sync: bool) {
        self.keep_attached(&mut record);
        let next = self.context.storage.decided.next();
        let Some(log) = &mut self.context.storage.log else {
            // Kept for the entry only: who waits for its commands is answered when it is decided.
            if record.entry().is_some() {
                self.context
                    .storage
                    .retained
                    .appended(record, Located::NOOP, next);
            }
            return;
        };
        if record.scalar().is_some() || record.slot().is_none() && record.entry().is_none() {
            log.count();
        }
        let mut body = Encoder::new();
        record.write(&mut body);
        let (at, len) = log.append(Kind::Machine, body, sync);
        self.context
            .storage
            .retained
            .appended(record, Located { at, len }, next);
    }

    /// Appends the records again that are still needed and lie before `end`.
    pub(crate) fn carry_on(&mut self, end: Position) {
        let next = self.context.storage.decided.next();
        for record in self.context.storage.retained.take_before(end, next) {
            let is_dropped = self.context.limits.flaw == Some(Flaw::ScalarsNotCarried)
                && record.scalar().is_some();
            if !is_dropped {
                self.append_record(record, true);
            }
        }
    }

    /// Appends what is attached to a record that is about to be appended, unless it is here. What is
    /// at hand is not kept with the record.
    fn keep_attached(&mut self, record: &mut M::Record) {
        let Some(attachment) = record.attachment() else {
            return;
        };
        let (entry, code) = (attachment.entry, attachment.code);
        let lengths: Vec<u32> = entry.payloads().map(|payload| payload.len).collect();
        let (kept, parts) = (&mut *self.payloads, lengths.len() as u32);
        kept.staged.claim(entry.id);
        let is_kept = self
            .context
            .storage
            .fragments
            .as_mut()
            .is_some_and(|store| {
                if !store.held(entry.id, parts, code) {
                    let share = kept.coded.share(&kept.coder, attachment, kept.me);
                    let Some((share, checksums)) = share else {
                        return false;
                    };
                    store.append(entry.id, kept.coder.n(), (&share, &checksums), 0, &lengths);
                }
                if self.context.limits.flaw != Some(Flaw::FragmentsNotAwaited) {
                    store.await_durable(entry.id, parts, code);
                }
                true
            });
        if !is_kept {
            record.drop_attachment();
        }
        if let Some(entry) = record.entry_mut() {
            *entry = entry.clone().with_share(None);
        }
    }

    /// An entry is applied: its payloads may be read, and this replica should have its fragments.
    pub(crate) fn applied(&mut self, now: Now, entry: &Entry) {
        if entry.bulk_len() == 0 {
            return;
        }
        self.forget_coding(entry.id);
        let ahead = self.payloads.staged.take_ahead(entry.id);
        self.payloads.staged.claim(entry.id);
        self.payloads.gathers.forget_entry(entry.id);
        let whole = entry.share().filter(|share| share.is_whole());
        for (part, payload) in (0..).zip(entry.payloads()) {
            let id = PayloadId {
                entry: entry.id,
                part,
            };
            if !self.context.app().is_live(id) {
                // Of a command that was executed before, for example.
                self.forget_payload(id);
                continue;
            }
            if let Some(bytes) = whole.and_then(|whole| whole.parts.get(part as usize)) {
                self.payloads.cache.insert(id, bytes.clone());
            }
            if self.lacks(id) {
                let sent = self.payloads.sent_of(&payload);
                self.payloads.lacking.expect(now.mono_ns, id, payload, sent);
            }
        }
        if let Some((share, checksums)) = ahead {
            self.keep_late(entry, (&share, &checksums));
        }
        self.arm_gather(now);
        self.free_dead_payloads();
    }

    /// An entry will not be ordered: nobody has a use for its record, nor for its fragments.
    pub(crate) fn forget_undecided(&mut self, entry: EntryId) {
        let parts = self
            .context
            .storage
            .retained
            .entry(entry)
            .map(|kept| kept.payloads().count());
        self.context.storage.retained.forget_entry(entry);
        self.forget_coding(entry);
        self.payloads.staged.claim(entry);
        self.payloads.gathers.forget_entry(entry);
        for part in 0..parts.unwrap_or(0) as u32 {
            let id = PayloadId { entry, part };
            if !self.context.app().is_live(id) {
                self.forget_payload(id);
                self.payloads.gathers.give_up(id);
            }
        }
    }

    fn forget_payload(&mut self, id: PayloadId) {
        if let Some(store) = &mut self.context.storage.fragments {
            store.free(id);
        }
        self.payloads.cache.remove(id);
        self.payloads.lacking.remove(id);
    }

    /// Whether this replica should have a fragment of a live payload, and has none.
    fn lacks(&self, id: PayloadId) -> bool {
        let Payloads { me, code, .. } = *self.payloads;
        let codes = match self.is_moving(id) {
            true => code..=code,
            false => 0..=u8::MAX,
        };
        // Who is no member has no place, and may have all of it at most.
        let should_have = self.context.is_member() || code == 1;
        let store = self
            .context
            .storage
            .fragments
            .as_ref()
            .filter(|_| should_have);
        store.is_some_and(|store| !store.has_own(id, codes, me))
    }

    /// Frees the payloads that the application says are dead.
    fn free_dead_payloads(&mut self) {
        for id in self.context.applier.app_mut().take_dead() {
            self.forget_payload(id);
            self.gather_no_more(id);
        }
    }

    /// A payload is dead: its readers are told, unless the machine wants it.
    fn gather_no_more(&mut self, id: PayloadId) {
        if !self.payloads.gathers.is_entry_wanted(id.entry) {
            let readers = self.payloads.gathers.drop_payload(id);
            let gone = |token| (token, Answer::Payload(Err(PayloadGone::Dead)));
            self.context
                .effects
                .answers
                .extend(readers.into_iter().map(gone));
        }
    }

    /// A snapshot took the place of the state. Nobody says which payloads died within the slots that it
    /// skipped, nor which of those that came are lacking here.
    pub(crate) fn installed(&mut self, is_serving: bool) {
        let app = self.context.applier.app();
        self.payloads.lacking.retain(|id| app.is_live(id));
        let gathered = self.payloads.gathers.ids();
        let dead: Vec<PayloadId> = gathered.filter(|id| !app.is_live(*id)).collect();
        for id in dead {
            self.gather_no_more(id);
        }
        self.payloads.release();
        self.payloads.look_again();
        self.retain(is_serving);
    }

    /// Once after a start or a snapshot: frees what nobody has a use for, neither the application nor an entry that
    /// is undecided here. A replica that may have lost records may have fragments of what was
    /// decided, and not know so: it frees nothing before it votes again, having applied by then all
    /// that anything it lost can have helped to decide.
    pub(crate) fn retain(&mut self, is_serving: bool) {
        if self.payloads.is_retained || !is_serving {
            return;
        }
        let (retained, app) = (&self.context.storage.retained, self.context.applier.app());
        let staged = &self.payloads.staged;
        let is_wanted = |id: PayloadId| {
            app.is_live(id) || retained.entry(id.entry).is_some() || staged.has(id.entry)
        };
        if let Some(store) = &mut self.context.storage.fragments {
            store.retain(is_wanted);
        }
        self.payloads.is_retained = true;
        self.payloads.looking = Some(None);
    }

    /// Looks for payloads that lack a fragment, frees what is dead or superseded, and moves a little of what is live in
    /// segments that hold little else; says whether there is more to do.
    pub(crate) fn tidy(&mut self, is_serving: bool) -> bool {
        // What is found to be lacking would have to be written.
        let more = !self.context.storage.is_stalled && self.look_for_lacking();
        let more = self.drop_superseded() || more;
        self.free_dead_payloads();
        self.retain(is_serving);
        self.move_fragments();
        self.move_fragments();
        more
    }

    fn move_fragments(&mut self) {
        let mut reads = Vec::new();
        if let Some(fragments) = &mut self.context.storage.fragments {
            fragments.tidy(&mut reads);
        }
        self.context.effects.reads.extend(reads);
    }

    /// Looks at some of the live payloads for those that lack their fragment here, from where it
    /// stopped; says whether there are more to look at.
    fn look_for_lacking(&mut self) -> bool {
        let Some(after) = self.payloads.looking else {
            return false;
        };
        let live = self.context.app().live(after, LOOKED_AT_ONCE);
        self.payloads.looking = live.last().map(|(id, _)| Some(*id));
        let mut moving_bytes = 0;
        for (id, payload) in live {
            let is_moving = self.is_moving(id);
            moving_bytes += if is_moving { u64::from(payload.len) } else { 0 };
            match (self.lacks(id), is_moving) {
                (false, _) => {}
                (true, false) => self.payloads.lacking.insert(id, payload),
                (true, true) => self.payloads.lacking.insert_moving(id, payload),
            }
        }
        let has_more = self.payloads.looking.is_some();
        self.payloads
            .settling
            .count(moving_bytes, after.is_none(), !has_more);
        has_more
    }

    /// A payload is here whole: if its fragment is lacking, it is made and appended.
    pub(crate) fn rebuild(&mut self, id: PayloadId, code: u8, whole: &bytes::Bytes) {
        let Some(payload) = self.payloads.lacking.remove(id) else {
            return;
        };
        let code = match self.is_moving(id) {
            true => self.payloads.code,
            false => code,
        };
        let kept = &*self.payloads;
        let whole = std::sync::Arc::new(Share::whole(vec![whole.clone()]));
        let share = kept.coder.shares(&whole, code);
        let share = share.and_then(|shares| shares.into_iter().nth(kept.me.into()));
        if let (Some(store), Some(share)) = (&mut self.context.storage.fragments, share) {
            let n = kept.coder.n();
            store.append(id.entry, n, (&share, &[]), id.part, &[payload.len]);
            self.context.effects.counters.rebuilt += 1;
        }
    }

    /// A fragment of this replica's own came. If its entry is decided and no record named it, the
    /// machine has no use for it, but the fragment is kept.
    pub(crate) fn keep_late(&mut self, entry: &Entry, (share, checksums): (&Share, &[u64])) {
        let kept = &mut *self.payloads;
        let Some(store) = &mut self.context.storage.fragments else {
            return;
        };
        for ((part, payload), bytes) in (0..).zip(entry.payloads()).zip(&share.parts) {
            let id = PayloadId {
                entry: entry.id,
                part,
            };
            if !kept.lacking.is(id, &payload) {
                continue;
            }
            kept.lacking.remove(id);
            let share = Share {
                parts: vec![bytes.clone()],
                ..*share
            };
            let known = checksums.get(part as usize..).unwrap_or_default();
            let n = kept.coder.n();
            store.append(entry.id, n, (&share, known), part, &[payload.len]);
            kept.gathers.give_up(id);
        }
    }
}
