//! The receiver's side: which secrets are good at present, and what has arrived under each.

use super::packet::{Header, Secret};
use super::terms::{REPORT_BYTES, Report};
use crate::metrics::PeerMetrics;
use quorate_core::ReplicaId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// The associations of which datagrams are taken.
#[derive(Debug, Default)]
pub(super) struct Associations(Mutex<Vec<Arc<Association>>>);

/// Datagrams from one peer, for as long as its connection lives.
#[derive(Debug)]
pub(super) struct Association {
    pub(super) peer: ReplicaId,
    pub(super) metrics: PeerMetrics,
    secret: Secret,
    seen: Mutex<Seen>,
    /// A report is due.
    due: Notify,
}

/// What has arrived.
#[derive(Debug, Default)]
struct Seen {
    report: Report,
    /// What was charged when the last one was made.
    reported: u64,
}

impl Seen {
    /// Takes note of a datagram of so many bytes. Says how many before it have not arrived, unless they are late.
    fn note(&mut self, header: &Header, bytes: usize) -> u64 {
        let next = header.number.saturating_add(1);
        let missing = header.number.saturating_sub(self.report.sent);
        self.report.sent = self.report.sent.max(next);
        self.report.received = self.report.received.saturating_add(1);
        self.report.charged = self.report.charged.max(header.charged);
        if header.is_probe {
            let probed = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.report.probed = self.report.probed.max(probed);
        }
        missing
    }

    /// Whether so much has arrived since the last report that the sender should know.
    fn is_much(&self, window: u64) -> bool {
        self.report.charged.saturating_sub(self.reported) >= window / 4
    }
}

impl Associations {
    /// Takes datagrams with this secret from here on.
    pub(super) fn begin(
        &self,
        peer: ReplicaId,
        metrics: PeerMetrics,
        secret: Secret,
    ) -> Arc<Association> {
        let association = Arc::new(Association {
            peer,
            metrics,
            secret,
            seen: Mutex::default(),
            due: Notify::new(),
        });
        self.all().push(Arc::clone(&association));
        association
    }

    /// Takes none any more.
    pub(super) fn end(&self, association: &Arc<Association>) {
        self.all().retain(|other| !Arc::ptr_eq(other, association));
    }

    /// The one that a secret is of.
    pub(super) fn find(&self, secret: Secret) -> Option<Arc<Association>> {
        let all = self.all();
        let mut all = all.iter();
        all.find(|association| association.secret == secret)
            .cloned()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Association>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Association {
    /// Takes note of a datagram of so many bytes. The sender may have so much under way.
    pub(super) fn note(&self, header: &Header, bytes: usize, window: u64) {
        let mut seen = self.seen();
        let missing = seen.note(header, bytes);
        let is_due = header.wants_report || seen.is_much(window);
        if is_due {
            seen.reported = seen.report.charged;
        }
        drop(seen);
        self.metrics.datagrams.received.increment(1);
        self.metrics.datagrams.missed.increment(missing);
        if is_due {
            self.due.notify_one();
        }
    }

    /// Reports for as long as the connection takes them.
    pub(super) async fn report(&self, connection: &mut (impl AsyncWrite + Unpin)) {
        loop {
            self.due.notified().await;
            let report: [u8; REPORT_BYTES] = {
                let mut seen = self.seen();
                let report = seen.report.to_bytes();
                seen.report.probed = 0;
                report
            };
            if connection.write_all(&report).await.is_err() {
                return;
            }
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn header(number: u64) -> Header {
        Header {
            secret: Secret(5),
            wants_report: false,
            is_probe: false,
            number,
            charged: (number + 1) * 100,
        }
    }

    /// Scenario: datagrams arrive out of order, twice, after a gap.
    #[test]
    fn a_report_says_how_many_of_how_many_have_arrived() {
        let mut seen = Seen::default();
        let missing: Vec<u64> = [0, 3, 1, 3, 4].map(|n| seen.note(&header(n), 50)).to_vec();
        assert_eq!(missing, [0, 2, 0, 0, 0]);
        let expected = Report {
            sent: 5,
            received: 5,
            charged: 500,
            probed: 0,
        };
        assert_eq!(seen.report, expected);
        let probe = Header {
            is_probe: true,
            ..header(5)
        };
        seen.note(&probe, 1200);
        seen.note(&header(6), 9000);
        assert_eq!(seen.report.probed, 1200);
    }

    /// Scenario: a peer claims the last numbers there are.
    #[test]
    fn numbers_beyond_all_measure_disturb_nothing() {
        let mut seen = Seen::default();
        for _ in 0..2 {
            let header = Header {
                number: u64::MAX - 1,
                charged: u64::MAX,
                ..header(0)
            };
            seen.note(&header, 50);
        }
        assert_eq!(seen.note(&header(0), 50), 0);
        assert_eq!(seen.report.sent, u64::MAX);
    }

    #[test]
    fn a_secret_is_good_while_its_association_lasts() {
        let all = Associations::default();
        let metrics = Metrics::new().peer(ReplicaId(2));
        let one = all.begin(ReplicaId(2), metrics, Secret(5));
        assert_eq!(all.find(Secret(5)).map(|found| found.peer), Some(one.peer));
        assert!(all.find(Secret(6)).is_none());
        all.end(&one);
        assert!(all.find(Secret(5)).is_none());
    }
}
