//! The calls that can be made in JSON, by their paths.

use super::tables::*;
use super::types::MessageType;

/// A call: where it is asked for in JSON, and what it is in gRPC.
#[derive(Debug)]
pub struct Call {
    /// The path after `/v3/`.
    pub path: &'static str,
    /// The path of the gRPC method.
    pub method: &'static str,
    /// The kind of its requests.
    pub request: &'static MessageType,
    /// The kind of its responses.
    pub response: &'static MessageType,
    /// How many messages each side may send.
    pub streams: Streams,
}

/// How many messages a call has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Streams {
    /// One request and one response.
    Neither,
    /// One request, and as many responses as there are.
    Responses,
    /// Requests and responses as they come.
    Both,
}

/// The call of a path, which comes after `/v3/`.
#[must_use]
pub fn find_call(path: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.path == path)
}

/// Kinds of calls as a table: `PATH METHOD: REQUEST, RESPONSE, STREAMS;`.
macro_rules! calls {
    ($($path:literal $method:literal: $request:ident, $response:ident, $streams:ident;)*) => {
        /// Every call: those of etcd's services, and a second path of some.
        pub static CALLS: &[Call] = &[$(Call {
            path: $path,
            method: $method,
            request: &$request,
            response: &$response,
            streams: Streams::$streams,
        }),*];
    };
}

