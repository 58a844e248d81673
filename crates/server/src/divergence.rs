//! What a replica does whose state differs from that of a peer.

use crate::core::Core;
use crate::error::ServerError;
use quorate_core::{Now, ReplicaId, Slot};
use quorate_host::epochs::{AlarmKind, Order, Scope};
use quorate_host::{ALARM_LEVEL, Comparison, Directive, Verdict, is_in_doubt};
use quorate_protocols::ProtocolSet;
use std::fmt;

/// What follows where replicas differ and no majority is known to be equal.
const UNDECIDED: &str = "no majority of the members is known to agree: writes are refused, serializable reads go on. \
    Start the other members, since a third one decides; or begin a new cluster from the replica that is right, with \
    `quorate cluster force-new`";

/// A replica that differs from a majority of the members, and is about to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlier {
    difference: Difference,
    /// Whether the group's alarms said so when they were looked at last.
    is_alarm_raised: bool,
}

/// A difference between this replica and a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The peer that differs.
    pub peer: ReplicaId,
    /// What was applied before this slot differs, or its results do.
    pub slot: Slot,
    /// This replica's digest at the slot.
    pub mine: u64,
    /// The peer's digest at the slot.
    pub theirs: u64,
}

impl Difference {
    /// The first one that a comparison found.
    fn of(comparison: &Comparison) -> Option<Difference> {
        let (peer, theirs) = comparison.differing().next()?;
        Some(Difference {
            peer,
            slot: comparison.slot,
            mine: comparison.mine,
            theirs,
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            peer,
            slot,
            mine,
            theirs,
        } = self;
        write!(
            f,
            "this replica and replica {peer} hold different states before slot {slot} (digest {mine:016x} here, \
             {theirs:016x} there)"
        )
    }
}

impl<P: ProtocolSet> Core<P> {
    /// Goes on with a majority that is equal, and is about to stop where one is without this replica. Where none is
    /// known to be equal nobody stops, and the group takes no writes.
    pub(crate) fn compared(&mut self, comparison: Comparison) -> Result<(), ServerError> {
        if self.state.outlier.is_some() {
            return Ok(());
        }
        match (comparison.verdict, Difference::of(&comparison)) {
            (Verdict::Odd, Some(difference)) => self.note_outlier(difference)?,
            (Verdict::Undecided, Some(difference)) => self.note_undecided(difference)?,
            (Verdict::Majority, Some(difference)) => {
                let ids: Vec<String> = comparison.differing().map(|d| d.0.to_string()).collect();
                let ids = ids.join(", ");
                tracing::error!(
                    "CORRUPT: {difference}; a majority of the members is equal to this one and goes on, and replica \
                     {ids} stops"
                );
            }
            (Verdict::Majority, None) => {}
            (Verdict::Odd | Verdict::Undecided, None) => return Ok(()),
        }
        self.state.comparison = Some(comparison);
        self.state.alarms_at = Some(0);
        Ok(())
    }

    /// This replica stops at once where the group has no alarms or does not count it.
    fn note_outlier(&mut self, difference: Difference) -> Result<(), ServerError> {
        if !self.has_alarms() || !self.host.look().is_member() {
            return Err(ServerError::Outlier(difference));
        }
        tracing::error!("CORRUPT: {}", ServerError::Outlier(difference));
        self.state.outlier = Some(Outlier {
            difference,
            is_alarm_raised: false,
        });
        Ok(())
    }

    /// A group without alarms cannot be kept from writing: this replica stops there.
    fn note_undecided(&self, difference: Difference) -> Result<(), ServerError> {
        if !self.has_alarms() {
            return Err(ServerError::Diverged(difference));
        }
        if self.difference().is_none() {
            tracing::error!("CORRUPT: {difference}, and {UNDECIDED}");
        }
        Ok(())
    }

    fn has_alarms(&self) -> bool {
        self.host.look().epochs().level >= ALARM_LEVEL
    }

