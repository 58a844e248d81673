//! Fragments of long payloads are made by the driver, on a thread of its own: the host hands out what
//! is to be done as a value and goes on. What waits for them leaves when they are here.

use super::PayloadHandler;
use super::coded::Made;
use super::coder::Coder;
use quorate_core::{Application, Attachment, EntryId, Machine, Peers, Share};
use std::fmt;
use std::sync::Arc;

/// Messages that wait for fragments, at most: one more is lost, as links lose them.
pub(crate) const CODING_MAX: usize = 64;

/// Payloads to make fragments of.
pub struct Coding {
    coder: Arc<Coder>,
    of: (EntryId, u8),
    whole: Arc<Share>,
}

/// The fragments.
pub struct Fragments {
    of: (EntryId, u8),
    made: Option<Made>,
}

impl Coding {
    /// Makes them: for 64 MiB it takes tens of milliseconds.
    #[must_use]
    pub fn perform(self) -> Fragments {
        Fragments {
            of: self.of,
            made: Made::of(&self.coder, &self.whole, self.of.1),
        }
    }
}

impl fmt::Debug for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entry, code) = self.of;
        write!(f, "{entry:?} under {code}, {} B", self.whole.len())
    }
}

impl fmt::Debug for Fragments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (entry, code) = self.of;
        write!(f, "fragments of {entry:?} under {code}")
    }
}

impl<M: Machine, A: Application> PayloadHandler<'_, M, A> {
    /// Fragments that were asked for are made: what waits for them leaves.
    pub(crate) fn coding_done(&mut self, fragments: Fragments) {
        let Fragments { of, made } = fragments;
        let is_meant = |(name, ..): &mut ((EntryId, u8), Peers, M::Message)| *name == of;
        let waiting: Vec<_> = self.payloads.uncoded.extract_if(.., is_meant).collect();
        let (Some(made), false) = (made, waiting.is_empty()) else {
            return;
        };
        self.payloads.coded.keep(of, made);
        for (_, to, message) in waiting {
            self.send_attached(to, &message);
        }
    }

    /// Whether a message has to wait until fragments of what is attached to it are made; it is kept
    /// then.
    pub(super) fn waits_for_coding(
        &mut self,
        to: Peers,
        message: &M::Message,
        attachment: Attachment<'_>,
    ) -> bool {
        let of = (attachment.entry.id, attachment.code);
        let is_long = attachment.entry.bulk_len() >= self.context.limits.long_bytes_min as u64;
        let whole = attachment.entry.share().filter(|share| share.is_whole());
        let (Some(whole), true) = (whole, is_long && !self.payloads.coded.has(of)) else {
            return false;
        };
        if self.payloads.uncoded.len() >= CODING_MAX {
            return true;
        }
        if self.payloads.uncoded.iter().all(|(name, ..)| *name != of) {
            self.payloads.to_code.push(Coding {
                coder: Arc::clone(&self.payloads.coder),
                of,
                whole: Arc::clone(whole),
            });
        }
        self.payloads.uncoded.push((of, to, message.clone()));
        true
    }

    /// An entry is decided: nobody waits for its fragments any more.
    pub(crate) fn forget_coding(&mut self, entry: EntryId) {
        self.payloads.coded.forget(entry);
        self.payloads.uncoded.retain(|((id, _), ..)| *id != entry);
    }
}
