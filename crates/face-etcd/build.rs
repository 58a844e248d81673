//! Generates the gRPC services from a table: clients that speak etcd's messages, and servers whose
//! responses may already be encoded (`crate::reply::Reply`).

use std::fs;
use std::path::Path;
use tonic_build::manual::{Builder, Method, Service};

/// (Rust name, gRPC name, request, response, whether the response is a stream)
type Row = (&'static str, &'static str, &'static str, &'static str, bool);

const KV: &[Row] = &[
    ("range", "Range", "RangeRequest", "RangeResponse", false),
    (
        "range_stream",
        "RangeStream",
        "RangeRequest",
        "RangeStreamResponse",
        true,
    ),
    ("put", "Put", "PutRequest", "PutResponse", false),
    (
        "delete_range",
        "DeleteRange",
        "DeleteRangeRequest",
        "DeleteRangeResponse",
        false,
    ),
    ("txn", "Txn", "TxnRequest", "TxnResponse", false),
    (
        "compact",
        "Compact",
        "CompactionRequest",
        "CompactionResponse",
        false,
    ),
];

const WATCH: &[Row] = &[("watch", "Watch", "WatchRequest", "WatchResponse", true)];

const LEASE: &[Row] = &[
    (
        "lease_grant",
        "LeaseGrant",
        "LeaseGrantRequest",
        "LeaseGrantResponse",
        false,
    ),
    (
        "lease_revoke",
        "LeaseRevoke",
        "LeaseRevokeRequest",
        "LeaseRevokeResponse",
        false,
    ),
    (
        "lease_keep_alive",
        "LeaseKeepAlive",
        "LeaseKeepAliveRequest",
        "LeaseKeepAliveResponse",
        true,
    ),
    (
        "lease_time_to_live",
        "LeaseTimeToLive",
        "LeaseTimeToLiveRequest",
        "LeaseTimeToLiveResponse",
        false,
    ),
    (
        "lease_leases",
        "LeaseLeases",
        "LeaseLeasesRequest",
        "LeaseLeasesResponse",
        false,
    ),
];

const CLUSTER: &[Row] = &[
    (
        "member_add",
        "MemberAdd",
        "MemberAddRequest",
        "MemberAddResponse",
        false,
    ),
    (
        "member_remove",
        "MemberRemove",
        "MemberRemoveRequest",
        "MemberRemoveResponse",
        false,
    ),
    (
        "member_update",
        "MemberUpdate",
        "MemberUpdateRequest",
        "MemberUpdateResponse",
        false,
    ),
    (
        "member_list",
        "MemberList",
        "MemberListRequest",
        "MemberListResponse",
        false,
    ),
    (
        "member_promote",
        "MemberPromote",
        "MemberPromoteRequest",
        "MemberPromoteResponse",
        false,
    ),
];

const MAINTENANCE: &[Row] = &[
    ("alarm", "Alarm", "AlarmRequest", "AlarmResponse", false),
    ("status", "Status", "StatusRequest", "StatusResponse", false),
    (
        "defragment",
        "Defragment",
        "DefragmentRequest",
        "DefragmentResponse",
        false,
    ),
    ("hash", "Hash", "HashRequest", "HashResponse", false),
    (
        "hash_kv",
        "HashKV",
        "HashKvRequest",
        "HashKvResponse",
        false,
    ),
    (
        "snapshot",
        "Snapshot",
        "SnapshotRequest",
        "SnapshotResponse",
        true,
    ),
    (
        "move_leader",
        "MoveLeader",
        "MoveLeaderRequest",
        "MoveLeaderResponse",
        false,
    ),
    (
        "downgrade",
        "Downgrade",
        "DowngradeRequest",
        "DowngradeResponse",
        false,
    ),
];

const AUTH: &[Row] = &[
    (
        "auth_enable",
        "AuthEnable",
        "AuthEnableRequest",
        "AuthEnableResponse",
        false,
    ),
    (
        "auth_disable",
        "AuthDisable",
        "AuthDisableRequest",
        "AuthDisableResponse",
        false,
    ),
    (
        "auth_status",
        "AuthStatus",
        "AuthStatusRequest",
        "AuthStatusResponse",
        false,
    ),
    (
        "authenticate",
        "Authenticate",
        "AuthenticateRequest",
        "AuthenticateResponse",
        false,
    ),
    (
        "user_add",
        "UserAdd",
        "AuthUserAddRequest",
        "AuthUserAddResponse",
        false,
    ),
    (
        "user_get",
        "UserGet",
        "AuthUserGetRequest",
        "AuthUserGetResponse",
        false,
    ),
    (
        "user_list",
        "UserList",
        "AuthUserListRequest",
        "AuthUserListResponse",
        false,
    ),
    (
        "user_delete",
        "UserDelete",
        "AuthUserDeleteRequest",
        "AuthUserDeleteResponse",
        false,
    ),
    (
        "user_change_password",
        "UserChangePassword",
        "AuthUserChangePasswordRequest",
        "AuthUserChangePasswordResponse",
        false,
    ),
    (
        "user_grant_role",
        "UserGrantRole",
        "AuthUserGrantRoleRequest",
        "AuthUserGrantRoleResponse",
        false,
    ),
    (
        "user_revoke_role",
        "UserRevokeRole",
        "AuthUserRevokeRoleRequest",
        "AuthUserRevokeRoleResponse",
        false,
    ),
    (
        "role_add",
        "RoleAdd",
        "AuthRoleAddRequest",
        "AuthRoleAddResponse",
        false,
    ),
    (
        "role_get",
        "RoleGet",
        "AuthRoleGetRequest",
        "AuthRoleGetResponse",
        false,
    ),
    (
        "role_list",
        "RoleList",
        "AuthRoleListRequest",
        "AuthRoleListResponse",
        false,
    ),
    (
        "role_delete",
        "RoleDelete",
        "AuthRoleDeleteRequest",
        "AuthRoleDeleteResponse",
        false,
    ),
    (
        "role_grant_permission",
        "RoleGrantPermission",
        "AuthRoleGrantPermissionRequest",
        "AuthRoleGrantPermissionResponse",
        false,
    ),
    (
        "role_revoke_permission",
        "RoleRevokePermission",
        "AuthRoleRevokePermissionRequest",
        "AuthRoleRevokePermissionResponse",
        false,
    ),
];