    /// Looks soon whether states still differ, where the group has doubts.
    pub(crate) fn watch_doubt(&mut self) {
        if self.state.alarms_at.is_none() && self.is_in_doubt() {
            self.state.alarms_at = Some(0);
        }
    }

    /// Has the group's alarms say what the last comparison of states came to, and states compared again while there is
    /// doubt. Says whether to look again.
    pub(crate) fn update_corrupt(&mut self, now: Now) -> Result<bool, ServerError> {
        if self.state.outlier.is_some() {
            return self.stop_if_outlier();
        }
        Ok(self.update_corrupt_alarm(now))
    }

    /// Stops some time after the group's alarms say that this replica is odd.
    ///
    /// Until then it votes: what it promised is as good as what others did, and one of those that are equal may need
    /// it to recover. If it stopped at once, too few might be left to go on.
    fn stop_if_outlier(&mut self) -> Result<bool, ServerError> {
        let is_raised = self.own_scope(AlarmKind::Corrupt) >= Some(Scope::Member);
        match &mut self.state.outlier {
            Some(odd) if odd.is_alarm_raised => Err(ServerError::Outlier(odd.difference)),
            Some(odd) => {
                odd.is_alarm_raised = is_raised;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn update_corrupt_alarm(&mut self, now: Now) -> bool {
        self.forget_former_members();
        let state = self.host.look().epochs();
        let can_order = self.has_alarms() && self.host.look().is_member();
        let Some(comparison) = self.state.comparison.as_ref().filter(|_| can_order) else {
            return self.compare_in_doubt();
        };
        let changes = comparison.changes(&state.alarms);
        if changes.is_empty() && comparison.verdict == Verdict::Majority {
            self.state.comparison = None;
        }
        for (alarm, change) in changes {
            tracing::info!(?change, "alarm CORRUPT about replica {}", alarm.id);
            self.order(now, Order::Alarm { alarm, change });
        }
        self.compare_in_doubt()
    }

    fn compare_in_doubt(&mut self) -> bool {
        let is_in_doubt = self.is_in_doubt();
        if is_in_doubt {
            let now = self.clock.now();
            self.host.direct(now, Directive::CompareStates);
        }
        is_in_doubt || self.state.comparison.is_some()
    }

    fn is_in_doubt(&self) -> bool {
        let me = self.folder.meta().replica;
        self.difference().is_some() || is_in_doubt(&self.host.look().epochs().alarms, me)
    }

    /// Forgets differences from members that have left the group.
    fn forget_former_members(&mut self) {
        let epoch = self.host.look().epoch();
        let is_member = |id: ReplicaId| epoch.index_of(id).is_some();
        self.state.comparison.take_if(|comparison| {
            comparison.digests.retain(|id, _| is_member(*id));
            comparison.digests.is_empty()
        });
    }

    /// The difference from a peer, where it is not known which of the two is right.
    pub(crate) fn difference(&self) -> Option<Difference> {
        let comparison = self.state.comparison.as_ref();
        let undecided = comparison.filter(|found| found.verdict == Verdict::Undecided);
        undecided.and_then(Difference::of)
    }

    /// In words, where members differ and it is not known which are right.
    pub(crate) fn undecided(&self) -> Option<String> {
        if let Some(difference) = self.difference() {
            return Some(format!("CORRUPT: {difference}, and {UNDECIDED}"));
        }
        let alarms = self.host.look().epochs().alarms.iter();
        let doubtful = alarms.filter(|(alarm, scope)| {
            alarm.kind == AlarmKind::Corrupt && *scope == Scope::Undecided
        });
        let ids: Vec<String> = doubtful.map(|(alarm, _)| alarm.id.to_string()).collect();
        let text = || {
            let ids = ids.join(", ");
            format!("CORRUPT: members hold different states (replica {ids}), and {UNDECIDED}")
        };
        (!ids.is_empty()).then(text)
    }
}
