//! Alarms that this replica raises about itself, and those that it shows.

use crate::core::Core;
use crate::disk::Disk;
use crate::error::ServerError;
use crate::status::RaisedAlarm;
use quorate_core::{Admission, Now, ReplicaId};
use quorate_host::epochs::{Alarm, AlarmChange, AlarmKind, Order, Scope};
use quorate_host::{ALARM_LEVEL, Directive, Flush};
use quorate_protocols::ProtocolSet;

/// The time between two looks at the space on the disk, while it is short, in ns.
const RECHECK_NS: u64 = 1_000_000_000;
/// The time between two looks whether there was space for the next segment, while it is prepared, in ns.
const PREPARING_RECHECK_NS: u64 = 20_000_000;

impl<P: ProtocolSet> Core<P> {
    /// The next segment is prepared once one is begun: whether there was space for it is looked at later.
    pub(crate) fn watch_space(&mut self, now: Now, flush: &Flush) {
        let mut writes = flush.writes.iter().chain(&flush.fragments);
        if self.state.alarms_at.is_none() && writes.any(|write| write.offset == 0) {
            self.state.alarms_at = Some(now.mono_ns + PREPARING_RECHECK_NS);
        }
    }

    /// Has the group know what is wrong with this replica, when it is time to look.
    pub(crate) fn update_alarms(&mut self, now: Now) -> Result<(), ServerError> {
        // It may have been raised when there was space again.
        if self.state.alarms_at.is_none()
            && self.own_scope(AlarmKind::NoSpace) == Some(Scope::Member)
        {
            self.state.alarms_at = Some(now.mono_ns + RECHECK_NS);
        }
        let is_due = |at: &mut u64| *at <= now.mono_ns;
        if self.state.alarms_at.take_if(is_due).is_none() {
            return Ok(());
        }
        let is_preparing = self.disk.as_ref().is_some_and(Disk::is_preparing);
        if self.update_no_space(now) | self.update_corrupt(now)? {
            let wait_ns = match is_preparing && !self.disk_is_full() {
                true => PREPARING_RECHECK_NS,
                false => RECHECK_NS,
            };
            self.state.alarms_at = Some(now.mono_ns + wait_ns);
        }
        Ok(())
    }

    /// Has the group know whether this replica's disk is full. Says whether to look again.
    fn update_no_space(&mut self, now: Now) -> bool {
        let is_full = self.disk_is_full();
        let change = match self.own_scope(AlarmKind::NoSpace) {
            None if is_full => Some(AlarmChange::Raise(Scope::Member)),
            Some(Scope::Member) if !is_full => Some(AlarmChange::End(Scope::Member)),
            _ => None,
        };
        let is_waiting = self.disk.as_ref().is_some_and(Disk::is_preparing);
        let looks_again = is_full || is_waiting || change.is_some();
        let is_known_to_all = self.host.look().epochs().level >= ALARM_LEVEL;
        if let Some(change) = change.filter(|_| is_known_to_all && self.host.look().is_member()) {
            let alarm = self.own_alarm(AlarmKind::NoSpace);
            match is_full {
                true => tracing::warn!(
                    "the disk is full: NOSPACE is raised about this replica, which takes no writes until there is \
                     space, and answers reads"
                ),
                false => tracing::info!("there is space on the disk again: NOSPACE ends"),
            }
            // The machine orders nothing while the replica is stalled: another member raises it.
            match self.host.look().is_stalled() {
                true => self.host.direct(now, Directive::TellStalled),
                false => self.order(now, Order::Alarm { alarm, change }),
            }
        }
        looks_again
    }

    /// A peer cannot write its log, and cannot have the group know of it.
    pub(crate) fn raise_no_space(&mut self, now: Now, peer: ReplicaId) {
        let alarm = Alarm {
            kind: AlarmKind::NoSpace,
            id: peer,
        };
        let state = self.host.look().epochs();
        let is_known = state.alarms.scope(alarm).is_some();
        if state.level >= ALARM_LEVEL && self.host.look().is_member() && !is_known {
            let change = AlarmChange::Raise(Scope::Member);
            self.order(now, Order::Alarm { alarm, change });
        }
    }

    /// The alarms of the group, and the own one if the group does not know of it.
    pub(crate) fn raised(&self) -> Vec<RaisedAlarm> {
        let me = self.folder.meta().replica;
        let admission = self.host.look().admission();
        let is_forbidden = |kind: AlarmKind| match kind {
            AlarmKind::NoSpace => admission == Admission::NoGrowth,
            AlarmKind::Corrupt => admission == Admission::Nothing,
        };
        let shown = |alarm: Alarm, scope: Scope| RaisedAlarm {
            kind: alarm.kind,
            id: alarm.id,
            hinders: alarm.id == me || is_forbidden(alarm.kind),
            is_of_group: scope == Scope::Group,
        };
        let alarms = self.host.look().epochs().alarms.iter();
        let mut raised: Vec<RaisedAlarm> =
            alarms.map(|(alarm, scope)| shown(alarm, scope)).collect();
        let is_full = self.disk.as_ref().and_then(Disk::trouble).is_some();
        if is_full && self.own_scope(AlarmKind::NoSpace).is_none() {
            raised.push(shown(self.own_alarm(AlarmKind::NoSpace), Scope::Member));
        }
        if self.state.outlier.is_some() && self.own_scope(AlarmKind::Corrupt).is_none() {
            raised.push(shown(self.own_alarm(AlarmKind::Corrupt), Scope::Member));
        }
        raised
    }

    pub(crate) fn own_alarm(&self, kind: AlarmKind) -> Alarm {
        let id = self.folder.meta().replica;
        Alarm { kind, id }
    }

    pub(crate) fn own_scope(&self, kind: AlarmKind) -> Option<Scope> {
        self.host.look().epochs().alarms.scope(self.own_alarm(kind))
    }
}