const LOCK: &[Row] = &[
    ("lock", "Lock", "LockRequest", "LockResponse", false),
    ("unlock", "Unlock", "UnlockRequest", "UnlockResponse", false),
];

const ELECTION: &[Row] = &[
    (
        "campaign",
        "Campaign",
        "CampaignRequest",
        "CampaignResponse",
        false,
    ),
    (
        "proclaim",
        "Proclaim",
        "ProclaimRequest",
        "ProclaimResponse",
        false,
    ),
    ("leader", "Leader", "LeaderRequest", "LeaderResponse", false),
    (
        "observe",
        "Observe",
        "LeaderRequest",
        "LeaderResponse",
        true,
    ),
    ("resign", "Resign", "ResignRequest", "ResignResponse", false),
];

/// (protobuf package, service, its methods)
const SERVICES: &[(&str, &str, &[Row])] = &[
    ("etcdserverpb", "KV", KV),
    ("etcdserverpb", "Watch", WATCH),
    ("etcdserverpb", "Lease", LEASE),
    ("etcdserverpb", "Cluster", CLUSTER),
    ("etcdserverpb", "Maintenance", MAINTENANCE),
    ("etcdserverpb", "Auth", AUTH),
    ("v3lockpb", "Lock", LOCK),
    ("v3electionpb", "Election", ELECTION),
];

/// What may be encoded when the server gets it, by the store or on another thread; the server sends
/// it on as it is.
const ENCODED: &[&str] = &[
    "RangeResponse",
    "PutResponse",
    "DeleteRangeResponse",
    "TxnResponse",
    "CompactionResponse",
    "LeaseGrantResponse",
    "LeaseRevokeResponse",
    "LeaseKeepAliveResponse",
    "AuthEnableResponse",
    "AuthDisableResponse",
    "AuthUserAddResponse",
    "AuthUserDeleteResponse",
    "AuthUserChangePasswordResponse",
    "AuthUserGrantRoleResponse",
    "AuthUserRevokeRoleResponse",
    "AuthRoleAddResponse",
    "AuthRoleDeleteResponse",
    "AuthRoleGrantPermissionResponse",
    "AuthRoleRevokePermissionResponse",
];

/// Who decodes a server's requests; requests that could grow in decoding are counted first.
fn codec(route: &str, side: &str) -> &'static str {
    match (route, side) {
        ("Txn", "server") => "crate::codec::TxnCodec",
        _ => "tonic_prost::ProstCodec",
    }
}

/// Methods whose requests are a stream, too.
const BOTH_WAYS: &[&str] = &["Watch", "LeaseKeepAlive"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    generate("client", |_, message| message);
    generate("server", |response, message| {
        if ENCODED.contains(&response) {
            format!("crate::reply::Reply<{message}>")
        } else {
            message
        }
    });
}

fn generate(side: &str, response_type: impl Fn(&str, String) -> String) {
    let root = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&root).join(side);
    fs::create_dir_all(&out).expect("OUT_DIR is writable");
    let services: Vec<Service> = (SERVICES.iter())
        .map(|(package, name, rows)| service(package, name, rows, side, &response_type))
        .collect();
    Builder::new()
        .build_client(side == "client")
        .build_server(side == "server")
        .out_dir(&out)
        .compile(&services);
}

fn service(
    package: &str,
    name: &str,
    rows: &[Row],
    side: &str,
    response_type: impl Fn(&str, String) -> String,
) -> Service {
    let message = |name: &str| format!("quorate_etcd_api::{package}::{name}");
    let mut service = Service::builder().name(name).package(package);
    for &(rust, route, request, response, streaming) in rows {
        let mut method = Method::builder()
            .name(rust)
            .route_name(route)
            .input_type(message(request))
            .output_type(response_type(response, message(response)))
            .codec_path(codec(route, side));
        if streaming {
            method = method.server_streaming();
        }
        if BOTH_WAYS.contains(&route) {
            method = method.client_streaming();
        }
        service = service.method(method.build());
    }
    service.build()
}
