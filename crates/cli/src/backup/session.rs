//! What a backup does over one connection: a full snapshot where one is due, and all changes after it.

use super::full::{Trouble, take};
use super::{RunOptions, now_ms};
use crate::etcd_client::EtcdClient;
use crate::utc;
use bytes::Bytes;
use quorate_backup::{Change, Folder, Full, SegmentWriter};
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    LeaseTimeToLiveRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use quorate_etcd_api::mvccpb::{Event, EventType};
use quorate_etcd_snapshot::LeaseRecord;
use quorate_face_etcd::client::{LeaseClient, WatchClient};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// How often what has come in is made to survive a crash, and the server is asked whether more is on its way.
const TICK: Duration = Duration::from_millis(200);
/// How often people are told how far the backup is.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// How often Prometheus is.
const MEASURED_EVERY: Duration = Duration::from_secs(5);
/// A segment ends when it is so long, in bytes.
const SEGMENT_BYTES: u64 = 64 << 20;
/// The longest message of changes that is taken, in bytes: one revision may delete any number of keys.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// Why a session ended in good order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// A full snapshot was all that was asked for.
    Once,
    /// Changes that the backup lacks were compacted: it goes on from a new full snapshot.
    Compacted,
}

/// A backup over one connection.
pub(super) struct Session<'a> {
    options: &'a RunOptions,
    client: EtcdClient,
    folder: Arc<Folder>,
    segment: Option<SegmentWriter>,
    /// The leases that the segment has told of.
    leases: BTreeSet<i64>,
    /// The newest full snapshot.
    full: Option<Full>,
    /// One that is on its way.
    taking: Option<JoinHandle<Result<(Full, u64), Trouble>>>,
    /// The latest time of a change: a clock that goes back makes no earlier ones.
    last_ms: u64,
    /// When everything up to then was known to be here.
    whole_ms: u64,
    told: Option<Instant>,
    measured: Option<Instant>,
    has_unsynced: bool,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        options: &'a RunOptions,
        client: EtcdClient,
        folder: Arc<Folder>,
    ) -> Session<'a> {
        Session {
            options,
            client,
            folder,
            segment: None,
            leases: BTreeSet::new(),
            full: None,
            taking: None,
            last_ms: 0,
            whole_ms: 0,
            told: None,
            measured: None,
            has_unsynced: false,
        }
    }

    pub(super) async fn run(mut self) -> Result<Ended, Trouble> {
        self.full = self.folder.fulls()?.pop();
        let next = self.folder.next()?;
        let next = match next.filter(|_| !self.options.once) {
            Some(next) => next,
            None => {
                let taken = take(self.client.clone(), Arc::clone(&self.folder)).await?;
                self.took(&taken)?;
                taken.0.revision + 1
            }
        };
        if self.options.once {
            return Ok(Ended::Once);
        }
        let ended = self.follow(next).await;
        if let Some(taking) = self.taking.take() {
            taking.abort();
        }
        // What has come in stays, whatever ended it.
        self.sync()?;
        ended
    }

    /// Tells of a full snapshot, and removes what is older than what is to be kept.
    fn took(&mut self, (full, bytes): &(Full, u64)) -> Result<(), Trouble> {
        println!(
            "full snapshot: revision {}, {bytes} bytes, each record read: {}",
            full.revision,
            full.path.display()
        );
        self.full = Some(full.clone());
        if self.options.keep > 0 {
            let removed = self.folder.keep(self.options.keep)?;
            if removed > 0 {
                println!("removed: {removed} files that only older full snapshots needed");
            }
        }
        Ok(())
    }

    /// Takes changes from a revision on.
    async fn follow(&mut self, next: i64) -> Result<Ended, Trouble> {
        let (asks, outgoing) = mpsc::channel(4);
        let create = RequestUnion::CreateRequest(WatchCreateRequest {
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
            start_revision: next,
            ..WatchCreateRequest::default()
        });
        ask(&asks, create);
        let service = WatchClient::new(self.client.channel.clone());
        let mut service = service.max_decoding_message_size(MESSAGE_BYTES_MAX);
        let request = self.client.request(ReceiverStream::new(outgoing));
        let mut answers: Streaming<WatchResponse> = service.watch(request).await?.into_inner();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.rotate(next)?;
        loop {
            tokio::select! {
                answer = answers.message() => {
                    let gone = || Trouble::Replica("the replica ended the watch".to_owned());
                    if let Some(ended) = self.hear(answer?.ok_or_else(gone)?).await? {
                        return Ok(ended);
                    }
                }
                taken = async { self.taking.as_mut().expect("it is there").await }, if self.taking.is_some() => {
                    self.taking = None;
                    let gone = |error: tokio::task::JoinError| Trouble::Replica(error.to_string());
                    let taken = taken.map_err(gone)??;
                    // From here on an older segment is not needed.
                    self.rotate(self.next())?;
                    self.took(&taken)?;
                }
                _ = tick.tick() => {
                    self.sync()?;
                    ask(&asks, RequestUnion::ProgressRequest(WatchProgressRequest {}));
                    self.take_if_due();
                    self.tell()?;
                }
            }
        }
    }

    /// The revision that comes next.
    fn next(&self) -> i64 {
        self.segment.as_ref().map_or(0, SegmentWriter::next)
    }

    async fn hear(&mut self, answer: WatchResponse) -> Result<Option<Ended>, Trouble> {
        if answer.canceled && answer.compact_revision > 0 {
            eprintln!(
                "the changes from revision {} on were compacted at {} before they came here, and cannot be restored: \
                 going on from a full snapshot",
                self.next(),
                answer.compact_revision
            );
            let taken = take(self.client.clone(), Arc::clone(&self.folder)).await?;
            self.took(&taken)?;
            return Ok(Some(Ended::Compacted));
        }
        if answer.canceled {
            return Err(Trouble::Replica(answer.cancel_reason));
        }
        let revision = answer.header.map_or(0, |header| header.revision);
        let is_progress = answer.events.is_empty() && !answer.created;
        let mut events = answer.events.into_iter().peekable();
        let revision_of = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        while let Some(first) = events.next() {
            let revision = revision_of(&first);
            let mut all = vec![first];
            while let Some(event) = events.next_if(|event| revision_of(event) == revision) {
                all.push(event);
            }
            self.write(revision, all).await?;
        }
        if is_progress && revision == self.next() - 1 {
            self.whole_ms = now_ms();
        }
        Ok(None)
    }

    /// Adds what one revision changed.
    async fn write(&mut self, revision: i64, events: Vec<Event>) -> Result<(), Trouble> {
        let mut leases = Vec::new();
        for event in events
            .iter()
            .filter(|event| event.r#type == EventType::Put as i32)
        {
            let lease = event.kv.as_ref().map_or(0, |kv| kv.lease);
            if lease != 0 && self.leases.insert(lease) {
                leases.extend(self.lease(lease).await?);
            }
        }
        self.last_ms = self.last_ms.max(now_ms());
        let change = Change {
            time_ms: self.last_ms,
            revision,
            events,
            leases,
        };
        let Some(segment) = &mut self.segment else {
            return Ok(());
        };
        segment.append(&change)?;
        self.has_unsynced = true;
        if segment.bytes() >= SEGMENT_BYTES {
            self.rotate(revision + 1)?;
        }
        Ok(())
    }

    /// How long a lease lives; `None` if it has ended by now.
    async fn lease(&self, id: i64) -> Result<Option<LeaseRecord>, Trouble> {
        let mut service = LeaseClient::new(self.client.channel.clone());
        let request = LeaseTimeToLiveRequest { id, keys: false };
        let answer = service.lease_time_to_live(self.client.request(request));
        let ttl_s = match answer.await {
            Ok(answer) => answer.into_inner().granted_ttl,
            Err(status) if status.code() == tonic::Code::NotFound => 0,
            Err(status) => return Err(status.into()),
        };
        Ok(Some(LeaseRecord {
            id,
            ttl_s,
            remaining_ttl_s: 0,
        })
        .filter(|_| ttl_s > 0))
    }

    /// Ends the segment, and begins the next.
    fn rotate(&mut self, next: i64) -> Result<(), Trouble> {
        self.sync()?;
        self.segment = None;
        self.leases.clear();
        self.segment = Some(self.folder.begin_segment(next)?);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Trouble> {
        if let Some(segment) = self.segment.as_mut().filter(|_| self.has_unsynced) {
            segment.sync()?;
            self.has_unsynced = false;
        }
        Ok(())
    }

    fn take_if_due(&mut self) {
        let every = u64::try_from(self.options.full_every.as_millis()).unwrap_or(u64::MAX);
        let since = self.full.as_ref().map_or(0, |full| full.time_ms);
        if self.taking.is_none() && now_ms() >= since.saturating_add(every) {
            let (client, folder) = (self.client.clone(), Arc::clone(&self.folder));
            self.taking = Some(tokio::spawn(take(client, folder)));
        }
    }

    /// Says how far the backup is: to people now and then, to Prometheus more often.
    fn tell(&mut self) -> Result<(), Trouble> {
        let is_due = |at: Option<Instant>, every| at.is_none_or(|at| at.elapsed() >= every);
        if is_due(self.measured, MEASURED_EVERY) {
            self.measured = Some(Instant::now());
            self.folder
                .write("metrics.prom", self.metrics().as_bytes())?;
        }
        if is_due(self.told, TOLD_EVERY) && self.whole_ms > 0 {
            self.told = Some(Instant::now());
            let (now, revision) = (now_ms(), self.next() - 1);
            let behind_s = now.saturating_sub(self.whole_ms) / 1000;
            let behind = match behind_s {
                0..2 => "everything is here".to_owned(),
                seconds => format!("{seconds} s behind"),
            };
            println!("{}: revision {revision}, {behind}", utc::format(now));
        }
        Ok(())
    }

    fn metrics(&self) -> String {
        let full = self.full.as_ref();
        let seconds = |ms: u64| ms as f64 / 1000.0;
        let mut text = String::new();
        for (name, help, value) in [
            (
                "quorate_backup_revision",
                "The last revision that the backup has.",
                (self.next() - 1) as f64,
            ),
            (
                "quorate_backup_whole_timestamp_seconds",
                "When everything that the cluster had was in the backup, for the last time.",
                seconds(self.whole_ms),
            ),
            (
                "quorate_backup_full_revision",
                "The revision of the newest full snapshot.",
                full.map_or(0, |full| full.revision) as f64,
            ),
            (
                "quorate_backup_full_timestamp_seconds",
                "When the newest full snapshot was taken.",
                seconds(full.map_or(0, |full| full.time_ms)),
            ),
        ] {
            let _ = writeln!(
                text,
                "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"
            );
        }
        text
    }
}

/// Says something to the server, unless it has not taken what was said before.
fn ask(asks: &mpsc::Sender<WatchRequest>, request: RequestUnion) {
    let request_union = Some(request);
    let _ = asks.try_send(WatchRequest { request_union });
}
