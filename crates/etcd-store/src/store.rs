//! The store as an application.

use crate::auth::{Asker, AuthBoard, AuthState, asker_and_body};
use crate::check;
use crate::command::{self, Command};
use crate::compact::FreedAt;
use crate::cursor::{RangeChunk, RangeCursor};
use crate::events::UnreadRevision;
use crate::flaw::Flaw;
use crate::hash::HashRest;
use crate::history::{History, Version};
use crate::journal::Journal;
use crate::lease::Leases;
use crate::plan::{Plan, admit_put};
use crate::query::{KeyHash, Operations, Query, QueryAnswer, Status};
use crate::refused::Refused;
use crate::slice::{FirstSlice, KEYS_PER_SLICE, Pins};
use crate::snapshot::{Cut, Loading};
use crate::value_refs::{LivePayloads, PayloadParts};
use crate::view::{View, header};
use crate::write::WriteTransaction;
use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Countdown, Payload, PayloadId};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A multi-version key-value store.
#[derive(Debug)]
pub struct Store {
    /// Every key that has a version, deleted ones included.
    pub(crate) keys: BTreeMap<Box<[u8]>, History>,
    /// The revision of the last change.
    pub(crate) revision: i64,
    /// Every change since the last compaction, and those it has not freed yet.
    pub(crate) journal: Journal,
    /// What of it somebody still wants to read.
    pub(crate) wanted: UnreadRevision,
    /// The first revision that can be read; -1, as in etcd, before any compaction.
    pub(crate) compacted: i64,
    /// How far freeing has come within that revision.
    pub(crate) freed_at: FreedAt,
    /// Leases and their keys.
    pub(crate) leases: Leases,
    /// Values that are kept as payloads.
    pub(crate) payloads: LivePayloads,
    /// Keys that exist now.
    pub(crate) live: u64,
    /// Estimated memory of all versions, in bytes.
    pub(crate) bytes: u64,
    /// Keys a read looks at before it lets others go on.
    pub(crate) keys_per_slice: usize,
    /// What large reads still want to read.
    pub(crate) pins: Pins,
    /// The compacted revision of a snapshot that is being taken: what counts there is not freed.
    pub(crate) cut_at: Option<i64>,
    /// The snapshot that is being loaded.
    pub(crate) loading: Option<Loading>,
    /// The revision before each command that may have to be taken back, oldest first.
    pub(crate) attempts: VecDeque<i64>,
    /// Users and roles.
    pub(crate) auth: Arc<AuthState>,
    /// What faces see of them. Every replica has one, whatever state it has.
    pub(crate) board: Arc<AuthBoard>,
    /// What was carried out here; no part of the state.
    pub(crate) operations: Operations,
    /// A deliberate fault, for tests and the simulator.
    pub(crate) flaw: Option<Flaw>,
}

impl Default for Store {
    fn default() -> Self {
        Store {
            keys: BTreeMap::new(),
            journal: Journal::default(),
            wanted: UnreadRevision::default(),
            revision: 1,
            compacted: -1,
            freed_at: FreedAt::default(),
            leases: Leases::default(),
            payloads: LivePayloads::default(),
            live: 0,
            bytes: 0,
            keys_per_slice: KEYS_PER_SLICE,
            pins: Pins::default(),
            cut_at: None,
            loading: None,
            attempts: VecDeque::new(),
            auth: Arc::default(),
            board: Arc::default(),
            operations: Operations::default(),
            flaw: None,
        }
    }
}

impl Store {
    /// What the bodies of commands say by themselves.
    pub const COMMAND_PROPERTIES: CommandProperties = CommandProperties {
        grows: command::grows,
        join: command::join,
        ..CommandProperties::UNKNOWN
    };

    /// An empty store, at revision 1.
    #[must_use]
    pub fn new() -> Self {
        Store::default()
    }

    /// Makes the store answer reads of more than so many keys in slices; see [`LargeRead`](crate::LargeRead).
    #[must_use]
    pub fn with_slices_of(self, keys: usize) -> Self {
        Store {
            keys_per_slice: keys.max(1),
            ..self
        }
    }

    /// Makes the store do something wrong on purpose: for tests and the simulator.
    #[must_use]
    pub fn with_flaw(self, flaw: Option<Flaw>) -> Self {
        Store { flaw, ..self }
    }

    /// Where faces see users and roles without asking; it stays the same whatever state is loaded.
    #[must_use]
    pub fn board(&self) -> Arc<AuthBoard> {
        Arc::clone(&self.board)
    }

    /// The body of a command that puts; see [`command`].
    #[must_use]
    pub fn encode_put(request: &PutRequest) -> Bytes {
        command::encode_put(request)
    }

