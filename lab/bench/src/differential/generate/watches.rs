//! Watches, and the streams they are on.

use quorate_etcd_api::etcdserverpb::WatchCreateRequest;

use super::Draw;
use crate::differential::step::{Action, STREAMS};

impl Draw<'_> {
    pub(super) fn watch_action(&mut self) -> Action {
        let stream = self.rng.usize(..STREAMS);
        match self.rng.u8(..12) {
            0..9 => Action::Watch {
                stream,
                request: self.watch(stream),
            },
            9..11 => Action::Cancel {
                stream,
                watch_id: self.watch_id(stream),
            },
            _ => Action::Reopen { stream },
        }
    }

    fn watch(&mut self, stream: usize) -> WatchCreateRequest {
        let key = self.key();
        let (revision, compacted) = (self.world.revision, self.world.compacted);
        WatchCreateRequest {
            range_end: self.end(&key),
            key,
            start_revision: match self.rng.u8(..10) {
                0..4 => 0,
                4 => revision + self.rng.i64(0..4),
                5 => compacted + self.rng.i64(-2..2),
                _ => self.rng.i64(compacted.max(1)..=revision),
            },
            progress_notify: self.one_in(4),
            filters: match self.rng.u8(..10) {
                0 => vec![0],
                1 => vec![1],
                2 => vec![0, 1],
                3 => vec![7, 1, 1],
                _ => Vec::new(),
            },
            prev_kv: self.rng.bool(),
            watch_id: match self.rng.u8(..8) {
                0 => self.watch_id(stream),
                1 => -1,
                2 => self.rng.i64(1..9),
                _ => 0,
            },
            fragment: self.one_in(4),
        }
    }

    /// The number of a watch, which may exist.
    fn watch_id(&mut self, stream: usize) -> i64 {
        let living = &self.world.watches[stream];
        match self.rng.usize(..=living.len()) {
            index if index < living.len() => living.iter().copied().nth(index).unwrap_or_default(),
            _ => self.rng.i64(0..9),
        }
    }
}
