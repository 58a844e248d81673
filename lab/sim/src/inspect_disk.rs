//! What a replica would find on a disk, without starting it. The last inspections are cached: most
//! disks are inspected several times before they change, and opening a host takes long.

use crate::disk::Disk;
use crate::report::Violation;
use crate::start::open_in_its_epoch;
use crate::subject::Subject;
use crate::world::{World, replica};
use quorate_core::{Boot, Group, Incarnation, Machine, Now, Seat};
use quorate_host::{Host, HostConfig, Opened, Start, SupportedVersions};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A host opened on a disk to see what a replica would find there.
pub(crate) struct Inspection<M: Machine, A: Subject> {
    pub(crate) host: Host<M, A>,
    /// What opening it found.
    pub(crate) found: Opened,
}

/// The last inspections of disks, the latest first.
pub(crate) struct InspectionCache<M: Machine, A: Subject>(
    RefCell<VecDeque<CachedInspection<M, A>>>,
);

/// An inspection, and all that it depends on.
struct CachedInspection<M: Machine, A: Subject> {
    disk: Disk,
    who: (usize, Incarnation, SupportedVersions),
    inspection: Rc<Inspection<M, A>>,
}

impl<M: Machine, A: Subject> Default for InspectionCache<M, A> {
    fn default() -> Self {
        InspectionCache(RefCell::default())
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// What a replica would find on this disk, which it must be able to open.
    pub(crate) fn inspect_disk(
        &self,
        index: usize,
        disk: &Disk,
    ) -> Result<Rc<Inspection<M, A>>, Violation> {
        let node = &self.nodes[index];
        let who = (index, node.disk_life, node.supported);
        let is_it =
            |cached: &&CachedInspection<M, A>| cached.who == who && cached.disk.is_same(disk);
        let known = self
            .inspections
            .0
            .borrow()
            .iter()
            .find(is_it)
            .map(|cached| cached.inspection.clone());
        if let Some(inspection) = known {
            return Ok(inspection);
        }
        let inspection = Rc::new(self.open_for_inspection(index, disk)?);
        let mut inspections = self.inspections.0.borrow_mut();
        inspections.truncate(INSPECTIONS_MAX - 1);
        inspections.push_front(CachedInspection {
            disk: disk.clone(),
            who,
            inspection: inspection.clone(),
        });
        Ok(inspection)
    }

    fn open_for_inspection(
        &self,
        index: usize,
        disk: &Disk,
    ) -> Result<Inspection<M, A>, Violation> {
        let seat = Seat {
            group: Group(0),
            epoch: self.epoch.clone(),
            me: replica(index),
            boot: Boot(0),
        };
        let machine = (self.setup.configure)(&seat).expect("the parameters were checked before");
        let mut config = HostConfig {
            cluster: self.cluster,
            incarnation: self.nodes[index].disk_life,
            listed_as: self.nodes[index].incarnation,
            genesis: self.epoch.clone(),
            catalogue: self.setup.known.catalogue,
            seat,
            machine,
            limits: self.plan.limits,
            jitter_seed: 0,
            supported: self.nodes[index].supported,
        };
        let flaw = self.setup.store_flaw;
        let opened = open_in_its_epoch::<M, _>(&mut config, self.setup.configure, |config| {
            let (start, now) = (Start::Resume, Now::default());
            Host::<M, A>::open(config, start, &mut &*disk, A::fresh(flaw), now)
        });
        let (host, found) = opened.map_err(|error| {
            let what = format!("replica {}: {error}", index + 1);
            Violation::new("open", what)
        })?;
        Ok(Inspection { host, found })
    }
}

/// Inspections that are cached: a few of each replica.
const INSPECTIONS_MAX: usize = 24;
