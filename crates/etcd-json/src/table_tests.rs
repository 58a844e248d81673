//! The table against the Rust types of the messages, and both directions against each other.

use super::tables::*;
use super::types::{Field, Kind, MessageType, Shape};
use super::{CALLS, decode, encode};
use fastrand::Rng;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use quorate_etcd_api::{authpb, etcdserverpb as api, mvccpb, v3electionpb, v3lockpb};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Messages within messages in random ones, at most.
const DEPTH: usize = 4;

type Checks = Vec<(&'static str, fn(&'static MessageType))>;

/// Kinds of messages with a check against their Rust types.
macro_rules! checks {
    ($($package:ident::{$($kind:ident $constant:ident),* $(,)?}),* $(,)?) => {
        vec![$($(($constant.name, check::<$package::$kind> as fn(_))),*),*]
    };
}

/// The Rust type of each kind of message, as a check of the two.
fn checks() -> BTreeMap<&'static str, fn(&'static MessageType)> {
    let all = [checks_of_data_and_members(), checks_of_users_and_locks()];
    all.into_iter().flatten().collect()
}

fn checks_of_data_and_members() -> Checks {
    checks![
        mvccpb::{KeyValue KEY_VALUE, Event EVENT},
        api::{
            ResponseHeader RESPONSE_HEADER,
            RangeRequest RANGE_REQUEST, RangeResponse RANGE_RESPONSE,
            PutRequest PUT_REQUEST, PutResponse PUT_RESPONSE,
            DeleteRangeRequest DELETE_RANGE_REQUEST, DeleteRangeResponse DELETE_RANGE_RESPONSE,
            RequestOp REQUEST_OP, ResponseOp RESPONSE_OP, Compare COMPARE,
            TxnRequest TXN_REQUEST, TxnResponse TXN_RESPONSE,
            CompactionRequest COMPACTION_REQUEST, CompactionResponse COMPACTION_RESPONSE,
            WatchRequest WATCH_REQUEST, WatchCreateRequest WATCH_CREATE_REQUEST,
            WatchCancelRequest WATCH_CANCEL_REQUEST, WatchProgressRequest WATCH_PROGRESS_REQUEST,
            WatchResponse WATCH_RESPONSE,
            LeaseGrantRequest LEASE_GRANT_REQUEST, LeaseGrantResponse LEASE_GRANT_RESPONSE,
            LeaseRevokeRequest LEASE_REVOKE_REQUEST, LeaseRevokeResponse LEASE_REVOKE_RESPONSE,
            LeaseKeepAliveRequest LEASE_KEEP_ALIVE_REQUEST,
            LeaseKeepAliveResponse LEASE_KEEP_ALIVE_RESPONSE,
            LeaseTimeToLiveRequest LEASE_TIME_TO_LIVE_REQUEST,
            LeaseTimeToLiveResponse LEASE_TIME_TO_LIVE_RESPONSE,
            LeaseLeasesRequest LEASE_LEASES_REQUEST, LeaseLeasesResponse LEASE_LEASES_RESPONSE,
            LeaseStatus LEASE_STATUS,
            Member MEMBER,
            MemberAddRequest MEMBER_ADD_REQUEST, MemberAddResponse MEMBER_ADD_RESPONSE,
            MemberRemoveRequest MEMBER_REMOVE_REQUEST, MemberRemoveResponse MEMBER_REMOVE_RESPONSE,
            MemberUpdateRequest MEMBER_UPDATE_REQUEST, MemberUpdateResponse MEMBER_UPDATE_RESPONSE,
            MemberListRequest MEMBER_LIST_REQUEST, MemberListResponse MEMBER_LIST_RESPONSE,
            MemberPromoteRequest MEMBER_PROMOTE_REQUEST,
            MemberPromoteResponse MEMBER_PROMOTE_RESPONSE,
            AlarmRequest ALARM_REQUEST, AlarmMember ALARM_MEMBER, AlarmResponse ALARM_RESPONSE,
            StatusRequest STATUS_REQUEST, StatusResponse STATUS_RESPONSE,
            DowngradeInfo DOWNGRADE_INFO,
            DefragmentRequest DEFRAGMENT_REQUEST, DefragmentResponse DEFRAGMENT_RESPONSE,
            HashRequest HASH_REQUEST, HashResponse HASH_RESPONSE,
            HashKvRequest HASH_KV_REQUEST, HashKvResponse HASH_KV_RESPONSE,
            SnapshotRequest SNAPSHOT_REQUEST, SnapshotResponse SNAPSHOT_RESPONSE,
            MoveLeaderRequest MOVE_LEADER_REQUEST, MoveLeaderResponse MOVE_LEADER_RESPONSE,
            DowngradeRequest DOWNGRADE_REQUEST, DowngradeResponse DOWNGRADE_RESPONSE,
        },
    ]
}

