//! Calls by method and by what came of them, under the names that gRPC's libraries have for Prometheus.

use quorate_face_common::Page;
use std::array::from_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use tonic::codegen::http::HeaderMap;
use tonic::{Code, Status};

/// Every call that etcd has, as in a request's path, and which side of it is a stream.
const METHODS: [(&str, &str); 49] = [
    // The first three take the short way.
    ("etcdserverpb.KV/Put", UNARY),
    ("etcdserverpb.KV/Range", UNARY),
    ("etcdserverpb.KV/Txn", UNARY),
    ("etcdserverpb.KV/RangeStream", "server_stream"),
    ("etcdserverpb.KV/DeleteRange", UNARY),
    ("etcdserverpb.KV/Compact", UNARY),
    ("etcdserverpb.Watch/Watch", "bidi_stream"),
    ("etcdserverpb.Lease/LeaseGrant", UNARY),
    ("etcdserverpb.Lease/LeaseRevoke", UNARY),
    ("etcdserverpb.Lease/LeaseKeepAlive", "bidi_stream"),
    ("etcdserverpb.Lease/LeaseTimeToLive", UNARY),
    ("etcdserverpb.Lease/LeaseLeases", UNARY),
    ("etcdserverpb.Cluster/MemberAdd", UNARY),
    ("etcdserverpb.Cluster/MemberRemove", UNARY),
    ("etcdserverpb.Cluster/MemberUpdate", UNARY),
    ("etcdserverpb.Cluster/MemberList", UNARY),
    ("etcdserverpb.Cluster/MemberPromote", UNARY),
    ("etcdserverpb.Maintenance/Alarm", UNARY),
    ("etcdserverpb.Maintenance/Status", UNARY),
    ("etcdserverpb.Maintenance/Defragment", UNARY),
    ("etcdserverpb.Maintenance/Hash", UNARY),
    ("etcdserverpb.Maintenance/HashKV", UNARY),
    ("etcdserverpb.Maintenance/Snapshot", "server_stream"),
    ("etcdserverpb.Maintenance/MoveLeader", UNARY),
    ("etcdserverpb.Maintenance/Downgrade", UNARY),
    ("etcdserverpb.Auth/AuthEnable", UNARY),
    ("etcdserverpb.Auth/AuthDisable", UNARY),
    ("etcdserverpb.Auth/AuthStatus", UNARY),
    ("etcdserverpb.Auth/Authenticate", UNARY),
    ("etcdserverpb.Auth/UserAdd", UNARY),
    ("etcdserverpb.Auth/UserGet", UNARY),
    ("etcdserverpb.Auth/UserList", UNARY),
    ("etcdserverpb.Auth/UserDelete", UNARY),
    ("etcdserverpb.Auth/UserChangePassword", UNARY),
    ("etcdserverpb.Auth/UserGrantRole", UNARY),
    ("etcdserverpb.Auth/UserRevokeRole", UNARY),
    ("etcdserverpb.Auth/RoleAdd", UNARY),
    ("etcdserverpb.Auth/RoleGet", UNARY),
    ("etcdserverpb.Auth/RoleList", UNARY),
    ("etcdserverpb.Auth/RoleDelete", UNARY),
    ("etcdserverpb.Auth/RoleGrantPermission", UNARY),
    ("etcdserverpb.Auth/RoleRevokePermission", UNARY),
    ("v3lockpb.Lock/Lock", UNARY),
    ("v3lockpb.Lock/Unlock", UNARY),
    ("v3electionpb.Election/Campaign", UNARY),
    ("v3electionpb.Election/Proclaim", UNARY),
    ("v3electionpb.Election/Leader", UNARY),
    ("v3electionpb.Election/Observe", "server_stream"),
    ("v3electionpb.Election/Resign", UNARY),
];
const UNARY: &str = "unary";

/// The names of [`Code`], in its order, as gRPC's library for Go writes them.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// A method that is counted, by its place among all.
#[derive(Clone, Copy)]
pub(crate) struct Method(usize);

impl Method {
    pub(crate) const PUT: Method = Method(0);
    pub(crate) const RANGE: Method = Method(1);
    pub(crate) const TXN: Method = Method(2);

    /// The method that a request's path names, if etcd has it.
    pub(crate) fn of(path: &str) -> Option<Method> {
        let name = path.strip_prefix('/')?;
        METHODS
            .iter()
            .position(|(known, _)| *known == name)
            .map(Method)
    }
}

