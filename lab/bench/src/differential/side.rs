//! One of the two systems: performs steps and says what came of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmType, CompactionResponse, DeleteRangeResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
    PutRequest, PutResponse, RangeRequest, RangeResponse, TxnResponse, WatchCreateRequest,
};
use quorate_etcd_store::check::is_serializable;
use quorate_face_etcd::client::{KvClient, LeaseClient};
use tonic::transport::{Channel, Endpoint};

use super::answer::{answered, outcome, refused};
use super::call::with_token;
use super::leases::Leases;
use super::step::{Action, Outcome, STREAMS, Step};
use super::stream::Stream;
use super::users::{Accounts, Caller};
use super::world::World;
use crate::cluster::Cluster;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The system under test, or the one it is compared with.
#[derive(Debug)]
pub(crate) struct Side {
    /// Where steps go: to members, or gateways to them.
    pub(super) channels: Vec<Channel>,
    /// The channels above, and those of members behind gateways.
    pub(super) members: Vec<Channel>,
    /// Where these are.
    urls: Vec<String>,
    streams: Vec<Stream>,
    pub(super) leases: Leases,
    /// The token of each user's last login.
    pub(super) tokens: BTreeMap<String, String>,
    /// What the caller of this step shows.
    pub(super) token: Option<String>,
    /// Whether this step goes through the gateway for JSON where it can.
    pub(super) speaks_json: bool,
    /// A watch that ended because of a compaction stays known until it is cancelled once more, and
    /// until then its stream tells no progress: that is etcd's way.
    keeps_compacted_watches: bool,
}

/// A channel to each of these URLs.
async fn connect(urls: &[String]) -> Result<Vec<Channel>, String> {
    let mut channels = Vec::new();
    for url in urls {
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|error| error.to_string())?;
        let channel = endpoint.connect_timeout(PATIENCE).connect().await;
        channels.push(channel.map_err(|error| format!("{url}: {error}"))?);
    }
    Ok(channels)
}

/// What came of a request for a lease.
struct Granted {
    outcome: Outcome,
    /// The number of the lease, if there is one.
    id: Option<i64>,
}

impl Side {
    /// Connects to a system's endpoints, and to its members, which may be behind them.
    pub(crate) async fn connect(system: &Cluster, is_etcd: bool) -> Result<Side, String> {
        let channels = connect(&system.endpoints).await?;
        let urls = system.pages();
        let members = connect(&urls).await?;
        let open = |index| Stream::open(&channels[index % channels.len()], None);
        Ok(Side {
            streams: (0..STREAMS).map(open).collect(),
            channels,
            members,
            urls,
            leases: Leases::default(),
            tokens: BTreeMap::new(),
            token: None,
            speaks_json: false,
            keeps_compacted_watches: is_etcd,
        })
    }

    /// Performs a step. Whatever happens is an outcome, to be compared with the other side's.
    pub(crate) async fn perform(&mut self, step: &Step, world: &World) -> Outcome {
        let at = step.endpoint % self.channels.len();
        let served = tokio::time::timeout(PATIENCE * 2, self.serve_caller(at, step, world)).await;
        let served = served.unwrap_or_else(|_| Err("none in time".to_owned()));
        served.unwrap_or_else(|why| Outcome {
            text: format!("no answer: {why}"),
            ..Outcome::default()
        })
    }

    async fn serve_caller(&mut self, at: usize, step: &Step, world: &World) -> Served {
        self.speaks_json = step.in_json;
        let caller = match step.action.is_of_stream() {
            true => &Caller::Nobody,
            false => &step.caller,
        };
        if let Some(not_let_in) = self.become_caller(at, caller).await? {
            return Ok(not_let_in);
        }
        let outcome = self.serve(at, &step.action, world).await?;
        if world.accounts.ends_watches(&step.action) {
            let mut accounts = world.accounts.clone();
            if let Action::Users(action) = &step.action
                && outcome.succeeded
            {
                accounts.learn(action);
            }
            self.token = self.administrator(at, &accounts).await?;
            (0..STREAMS).for_each(|stream| self.reopen(stream));
        }
        Ok(outcome)
    }

