//! What a replica would find on a disk, without starting it: half of a run's time would go into that,
//! were disks not looked at again and again as they were.

use crate::disk::Disk;
use crate::report::Violation;
use crate::start::open_in_its_epoch;
use crate::subject::Subject;
use crate::world::{World, replica};
use quorate_core::{Boot, Group, Incarnation, Machine, Now, Seat};
use quorate_host::{Host, HostConfig, Opened, Start, SupportedVersions};
use quorate_protocols::Registered;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A replica opened for a look at a disk.
pub(crate) struct Look<M: Machine, A: Subject> {
    pub(crate) host: Host<M, A>,
    /// What opening it found.
    pub(crate) found: Opened,
}

/// The last looks, the latest first.
pub(crate) struct Looks<M: Machine, A: Subject>(RefCell<VecDeque<Looked<M, A>>>);

/// A look, and all that it depends on.
struct Looked<M: Machine, A: Subject> {
    disk: Disk,
    who: (usize, Incarnation, SupportedVersions),
    look: Rc<Look<M, A>>,
}

impl<M: Machine, A: Subject> Default for Looks<M, A> {
    fn default() -> Self {
        Looks(RefCell::default())
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// What a replica would find on this disk, which it must be able to open.
    pub(crate) fn look(&self, index: usize, disk: &Disk) -> Result<Rc<Look<M, A>>, Violation> {
        let node = &self.nodes[index];
        let who = (index, node.disk_life, node.supported);
        let is_it = |looked: &&Looked<M, A>| looked.who == who && looked.disk.is_same(disk);
        let known = self
            .looks
            .0
            .borrow()
            .iter()
            .find(is_it)
            .map(|looked| looked.look.clone());
        if let Some(look) = known {
            return Ok(look);
        }
        let look = Rc::new(self.open_to_look(index, disk)?);
        let mut looks = self.looks.0.borrow_mut();
        looks.truncate(LOOKS_MAX - 1);
        looks.push_front(Looked {
            disk: disk.clone(),
            who,
            look: look.clone(),
        });
        Ok(look)
    }

    fn open_to_look(&self, index: usize, disk: &Disk) -> Result<Look<M, A>, Violation> {
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
            catalogue: &Registered,
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
        Ok(Look { host, found })
    }
}

/// Looks that are remembered: a few of each replica.
const LOOKS_MAX: usize = 24;