/// How often each method was called, and what came of it.
pub(crate) struct CallCounts([Calls; METHODS.len()]);

/// The calls of one method.
#[derive(Default)]
struct Calls {
    started: AtomicU64,
    handled: [AtomicU64; CODES.len()],
}

impl Default for CallCounts {
    fn default() -> Self {
        CallCounts(from_fn(|_| Calls::default()))
    }
}

impl CallCounts {
    /// A call came. Until it is answered whoever holds this stands for it.
    pub(crate) fn begin(self: &Arc<Self>, method: Method) -> Call {
        self.0[method.0].started.fetch_add(1, Relaxed);
        Call {
            counts: Arc::clone(self),
            method,
            code: Code::Cancelled,
        }
    }

    /// Adds the counts of methods that were called to a page of metrics.
    pub(crate) fn show(&self, page: &mut Page) {
        let called = || {
            let all = METHODS.iter().zip(&self.0);
            all.filter(|(_, calls)| calls.started.load(Relaxed) > 0)
        };
        let started = called().map(|(method, calls)| (labels(method), calls.started.load(Relaxed)));
        page.family(
            "grpc_server_started_total",
            "counter",
            "Calls that came, by method.",
            started,
        );
        let handled = called().flat_map(|(method, calls)| {
            let codes = CODES.iter().zip(&calls.handled);
            codes.filter_map(|(code, times)| {
                let times = times.load(Relaxed);
                let mut labels = labels(method);
                labels.push(("grpc_code", code));
                (times > 0).then_some((labels, times))
            })
        });
        page.family(
            "grpc_server_handled_total",
            "counter",
            "Calls that were answered, by method and code; a stream is once it is open.",
            handled,
        );
    }
}

/// The labels of a method: its kind, its service and its name.
fn labels((name, kind): &(&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
    let (service, method) = name.split_once('/').unwrap_or((name, ""));
    vec![
        ("grpc_type", kind),
        ("grpc_service", service),
        ("grpc_method", method),
    ]
}

/// A call that is counted once it is over. One that is given up was cancelled.
pub(crate) struct Call {
    counts: Arc<CallCounts>,
    method: Method,
    code: Code,
}

impl Call {
    /// The call was answered, or refused with this.
    pub(crate) fn end(mut self, refusal: Option<&Status>) {
        self.code = refusal.map_or(Code::Ok, Status::code);
    }

    /// The call was answered with these headers, which have a code only where it failed.
    pub(crate) fn end_with(mut self, headers: &HeaderMap) {
        let code = headers.get(Status::GRPC_STATUS);
        self.code = code.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.counts.0[self.method.0].handled[self.code as usize].fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_what_came_of_them() {
        let counts = Arc::new(CallCounts::default());
        let watch = Method::of("/etcdserverpb.Watch/Watch").unwrap();
        assert!(Method::of("/etcdserverpb.Watch/watch").is_none());
        counts.begin(Method::PUT).end(None);
        let refusal = Status::unavailable("no leader");
        counts.begin(Method::PUT).end(Some(&refusal));
        counts.begin(watch).end_with(&HeaderMap::new());
        drop(counts.begin(Method::TXN));
        let mut page = Page::default();
        counts.show(&mut page);
        let page = page.into_text();
        for line in [
            r#"started_total{grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Put"} 2"#,
            r#"grpc_method="Put",grpc_code="OK"} 1"#,
            r#"grpc_method="Put",grpc_code="Unavailable"} 1"#,
            r#"grpc_method="Txn",grpc_code="Canceled"} 1"#,
            r#"{grpc_type="bidi_stream",grpc_service="etcdserverpb.Watch",grpc_method="Watch",grpc_code="OK"} 1"#,
        ] {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
        assert!(!page.contains("Range"));
    }

    #[test]
    fn names_are_those_of_the_methods_that_are_known() {
        for (method, name) in [
            (Method::PUT, "Put"),
            (Method::RANGE, "Range"),
            (Method::TXN, "Txn"),
        ] {
            assert!(METHODS[method.0].0.ends_with(&format!("/{name}")));
        }
        for (index, code) in CODES.iter().enumerate() {
            let known = format!("{:?}", Code::from_i32(index as i32)).to_lowercase();
            let code = code.to_lowercase().replace("canceled", "cancelled");
            assert_eq!(known, code);
        }
    }
}