    /// The body of a command that deletes.
    #[must_use]
    pub fn encode_delete_range(request: &DeleteRangeRequest) -> Bytes {
        command::encode_delete_range(request)
    }

    /// The body of a command that is a transaction.
    #[must_use]
    pub fn encode_txn(request: &TxnRequest) -> Bytes {
        command::encode_txn(request)
    }

    /// The body of a command that compacts.
    #[must_use]
    pub fn encode_compact(request: &CompactionRequest) -> Bytes {
        command::encode_compact(request)
    }

    /// The revision of the last change; 1 before the first.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// A digest of everything up to a revision, 0 meaning now; see [`KeyHash`]. Before the first
    /// revision, as etcd has it, is a digest of nothing.
    pub fn hash(&self, revision: i64) -> Result<KeyHash, Refused> {
        let mut rest = HashRest::new(self, revision)?;
        while !rest.read(self, usize::MAX) {}
        Ok(rest.found())
    }

    /// Figures about the store at its present revision.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            revision: self.revision,
            compacted: self.compacted,
            keys: self.live,
            bytes: STORE_BYTES + self.bytes + self.journal.bytes(),
            tidy: self.is_tidy(),
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            store: self,
            revision: self.revision,
        }
    }

    fn execute(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Result<Bytes, Refused> {
        let signed = asker_and_body(body)?;
        let (asker, body) = match &signed {
            Some((asker, body)) => (asker, body),
            None => (&Asker::Anybody, body),
        };
        let command = Command::decode_body(body)?;
        let puts = command.puts_with_payload();
        if puts.len() != payloads.len() {
            return Err(Refused::Malformed);
        }
        command.admit(at.admission)?;
        self.permit_command(asker, &command)?;
        let mut parts = PayloadParts::new(at.payload, payloads, puts);
        match &command {
            Command::Put(request) | Command::PutWithPayload(request) => {
                self.put(request, &mut parts)
            }
            Command::Txn(request) | Command::TxnWithPayloads(request, _) => {
                self.txn(request, &mut parts)
            }
            Command::DeleteRange(request) => self.delete_range(request),
            Command::Compact(request) => self.compact(request),
            Command::LeaseGrant(request) => self.grant(at, request),
            Command::LeaseRevoke(request) => self.revoke(request),
            Command::LeaseRenew(request) => Ok(self.renew(request)),
            Command::LeaseExpire(expiry) => Ok(self.expire(expiry)),
            Command::Auth(change) => self.change_auth(at, change),
        }
    }

    pub(crate) fn put(
        &mut self,
        request: &PutRequest,
        parts: &mut PayloadParts<'_>,
    ) -> Result<Bytes, Refused> {
        check::put(request)?;
        admit_put(self.view(), request)?;
        let mut writer = WriteTransaction::new(self);
        let mut response = writer.put(request, parts.next());
        response.header = None;
        Ok(command::applied_with_values(writer.finish(), &response))
    }

    pub(crate) fn delete_range(&mut self, request: &DeleteRangeRequest) -> Result<Bytes, Refused> {
        check::delete_range(request)?;
        let mut writer = WriteTransaction::new(self);
        let mut response = writer.delete(request);
        response.header = None;
        Ok(command::applied_with_values(writer.finish(), &response))
    }

    fn txn(
        &mut self,
        request: &TxnRequest,
        parts: &mut PayloadParts<'_>,
    ) -> Result<Bytes, Refused> {
        check::txn(request, usize::MAX)?;
        let plan = Plan::new(self.view(), request, parts)?;
        plan.admit(self.view())?;
        self.operations.txns += 1;
        let mut writer = WriteTransaction::new(self);
        let mut response = writer.txn(&plan);
        response.header = None;
        Ok(command::applied_with_values(writer.finish(), &response))
    }

    fn range(&self, request: &RangeRequest) -> Result<QueryAnswer, Refused> {
        check::range(request)?;
        let revision = self.view().readable(request.revision)?;
        let mut slice = FirstSlice::new(self.keys_per_slice);
        let response = slice.range(self.view(), request, revision);
        Ok(slice.end_range(request, response))
    }

    fn range_chunk(&self, cursor: &RangeCursor) -> Result<RangeChunk, Refused> {
        check::range(cursor.request())?;
        self.view().range_chunk(cursor)
    }

    fn read_txn(&self, request: &TxnRequest) -> Result<QueryAnswer, Refused> {
        check::txn(request, usize::MAX)?;
        let plan = Plan::new(self.view(), request, &mut PayloadParts::none())?;
        plan.admit(self.view())?;
        let mut slice = FirstSlice::new(self.keys_per_slice);
        let mut response = plan.read(self.view(), &mut slice)?;
        response.header = Some(header(self.revision));
        Ok(slice.end_txn(request, response))
    }
}

