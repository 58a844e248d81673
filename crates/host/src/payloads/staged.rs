//! Long fragments come to lie on the disk before the machine hears of them.
//!
//! What is attached to a message is appended to the fragment store when the message comes, and the message
//! waits until it is on stable storage. To the machine it is a message that comes late. The record that
//! names the fragments then finds them there, and the flush of the log, in which the records of small
//! commands go along, has nothing long to wait for. The origin's own fragments are appended as soon as
//! there are any. A crash forgets the messages; fragments that no record names are freed at the start,
//! and here once there are many.
//!
//! Short fragments go with the record that names them. They may come ahead of it (large values are
//! spread before they have a slot), and the slot may then be learned from a peer, without a record:
//! so the last few that came are remembered until one or the other happens.

use super::PayloadHandler;
use bytes::Bytes;
use quorate_core::{Application, Carry, EntryId, Machine, PayloadId, ReplicaId, Share};
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages that wait, at most, and bytes attached to them unless one alone has more.
pub(crate) const STAGED_MAX: usize = 64;
const STAGED_BYTES_MAX: usize = 256 << 20;
/// Entries whose short fragments are remembered until a record names them, or they are applied: more
/// than a leader has under way.
const AHEAD_MAX: usize = 32;
/// Entries whose fragments were appended before a record names them.
const UNCLAIMED_MAX: usize = 64;

/// Messages that wait for what is attached to them, and entries that no record names yet.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    waiting: VecDeque<Waiting>,
    unclaimed: VecDeque<(EntryId, u32)>,
    ahead: VecDeque<(EntryId, Ahead)>,
}

/// Fragments of an entry that came ahead of what names them, and their checksums.
type Ahead = (Arc<Share>, Arc<[u64]>);

#[derive(Debug)]
struct Waiting {
    /// What is to be stored before.
    ticket: u64,
    from: ReplicaId,
    message: Bytes,
    share: Arc<Share>,
}

impl Staged {
    /// Messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The epoch is over: no machine is there for its messages.
    pub(super) fn forget_messages(&mut self) {
        self.waiting.clear();
    }

    /// Whether an entry's fragments are here, and no record names it yet.
    pub(crate) fn has(&self, entry: EntryId) -> bool {
        self.unclaimed.iter().any(|(id, _)| *id == entry)
    }

    fn has_room(&self, bytes: usize) -> bool {
        let held: usize = self.waiting.iter().map(|one| one.share.len()).sum();
        let has_room = self.waiting.is_empty() || held + bytes <= STAGED_BYTES_MAX;
        has_room && self.waiting.len() < STAGED_MAX
    }

    /// A record names an entry, or it is decided: what is here of it is looked after.
    pub(crate) fn claim(&mut self, entry: EntryId) {
        self.unclaimed.retain(|(id, _)| *id != entry);
        self.take_ahead(entry);
    }

    /// An entry is decided: the short fragments that came ahead, if no record named them.
    pub(crate) fn take_ahead(&mut self, entry: EntryId) -> Option<Ahead> {
        let place = self.ahead.iter().position(|(id, _)| *id == entry)?;
        self.ahead.remove(place).map(|(_, ahead)| ahead)
    }

    fn remember(&mut self, entry: EntryId, ahead: Ahead) {
        self.take_ahead(entry);
        if self.ahead.len() == AHEAD_MAX {
            self.ahead.pop_front();
        }
        self.ahead.push_back((entry, ahead));
    }

    /// Fragments of so many payloads of an entry are here, and no record names it. Gives the entry
    /// that waited for one longest, if these get too many.
    fn note(&mut self, entry: EntryId, parts: u32) -> Option<(EntryId, u32)> {
        self.claim(entry);
        self.unclaimed.push_back((entry, parts));
        let is_much = self.unclaimed.len() > UNCLAIMED_MAX;
        is_much.then(|| self.unclaimed.pop_front())?
    }

    fn take_stored(&mut self, is_stored: impl Fn(u64) -> bool) -> Option<Waiting> {
        let first = self.waiting.front()?;
        is_stored(first.ticket).then(|| self.waiting.pop_front())?
    }
}

