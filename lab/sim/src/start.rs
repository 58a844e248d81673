//! Starting replicas, from whatever their disks hold.

use crate::disk::Disk;
use crate::network::chance;
use crate::node::Node;
use crate::recording::What;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Configure, World, replica};
use fastrand::Rng;
use quorate_core::{Boot, Durability, Group, MILLIS, Machine, Now, Seat, Slot};
use quorate_etcd_store::Flaw;
use quorate_host::{Host, HostConfig, OpenError, Opened, Start};

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Starts a replica that is down, from what its disk holds.
    pub(crate) fn open(&mut self, index: usize) -> Result<(), Violation> {
        if self.nodes[index].host.is_some() {
            return Ok(());
        }
        self.maybe_corrupt(index)?;
        self.maybe_corrupt_fragments(index)?;
        let now_ns = self.queue.now_ns();
        let boot = Boot(self.rng.u64(..));
        let seat = Seat {
            group: Group(0),
            epoch: self.epoch.clone(),
            me: replica(index),
            boot,
        };
        let configure = self.setup.configure;
        let machine = configure(&seat).expect("the parameters were checked before");
        let node = &mut self.nodes[index];
        let start = if node.wiped {
            Start::Lost
        } else if node.started {
            Start::Resume
        } else {
            Start::FirstBoot
        };
        node.lost |= node.started && self.setup.durability == Durability::Memory;
        let mut config = HostConfig {
            cluster: self.cluster,
            incarnation: node.disk_life,
            listed_as: node.incarnation,
            genesis: self.epoch.clone(),
            catalogue: self.setup.known.catalogue,
            seat,
            machine,
            supported: node.supported,
            limits: self.plan.limits,
            jitter_seed: self.rng.u64(..),
        };
        let now = node.clock.now(now_ns);
        let flaw = self.setup.store_flaw;
        let rots = start == Start::Resume && chance(&mut self.rng, self.plan.disk.snapshot_rot);
        let opened = if rots {
            open_rotten(node, &mut config, configure, (now, flaw), &mut self.rng)
        } else {
            Ok(None)
        };
        let opened = opened.and_then(|opened| match opened {
            Some(opened) => {
                self.totals.rotten += 1;
                self.totals.hit("snapshot rotten");
                Ok(opened)
            }
            None => open_in_its_epoch::<M, _>(&mut config, configure, |config| {
                Host::open(config, start, &mut &node.disk, A::fresh(flaw), now)
            }),
        });
        let (host, opened) = opened
            .map_err(|error| Violation::new("open", format!("replica {}: {error}", index + 1)))?;
        let damage = opened.damage.len() + opened.fragment_store.damage.len();
        let is_whole = damage == 0 && opened.missing.is_empty();
        if (opened.lost_promises || !is_whole) && !node.damaged {
            let what = format!(
                "replica {} found damage that is none: {opened:?}",
                index + 1
            );
            return Err(Violation::new("open", what));
        }
        if opened.lost_promises {
            // It knows that it has none left, however old the copy is.
            node.old_copy = None;
        }
        self.values.payload_min = host.look().payload_min();
        node.lost |= start == Start::Resume && !host.look().has_recovered();
        node.compared = Slot(0);
        node.host = Some(host);
        let numbers = [index as u64, boot.0, opened.next.0, opened.records];
        self.trace.event(now_ns, "open", &numbers, || {
            format!("r{} {start:?} {opened:?}", index + 1)
        });
        self.came_up(index)
    }

    /// A replica has started: it is looked at, and its peers learn of it.
    fn came_up(&mut self, index: usize) -> Result<(), Violation> {
        self.record(|| What::Up(index + 1));
        self.servers_begin(index)?;
        self.read_all(index)?;
        self.compare_content(index)?;
        self.greet(index);
        self.turn_soon(index);
        Ok(())
    }

    /// Connections between a replica that came up and its peers.
    pub(crate) fn greet(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
            let delay = self.rng.u64(..MILLIS);
            self.tell_of_link((index, peer), true, now_ns, delay);
            self.tell_of_link((peer, index), true, now_ns, delay);
        }
    }
}

/// A host, and what opening it found.
type Started<M, A> = (Host<M, A>, Opened);

/// Opens a replica whose newest snapshot got damaged; `None` where it has no other, or cannot do
/// without this one because its log begins behind it, or because the log's end, which this one is
/// ahead of, is on no stable storage yet.
fn open_rotten<M: Machine, A: Subject>(
    node: &mut Node<M, A>,
    config: &mut HostConfig<M::Config>,
    configure: Configure<'_, M>,
    (now, flaw): (Now, Option<Flaw>),
    rng: &mut Rng,
) -> Result<Option<Started<M, A>>, OpenError> {
    let mut rotten = node.disk.clone();
    if !rotten.snapshots.rot(rng) {
        return Ok(None);
    }
    let open = |config: &mut HostConfig<M::Config>, disk: &Disk| {
        open_in_its_epoch::<M, _>(config, configure, |config| {
            Host::open(config, Start::Resume, &mut &*disk, A::fresh(flaw), now)
        })
    };
    let lacks_slots = |found: &Opened| found.next < found.until;
    let (_, least) = open(&mut config.clone(), &rotten.settled())?;
    if lacks_slots(&least) {
        return Ok(None);
    }
    let opened = open(config, &rotten);
    match opened {
        Ok((_, found)) if lacks_slots(&found) => Ok(None),
        Ok(opened) => {
            node.disk = rotten;
            Ok(Some(opened))
        }
        Err(error) => Err(error),
    }
}

/// Opens a host in the epoch that its disk tells of.
pub(crate) fn open_in_its_epoch<M: Machine, H>(
    config: &mut HostConfig<M::Config>,
    configure: Configure<'_, M>,
    mut open: impl FnMut(HostConfig<M::Config>) -> Result<H, OpenError>,
) -> Result<H, OpenError> {
    loop {
        let opened = open(config.clone());
        let Err(OpenError::Epoch(epoch)) = opened else {
            return opened;
        };
        config.seat.epoch = *epoch;
        // Who is no member needs no configuration.
        if let Ok(machine) = configure(&config.seat) {
            config.machine = machine;
        }
    }
}
