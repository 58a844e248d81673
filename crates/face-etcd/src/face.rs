//! What the services share.

use crate::auth::{Auth, UserOptions};
use crate::call_counts::CallCounts;
use crate::compactor::Retention;
use crate::gather::Gatherer;
use crate::room::Room;
use crate::watch::Hub;
use crate::web_access::WebAccess;
use bytes::Bytes;
use quorate_core::{ClusterId, Payload, Principal, ReplicaId};
use quorate_etcd_api::errors::{self, Error};
use quorate_etcd_api::etcdserverpb::ResponseHeader;
use quorate_etcd_store::{Applied, Asker, Query, Refused, Store, decode_result};
use quorate_etcd_store::{QueryAnswer, Status as StoreStatus};
use quorate_face_common::{ConnectionLimits, Metrics, ProbeCounts, exhausted};
use quorate_server::{Account, Charge, Consistency, Exhausted, Failure, Handle};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;
use tonic::{Code, Status};

/// What the face lets in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most connections that are open at a time.
    pub connections_max: usize,
    /// Largest write request. Messages may be a little larger, for what is around it.
    pub request_bytes_max: usize,
    /// Most operations in a transaction.
    pub txn_ops_max: usize,
    /// Most requests at a time on one connection.
    pub streams_max: u32,
    /// Largest HTTP/2 frame taken.
    pub frame_bytes_max: u32,
    /// Bytes a client may send ahead on a connection; it gets fewer where many are connected.
    pub window_bytes: u32,
    /// How long a connection may be silent before it is asked for a sign of life.
    pub keepalive_interval: Duration,
    /// How long that sign may take before the connection is closed.
    pub keepalive_timeout: Duration,
    /// How long open requests may take after the face was told to stop.
    pub drain: Duration,
    /// How often a watch that asked for it is told the progress when nothing happens.
    pub watch_progress_interval: Duration,
    /// How large the store may become before NOSPACE is raised, in bytes; `None` for as large as the disk lets it.
    pub quota_bytes: Option<u64>,
    /// Whether etcd's rules for changes of members hold.
    pub strict_reconfig_check: bool,
    /// How much history is kept; `None` for all of it, until a client compacts.
    pub retention: Option<Retention>,
    /// Responses to watches that allow it are split when they are larger than this.
    pub watch_fragment_bytes: usize,
    /// The folder where snapshots for clients are put together.
    pub snapshot_dir: PathBuf,
    /// What is served besides gRPC, and to whom.
    pub web: WebAccess,
    /// How users show who they are.
    pub users: UserOptions,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            request_bytes_max: 16 << 20,
            txn_ops_max: 128,
            streams_max: 1 << 16,
            frame_bytes_max: 1 << 20,
            window_bytes: 4 << 20,
            keepalive_interval: Duration::from_secs(2 * 60 * 60),
            keepalive_timeout: Duration::from_secs(20),
            drain: Duration::from_secs(5),
            watch_progress_interval: Duration::from_secs(10 * 60),
            quota_bytes: None,
            strict_reconfig_check: true,
            retention: None,
            watch_fragment_bytes: 3 << 19,
            snapshot_dir: std::env::temp_dir(),
            web: WebAccess::default(),
            users: UserOptions::default(),
        }
    }
}

impl Limits {
    /// The largest message: a request and a little around it, so that a write that is too large is refused with etcd's
    /// own text rather than by the transport.
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.request_bytes_max + MESSAGE_BYTES_EXTRA
    }

    /// What concerns connections.
    pub(crate) fn connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections_max: self.connections_max,
            streams_max: self.streams_max,
            frame_bytes_max: self.frame_bytes_max,
            window_bytes: self.window_bytes,
            keepalive_interval: self.keepalive_interval,
            keepalive_timeout: self.keepalive_timeout,
            drain: self.drain,
            ..ConnectionLimits::default()
        }
    }
}

/// The services of one replica. Cheap to clone, for what outlives a request.
#[derive(Clone)]
pub(crate) struct Face {
    pub(crate) handle: Handle<Store>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) hub: Arc<Hub>,
    /// Whoever reads a slice of something large holds it.
    pub(crate) slices: Arc<Semaphore>,
    pub(crate) gatherer: Gatherer,
    /// Whoever makes a snapshot for a client holds it.
    pub(crate) snapshots: Arc<Semaphore>,
    /// Says who asks.
    pub(crate) auth: Arc<Auth>,
    /// What the store may still grow by.
    pub(crate) room: Arc<Room>,
    /// What probes came to, at whichever port.
    pub(crate) probe_counts: Arc<ProbeCounts>,
    /// Calls at every port.
    pub(crate) calls: Arc<CallCounts>,
    /// What requests and answers are charged to: their connection, except for those that come by the routes.
    pub(crate) account: Account,
    identity: Arc<OnceCell<Identity>>,
}

