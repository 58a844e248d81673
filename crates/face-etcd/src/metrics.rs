//! Metrics under etcd's names that the store and this face know of.

use crate::face::{Face, VERSION};
use crate::maintenance::Sizes;
use quorate_etcd_store::{Asker, Operations, Query, QueryAnswer};
use quorate_face_common::Page;
use quorate_server::{Consistency, Status as ReplicaStatus};
use std::time::Duration;

/// How long a page waits for figures of the replica and the store.
const FIGURES_WAIT: Duration = Duration::from_millis(500);

impl Face {
    /// The page of metrics, as far as the face makes it. What a replica that is too busy does not tell is left out.
    pub(crate) async fn metrics_page(&self) -> Page {
        let mut page = Page::default();
        page.info(
            "etcd_server_version",
            "The version of etcd's API that is served.",
            ("server_version", VERSION),
        );
        self.calls.show(&mut page);
        let _ = tokio::time::timeout(FIGURES_WAIT, self.show_figures(&mut page)).await;
        page
    }

    async fn show_figures(&self, page: &mut Page) -> Option<()> {
        let replica = self.handle.status().await.ok()?;
        show_replica(page, &replica);
        let figures = self.figures(Consistency::Serializable).await.ok()?;
        let quota = self.limits.quota_bytes;
        show_sizes(page, &Sizes::of(figures.bytes, &replica, quota));
        page.gauge(
            "etcd_debugging_mvcc_keys_total",
            "Keys that exist.",
            figures.keys as f64,
        );
        page.gauge(
            "etcd_debugging_mvcc_current_revision",
            "The store's revision.",
            figures.revision as f64,
        );
        page.gauge(
            "etcd_debugging_mvcc_compact_revision",
            "The first revision that can be read.",
            figures.compacted.max(0) as f64,
        );
        page.gauge(
            "etcd_debugging_mvcc_watcher_total",
            "Watches that are up to date.",
            self.hub.members() as f64,
        );
        let answer = self.read(Query::Operations, Consistency::Serializable, &Asker::Server);
        if let QueryAnswer::Operations(operations) = answer.await.ok()? {
            show_operations(page, operations);
        }
        Some(())
    }
}

fn show_replica(page: &mut Page, replica: &ReplicaStatus) {
    let flag = f64::from;
    let (major_minor, _) = VERSION.rsplit_once('.').unwrap_or((VERSION, ""));
    page.info(
        "etcd_cluster_version",
        "The version of etcd's API that the cluster serves.",
        ("cluster_version", major_minor),
    );
    let id = format!("{:x}", replica.me.0);
    page.info("etcd_server_id", "The member's number.", ("server_id", &id));
    page.gauge(
        "etcd_server_is_leader",
        "Whether this member is the one that the group names as leader.",
        flag(u8::from(replica.leader == Some(replica.me))),
    );
    page.counter(
        "etcd_server_leader_changes_seen_total",
        "How often another leader was named.",
        replica.term.saturating_sub(1),
    );
    page.gauge(
        "etcd_server_is_learner",
        "Whether this member has no vote.",
        flag(u8::from(!replica.is_member)),
    );
}

fn show_sizes(page: &mut Page, sizes: &Sizes) {
    page.gauge(
        "etcd_mvcc_db_total_size_in_bytes",
        "Bytes of the versions of all keys, with files of large values.",
        sizes.whole as f64,
    );
    page.gauge(
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        "Of these, bytes that are in use.",
        sizes.in_use as f64,
    );
    page.gauge(
        "etcd_server_quota_backend_bytes",
        "Bytes that the versions of all keys may come to.",
        sizes.most as f64,
    );
}

fn show_operations(page: &mut Page, operations: Operations) {
    page.counter(
        "etcd_mvcc_put_total",
        "Puts applied by this member.",
        operations.puts,
    );
    page.counter(
        "etcd_mvcc_delete_total",
        "Deletions applied by this member.",
        operations.deletions,
    );
    page.counter(
        "etcd_mvcc_txn_total",
        "Transactions applied by this member.",
        operations.txns,
    );
}