calls! {
    "kv/range" "/etcdserverpb.KV/Range": RANGE_REQUEST, RANGE_RESPONSE, Neither;
    "kv/put" "/etcdserverpb.KV/Put": PUT_REQUEST, PUT_RESPONSE, Neither;
    "kv/deleterange" "/etcdserverpb.KV/DeleteRange":
        DELETE_RANGE_REQUEST, DELETE_RANGE_RESPONSE, Neither;
    "kv/txn" "/etcdserverpb.KV/Txn": TXN_REQUEST, TXN_RESPONSE, Neither;
    "kv/compaction" "/etcdserverpb.KV/Compact": COMPACTION_REQUEST, COMPACTION_RESPONSE, Neither;
    "watch" "/etcdserverpb.Watch/Watch": WATCH_REQUEST, WATCH_RESPONSE, Both;
    "lease/grant" "/etcdserverpb.Lease/LeaseGrant":
        LEASE_GRANT_REQUEST, LEASE_GRANT_RESPONSE, Neither;
    "lease/revoke" "/etcdserverpb.Lease/LeaseRevoke":
        LEASE_REVOKE_REQUEST, LEASE_REVOKE_RESPONSE, Neither;
    "kv/lease/revoke" "/etcdserverpb.Lease/LeaseRevoke":
        LEASE_REVOKE_REQUEST, LEASE_REVOKE_RESPONSE, Neither;
    "lease/keepalive" "/etcdserverpb.Lease/LeaseKeepAlive":
        LEASE_KEEP_ALIVE_REQUEST, LEASE_KEEP_ALIVE_RESPONSE, Both;
    "lease/timetolive" "/etcdserverpb.Lease/LeaseTimeToLive":
        LEASE_TIME_TO_LIVE_REQUEST, LEASE_TIME_TO_LIVE_RESPONSE, Neither;
    "kv/lease/timetolive" "/etcdserverpb.Lease/LeaseTimeToLive":
        LEASE_TIME_TO_LIVE_REQUEST, LEASE_TIME_TO_LIVE_RESPONSE, Neither;
    "lease/leases" "/etcdserverpb.Lease/LeaseLeases":
        LEASE_LEASES_REQUEST, LEASE_LEASES_RESPONSE, Neither;
    "kv/lease/leases" "/etcdserverpb.Lease/LeaseLeases":
        LEASE_LEASES_REQUEST, LEASE_LEASES_RESPONSE, Neither;
    "cluster/member/add" "/etcdserverpb.Cluster/MemberAdd":
        MEMBER_ADD_REQUEST, MEMBER_ADD_RESPONSE, Neither;
    "cluster/member/remove" "/etcdserverpb.Cluster/MemberRemove":
        MEMBER_REMOVE_REQUEST, MEMBER_REMOVE_RESPONSE, Neither;
    "cluster/member/update" "/etcdserverpb.Cluster/MemberUpdate":
        MEMBER_UPDATE_REQUEST, MEMBER_UPDATE_RESPONSE, Neither;
    "cluster/member/list" "/etcdserverpb.Cluster/MemberList":
        MEMBER_LIST_REQUEST, MEMBER_LIST_RESPONSE, Neither;
    "cluster/member/promote" "/etcdserverpb.Cluster/MemberPromote":
        MEMBER_PROMOTE_REQUEST, MEMBER_PROMOTE_RESPONSE, Neither;
    "maintenance/alarm" "/etcdserverpb.Maintenance/Alarm": ALARM_REQUEST, ALARM_RESPONSE, Neither;
    "maintenance/status" "/etcdserverpb.Maintenance/Status":
        STATUS_REQUEST, STATUS_RESPONSE, Neither;
    "maintenance/defragment" "/etcdserverpb.Maintenance/Defragment":
        DEFRAGMENT_REQUEST, DEFRAGMENT_RESPONSE, Neither;
    "maintenance/hash" "/etcdserverpb.Maintenance/Hash": HASH_REQUEST, HASH_RESPONSE, Neither;
    "maintenance/hashkv" "/etcdserverpb.Maintenance/HashKV":
        HASH_KV_REQUEST, HASH_KV_RESPONSE, Neither;
    "maintenance/snapshot" "/etcdserverpb.Maintenance/Snapshot":
        SNAPSHOT_REQUEST, SNAPSHOT_RESPONSE, Responses;
    "maintenance/transfer-leadership" "/etcdserverpb.Maintenance/MoveLeader":
        MOVE_LEADER_REQUEST, MOVE_LEADER_RESPONSE, Neither;
    "maintenance/downgrade" "/etcdserverpb.Maintenance/Downgrade":
        DOWNGRADE_REQUEST, DOWNGRADE_RESPONSE, Neither;
    "auth/enable" "/etcdserverpb.Auth/AuthEnable":
        AUTH_ENABLE_REQUEST, AUTH_ENABLE_RESPONSE, Neither;
    "auth/disable" "/etcdserverpb.Auth/AuthDisable":
        AUTH_DISABLE_REQUEST, AUTH_DISABLE_RESPONSE, Neither;
    "auth/status" "/etcdserverpb.Auth/AuthStatus":
        AUTH_STATUS_REQUEST, AUTH_STATUS_RESPONSE, Neither;
    "auth/authenticate" "/etcdserverpb.Auth/Authenticate":
        AUTHENTICATE_REQUEST, AUTHENTICATE_RESPONSE, Neither;
    "auth/user/add" "/etcdserverpb.Auth/UserAdd":
        AUTH_USER_ADD_REQUEST, AUTH_USER_ADD_RESPONSE, Neither;
    "auth/user/get" "/etcdserverpb.Auth/UserGet":
        AUTH_USER_GET_REQUEST, AUTH_USER_GET_RESPONSE, Neither;
    "auth/user/list" "/etcdserverpb.Auth/UserList":
        AUTH_USER_LIST_REQUEST, AUTH_USER_LIST_RESPONSE, Neither;
    "auth/user/delete" "/etcdserverpb.Auth/UserDelete":
        AUTH_USER_DELETE_REQUEST, AUTH_USER_DELETE_RESPONSE, Neither;
    "auth/user/changepw" "/etcdserverpb.Auth/UserChangePassword":
        AUTH_USER_CHANGE_PASSWORD_REQUEST, AUTH_USER_CHANGE_PASSWORD_RESPONSE, Neither;
    "auth/user/grant" "/etcdserverpb.Auth/UserGrantRole":
        AUTH_USER_GRANT_ROLE_REQUEST, AUTH_USER_GRANT_ROLE_RESPONSE, Neither;
    "auth/user/revoke" "/etcdserverpb.Auth/UserRevokeRole":
        AUTH_USER_REVOKE_ROLE_REQUEST, AUTH_USER_REVOKE_ROLE_RESPONSE, Neither;
    "auth/role/add" "/etcdserverpb.Auth/RoleAdd":
        AUTH_ROLE_ADD_REQUEST, AUTH_ROLE_ADD_RESPONSE, Neither;
    "auth/role/get" "/etcdserverpb.Auth/RoleGet":
        AUTH_ROLE_GET_REQUEST, AUTH_ROLE_GET_RESPONSE, Neither;
    "auth/role/list" "/etcdserverpb.Auth/RoleList":
        AUTH_ROLE_LIST_REQUEST, AUTH_ROLE_LIST_RESPONSE, Neither;
    "auth/role/delete" "/etcdserverpb.Auth/RoleDelete":
        AUTH_ROLE_DELETE_REQUEST, AUTH_ROLE_DELETE_RESPONSE, Neither;
    "auth/role/grant" "/etcdserverpb.Auth/RoleGrantPermission":
        AUTH_ROLE_GRANT_PERMISSION_REQUEST, AUTH_ROLE_GRANT_PERMISSION_RESPONSE, Neither;
    "auth/role/revoke" "/etcdserverpb.Auth/RoleRevokePermission":
        AUTH_ROLE_REVOKE_PERMISSION_REQUEST, AUTH_ROLE_REVOKE_PERMISSION_RESPONSE, Neither;
    "lock/lock" "/v3lockpb.Lock/Lock": LOCK_REQUEST, LOCK_RESPONSE, Neither;
    "lock/unlock" "/v3lockpb.Lock/Unlock": UNLOCK_REQUEST, UNLOCK_RESPONSE, Neither;
    "election/campaign" "/v3electionpb.Election/Campaign":
        CAMPAIGN_REQUEST, CAMPAIGN_RESPONSE, Neither;
    "election/proclaim" "/v3electionpb.Election/Proclaim":
        PROCLAIM_REQUEST, PROCLAIM_RESPONSE, Neither;
    "election/leader" "/v3electionpb.Election/Leader": LEADER_REQUEST, LEADER_RESPONSE, Neither;
    "election/observe" "/v3electionpb.Election/Observe": LEADER_REQUEST, LEADER_RESPONSE, Responses;
    "election/resign" "/v3electionpb.Election/Resign": RESIGN_REQUEST, RESIGN_RESPONSE, Neither;
}