/// Who answers; never changes while a replica runs.
#[derive(Clone, Copy)]
struct Identity {
    cluster: u64,
    member: u64,
}

impl Identity {
    fn of(cluster: ClusterId, member: ReplicaId) -> Self {
        Identity {
            // Clients take 0 for "no cluster".
            cluster: (cluster.0 as u64).max(1),
            member: u64::from(member.0),
        }
    }
}

impl Face {
    /// The face of the replica behind `handle`.
    pub(crate) fn new(
        handle: Handle<Store>,
        limits: Limits,
        metrics: Option<Metrics>,
        account: Account,
    ) -> Self {
        Face {
            hub: Arc::new(Hub::default()),
            slices: Arc::new(Semaphore::new(1)),
            room: Arc::default(),
            probe_counts: Arc::default(),
            calls: Arc::default(),
            gatherer: Gatherer::new(handle.clone()),
            snapshots: Arc::new(Semaphore::new(1)),
            auth: Arc::new(Auth::new(limits.users.clone())),
            handle,
            limits,
            metrics,
            account,
            identity: Arc::default(),
        }
    }

    /// A copy of the face that charges the budget of one connection.
    pub(crate) fn on_connection(&self, account: Account) -> Self {
        Face {
            account,
            ..self.clone()
        }
    }

    /// Gives the face of a gateway the cluster and member id that it answers with, so that it asks no replica for
    /// them, nor for users.
    pub(crate) fn named(self, cluster: ClusterId, member: ReplicaId) -> Self {
        let identity = Identity::of(cluster, member);
        Face {
            identity: Arc::new(OnceCell::new_with(Some(identity))),
            auth: Arc::new(Auth::of_gateway()),
            ..self
        }
    }

    /// The header of a response at a revision of the store, 0 where the store was not asked.
    pub(crate) async fn header(&self, revision: i64) -> Result<ResponseHeader, Status> {
        let ask = async || {
            let replica = self.replica().await?;
            Ok::<_, Status>(Identity::of(replica.cluster, replica.me))
        };
        let identity = self.identity.get_or_try_init(ask).await?;
        Ok(ResponseHeader {
            cluster_id: identity.cluster,
            member_id: identity.member,
            revision,
            raft_term: self.handle.term(),
        })
    }

    /// What the replica says of itself. Where it takes no more requests this waits: what was done before must
    /// not be told as refused.
    pub(crate) async fn replica(&self) -> Result<quorate_server::Status, Status> {
        loop {
            match self.handle.status().await {
                Err(Failure::Overloaded) => tokio::time::sleep(RETRY).await,
                described => return described.map_err(failed),
            }
        }
    }

    /// What the replica says of itself once its cluster is at a feature level, or after a while: a new cluster gets
    /// there as soon as its replicas have met, and its first client may come before that.
    pub(crate) async fn replica_at(&self, level: u32) -> Result<quorate_server::Status, Status> {
        let deadline = Instant::now() + LEVEL_WAIT_MAX;
        loop {
            let replica = self.replica().await?;
            if replica.level >= level || Instant::now() >= deadline {
                return Ok(replica);
            }
            tokio::time::sleep(LEVEL_RETRY).await;
        }
    }

    /// Applies a command, some values of which are kept as payloads; says what the store made of it.
    pub(crate) async fn apply(
        &self,
        body: Bytes,
        payloads: Vec<Payload>,
        asker: &Asker,
    ) -> Result<Result<Applied, Refused>, Status> {
        if *asker == Asker::Nobody {
            return Ok(Err(Refused::UserEmpty));
        }
        let body = asker.sign(body);
        let bulk = payloads.iter().map(|payload| payload.len as usize);
        let bytes = body.len() + bulk.sum::<usize>();
        if bytes > self.limits.request_bytes_max {
            return Err(status(errors::REQUEST_TOO_LARGE));
        }
        if !self.room.fits(bytes) {
            // Rare: it is not to make room for every write.
            Box::pin(self.check_quota(&body, bytes)).await?;
        }
        // Who asks stands in the command.
        let principal = Principal::default();
        let result = self.handle.write_with(body, payloads, principal).await;
        Ok(decode_result(&result.map_err(failed)?))
    }

