//! What replicas exchange about decided state: slots, snapshots and digests.

use crate::catch_up::{CatchUp, CatchUpHandler};
use crate::compare::DivergenceHandler;
use crate::context::Context;
use crate::divergence::Divergence;
use crate::read_repair::{ReadRepair, ReadRepairHandler};
use crate::repair::Repair;
use crate::snapshot::{SnapshotHandler, Snapshots};
use quorate_core::{Application, Machine};

/// The parts that fetch decided state from peers, serve it to them, and compare it.
pub(crate) struct Transfer<M: Machine, A: Application> {
    pub(crate) catch_up: CatchUp,
    pub(crate) snapshots: Snapshots<M, A>,
    pub(crate) repair: Repair<M>,
    pub(crate) read_repair: ReadRepair,
    pub(crate) divergence: Divergence,
}

impl<M: Machine, A: Application> Transfer<M, A> {
    pub(crate) fn new(snapshots: Snapshots<M, A>, repair: Repair<M>) -> Self {
        Transfer {
            catch_up: CatchUp::new(),
            snapshots,
            repair,
            read_repair: ReadRepair::default(),
            divergence: Divergence::default(),
        }
    }

    /// Catching up slot by slot.
    pub(crate) fn catch_up<'a>(
        &'a mut self,
        context: &'a mut Context<M, A>,
    ) -> CatchUpHandler<'a, M, A> {
        self.catch_up.with(context, self.snapshots.is_pulling())
    }

    /// Taking, serving and fetching snapshots.
    pub(crate) fn snapshots<'a>(
        &'a mut self,
        context: &'a mut Context<M, A>,
    ) -> SnapshotHandler<'a, M, A> {
        let (catch_up, divergence) = (&mut self.catch_up, &mut self.divergence);
        (self.snapshots).with(context, catch_up, divergence, &self.repair)
    }

    /// Fetching again what cannot be read from the log.
    pub(crate) fn read_repair<'a>(
        &'a mut self,
        context: &'a mut Context<M, A>,
    ) -> ReadRepairHandler<'a, M, A> {
        self.read_repair.with(context, &self.catch_up)
    }

    /// Comparing digests.
    pub(crate) fn divergence<'a>(
        &'a mut self,
        context: &'a mut Context<M, A>,
    ) -> DivergenceHandler<'a, M, A> {
        self.divergence.with(context, &self.snapshots)
    }
}
