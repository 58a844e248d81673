//! `--quota-backend-bytes`: how large the store of this member may become before NOSPACE is raised.
//!
//! What is left is looked at now and then, so that a write costs no more than a comparison; only one that would not
//! fit is judged by the sizes of that moment. The alarm is for all members, as one that a client raises: what makes the
//! state larger is refused until it is disarmed.

use crate::face::{Face, failed, status};
use crate::maintenance::Sizes;
use bytes::Bytes;
use quorate_etcd_api::errors;
use quorate_etcd_store::Store;
use quorate_server::{Alarm, AlarmKind, Consistency, GroupChange, Status as ReplicaStatus};
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// The pause between two looks at how much is left.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Looks how much is left for as long as the replica serves, if there is a quota.
pub(crate) async fn run(face: Arc<Face>) {
    let Some(quota) = face.limits.quota_bytes else {
        return;
    };
    let mut applied = face.handle.applied();
    loop {
        applied.borrow_and_update();
        let left = match face.left(quota).await {
            Ok((0, replica)) => {
                if let Err(why) = face.raise_no_space(&replica).await {
                    tracing::warn!(quota, "NOSPACE is not raised, which is tried again: {why}");
                }
                0
            }
            Ok((left, _)) => left,
            Err(_) => 0,
        };
        // Space is freed in a compaction's own time; otherwise nothing changes until something is applied.
        if left > 0 && applied.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl Face {
    /// Refuses a command that is larger than what is left, if it makes the store larger, and has NOSPACE raised.
    pub(crate) async fn check_quota(&self, body: &Bytes, bytes: usize) -> Result<(), Status> {
        let Some(quota) = self
            .limits
            .quota_bytes
            .filter(|_| (Store::COMMAND_PROPERTIES.grows)(body))
        else {
            return Ok(());
        };
        let (left, replica) = self.left(quota).await?;
        if bytes as u64 <= left {
            return Ok(());
        }
        // Whether or not it is known to all by now: this write is refused.
        if let Err(why) = self.raise_no_space(&replica).await {
            tracing::warn!(quota, "NOSPACE is not raised: {why}");
        }
        Err(status(errors::NO_SPACE))
    }

    /// How much is left of the quota, and what the replica says of itself.
    async fn left(&self, quota: u64) -> Result<(u64, ReplicaStatus), Status> {
        let replica = self.handle.status().await.map_err(failed)?;
        let figures = self.figures(Consistency::Serializable).await?;
        let sizes = Sizes::of(figures.bytes, &replica, Some(quota));
        let left = quota.saturating_sub(sizes.whole.unsigned_abs());
        self.room.set(left);
        Ok((left, replica))
    }

    /// Has NOSPACE raised for all members, unless it is already.
    async fn raise_no_space(&self, replica: &ReplicaStatus) -> Result<(), Status> {
        let is_no_space = |kind| kind == AlarmKind::NoSpace;
        let mut raised = replica.raised.iter();
        if raised.any(|alarm| is_no_space(alarm.kind) && alarm.hinders) {
            return Ok(());
        }
        let alarm = Alarm {
            kind: AlarmKind::NoSpace,
            id: replica.me,
        };
        tracing::warn!(
            "the store is as large as --quota-backend-bytes lets it become: NOSPACE is raised; delete what is not \
             needed, compact, and disarm it"
        );
        let change = GroupChange::Alarm {
            alarm,
            is_raised: true,
        };
        let changed = self.handle.change(change).await;
        changed.map_err(|why| Status::unavailable(why.to_string()))
    }
}
