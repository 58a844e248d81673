//! The committed commands of a replica that does not run, in order, each with what it came to.
//!
//! They are applied again, from the oldest snapshot that the log goes on from, to an application of
//! their own: that gives every result, and shows what an entry was without believing the log's word
//! for what it did.

use crate::api::HostConfig;
use crate::log::{Identity, LogSource, scan};
use crate::open_error::OpenError;
use crate::replay::{Exported, Replay, Witness};
use crate::snapshot::{self, Stored};
use quorate_core::{Application, Durability, Machine, Slot};
use std::collections::VecDeque;

/// A log that can be exported.
pub struct Export<'a, M: Machine, A> {
    config: &'a HostConfig<M::Config>,
    source: &'a mut dyn LogSource,
    app: A,
    from: Option<Stored>,
    snapshots: Vec<Slot>,
}

impl<'a, M: Machine, A: Application> Export<'a, M, A> {
    /// Reads snapshots and log and finds where an export can begin. Nothing is changed.
    ///
    /// # Errors
    /// [`OpenError`] as for opening a host; nothing is repaired for an export.
    pub fn new(
        config: &'a HostConfig<M::Config>,
        source: &'a mut dyn LogSource,
        app: A,
    ) -> Result<Self, OpenError> {
        let stored = snapshot::list(source).map_err(OpenError::Io)?;
        let mut export = Export {
            config,
            source,
            app,
            from: None,
            snapshots: stored.iter().rev().map(|(slot, _)| *slot).collect(),
        };
        if config.seat.epoch.durability == Durability::Memory {
            return Ok(export);
        }
        // A log that has let go of its beginning goes on from one of the snapshots, mostly the
        // oldest; behind one that came from a peer it may have a gap.
        let mut result = export.replay(None);
        for stored in stored.into_iter().rev() {
            if result.is_ok() {
                break;
            }
            export.from = Some(stored);
            result = export.replay(None);
        }
        result.map(|()| export)
    }

    /// The first slot that will be exported.
    #[must_use]
    pub fn first(&self) -> Slot {
        let first = self.config.genesis.first_slot;
        self.from.map_or(first, |(slot, _)| slot)
    }

    /// The stored snapshots, ascending: each is the state before its slot.
    #[must_use]
    pub fn snapshots(&self) -> &[Slot] {
        &self.snapshots
    }

    /// Tells every slot in order, with the application right after it; before the first, `None` and
    /// the application as it begins.
    ///
    /// # Errors
    /// [`OpenError`] if the log can no longer be read.
    pub fn run(
        mut self,
        mut witness: impl FnMut(&A, Option<Exported<'_>>),
    ) -> Result<(), OpenError> {
        match self.config.seat.epoch.durability {
            Durability::Disk => self.replay(Some(&mut witness)),
            Durability::Memory => Ok(()),
        }
    }

    fn replay<'w>(&mut self, witness: Option<Witness<'w, A>>) -> Result<(), OpenError>
    where
        'a: 'w,
    {
        let config = self.config;
        let mut replay = Replay::<M, A>::new(config, self.app.empty());
        if let Some(stored) = self.from {
            let app = self.app.empty();
            let loaded = snapshot::load::<M, A>(config, self.source, stored, app);
            let unusable = |why| OpenError::Io(format!("the snapshot of {}: {why}", stored.0));
            replay.begin_with(loaded.map_err(unusable)?, VecDeque::new());
        }
        replay.tell(witness);
        let identity = Identity {
            cluster: config.cluster,
            replica: config.seat.me,
            incarnation: config.incarnation,
        };
        let scanned = scan(self.source, &identity, |piece| replay.visit(piece))?;
        let first = scanned.and_then(|scanned| Some(scanned.segments.first()?.at.segment));
        let is_baseless = self.from.is_none() && first.is_some_and(|first| first > 1);
        let beginning = is_baseless.then_some((self.first(), replay.until));
        let missing = beginning.or_else(|| replay.missing().first().copied());
        missing.map_or(Ok(()), |(from, before)| {
            Err(OpenError::Missing { from, before })
        })
    }
}

impl<M: Machine, A> std::fmt::Debug for Export<'_, M, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export")
            .field("from", &self.from)
            .field("snapshots", &self.snapshots)
            .finish_non_exhaustive()
    }
}
