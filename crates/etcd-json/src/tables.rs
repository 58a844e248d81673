//! The messages of etcd's services, as `rpc.proto`, `kv.proto`, `auth.proto`, `v3lock.proto` and `v3election.proto`
//! define them. What depends on it: both directions of the gateway. `table_tests` compares it with the Rust types.

use super::types::Kind::{Bool, Bytes, Enum, I64, Message, Text, U32, U64};
use super::types::Shape::{Repeated, Single, Union};
use super::types::{Field, MessageType, message_types};

const EVENT_TYPE: &[&str] = &["PUT", "DELETE"];
const SORT_ORDER: &[&str] = &["NONE", "ASCEND", "DESCEND"];
const SORT_TARGET: &[&str] = &["KEY", "VERSION", "CREATE", "MOD", "VALUE"];
const COMPARE_RESULT: &[&str] = &["EQUAL", "GREATER", "LESS", "NOT_EQUAL"];
const COMPARE_TARGET: &[&str] = &["VERSION", "CREATE", "MOD", "VALUE", "LEASE"];
const FILTER_TYPE: &[&str] = &["NOPUT", "NODELETE"];
const ALARM_ACTION: &[&str] = &["GET", "ACTIVATE", "DEACTIVATE"];
const ALARM_TYPE: &[&str] = &["NONE", "NOSPACE", "CORRUPT"];
const DOWNGRADE_ACTION: &[&str] = &["VALIDATE", "ENABLE", "CANCEL"];
const PERMISSION_TYPE: &[&str] = &["READ", "WRITE", "READWRITE"];

message_types! {
    RESPONSE_HEADER = "ResponseHeader" {
        1 cluster_id: Single, U64;
        2 member_id: Single, U64;
        3 revision: Single, I64;
        4 raft_term: Single, U64;
    }
    KEY_VALUE = "KeyValue" {
        1 key: Single, Bytes;
        2 create_revision: Single, I64;
        3 mod_revision: Single, I64;
        4 version: Single, I64;
        5 value: Single, Bytes;
        6 lease: Single, I64;
    }
    EVENT = "Event" {
        1 type: Single, Enum(EVENT_TYPE);
        2 kv: Single, Message(&KEY_VALUE);
        3 prev_kv: Single, Message(&KEY_VALUE);
    }
}

// The KV service.
message_types! {
    RANGE_REQUEST = "RangeRequest" {
        1 key: Single, Bytes;
        2 range_end: Single, Bytes;
        3 limit: Single, I64;
        4 revision: Single, I64;
        5 sort_order: Single, Enum(SORT_ORDER);
        6 sort_target: Single, Enum(SORT_TARGET);
        7 serializable: Single, Bool;
        8 keys_only: Single, Bool;
        9 count_only: Single, Bool;
        10 min_mod_revision: Single, I64;
        11 max_mod_revision: Single, I64;
        12 min_create_revision: Single, I64;
        13 max_create_revision: Single, I64;
    }
    RANGE_RESPONSE = "RangeResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 kvs: Repeated, Message(&KEY_VALUE);
        3 more: Single, Bool;
        4 count: Single, I64;
    }
    PUT_REQUEST = "PutRequest" {
        1 key: Single, Bytes;
        2 value: Single, Bytes;
        3 lease: Single, I64;
        4 prev_kv: Single, Bool;
        5 ignore_value: Single, Bool;
        6 ignore_lease: Single, Bool;
    }
    PUT_RESPONSE = "PutResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 prev_kv: Single, Message(&KEY_VALUE);
    }
    DELETE_RANGE_REQUEST = "DeleteRangeRequest" {
        1 key: Single, Bytes;
        2 range_end: Single, Bytes;
        3 prev_kv: Single, Bool;
    }
    DELETE_RANGE_RESPONSE = "DeleteRangeResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 deleted: Single, I64;
        3 prev_kvs: Repeated, Message(&KEY_VALUE);
    }
    REQUEST_OP = "RequestOp" {
        1 request_range: Union("request"), Message(&RANGE_REQUEST);
        2 request_put: Union("request"), Message(&PUT_REQUEST);
        3 request_delete_range: Union("request"), Message(&DELETE_RANGE_REQUEST);
        4 request_txn: Union("request"), Message(&TXN_REQUEST);
    }
    RESPONSE_OP = "ResponseOp" {
        1 response_range: Union("response"), Message(&RANGE_RESPONSE);
        2 response_put: Union("response"), Message(&PUT_RESPONSE);
        3 response_delete_range: Union("response"), Message(&DELETE_RANGE_RESPONSE);
        4 response_txn: Union("response"), Message(&TXN_RESPONSE);
    }
    COMPARE = "Compare" {
        1 result: Single, Enum(COMPARE_RESULT);
        2 target: Single, Enum(COMPARE_TARGET);
        3 key: Single, Bytes;
        4 version: Union("target_union"), I64;
        5 create_revision: Union("target_union"), I64;
        6 mod_revision: Union("target_union"), I64;
        7 value: Union("target_union"), Bytes;
        8 lease: Union("target_union"), I64;
        64 range_end: Single, Bytes;
    }
    TXN_REQUEST = "TxnRequest" {
        1 compare: Repeated, Message(&COMPARE);
        2 success: Repeated, Message(&REQUEST_OP);
        3 failure: Repeated, Message(&REQUEST_OP);
    }
    TXN_RESPONSE = "TxnResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 succeeded: Single, Bool;
        3 responses: Repeated, Message(&RESPONSE_OP);
    }
    COMPACTION_REQUEST = "CompactionRequest" {
        1 revision: Single, I64;
        2 physical: Single, Bool;
    }
    COMPACTION_RESPONSE = "CompactionResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
}

