//! A quota for the store, as clients meet it.

use crate::backend;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::compare::{CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmType, CompactionRequest, Compare,
    DefragmentRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest,
    StatusRequest, TxnRequest,
};
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::{KvClient, LeaseClient, MaintenanceClient};
use std::time::Duration;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};

const QUOTA: u64 = 1 << 20;
/// How long a refusal may take that comes with the next look at the sizes.
const PATIENCE: Duration = Duration::from_secs(5);

async fn start(quota_bytes: Option<u64>) -> Channel {
    let limits = Limits {
        quota_bytes,
        ..Limits::default()
    };
    backend::serve_face(backend::start(), limits).await
}

async fn put(channel: &Channel, key: &'static str, bytes: usize) -> Result<(), Status> {
    let request = PutRequest {
        key: key.into(),
        value: vec![7; bytes].into(),
        ..PutRequest::default()
    };
    KvClient::new(channel.clone()).put(request).await.map(drop)
}

async fn alarm(channel: &Channel, action: AlarmAction) -> Vec<AlarmMember> {
    let request = AlarmRequest {
        action: action as i32,
        member_id: 2,
        alarm: AlarmType::Nospace as i32,
    };
    let answer = MaintenanceClient::new(channel.clone()).alarm(request).await;
    answer.expect("answered").into_inner().alarms
}

fn no_space(refused: &Status) {
    let text = "etcdserver: mvcc: database space exceeded";
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::ResourceExhausted, text)
    );
}

/// Scenario: a put that would not fit, then all that etcd lets through, until there is space again.
#[tokio::test]
async fn what_does_not_fit_raises_no_space_until_it_is_disarmed() {
    let channel = start(Some(QUOTA)).await;
    put(&channel, "small", 1000).await.expect("it fits");
    // The first look at the store is over once the status tells of the quota and of what was put.
    let half = QUOTA as usize / 2;
    put(&channel, "half", half).await.expect("it fits");
    let refused = loop {
        match put(&channel, "large", half).await {
            Ok(()) => {}
            Err(refused) => break refused,
        }
    };
    no_space(&refused);
    let raised = AlarmMember {
        member_id: 2,
        alarm: AlarmType::Nospace as i32,
    };
    assert_eq!(alarm(&channel, AlarmAction::Get).await, [raised]);
    no_space(&put(&channel, "small", 1).await.expect_err("no space"));
    let mut leases = LeaseClient::new(channel.clone());
    let grant = leases.lease_grant(LeaseGrantRequest { ttl: 9, id: 9 });
    no_space(&grant.await.expect_err("no space"));

    let mut kv = KvClient::new(channel.clone());
    let all = Bytes::from_static(b"\0");
    let read = RangeRequest {
        key: "small".into(),
        ..RangeRequest::default()
    };
    kv.range(read).await.expect("reads go on");
    let deletion = DeleteRangeRequest {
        key: all.clone(),
        range_end: all,
        ..DeleteRangeRequest::default()
    };
    let deleted = kv.delete_range(deletion).await.expect("it makes space");
    let revision = deleted.into_inner().header.expect("a header").revision;
    let compaction = CompactionRequest {
        revision,
        physical: false,
    };
    kv.compact(compaction).await.expect("it makes space");
    let mut maintenance = MaintenanceClient::new(channel.clone());
    let freed = maintenance.defragment(DefragmentRequest {}).await;
    freed.expect("it waits for the space");

    assert_eq!(alarm(&channel, AlarmAction::Deactivate).await, [raised]);
    put(&channel, "small", 1000).await.expect("it fits");
    assert_eq!(alarm(&channel, AlarmAction::Get).await, []);
}

/// Scenario (etcd's #22139): all that is put stands in a transaction within another, in either branch.
#[tokio::test]
async fn what_is_put_by_nested_transactions_counts() {
    const SMALL_QUOTA: usize = 64 << 10;
    for is_taken in [true, false] {
        let channel = start(Some(SMALL_QUOTA as u64)).await;
        let put = PutRequest {
            key: "large".into(),
            value: vec![7; SMALL_QUOTA / 2].into(),
            ..PutRequest::default()
        };
        let inner = branch(Request::RequestPut(put), is_taken);
        let request = branch(Request::RequestTxn(inner), true);
        let mut kv = KvClient::new(channel);
        // How much is left is looked at now and then.
        let refused = timeout(PATIENCE, async {
            loop {
                if let Err(refused) = kv.txn(request.clone()).await {
                    break refused;
                }
            }
        });
        no_space(&refused.await.expect("it is refused"));
    }
}

/// A transaction that does this, because its condition holds or because it does not.
fn branch(operation: Request, is_taken: bool) -> TxnRequest {
    let none = Compare {
        key: "none".into(),
        target: CompareTarget::Version as i32,
        target_union: Some(TargetUnion::Version(i64::from(!is_taken))),
        ..Compare::default()
    };
    let operations = vec![operation.into()];
    let (success, failure) = match is_taken {
        true => (operations, Vec::new()),
        false => (Vec::new(), operations),
    };
    TxnRequest {
        compare: vec![none],
        success,
        failure,
    }
}

#[tokio::test]
async fn the_status_tells_of_sizes_and_of_the_quota() {
    for quota in [None, Some(QUOTA)] {
        let channel = start(quota).await;
        let mut maintenance = MaintenanceClient::new(channel);
        let status = maintenance.status(StatusRequest {}).await;
        let status = status.expect("answered").into_inner();
        assert!(
            status.db_size > 0 && status.db_size_in_use > 0,
            "{status:?}"
        );
        match quota {
            Some(quota) => assert_eq!(status.db_size_quota, quota as i64),
            None => assert!(status.db_size_quota > status.db_size, "{status:?}"),
        }
    }
}
