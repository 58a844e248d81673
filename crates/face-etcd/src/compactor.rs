//! History that is forgotten by itself, as etcd does it: by age, or by number of revisions.
//!
//! Every member keeps account of revisions, and the first of those that reach each other orders compactions through the
//! log: so there is one of them, and not one per member, and whoever comes to be the first goes on at once. Two members
//! that both take themselves for the first do no harm: a revision is compacted once, and the second order is refused.

use crate::face::Face;
use quorate_etcd_api::etcdserverpb::CompactionRequest;
use quorate_etcd_store::{Refused, command};
use quorate_server::{Consistency, Failure};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How much history is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retention {
    /// What is younger than this.
    Age(Duration),
    /// History is kept for this many revisions before the present one.
    Revisions(i64),
}

/// How often revisions are counted.
const REVISIONS_EVERY: Duration = Duration::from_secs(5 * 60);
/// History that is kept by age is compacted once per age, and once an hour at least.
const PERIOD_MAX: Duration = Duration::from_secs(60 * 60);
/// Looks within such a period.
const LOOKS_PER_PERIOD: u32 = 10;
/// A shorter age than a look takes is none.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// The revisions that a member saw at even intervals, and what follows from them.
#[derive(Debug)]
struct Compactor {
    retention: Retention,
    /// The revision at each of the last looks, oldest first, up to one that is old enough to be forgotten.
    seen: VecDeque<i64>,
    /// Looks since the last compaction that was due.
    looks: u32,
    /// The revision compacted last.
    compacted: i64,
}

impl Compactor {
    fn new(retention: Retention) -> Compactor {
        Compactor {
            retention,
            seen: VecDeque::new(),
            looks: 0,
            compacted: 0,
        }
    }

    /// Between two looks.
    fn interval(&self) -> Duration {
        match self.retention {
            Retention::Age(age) => (age.min(PERIOD_MAX) / LOOKS_PER_PERIOD).max(LOOK_MIN),
            Retention::Revisions(_) => REVISIONS_EVERY,
        }
    }

    /// A look: the store is at this revision. Says which revision is to be compacted now, if one is.
    fn look(&mut self, revision: i64) -> Option<i64> {
        self.looks = self.looks.saturating_add(1);
        let due = match self.retention {
            Retention::Revisions(count) => revision.saturating_sub(count),
            Retention::Age(age) => {
                self.seen.push_back(revision);
                let looks = age.as_nanos().div_ceil(self.interval().as_nanos().max(1));
                let looks = usize::try_from(looks).unwrap_or(usize::MAX);
                if self.seen.len() <= looks || self.looks < LOOKS_PER_PERIOD {
                    return None;
                }
                while self.seen.len() > looks.saturating_add(1) {
                    self.seen.pop_front();
                }
                *self.seen.front()?
            }
        };
        // The first revision is that of the empty store.
        if due <= 1 || due <= self.compacted {
            return None;
        }
        Some(due)
    }

    /// This member had history before a revision forgotten.
    fn done(&mut self, revision: i64) {
        self.looks = 0;
        self.note_compacted(revision);
    }

    /// History before this revision is forgotten, whoever had it so.
    fn note_compacted(&mut self, revision: i64) {
        self.compacted = self.compacted.max(revision);
    }
}

/// Compacts as long as the replica serves, if history is not to be kept for ever.
pub(crate) async fn run(face: Arc<Face>) {
    let Some(retention) = face.limits.retention else {
        return;
    };
    let mut compactor = Compactor::new(retention);
    let mut looks = interval(compactor.interval());
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let replica = match face.handle.status().await {
            Ok(replica) => replica,
            Err(Failure::Stopping) => return,
            Err(_) => continue,
        };
        let Ok(figures) = face.figures(Consistency::Serializable).await else {
            continue;
        };
        compactor.note_compacted(figures.compacted);
        let Some(revision) = compactor.look(figures.revision) else {
            continue;
        };
        if replica.is_first && compact(&face, revision).await {
            compactor.done(revision);
        }
    }
}

/// Has the group forget what was before a revision; says whether that is done.
async fn compact(face: &Face, revision: i64) -> bool {
    let request = CompactionRequest {
        revision,
        ..CompactionRequest::default()
    };
    let body = command::encode_compact(&request);
    let asker = face.server_itself();
    let why = match face.apply(body, Vec::new(), &asker).await {
        // Or another member was faster.
        Ok(Ok(_) | Err(Refused::Compacted)) => {
            tracing::info!(revision, "history before this revision is compacted");
            return true;
        }
        Ok(Err(why)) => why.to_string(),
        Err(why) => why.message().to_owned(),
    };
    tracing::warn!(
        revision,
        "history is not compacted, which is tried again: {why}"
    );
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// What looks at a store come to that takes ten writes between two of them, with every compaction done.
    fn looks(retention: Retention, count: i64) -> Vec<(i64, i64)> {
        let mut compactor = Compactor::new(retention);
        let due = (0..count).filter_map(|look| {
            let revision = compactor.look(10 * look + 1)?;
            compactor.done(revision);
            Some((look, revision))
        });
        due.collect()
    }

    #[test]
    fn what_is_older_goes_once_per_age_and_hourly_at_least() {
        let minutes = Retention::Age(10 * Duration::from_secs(60));
        let one = Compactor::new(minutes);
        assert_eq!(one.interval(), Duration::from_secs(60));
        // Each time what was there ten looks, one age, before; but not the empty store.
        assert_eq!(looks(minutes, 33), [(11, 11), (21, 111), (31, 211)]);
        let day = Retention::Age(24 * HOUR);
        assert_eq!(Compactor::new(day).interval(), HOUR / 10);
        assert_eq!(
            looks(day, 263),
            [(241, 11), (251, 111), (261, 211)],
            "every hour, and what is a day old"
        );
    }

    #[test]
    fn so_many_revisions_stay() {
        let retention = Retention::Revisions(25);
        assert_eq!(Compactor::new(retention).interval(), REVISIONS_EVERY);
        assert_eq!(looks(retention, 6), [(3, 6), (4, 16), (5, 26)]);
    }

    #[test]
    fn an_idle_store_is_compacted_once_and_what_others_compacted_not_again() {
        let age = Retention::Age(Duration::from_secs(1));
        let mut compactor = Compactor::new(age);
        let due: Vec<i64> = (0..50)
            .filter_map(|_| {
                let revision = compactor.look(7)?;
                compactor.done(revision);
                Some(revision)
            })
            .collect();
        assert_eq!(due, [7]);
        compactor.note_compacted(100);
        assert!((0..50).all(|_| compactor.look(90).is_none()));
    }

    #[test]
    fn what_failed_is_tried_again_at_the_next_look() {
        let mut compactor = Compactor::new(Retention::Age(Duration::from_secs(1)));
        let tried = (0..32).filter_map(|_| compactor.look(7)).count();
        assert_eq!(tried, 32 - 10);
    }
}
