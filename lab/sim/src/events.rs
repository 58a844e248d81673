//! What hosts report: counted, or, where it must not happen, a violation.

use crate::meter::Decision;
use crate::recording::What;
use crate::report::Violation;
use crate::snapshots::INJECTED;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::Machine;
use quorate_host::{Countdowns, HostEvent};

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Notes what a host reports; some of it must not happen.
    pub(crate) fn note_events(
        &mut self,
        index: usize,
        events: Vec<HostEvent>,
    ) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        for event in events {
            match event {
                HostEvent::Spent(..) => continue,
                HostEvent::Machine(quorate_core::Event::Branch(name)) => {
                    if !self.setup.branches.contains(&name) {
                        let what = format!("no protocol lists the branch {name:?}");
                        return Err(Violation::new("registration", what));
                    }
                    *self.totals.branches.entry(name).or_default() += 1;
                    self.measure(|meter, _| meter.branched(name));
                }
                HostEvent::Machine(quorate_core::Event::Misbehaved { .. })
                | HostEvent::BadFrame { .. } => {
                    let what = format!("replica {} reports {event:?}", index + 1);
                    return Err(Violation::new("honesty", what));
                }
                HostEvent::Compared(ref found) => self.compared(index, found)?,
                HostEvent::RolledBack { .. } => self.rolled_back(index)?,
                HostEvent::Damaged { .. } if !self.are_copies_suspect(index) => {
                    let what = format!("replica {} reports {event:?}", index + 1);
                    return Err(Violation::new("damage", what));
                }
                HostEvent::Damaged { .. } => self.totals.hit("damage found in service"),
                HostEvent::Mended { .. } => self.totals.hit("damage mended"),
                HostEvent::FragmentDamaged { .. } if !self.are_copies_suspect(index) => {
                    let what = format!("replica {} reports {event:?}", index + 1);
                    return Err(Violation::new("damage", what));
                }
                HostEvent::FragmentDamaged { .. } => self.totals.hit("damaged fragment found"),
                HostEvent::Repaired { .. } => self.totals.hit("repaired"),
                HostEvent::SnapshotTaken(snapshot) => self.snapshot_taken(index, snapshot)?,
                HostEvent::SnapshotFailed { ref why, .. }
                    if !why.contains(INJECTED) && !self.are_snapshots_suspect() =>
                {
                    let what = format!("replica {} reports {event:?}", index + 1);
                    return Err(Violation::new("snapshot", what));
                }
                HostEvent::Installed { .. } => {
                    self.totals.installed += 1;
                    self.nodes[index].countdowns = Countdowns::default();
                    self.read_all(index)?;
                    self.compare_content(index)?;
                }
                HostEvent::Machine(quorate_core::Event::Decided {
                    slot,
                    fast,
                    noop,
                    delays,
                }) => {
                    let decision = Decision { fast, noop, delays };
                    let lane = index + 1;
                    self.record(|| What::Decided { lane, slot, noop });
                    self.note_decider(index);
                    self.measure(|meter, now_ns| meter.decided(slot, decision, now_ns));
                }
                HostEvent::Sealed { .. } => self.epoch_sealed(),
                HostEvent::Began { .. } => self.epoch_begun(index),
                HostEvent::Left => {
                    self.nodes[index].left = true;
                    self.totals.hit("member left");
                }
                HostEvent::SnapshotWanted { .. }
                | HostEvent::SnapshotFailed { .. }
                | HostEvent::CatchUp { .. }
                | HostEvent::Volunteered { .. }
                | HostEvent::Stalled(_)
                | HostEvent::Ordered { .. }
                | HostEvent::Applied { .. } => {}
            }
            self.trace.event(now_ns, "event", &[index as u64], || {
                format!("r{} {event:?}", index + 1)
            });
        }
        Ok(())
    }

    /// A replica has applied a seal.
    fn epoch_sealed(&mut self) {
        self.totals.hit("seal applied");
        let newest = self.newest_epoch();
        if newest.number > self.reached.number {
            self.reached = newest.clone();
        }
    }

    /// The machine of an epoch, whose protocol may want payloads, was started.
    fn epoch_begun(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.was_member = true;
        let host = node.host.as_ref();
        self.values.payload_min = host.and_then(|host| host.look().payload_min());
        self.totals.hit("epoch begun");
    }

    /// A replica decided something by its own count: where only a leader decides, it leads.
    fn note_decider(&mut self, index: usize) {
        if let Some(rig) = &mut self.rig {
            rig.decider = Some(index);
        }
        if let Some(meter) = &mut self.meter {
            meter.decider = Some(index);
        }
    }

    fn are_snapshots_suspect(&self) -> bool {
        self.were_reads_wrong() || self.nodes.iter().any(|node| node.damaged)
    }

    /// Whether some read did not give what was written, be it long ago.
    fn are_copies_suspect(&self, index: usize) -> bool {
        self.nodes[index].damaged || self.were_reads_wrong()
    }

    fn were_reads_wrong(&self) -> bool {
        let hit = |fault| self.totals.faults.contains_key(fault);
        hit("wrong read") || hit("read error")
    }
}