// The Watch service.
message_types! {
    WATCH_REQUEST = "WatchRequest" {
        1 create_request: Union("request_union"), Message(&WATCH_CREATE_REQUEST);
        2 cancel_request: Union("request_union"), Message(&WATCH_CANCEL_REQUEST);
        3 progress_request: Union("request_union"), Message(&WATCH_PROGRESS_REQUEST);
    }
    WATCH_CREATE_REQUEST = "WatchCreateRequest" {
        1 key: Single, Bytes;
        2 range_end: Single, Bytes;
        3 start_revision: Single, I64;
        4 progress_notify: Single, Bool;
        5 filters: Repeated, Enum(FILTER_TYPE);
        6 prev_kv: Single, Bool;
        7 watch_id: Single, I64;
        8 fragment: Single, Bool;
    }
    WATCH_CANCEL_REQUEST = "WatchCancelRequest" { 1 watch_id: Single, I64; }
    WATCH_PROGRESS_REQUEST = "WatchProgressRequest" {}
    WATCH_RESPONSE = "WatchResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 watch_id: Single, I64;
        3 created: Single, Bool;
        4 canceled: Single, Bool;
        5 compact_revision: Single, I64;
        6 cancel_reason: Single, Text;
        7 fragment: Single, Bool;
        11 events: Repeated, Message(&EVENT);
    }
}

// The Lease service.
message_types! {
    LEASE_GRANT_REQUEST = "LeaseGrantRequest" {
        1 TTL: Single, I64;
        2 ID: Single, I64;
    }
    LEASE_GRANT_RESPONSE = "LeaseGrantResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 ID: Single, I64;
        3 TTL: Single, I64;
        4 error: Single, Text;
    }
    LEASE_REVOKE_REQUEST = "LeaseRevokeRequest" { 1 ID: Single, I64; }
    LEASE_REVOKE_RESPONSE = "LeaseRevokeResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    LEASE_KEEP_ALIVE_REQUEST = "LeaseKeepAliveRequest" { 1 ID: Single, I64; }
    LEASE_KEEP_ALIVE_RESPONSE = "LeaseKeepAliveResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 ID: Single, I64;
        3 TTL: Single, I64;
    }
    LEASE_TIME_TO_LIVE_REQUEST = "LeaseTimeToLiveRequest" {
        1 ID: Single, I64;
        2 keys: Single, Bool;
    }
    LEASE_TIME_TO_LIVE_RESPONSE = "LeaseTimeToLiveResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 ID: Single, I64;
        3 TTL: Single, I64;
        4 grantedTTL: Single, I64;
        5 keys: Repeated, Bytes;
    }
    LEASE_LEASES_REQUEST = "LeaseLeasesRequest" {}
    LEASE_STATUS = "LeaseStatus" { 1 ID: Single, I64; }
    LEASE_LEASES_RESPONSE = "LeaseLeasesResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 leases: Repeated, Message(&LEASE_STATUS);
    }
}

// The Cluster service.
message_types! {
    MEMBER = "Member" {
        1 ID: Single, U64;
        2 name: Single, Text;
        3 peerURLs: Repeated, Text;
        4 clientURLs: Repeated, Text;
        5 isLearner: Single, Bool;
    }
    MEMBER_ADD_REQUEST = "MemberAddRequest" {
        1 peerURLs: Repeated, Text;
        2 isLearner: Single, Bool;
    }
    MEMBER_ADD_RESPONSE = "MemberAddResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 member: Single, Message(&MEMBER);
        3 members: Repeated, Message(&MEMBER);
    }
    MEMBER_REMOVE_REQUEST = "MemberRemoveRequest" { 1 ID: Single, U64; }
    MEMBER_REMOVE_RESPONSE = "MemberRemoveResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 members: Repeated, Message(&MEMBER);
    }
    MEMBER_UPDATE_REQUEST = "MemberUpdateRequest" {
        1 ID: Single, U64;
        2 peerURLs: Repeated, Text;
    }
    MEMBER_UPDATE_RESPONSE = "MemberUpdateResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 members: Repeated, Message(&MEMBER);
    }
    MEMBER_LIST_REQUEST = "MemberListRequest" { 1 linearizable: Single, Bool; }
    MEMBER_LIST_RESPONSE = "MemberListResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 members: Repeated, Message(&MEMBER);
    }
    MEMBER_PROMOTE_REQUEST = "MemberPromoteRequest" { 1 ID: Single, U64; }
    MEMBER_PROMOTE_RESPONSE = "MemberPromoteResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 members: Repeated, Message(&MEMBER);
    }
}