    pub(super) async fn serve(&mut self, at: usize, action: &Action, world: &World) -> Served {
        match action {
            Action::Put(_) | Action::DeleteRange(_) | Action::Compact(_) => {
                self.write(at, action).await
            }
            Action::Txn(request) => {
                if is_serializable(request) {
                    self.catch_up(at, &world.accounts).await?;
                }
                self.write(at, action).await
            }
            Action::Range(request) => self.range(at, request.clone(), &world.accounts).await,
            Action::RangeStream(request) => {
                self.range_stream(at, request.clone(), &world.accounts)
                    .await
            }
            Action::Grant(request) => Ok(self.granted(at, *request).await?.outcome),
            Action::GrantBriefly(request) => self.grant_briefly(at, *request).await,
            Action::Revoke { id } => self.revoke(at, self.leases.real(*id)).await,
            Action::KeepAlive(ids) => self.keep_alive(at, ids).await,
            Action::TimeToLive { id, keys } => self.time_to_live(at, *id, *keys).await,
            Action::Leases => self.list_leases(at).await,
            Action::Lock { lease } => self.lock(at, *lease).await,
            Action::Elect { lease, value } => self.elect(at, *lease, value).await,
            Action::Watch { stream, request } => self.watch(*stream, request, world).await,
            Action::Cancel { stream, watch_id } => self.cancel(*stream, *watch_id, world).await,
            Action::Reopen { stream } => {
                self.reopen(*stream);
                Ok(Outcome {
                    succeeded: true,
                    ..Outcome::default()
                })
            }
            Action::Settle => self.settle(at, world).await,
            Action::RaiseNoSpace => self.raise(at, AlarmType::Nospace).await,
            Action::PutTooMuch { key } => self.put_too_much(at, key).await,
            Action::WhileCorrupt(actions) => self.while_corrupt(at, actions, world).await,
            Action::Disarm => self.disarm(at).await,
            Action::Users(action) => self.ask_about_users(at, action).await,
            _ => {
                // These are answered from the member's own state.
                self.catch_up(at, &world.accounts).await?;
                self.maintain(at, action).await
            }
        }
    }

    async fn range(&mut self, at: usize, request: RangeRequest, accounts: &Accounts) -> Served {
        if request.serializable {
            self.catch_up(at, accounts).await?;
        }
        let shown = |side: &mut Side, message: &mut RangeResponse| side.leases.show_range(message);
        self.call(at, "/etcdserverpb.KV/Range", request, shown)
            .await
    }

    /// Reads a range in several messages, which are merged as protobuf merges them.
    async fn range_stream(
        &mut self,
        at: usize,
        request: RangeRequest,
        accounts: &Accounts,
    ) -> Served {
        if request.serializable {
            self.catch_up(at, accounts).await?;
        }
        let mut messages = match self.kv(at).range_stream(self.asked(request)?).await {
            Ok(messages) => messages.into_inner(),
            Err(status) => return Ok(refused(&status)),
        };
        let mut whole = RangeResponse::default();
        loop {
            match messages.message().await {
                Ok(Some(message)) => {
                    let part = message.range_response.unwrap_or_default();
                    whole.header = part.header.or(whole.header);
                    whole.kvs.extend(part.kvs);
                    whole.more |= part.more;
                    whole.count = whole.count.max(part.count);
                }
                Ok(None) => break,
                Err(status) => return Ok(refused(&status)),
            }
        }
        self.leases.show_range(&mut whole);
        Ok(answered(whole))
    }

    async fn write(&mut self, at: usize, action: &Action) -> Served {
        match action.clone() {
            Action::Put(mut request) => {
                request.lease = self.leases.real(request.lease);
                let shown =
                    |side: &mut Side, message: &mut PutResponse| side.leases.show_put(message);
                self.call(at, "/etcdserverpb.KV/Put", request, shown).await
            }
            Action::DeleteRange(request) => {
                let shown = |side: &mut Side, message: &mut DeleteRangeResponse| {
                    side.leases.show_delete(message);
                };
                self.call(at, "/etcdserverpb.KV/DeleteRange", request, shown)
                    .await
            }
            Action::Txn(mut request) => {
                self.leases.translate(&mut request);
                let shown =
                    |side: &mut Side, message: &mut TxnResponse| side.leases.show_txn(message);
                self.call(at, "/etcdserverpb.KV/Txn", request, shown).await
            }
            Action::Compact(request) => {
                let shown = |_: &mut Side, _: &mut CompactionResponse| ();
                self.call(at, "/etcdserverpb.KV/Compact", request, shown)
                    .await
            }
            other => Err(format!("{other:?} is no write")),
        }
    }

