//! What a driver sees of a host's bulk store.

use super::{Fragment, FragmentStore};
use crate::api::Write;
use crate::host::Host;
use quorate_core::{Application, Machine, Now};

impl<M: Machine, A: Application> Host<M, A> {
    /// Segments of the bulk store that may be deleted or recycled, in any order.
    pub fn take_bulk_release(&mut self) -> Vec<u64> {
        let bulk = self.bulk.as_mut();
        bulk.map_or_else(Vec::new, FragmentStore::take_release)
    }

    /// A step in writing long fragments: to be written and synced apart from the log, then reported
    /// ([`Host::bulk_stored`]). `None` while one is under way, or nothing is to be done.
    pub fn take_bulk_step(&mut self) -> Option<Write> {
        self.bulk.as_mut()?.take_step()
    }

    /// The step that was taken last is on stable storage.
    pub fn bulk_stored(&mut self, now: Now) {
        let bulk = self.bulk.as_mut();
        bulk.expect("a step was taken of it").stepped();
        self.hand_over_staged(now);
    }

    /// The fragments of payloads that are here, in the order of payloads.
    pub fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.bulk.iter().flat_map(FragmentStore::fragments)
    }

    /// Bytes of these fragments.
    #[must_use]
    pub fn bulk_live_bytes(&self) -> u64 {
        self.bulk.as_ref().map_or(0, FragmentStore::live_bytes)
    }

    /// Moves a little of what is live in segments that hold little else.
    pub(crate) fn tidy_bulk(&mut self) {
        let mut reads = Vec::new();
        if let Some(bulk) = &mut self.bulk {
            bulk.tidy(&mut reads);
        }
        reads.into_iter().for_each(|read| self.want_read(read));
    }
}