// The Maintenance service.
message_types! {
    ALARM_REQUEST = "AlarmRequest" {
        1 action: Single, Enum(ALARM_ACTION);
        2 memberID: Single, U64;
        3 alarm: Single, Enum(ALARM_TYPE);
    }
    ALARM_MEMBER = "AlarmMember" {
        1 memberID: Single, U64;
        2 alarm: Single, Enum(ALARM_TYPE);
    }
    ALARM_RESPONSE = "AlarmResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 alarms: Repeated, Message(&ALARM_MEMBER);
    }
    STATUS_REQUEST = "StatusRequest" {}
    STATUS_RESPONSE = "StatusResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 version: Single, Text;
        3 dbSize: Single, I64;
        4 leader: Single, U64;
        5 raftIndex: Single, U64;
        6 raftTerm: Single, U64;
        7 raftAppliedIndex: Single, U64;
        8 errors: Repeated, Text;
        9 dbSizeInUse: Single, I64;
        10 isLearner: Single, Bool;
        11 storageVersion: Single, Text;
        12 dbSizeQuota: Single, I64;
        13 downgradeInfo: Single, Message(&DOWNGRADE_INFO);
    }
    DOWNGRADE_INFO = "DowngradeInfo" {
        1 enabled: Single, Bool;
        2 targetVersion: Single, Text;
    }
    DEFRAGMENT_REQUEST = "DefragmentRequest" {}
    DEFRAGMENT_RESPONSE = "DefragmentResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    HASH_REQUEST = "HashRequest" {}
    HASH_RESPONSE = "HashResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 hash: Single, U32;
    }
    HASH_KV_REQUEST = "HashKVRequest" { 1 revision: Single, I64; }
    HASH_KV_RESPONSE = "HashKVResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 hash: Single, U32;
        3 compact_revision: Single, I64;
        4 hash_revision: Single, I64;
    }
    SNAPSHOT_REQUEST = "SnapshotRequest" {}
    SNAPSHOT_RESPONSE = "SnapshotResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 remaining_bytes: Single, U64;
        3 blob: Single, Bytes;
        4 version: Single, Text;
    }
    MOVE_LEADER_REQUEST = "MoveLeaderRequest" { 1 targetID: Single, U64; }
    MOVE_LEADER_RESPONSE = "MoveLeaderResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    DOWNGRADE_REQUEST = "DowngradeRequest" {
        1 action: Single, Enum(DOWNGRADE_ACTION);
        2 version: Single, Text;
    }
    DOWNGRADE_RESPONSE = "DowngradeResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 version: Single, Text;
    }
}

