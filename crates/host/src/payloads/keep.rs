//! Fragments in the bulk store: when a record attaches them, when an entry is decided, and when the
//! application has no use for them any more.

use crate::api::{Answer, PayloadGone};
use crate::flaw::Flaw;
use crate::host::Host;
use crate::payloads::Payloads;
use quorate_core::{Application, Carry, Entry, EntryId, Machine, Now, PayloadId, Record, Share};

/// Payloads looked at in one go for those that lack a fragment.
const LOOKED_AT_ONCE: usize = 256;

impl<M: Machine, A: Application> Host<M, A> {
    /// Appends what is attached to a record that is about to be appended, unless it is here. What is
    /// at hand is not kept with the record.
    pub(crate) fn keep_attached(&mut self, record: &mut M::Record) {
        let Some(attachment) = record.attachment() else {
            return;
        };
        let (entry, code) = (attachment.entry, attachment.code);
        let lengths: Vec<u32> = entry.payloads().map(|payload| payload.len).collect();
        let (kept, parts) = (&mut self.payloads, lengths.len() as u32);
        kept.staged.claim(entry.id);
        let is_kept = self.bulk.as_mut().is_some_and(|bulk| {
            if !bulk.held(entry.id, parts, code) {
                let share = kept.coded.share(&kept.coder, attachment, kept.me);
                let Some((share, checksums)) = share else {
                    return false;
                };
                bulk.append(entry.id, kept.coder.n(), (&share, &checksums), 0, &lengths);
            }
            if self.limits.flaw != Some(Flaw::FragmentsNotAwaited) {
                bulk.await_durable(entry.id, parts, code);
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
    pub(crate) fn payloads_applied(&mut self, now: Now, entry: &Entry) {
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
            if !self.app().is_live(id) {
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
            .retained
            .entry(entry)
            .map(|kept| kept.payloads().count());
        self.retained.forget_entry(entry);
        self.forget_coding(entry);
        self.payloads.staged.claim(entry);
        self.payloads.gathers.forget_entry(entry);
        for part in 0..parts.unwrap_or(0) as u32 {
            let id = PayloadId { entry, part };
            if !self.app().is_live(id) {
                self.forget_payload(id);
                self.payloads.gathers.give_up(id);
            }
        }
    }

    fn forget_payload(&mut self, id: PayloadId) {
        if let Some(bulk) = &mut self.bulk {
            bulk.free(id);
        }
        self.payloads.cache.remove(id);
        self.payloads.lacking.remove(id);
    }

    /// Whether this replica should have a fragment of a live payload, and has none.
    fn lacks(&self, id: PayloadId) -> bool {
        let Payloads { me, code, .. } = self.payloads;
        let codes = match self.is_moving(id) {
            true => code..=code,
            false => 0..=u8::MAX,
        };
        // Who is no member has no place, and may have all of it at most.
        let should_have = self.is_member() || code == 1;
        let bulk = self.bulk.as_ref().filter(|_| should_have);
        bulk.is_some_and(|bulk| !bulk.has_own(id, codes, me))
    }

    /// Frees the payloads that the application says are dead.
    pub(crate) fn free_dead_payloads(&mut self) {
        for id in self.applier.app_mut().take_dead() {
            self.forget_payload(id);
            self.gather_no_more(id);
        }
    }

    /// A payload is dead: its readers are told, unless the machine wants it.
    fn gather_no_more(&mut self, id: PayloadId) {
        if !self.payloads.gathers.is_entry_wanted(id.entry) {
            let readers = self.payloads.gathers.drop_payload(id);
            let gone = |token| (token, Answer::Payload(Err(PayloadGone::Dead)));
            self.answers.extend(readers.into_iter().map(gone));
        }
    }

    /// A snapshot took the place of the state. Nobody says which payloads died within the slots that it
    /// skipped, nor which of those that came are lacking here.
    pub(crate) fn payloads_installed(&mut self) {
        let app = self.applier.app();
        self.payloads.lacking.retain(|id| app.is_live(id));
        let gathered = self.payloads.gathers.ids();
        let dead: Vec<PayloadId> = gathered.filter(|id| !app.is_live(*id)).collect();
        for id in dead {
            self.gather_no_more(id);
        }
        self.payloads.release();
        self.payloads.look_again();
        self.retain_payloads();
    }

    /// Once after a start or a snapshot: frees what nobody has a use for, neither the application nor an entry that
    /// is undecided here. A replica that may have lost records may have fragments of what was
    /// decided, and not know so: it frees nothing before it votes again, having applied by then all
    /// that anything it lost can have helped to decide.
    pub(crate) fn retain_payloads(&mut self) {
        let is_sure = || self.machine.as_ref().is_some_and(M::is_serving);
        if self.payloads.is_retained || !is_sure() {
            return;
        }
        let (retained, app) = (&self.retained, self.applier.app());
        let staged = &self.payloads.staged;
        let is_wanted = |id: PayloadId| {
            app.is_live(id) || retained.entry(id.entry).is_some() || staged.has(id.entry)
        };
        if let Some(bulk) = &mut self.bulk {
            bulk.retain(is_wanted);
        }
        self.payloads.is_retained = true;
        self.payloads.looking = Some(None);
    }

    /// Looks at some of the live payloads for those that lack their fragment here, from where it
    /// stopped; says whether there are more to look at.
    pub(crate) fn look_for_lacking(&mut self) -> bool {
        let Some(after) = self.payloads.looking else {
            return false;
        };
        let live = self.app().live(after, LOOKED_AT_ONCE);
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
        let kept = &self.payloads;
        let whole = std::sync::Arc::new(Share::whole(vec![whole.clone()]));
        let share = kept.coder.shares(&whole, code);
        let share = share.and_then(|shares| shares.into_iter().nth(kept.me.into()));
        if let (Some(bulk), Some(share)) = (&mut self.bulk, share) {
            let n = kept.coder.n();
            bulk.append(id.entry, n, (&share, &[]), id.part, &[payload.len]);
            self.counters.rebuilt += 1;
        }
    }

    /// A fragment of this replica's own came. If its entry is decided and no record named it, the
    /// machine has no use for it, but the fragment is kept.
    pub(crate) fn keep_late(&mut self, entry: &Entry, (share, checksums): (&Share, &[u64])) {
        let kept = &mut self.payloads;
        let Some(bulk) = &mut self.bulk else { return };
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
            bulk.append(entry.id, n, (&share, known), part, &[payload.len]);
            kept.gathers.give_up(id);
        }
    }
}