    /// Applies a command whose response may have values in it, and gathers all of them.
    pub(crate) async fn apply_whole(
        &self,
        body: Bytes,
        payloads: Vec<Payload>,
        asker: &Asker,
    ) -> Result<Result<Applied, Refused>, Status> {
        let applied = self.apply(body.clone(), payloads, asker).await?;
        match applied {
            Ok(applied) if applied.has_pending_values => {
                Ok(Ok(Box::pin(self.fill(&body, applied)).await?))
            }
            Ok(applied) => Ok(Ok(self.charged(applied)?)),
            refused => Ok(refused),
        }
    }

    /// Reads the store.
    pub(crate) async fn read(
        &self,
        query: Query,
        consistency: Consistency,
        asker: &Asker,
    ) -> Result<QueryAnswer, Status> {
        let mut charge = self.account.charge();
        match self.ask(query, consistency, &mut charge, asker).await? {
            QueryAnswer::Refused(reason) => Err(refused(reason)),
            answer => Ok(answer),
        }
    }

    /// Asks the store, whose refusal counts as an answer. What a large answer takes is added to `charge`.
    pub(crate) async fn ask(
        &self,
        query: Query,
        consistency: Consistency,
        charge: &mut Charge,
        asker: &Asker,
    ) -> Result<QueryAnswer, Status> {
        let asked = self.handle.read(query.by(asker), consistency);
        match asked.await.map_err(failed)? {
            first @ (QueryAnswer::Large(_)
            | QueryAnswer::HashRest(_)
            | QueryAnswer::PendingResponse(_)) => {
                // Rare and large: it is not to make room for every read.
                Box::pin(self.complete(first, consistency, charge, asker)).await
            }
            answer => Ok(answer),
        }
    }

    /// Figures about the store.
    pub(crate) async fn figures(&self, consistency: Consistency) -> Result<StoreStatus, Status> {
        match self
            .read(Query::Status, consistency, &Asker::Anybody)
            .await?
        {
            QueryAnswer::Status(figures) => Ok(figures),
            _ => Err(mismatch()),
        }
    }
}

/// Room for what surrounds a request of the largest size.
const MESSAGE_BYTES_EXTRA: usize = 512 << 10;

/// The version of etcd we speak for.
pub const VERSION: &str = "3.7.0";

/// How long to wait when the replica takes no more requests.
pub(crate) const RETRY: Duration = Duration::from_millis(2);
/// How long to wait for a feature level, and how often to look.
const LEVEL_WAIT_MAX: Duration = Duration::from_secs(3);
const LEVEL_RETRY: Duration = Duration::from_millis(50);

/// An error as gRPC carries it.
pub(crate) fn status(error: Error) -> Status {
    Status::new(Code::from_i32(error.code as i32), error.text)
}

/// The store said no.
pub(crate) fn refused(reason: Refused) -> Status {
    status(reason.error())
}

/// The request got no result. A replica that cannot serve says what makes clients try another.
pub(crate) fn failed(failure: Failure) -> Status {
    status(match failure {
        Failure::Overloaded => errors::TOO_MANY_REQUESTS,
        Failure::TooLarge => errors::REQUEST_TOO_LARGE,
        Failure::Timeout => errors::TIMEOUT,
        Failure::NotServing => errors::NO_LEADER,
        Failure::Stopping | Failure::Stopped => errors::STOPPED,
        Failure::NoSpace => errors::NO_SPACE,
        Failure::Corrupt => errors::CORRUPT,
    })
}

/// There is no room for the response of a command.
pub(crate) fn no_room(why: Exhausted) -> Status {
    carried_out(&exhausted(why))
}

/// A write was done and its response cannot be shown. No client library repeats a call that got this code.
pub(crate) fn carried_out(why: &Status) -> Status {
    Status::data_loss(format!("{}; the request was carried out", why.message()))
}

/// The store answered a question nobody asked: a bug, told to the client rather than to no one.
pub(crate) fn mismatch() -> Status {
    Status::internal("the store's answer does not fit the question")
}

/// A request this server does not serve yet.
pub(crate) fn unsupported(what: &'static str) -> Status {
    Status::unimplemented(format!("quorate: {what} is not supported yet"))
}