impl<M: Machine, A: Application> PayloadHandler<'_, M, A> {
    /// A message whose attachment is right: returned for the machine, or kept until that is stored.
    pub(super) fn stage(
        &mut self,
        from: ReplicaId,
        (message, encoded): (M::Message, Bytes),
        (share, checksums): (Share, &[u64]),
    ) -> Option<M::Message> {
        let share = Arc::new(share);
        match self.store_early(&message, &share, checksums) {
            Early::NotNeeded => {
                self.remember_ahead(&message, &share, checksums);
                Some(with_share(message, share))
            }
            Early::NoRoom => None,
            Early::Behind(ticket) => {
                self.payloads.staged.waiting.push_back(Waiting {
                    ticket,
                    from,
                    message: encoded,
                    share,
                });
                None
            }
        }
    }

    fn store_early(&mut self, message: &M::Message, share: &Share, checksums: &[u64]) -> Early {
        let is_long = message.is_to_keep() && share.len() >= self.context.limits.long_bytes_min;
        let (Some(attachment), true) = (message.attachment(), is_long) else {
            return Early::NotNeeded;
        };
        let (entry, code) = (attachment.entry, attachment.code);
        // The machine has no use for what is applied.
        if self.context.storage.fragments.is_none() || self.context.base_has(entry.id) {
            return Early::NotNeeded;
        }
        if !self.payloads.staged.has_room(share.len()) {
            return Early::NoRoom;
        }
        let lengths: Vec<u32> = entry.payloads().map(|payload| payload.len).collect();
        self.append_early(entry.id, (share, checksums), &lengths);
        let store = self.context.storage.fragments.as_ref();
        let ticket = store.and_then(|store| store.ticket(entry.id, lengths.len() as u32, code));
        ticket.map_or(Early::NotNeeded, Early::Behind)
    }

    fn remember_ahead(&mut self, message: &M::Message, share: &Arc<Share>, checksums: &[u64]) {
        let is_short = message.is_to_keep() && share.len() < self.context.limits.long_bytes_min;
        if let (Some(attachment), true, Some(_)) = (
            message.attachment(),
            is_short,
            &self.context.storage.fragments,
        ) && !self.context.base_has(attachment.entry.id)
        {
            let ahead = (Arc::clone(share), checksums.into());
            self.payloads.staged.remember(attachment.entry.id, ahead);
        }
    }

    /// Appends fragments of an entry, unless they are here, before a record names them.
    pub(super) fn append_early(
        &mut self,
        entry: EntryId,
        (share, checksums): (&Share, &[u64]),
        lengths: &[u32],
    ) {
        let (n, parts) = (self.payloads.coder.n(), lengths.len() as u32);
        let Some(store) = &mut self.context.storage.fragments else {
            return;
        };
        if store.held(entry, parts, share.code) {
            return;
        }
        store.append(entry, n, (share, checksums), 0, lengths);
        if self.context.storage.retained.entry(entry).is_none()
            && let Some((old, parts)) = self.payloads.staged.note(entry, parts)
        {
            self.drop_unclaimed(old, parts);
        }
    }

    fn drop_unclaimed(&mut self, entry: EntryId, parts: u32) {
        if self.context.storage.retained.entry(entry).is_some() {
            return;
        }
        for id in (0..parts).map(|part| PayloadId { entry, part }) {
            if let (false, Some(store)) = (
                self.context.app().is_live(id),
                &mut self.context.storage.fragments,
            ) {
                store.free(id);
            }
        }
    }

    /// Takes a message for the machine whose attachment is on stable storage by now, and who sent it.
    pub(crate) fn take_stored(&mut self) -> Option<(ReplicaId, M::Message)> {
        let store = self.context.storage.fragments.as_ref()?;
        let staged = &mut self.payloads.staged;
        let waiting = staged.take_stored(|ticket| store.is_stored(ticket))?;
        let message = self.context.read_one_message(waiting.message);
        let message = message.expect("it was decoded when it came");
        Some((waiting.from, with_share(message, waiting.share)))
    }
}

fn with_share<Message: Carry>(mut message: Message, share: Arc<Share>) -> Message {
    if let Some(entry) = message.entry_mut() {
        *entry = entry.clone().with_share(Some(share));
    }
    message
}

/// What becomes of an attachment before the machine hears of it.
enum Early {
    /// Nothing, or it is stored already.
    NotNeeded,
    /// Too much waits: the message is lost.
    NoRoom,
    /// It is on its way to the disk.
    Behind(u64),
}