// The Auth service.
message_types! {
    USER_ADD_OPTIONS = "UserAddOptions" { 1 no_password: Single, Bool; }
    PERMISSION = "Permission" {
        1 permType: Single, Enum(PERMISSION_TYPE);
        2 key: Single, Bytes;
        3 range_end: Single, Bytes;
    }
    AUTH_ENABLE_REQUEST = "AuthEnableRequest" {}
    AUTH_ENABLE_RESPONSE = "AuthEnableResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    AUTH_DISABLE_REQUEST = "AuthDisableRequest" {}
    AUTH_DISABLE_RESPONSE = "AuthDisableResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    AUTH_STATUS_REQUEST = "AuthStatusRequest" {}
    AUTH_STATUS_RESPONSE = "AuthStatusResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 enabled: Single, Bool;
        3 authRevision: Single, U64;
    }
    AUTHENTICATE_REQUEST = "AuthenticateRequest" {
        1 name: Single, Text;
        2 password: Single, Text;
    }
    AUTHENTICATE_RESPONSE = "AuthenticateResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 token: Single, Text;
    }
    AUTH_USER_ADD_REQUEST = "AuthUserAddRequest" {
        1 name: Single, Text;
        2 password: Single, Text;
        3 options: Single, Message(&USER_ADD_OPTIONS);
        4 hashedPassword: Single, Text;
    }
    AUTH_USER_ADD_RESPONSE = "AuthUserAddResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    AUTH_USER_GET_REQUEST = "AuthUserGetRequest" { 1 name: Single, Text; }
    AUTH_USER_GET_RESPONSE = "AuthUserGetResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 roles: Repeated, Text;
    }
    AUTH_USER_LIST_REQUEST = "AuthUserListRequest" {}
    AUTH_USER_LIST_RESPONSE = "AuthUserListResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 users: Repeated, Text;
    }
    AUTH_USER_DELETE_REQUEST = "AuthUserDeleteRequest" { 1 name: Single, Text; }
    AUTH_USER_DELETE_RESPONSE = "AuthUserDeleteResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
    }
    AUTH_USER_CHANGE_PASSWORD_REQUEST = "AuthUserChangePasswordRequest" {
        1 name: Single, Text;
        2 password: Single, Text;
        3 hashedPassword: Single, Text;
    }
    AUTH_USER_CHANGE_PASSWORD_RESPONSE = "AuthUserChangePasswordResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
    }
    AUTH_USER_GRANT_ROLE_REQUEST = "AuthUserGrantRoleRequest" {
        1 user: Single, Text;
        2 role: Single, Text;
    }
    AUTH_USER_GRANT_ROLE_RESPONSE = "AuthUserGrantRoleResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
    }
    AUTH_USER_REVOKE_ROLE_REQUEST = "AuthUserRevokeRoleRequest" {
        1 name: Single, Text;
        2 role: Single, Text;
    }
    AUTH_USER_REVOKE_ROLE_RESPONSE = "AuthUserRevokeRoleResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
    }
    AUTH_ROLE_ADD_REQUEST = "AuthRoleAddRequest" { 1 name: Single, Text; }
    AUTH_ROLE_ADD_RESPONSE = "AuthRoleAddResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    AUTH_ROLE_GET_REQUEST = "AuthRoleGetRequest" { 1 role: Single, Text; }
    AUTH_ROLE_GET_RESPONSE = "AuthRoleGetResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 perm: Repeated, Message(&PERMISSION);
    }
    AUTH_ROLE_LIST_REQUEST = "AuthRoleListRequest" {}
    AUTH_ROLE_LIST_RESPONSE = "AuthRoleListResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 roles: Repeated, Text;
    }
    AUTH_ROLE_DELETE_REQUEST = "AuthRoleDeleteRequest" { 1 role: Single, Text; }
    AUTH_ROLE_DELETE_RESPONSE = "AuthRoleDeleteResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
    }
    AUTH_ROLE_GRANT_PERMISSION_REQUEST = "AuthRoleGrantPermissionRequest" {
        1 name: Single, Text;
        2 perm: Single, Message(&PERMISSION);
    }
    AUTH_ROLE_GRANT_PERMISSION_RESPONSE = "AuthRoleGrantPermissionResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
    }
    AUTH_ROLE_REVOKE_PERMISSION_REQUEST = "AuthRoleRevokePermissionRequest" {
        1 role: Single, Text;
        2 key: Single, Bytes;
        3 range_end: Single, Bytes;
    }
    AUTH_ROLE_REVOKE_PERMISSION_RESPONSE = "AuthRoleRevokePermissionResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
    }
}

// The Lock and Election services.
message_types! {
    LOCK_REQUEST = "LockRequest" {
        1 name: Single, Bytes;
        2 lease: Single, I64;
    }
    LOCK_RESPONSE = "LockResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 key: Single, Bytes;
    }
    UNLOCK_REQUEST = "UnlockRequest" { 1 key: Single, Bytes; }
    UNLOCK_RESPONSE = "UnlockResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    LEADER_KEY = "LeaderKey" {
        1 name: Single, Bytes;
        2 key: Single, Bytes;
        3 rev: Single, I64;
        4 lease: Single, I64;
    }
    CAMPAIGN_REQUEST = "CampaignRequest" {
        1 name: Single, Bytes;
        2 lease: Single, I64;
        3 value: Single, Bytes;
    }
    CAMPAIGN_RESPONSE = "CampaignResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 leader: Single, Message(&LEADER_KEY);
    }
    LEADER_REQUEST = "LeaderRequest" { 1 name: Single, Bytes; }
    LEADER_RESPONSE = "LeaderResponse" {
        1 header: Single, Message(&RESPONSE_HEADER);
        2 kv: Single, Message(&KEY_VALUE);
    }
    RESIGN_REQUEST = "ResignRequest" { 1 leader: Single, Message(&LEADER_KEY); }
    RESIGN_RESPONSE = "ResignResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
    PROCLAIM_REQUEST = "ProclaimRequest" {
        1 leader: Single, Message(&LEADER_KEY);
        2 value: Single, Bytes;
    }
    PROCLAIM_RESPONSE = "ProclaimResponse" { 1 header: Single, Message(&RESPONSE_HEADER); }
}