    async fn grant_briefly(&mut self, at: usize, request: LeaseGrantRequest) -> Served {
        let Granted {
            outcome: mut granted,
            id,
        } = self.granted(at, request).await?;
        if let Some(id) = id {
            granted.text.push_str(&self.revoke(at, id).await?.text);
        }
        Ok(granted)
    }

    /// Grants a lease.
    async fn granted(
        &mut self,
        at: usize,
        mut request: LeaseGrantRequest,
    ) -> Result<Granted, String> {
        request.id = self.leases.real(request.id);
        let mut id = None;
        let answer = |side: &mut Side, message: &mut LeaseGrantResponse| {
            id = Some(message.id);
            if request.id == 0 {
                message.id = side.leases.name(message.id);
            }
        };
        let outcome = self.call(at, "/etcdserverpb.Lease/LeaseGrant", request, answer);
        let outcome = outcome.await?;
        Ok(Granted { outcome, id })
    }

    /// Revokes the lease with this real number.
    async fn revoke(&mut self, at: usize, id: i64) -> Served {
        let request = LeaseRevokeRequest { id };
        let answer = |_: &mut Side, _: &mut LeaseRevokeResponse| ();
        self.call(at, "/etcdserverpb.Lease/LeaseRevoke", request, answer)
            .await
    }

