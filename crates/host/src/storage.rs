//! The log of one replica, and what is known of what lies in it.

use crate::decided::{DecidedLog, Located};
use crate::fragments::FragmentStore;
use crate::log::{Kind, LogWriter};
use crate::records::{Decided, Learned};
use crate::retained_records::RetainedRecords;
use quorate_core::{Encoder, Entry, Record, Slot, Wire};

/// The log, the store of fragments beside it, and where decided entries and undecided records are.
#[derive(Debug)]
pub(crate) struct Storage<R> {
    /// `None` for a diskless replica.
    pub(crate) log: Option<LogWriter>,
    /// Fragments of payloads, beside the log; `None` for a diskless replica.
    pub(crate) fragments: Option<FragmentStore>,
    pub(crate) decided: DecidedLog,
    pub(crate) retained: RetainedRecords<R>,
    /// The log cannot be written, and too much waits for it: the machine is suspended, and what is decided is applied
    /// without being written.
    pub(crate) is_stalled: bool,
}

impl<R: Record> Storage<R> {
    /// Notes a decision; says where the entry is, in a log. Its bytes are not written again if they
    /// are there.
    pub(crate) fn append_decided(&mut self, slot: Slot, entry: Option<&Entry>) -> Option<Located> {
        let log = self.log.as_mut()?;
        let place = entry.and_then(|entry| self.retained.entry_place(entry.id));
        let mut body = Encoder::new();
        match (entry, place) {
            (Some(entry), None) => {
                let entry = entry.clone();
                Learned { slot, entry }.encode(&mut body);
                let (at, len) = log.append(Kind::Learned, body, false);
                Some(Located { at, len })
            }
            (entry, place) => {
                let entry = entry.map(|entry| entry.id);
                Decided { slot, entry }.encode(&mut body);
                log.append(Kind::Decided, body, false);
                Some(place.unwrap_or(Located::NOOP))
            }
        }
    }

    /// Has the next flush take everything there is.
    pub(crate) fn write_all(&mut self) {
        if let Some(log) = &mut self.log {
            log.want_write();
        }
    }

    /// Bytes of log and fragments that no flush has taken yet.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        let of = |fragments: &FragmentStore| fragments.unwritten_bytes() + fragments.behind_bytes();
        let fragments = self.fragments.as_ref().map_or(0, of);
        self.log.as_ref().map_or(0, LogWriter::unwritten_bytes) + fragments
    }
}
