//! A group that begins with a state which another system made.

use crate::api::HostConfig;
use crate::apply::Applier;
use crate::epochs::Alarm;
use crate::snapshot;
use bytes::Bytes;
use quorate_core::{Application, Machine, Slot};

/// Gives the bytes of the snapshot that every replica of a new group begins with, in order; says before which slot it
/// is: behind the first one, which nobody's log has. So whoever comes later, with nothing, cannot take the log for all
/// that there is, and fetches a snapshot. These alarms are raised for the whole group.
///
/// # Errors
/// What `put` says.
pub fn write_first_snapshot<M: Machine, A: Application, E>(
    config: &HostConfig<M::Config>,
    app: A,
    alarms: &[Alarm],
    put: impl FnMut(&Bytes) -> Result<(), E>,
) -> Result<Slot, E> {
    let mut applier = Applier::new(app, config);
    applier.begin_with_alarms(alarms);
    applier.apply(applier.next(), None, |_, _| {});
    let group = config.seat.group;
    snapshot::write_whole::<M, A, E>(&mut applier, config.cluster, group, put)
}