impl Application for Store {
    type Query = Query;
    type Answer = QueryAnswer;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Bytes {
        let result = self.execute(at, body, payloads);
        let result = result.unwrap_or_else(command::refused);
        self.payloads.settle(at.payload, payloads.len());
        self.free(CHANGES_FREED_PER_COMMAND);
        result
    }

    fn command_properties(&self) -> CommandProperties {
        Store::COMMAND_PROPERTIES
    }

    fn is_retractable(&self, body: &Bytes) -> bool {
        command::changes_keys_alone(body)
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        self.attempts.push_back(self.revision);
        self.apply(at, body, &[])
    }

    fn keep(&mut self) {
        self.attempts.pop_front();
    }

    fn retract(&mut self) {
        self.take_back_attempt();
    }

    fn is_live(&self, payload: PayloadId) -> bool {
        self.payloads.is_live(payload)
    }

    fn take_dead(&mut self) -> Vec<PayloadId> {
        self.payloads.take_dead()
    }

    fn live(&self, after: Option<PayloadId>, most: usize) -> Vec<(PayloadId, Payload)> {
        self.payloads.after(after, most)
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        self.countdowns()
    }

    fn tidy(&mut self) -> bool {
        self.free(CHANGES_FREED_PER_SLICE)
    }

    fn query(&self, query: &Query) -> QueryAnswer {
        let (asker, query) = match query {
            Query::Asked(asked) => (&asked.asker, &asked.query),
            query => (&Asker::Anybody, query),
        };
        if let Err(why) = self.permit_query(asker, query) {
            return QueryAnswer::Refused(why);
        }
        let answer = match query {
            Query::Range(request) => self.range(request),
            Query::Txn(request) => self.read_txn(request),
            Query::RangeRest(rest) => self.range_rest(rest).map(QueryAnswer::RangePart),
            Query::RangeChunk(cursor) => self.range_chunk(cursor).map(QueryAnswer::RangeChunk),
            Query::HashKv { revision } => self.begin_hash(*revision),
            Query::HashRest(rest) => self.hash_rest(rest),
            Query::Events(watched) => self.events(watched).map(QueryAnswer::Events),
            Query::Unwatch => {
                self.unwatch();
                Ok(QueryAnswer::Unwatch)
            }
            Query::Lease { id, keys } => Ok(QueryAnswer::Lease(self.lease(*id, *keys))),
            Query::Leases => Ok(QueryAnswer::Leases(self.revision, self.leases.ids())),
            Query::Status => Ok(QueryAnswer::Status(self.status())),
            Query::Export => Ok(QueryAnswer::ExportHead(Box::new(self.begin_export()))),
            Query::ExportRest(rest) => self.export_rest(rest).map(QueryAnswer::ExportPart),
            Query::Auth(query) => self.read_auth(query),
            Query::Login { name } => self.login(name).map(QueryAnswer::Login),
            Query::Board => Ok(QueryAnswer::Board(Arc::clone(&self.board))),
            // Nobody asks for somebody who asks for somebody.
            Query::Asked(_) => Err(Refused::Malformed),
            Query::Operations => Ok(QueryAnswer::Operations(self.operations)),
        };
        answer.unwrap_or_else(QueryAnswer::Refused)
    }

    fn cut(&mut self) -> Cut {
        self.begin_cut()
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        self.next_piece(cut, bytes)
    }

    fn release(&mut self, _cut: Cut) {
        self.end_cut();
    }

    fn empty(&self) -> Self {
        Store {
            wanted: self.wanted.clone(),
            keys_per_slice: self.keys_per_slice,
            board: Arc::clone(&self.board),
            flaw: self.flaw,
            ..Store::default()
        }
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.load_piece(piece)
    }

    fn loaded(&mut self) -> Result<(), String> {
        self.end_load()
    }

    fn installed(&mut self) {
        // What ended tokens may be among what was skipped.
        self.board.forget_tokens(|_| true);
        self.board.publish(&self.auth);
    }
}

/// Changes a compaction frees with every command that follows it: enough to keep up with any
/// stream of writes, and not to be noticed.
const CHANGES_FREED_PER_COMMAND: usize = 4;

/// Changes a compaction frees at a time when nothing else is to be done: well under a millisecond.
const CHANGES_FREED_PER_SLICE: usize = 512;

/// Memory of a store without keys.
const STORE_BYTES: u64 = size_of::<Store>() as u64;

/// Estimated memory of a version without its value: the record and the allocations around both.
pub(crate) const VERSION_BYTES: u64 = size_of::<Version>() as u64 + 24;

/// Estimated memory of a key without its bytes: its place in the tree, which is two thirds full,
/// and the allocations around it.
pub(crate) const KEY_BYTES: u64 =
    (size_of::<Box<[u8]>>() + size_of::<History>()) as u64 * 3 / 2 + 16;