    async fn keep_alive(&mut self, at: usize, ids: &[i64]) -> Served {
        let real = ids.iter().map(|id| LeaseKeepAliveRequest {
            id: self.leases.real(*id),
        });
        let requests = tokio_stream::iter(real.collect::<Vec<_>>());
        let mut whole = Outcome::default();
        let requests = self.asked(requests)?;
        let mut answers = match self.lease(at).lease_keep_alive(requests).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return Ok(refused(&status)),
        };
        loop {
            let one = match answers.message().await {
                Ok(None) => return Ok(whole),
                Ok(Some(mut answer)) => {
                    answer.id = self.leases.shown(answer.id);
                    answered(answer)
                }
                Err(status) => refused(&status),
            };
            whole.revision = one.revision;
            whole.text.push_str(&one.text);
            if !one.succeeded {
                return Ok(whole);
            }
        }
    }

    async fn time_to_live(&mut self, at: usize, id: i64, keys: bool) -> Served {
        let id = self.leases.real(id);
        let request = LeaseTimeToLiveRequest { id, keys };
        let mut seconds_left = 0;
        let answer = |side: &mut Side, message: &mut LeaseTimeToLiveResponse| {
            message.id = side.leases.shown(message.id);
            seconds_left = std::mem::take(&mut message.ttl);
            // etcd keeps them in no order.
            message.keys.sort();
        };
        let outcome = self.call(at, "/etcdserverpb.Lease/LeaseTimeToLive", request, answer);
        let mut outcome = outcome.await?;
        outcome.seconds_left = seconds_left;
        Ok(outcome)
    }

    async fn list_leases(&mut self, at: usize) -> Served {
        let request = LeaseLeasesRequest {};
        let answer = |side: &mut Side, message: &mut LeaseLeasesResponse| {
            for lease in &mut message.leases {
                lease.id = side.leases.shown(lease.id);
            }
            // etcd lists them by the time they have left.
            message.leases.sort_by_key(|lease| lease.id);
        };
        self.call(at, "/etcdserverpb.Lease/LeaseLeases", request, answer)
            .await
    }

    async fn watch(
        &mut self,
        stream: usize,
        request: &WatchCreateRequest,
        world: &World,
    ) -> Served {
        self.catch_up(stream % self.channels.len(), &world.accounts)
            .await?;
        let open = &mut self.streams[stream];
        let response = open.create(request.clone(), &self.leases).await?;
        let (id, refused) = (response.watch_id, response.canceled);
        let mut outcome = answered(response);
        let start = request.start_revision;
        if refused {
            return Ok(outcome);
        }
        if start == 0 || start >= world.compacted {
            outcome.watch_id = Some(id);
            return Ok(outcome);
        }
        let ended = open.canceled(id, &self.leases).await?;
        outcome.text.push_str(&answered(ended).text);
        if self.keeps_compacted_watches {
            open.ask_to_cancel(id).await?;
            open.canceled(id, &self.leases).await?;
        }
        Ok(outcome)
    }

    async fn cancel(&mut self, stream: usize, watch_id: i64, world: &World) -> Served {
        self.catch_up(stream % self.channels.len(), &world.accounts)
            .await?;
        self.streams[stream].ask_to_cancel(watch_id).await?;
        if !world.watches[stream].contains(&watch_id) {
            // Nobody answers that.
            return Ok(Outcome::default());
        }
        let response = self.streams[stream]
            .canceled(watch_id, &self.leases)
            .await?;
        Ok(answered(response))
    }

    fn reopen(&mut self, stream: usize) {
        let channel = &self.channels[stream % self.channels.len()];
        self.streams[stream] = Stream::open(channel, self.token.clone());
    }

    /// Puts until every watch has begun, and waits until all of them have told everything.
    async fn settle(&mut self, at: usize, world: &World) -> Served {
        let token = self.administrator(at, &world.accounts).await?;
        let token = token.as_deref();
        let alarms = match world.is_full {
            true => self.listed_alarms(at, token).await?,
            false => Vec::new(),
        };
        self.change_alarms(at, &alarms, AlarmAction::Deactivate, token)
            .await?;
        let mut whole = Outcome::default();
        // A new revision each time: an answer to an earlier question cannot be taken for a new one.
        while whole.revision <= world.revision || whole.revision < world.watched_from {
            let request = PutRequest {
                key: Bytes::from_static(b"tick"),
                ..PutRequest::default()
            };
            let put = self.kv(at).put(with_token(request, token)?).await;
            let answer = outcome(put, |_| ());
            if !answer.succeeded || answer.revision <= whole.revision {
                return Ok(answer);
            }
            whole.revision = answer.revision;
        }
        self.change_alarms(at, &alarms, AlarmAction::Activate, token)
            .await?;
        for (index, watches) in world.watches.iter().enumerate() {
            let stream = &mut self.streams[index];
            if !watches.is_empty() {
                stream.progress(whole.revision, &self.leases).await?;
            }
            let told = stream.take();
            whole.events += told.events;
            for (id, told) in told.by_watch {
                let _ = write!(
                    whole.text,
                    "stream {index}, watch {id}: {}; ",
                    told.join(", ")
                );
            }
        }
        Ok(whole)
    }

    /// Makes a member know every write so far.
    async fn catch_up(&self, at: usize, accounts: &Accounts) -> Result<(), String> {
        let request = RangeRequest {
            key: Bytes::from_static(b"tick"),
            count_only: true,
            ..RangeRequest::default()
        };
        let token = self.administrator(at, accounts).await?;
        let request = with_token(request, token.as_deref())?;
        let read = self.kv(at).range(request).await;
        read.map(drop).map_err(|status| status.to_string())
    }

    /// The channel to an endpoint, or to a member behind those.
    pub(super) fn channel(&self, at: usize) -> Channel {
        self.members[at].clone()
    }

    /// Host and port of an endpoint, or of a member behind those.
    pub(super) fn authority(&self, at: usize) -> String {
        self.urls[at].trim_start_matches("http://").to_owned()
    }

    fn kv(&self, at: usize) -> KvClient<Channel> {
        KvClient::new(self.channel(at)).max_decoding_message_size(usize::MAX)
    }

    fn lease(&self, at: usize) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel(at))
    }
}

/// What a step gives; an error when there is no answer at all.
pub(super) type Served = Result<Outcome, String>;