fn checks_of_users_and_locks() -> Checks {
    checks![
        api::{
            AuthEnableRequest AUTH_ENABLE_REQUEST,
            AuthEnableResponse AUTH_ENABLE_RESPONSE,
            AuthDisableRequest AUTH_DISABLE_REQUEST,
            AuthDisableResponse AUTH_DISABLE_RESPONSE,
            AuthStatusRequest AUTH_STATUS_REQUEST,
            AuthStatusResponse AUTH_STATUS_RESPONSE,
            AuthenticateRequest AUTHENTICATE_REQUEST,
            AuthenticateResponse AUTHENTICATE_RESPONSE,
            AuthUserAddRequest AUTH_USER_ADD_REQUEST,
            AuthUserAddResponse AUTH_USER_ADD_RESPONSE,
            AuthUserGetRequest AUTH_USER_GET_REQUEST,
            AuthUserGetResponse AUTH_USER_GET_RESPONSE,
            AuthUserListRequest AUTH_USER_LIST_REQUEST,
            AuthUserListResponse AUTH_USER_LIST_RESPONSE,
            AuthUserDeleteRequest AUTH_USER_DELETE_REQUEST,
            AuthUserDeleteResponse AUTH_USER_DELETE_RESPONSE,
            AuthUserChangePasswordRequest AUTH_USER_CHANGE_PASSWORD_REQUEST,
            AuthUserChangePasswordResponse AUTH_USER_CHANGE_PASSWORD_RESPONSE,
            AuthUserGrantRoleRequest AUTH_USER_GRANT_ROLE_REQUEST,
            AuthUserGrantRoleResponse AUTH_USER_GRANT_ROLE_RESPONSE,
            AuthUserRevokeRoleRequest AUTH_USER_REVOKE_ROLE_REQUEST,
            AuthUserRevokeRoleResponse AUTH_USER_REVOKE_ROLE_RESPONSE,
            AuthRoleAddRequest AUTH_ROLE_ADD_REQUEST,
            AuthRoleAddResponse AUTH_ROLE_ADD_RESPONSE,
            AuthRoleGetRequest AUTH_ROLE_GET_REQUEST,
            AuthRoleGetResponse AUTH_ROLE_GET_RESPONSE,
            AuthRoleListRequest AUTH_ROLE_LIST_REQUEST,
            AuthRoleListResponse AUTH_ROLE_LIST_RESPONSE,
            AuthRoleDeleteRequest AUTH_ROLE_DELETE_REQUEST,
            AuthRoleDeleteResponse AUTH_ROLE_DELETE_RESPONSE,
            AuthRoleGrantPermissionRequest AUTH_ROLE_GRANT_PERMISSION_REQUEST,
            AuthRoleGrantPermissionResponse AUTH_ROLE_GRANT_PERMISSION_RESPONSE,
            AuthRoleRevokePermissionRequest AUTH_ROLE_REVOKE_PERMISSION_REQUEST,
            AuthRoleRevokePermissionResponse AUTH_ROLE_REVOKE_PERMISSION_RESPONSE,
        },
        authpb::{UserAddOptions USER_ADD_OPTIONS, Permission PERMISSION},
        v3lockpb::{
            LockRequest LOCK_REQUEST,
            LockResponse LOCK_RESPONSE,
            UnlockRequest UNLOCK_REQUEST,
            UnlockResponse UNLOCK_RESPONSE,
        },
        v3electionpb::{
            LeaderKey LEADER_KEY,
            CampaignRequest CAMPAIGN_REQUEST,
            CampaignResponse CAMPAIGN_RESPONSE,
            LeaderRequest LEADER_REQUEST,
            LeaderResponse LEADER_RESPONSE,
            ResignRequest RESIGN_REQUEST,
            ResignResponse RESIGN_RESPONSE,
            ProclaimRequest PROCLAIM_REQUEST,
            ProclaimResponse PROCLAIM_RESPONSE,
        },
    ]
}

#[test]
fn every_message_of_a_call_is_in_the_table_as_its_rust_type_is() {
    let checks = checks();
    let mut checked = BTreeSet::new();
    let mut open: Vec<&'static MessageType> = CALLS
        .iter()
        .flat_map(|call| [call.request, call.response])
        .collect();
    while let Some(kind) = open.pop() {
        if checked.insert(kind.name) {
            let check = checks.get(kind.name);
            check.unwrap_or_else(|| panic!("no Rust type for {}", kind.name))(kind);
            open.extend(kind.fields.iter().filter_map(|field| match field.kind {
                Kind::Message(kind) => Some(kind),
                _ => None,
            }));
        }
    }
    assert_eq!(checked, checks.into_keys().collect());
}

/// What is printed of a message ends with this where some of its fields are not: passwords and tokens.
const HIDES: &str = ".. }";

/// Names, numbers and kinds of a kind of message are those of its Rust type, and JSON loses nothing.
fn check<M: Message + Default + Debug + PartialEq>(kind: &'static MessageType) {
    let (named, printed) = (table_names(kind), rust_names::<M>());
    match format!("{:?}", M::default()).ends_with(HIDES) {
        // What is not printed shows in JSON below.
        true => assert!(named.is_superset(&printed), "{}", kind.name),
        false => assert_eq!(named, printed, "{}", kind.name),
    }
    for field in kind.fields {
        if let Kind::Enum(names) = field.kind {
            check_names::<M>(kind, field, names);
        }
    }
    let mut rng = Rng::with_seed(7);
    for _ in 0..200 {
        let bytes = random(kind, DEPTH, &mut rng);
        let message = M::decode(&*bytes).expect("it is one by the table");
        let json = to_json(&bytes, kind);
        assert_eq!(to_json(&message.encode_to_vec(), kind), json);
        let mut again = Vec::new();
        decode(json.as_bytes(), kind, &mut again).expect("what was written can be read");
        assert_eq!(M::decode(&*again).as_ref(), Ok(&message), "{json}");
        serde_json::from_str::<serde_json::Value>(&json).expect("it is JSON");
    }
}

fn to_json(bytes: &[u8], kind: &'static MessageType) -> String {
    let mut json = String::new();
    encode(bytes, kind, &mut json).expect("it is one by the table");
    json
}

/// A name without what differs between Rust and protobuf.
fn plain(name: &str) -> String {
    name.replace("r#", "").replace('_', "").to_lowercase()
}

fn table_names(kind: &MessageType) -> BTreeSet<String> {
    let names = kind.fields.iter().map(|field| match field.shape {
        Shape::Union(name) => plain(name),
        Shape::Single | Shape::Repeated => plain(field.name),
    });
    names.collect()
}

/// The names of the fields as they are printed, of which none contains another.
fn rust_names<M: Message + Default + Debug>() -> BTreeSet<String> {
    let printed = format!("{:?}", M::default());
    let fields = printed.split_once('{').map_or("", |(_, fields)| fields);
    let names = fields
        .split(", ")
        .filter_map(|field| field.split_once(": "));
    names.map(|(name, _)| plain(name.trim())).collect()
}

/// The names of an enumeration's values are those of its Rust type, and there is none more.
fn check_names<M: Message + Default + Debug>(kind: &MessageType, field: &Field, names: &[&str]) {
    for value in 0..=names.len() {
        let mut bytes = Vec::new();
        encode_key(field.number, WireType::Varint, &mut bytes);
        encode_varint(value as u64, &mut bytes);
        let printed = plain(&format!("{:?}", M::decode(&*bytes).expect("a number")));
        let name = plain(names.get(value).unwrap_or(&value.to_string().as_str()));
        let field = plain(field.name);
        let is_named = [format!("{field}: {name}"), format!("{field}: [{name}]")]
            .iter()
            .any(|shown| printed.contains(shown));
        assert!(is_named, "{}: {printed} has no {name}", kind.name);
    }
}

/// A message with some of its fields, each of which may be zero or empty.
fn random(kind: &'static MessageType, depth: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut unions = BTreeSet::new();
    let mut fields: Vec<&Field> = kind.fields.iter().collect();
    rng.shuffle(&mut fields);
    for field in fields {
        let count = match field.shape {
            Shape::Union(union) => usize::from(rng.bool() && unions.insert(union)),
            Shape::Single => rng.usize(..2),
            Shape::Repeated => rng.usize(..4),
        };
        for _ in 0..count {
            random_value(field, depth, rng, &mut bytes);
        }
    }
    bytes
}

fn random_value(field: &Field, depth: usize, rng: &mut Rng, bytes: &mut Vec<u8>) {
    let number = match field.kind {
        Kind::Bool => rng.u64(..2),
        Kind::I64 | Kind::U64 => rng.choice([0, 1, 127, 128, 1 << 62, u64::MAX]).unwrap_or(0),
        Kind::U32 => rng.u32(..).into(),
        Kind::Enum(names) => rng.u64(..=names.len() as u64),
        Kind::Bytes | Kind::Text | Kind::Message(_) => {
            let content = match field.kind {
                Kind::Message(kind) if depth > 0 => random(kind, depth - 1, rng),
                Kind::Message(_) => Vec::new(),
                Kind::Bytes => {
                    let count = rng.usize(..9);
                    std::iter::repeat_with(|| rng.u8(..)).take(count).collect()
                }
                _ => {
                    let symbols = ["a", "\"", "\\", "\n", "\u{1}", "\u{7f}", "\u{1f600}", "<"];
                    let count = rng.usize(..5);
                    let chosen = std::iter::repeat_with(|| rng.choice(symbols).unwrap_or("b"));
                    chosen.take(count).collect::<String>().into_bytes()
                }
            };
            encode_key(field.number, WireType::LengthDelimited, bytes);
            encode_varint(content.len() as u64, bytes);
            bytes.extend(content);
            return;
        }
    };
    encode_key(field.number, WireType::Varint, bytes);
    encode_varint(number, bytes);
}
