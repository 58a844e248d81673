//! Payloads: the bulky parts of commands, beside what the machine orders.
//!
//! - A message with an attachment leaves as one frame for each receiver, with its own fragment of
//!   each payload; it is handed to the machine whole or not at all (`attach.rs`). Fragments of long
//!   payloads are made by the driver (`coding.rs`), and lie on the disk before the machine hears of
//!   them (`staged.rs`).
//! - A record with an attachment is appended to the log once its fragments are appended to the bulk
//!   store; both are durable before anything that depends on the record is said (`keep.rs`).
//! - Who wants a payload that is not here whole gathers fragments of it from peers: the machine that
//!   proposes an entry again, a client that reads, and this replica where it lacks its own fragment
//!   (`fetch.rs`). One that was caught up on, or damaged, is rebuilt in the background, and one that
//!   was only just decided if it does not come soon (`lacking.rs`).
//! - The application says when a payload is dead.

mod attach;
mod cache;
mod coded;
mod coder;
mod coding;
mod fetch;
mod gather;
mod keep;
mod lacking;
mod pace;
mod settle;
mod staged;

use crate::context::Context;
pub(crate) use attach::lacks_attachment;
use cache::Cache;
use coded::Coded;
use coder::Coder;
pub(crate) use coding::CODING_MAX;
pub use coding::{Coding, Fragments};
use gather::Gathers;
use lacking::Lacking;
use pace::Pace;
use quorate_core::{Application, Entry, EntryId, Machine, Payload, PayloadId, PayloadRule, Peers};
pub use settle::Recoded;
use settle::Settling;
pub(crate) use staged::STAGED_MAX;
use staged::Staged;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a host knows of payloads, apart from the fragments in its fragment store.
pub(crate) struct Payloads<M: Machine> {
    /// How long values are, in bytes, that are best submitted as payloads; `None` if none are.
    min: Option<usize>,
    coder: Arc<Coder>,
    /// This replica's place: the index of its fragments.
    me: u8,
    /// How many fragments rebuild a payload as a rule.
    code: u8,
    coded: Coded,
    /// Payloads of which the driver is to make fragments.
    to_code: Vec<Coding>,
    /// Messages that wait for fragments to be made of the payloads of this entry, under this code.
    uncoded: Vec<((EntryId, u8), Peers, M::Message)>,
    /// Messages whose long fragments are on their way to the disk.
    staged: Staged,
    /// Whole payloads in memory.
    cache: Cache,
    gathers: Gathers,
    /// Live payloads of which this replica lacks its own fragment, and that are to be rebuilt.
    lacking: Lacking,
    /// Reads of the own store under way, by token.
    reading: BTreeMap<u64, fetch::Reading>,
    /// Entries that the machine asked for and that are whole now.
    held: Vec<Entry>,
    /// What was here at the start and nobody has a use for is freed.
    is_retained: bool,
    /// Live payloads behind this one, or all, are yet to be looked at for those that lack their
    /// fragment here.
    looking: Option<Option<PayloadId>>,
    settling: Settling,
    /// Holds what is rebuilt to its rate.
    pace: Pace,
}

/// Payloads, and what they work on.
pub(crate) struct PayloadHandler<'a, M: Machine, A: Application> {
    context: &'a mut Context<M, A>,
    payloads: &'a mut Payloads<M>,
}

impl<M: Machine> Payloads<M> {
    /// Lends what payloads work on.
    pub(crate) fn with<'a, A: Application>(
        &'a mut self,
        context: &'a mut Context<M, A>,
    ) -> PayloadHandler<'a, M, A> {
        PayloadHandler {
            context,
            payloads: self,
        }
    }

    /// For the member at place `me`, where all places are below `n`, under this rule of the protocol if it has one,
    /// with so many bytes of payloads in memory.
    pub(crate) fn new(
        (me, n): (u8, u8),
        rule: Option<PayloadRule>,
        cache_bytes_max: usize,
    ) -> Payloads<M> {
        Payloads {
            min: rule.map(|rule| rule.min),
            coder: Arc::new(Coder::new(n.into())),
            me,
            code: rule.map_or(1, |rule| rule.code),
            coded: Coded::default(),
            to_code: Vec::new(),
            uncoded: Vec::new(),
            staged: Staged::default(),
            cache: Cache::new(cache_bytes_max),
            gathers: Gathers::default(),
            lacking: Lacking::default(),
            reading: BTreeMap::new(),
            held: Vec::new(),
            is_retained: false,
            looking: Some(None),
            settling: Settling::default(),
            pace: Pace::default(),
        }
    }

    /// Bytes that whoever proposes a payload sends to all others, as a rule.
    fn sent_of(&self, payload: &Payload) -> u64 {
        let others = u64::from(self.coder.n()).saturating_sub(1);
        u64::from(payload.len) * others / u64::from(self.code.max(1))
    }

    /// Another epoch begins, in which this replica has the place `me`, and all places are below `n`.
    pub(crate) fn enter(&mut self, (me, n): (u8, u8), rule: Option<PayloadRule>) {
        self.min = rule.map(|rule| rule.min);
        self.coder = Arc::new(Coder::new(n.into()));
        self.me = me;
        self.code = rule.map_or(1, |rule| rule.code);
        self.look_again();
        self.coded = Coded::default();
        self.to_code.clear();
        self.staged = Staged::default();
    }

    /// The messages that wait are of an epoch that is over.
    pub(crate) fn forget_messages(&mut self) {
        self.uncoded.clear();
        self.staged.forget_messages();
    }

    /// Live payloads are to be looked at once more.
    pub(crate) fn look_again(&mut self) {
        self.looking = Some(None);
    }

    /// What nobody has a use for any more is to be freed once more.
    pub(crate) fn release(&mut self) {
        self.is_retained = false;
    }

    /// Bytes of payloads kept for those who read them next, and the most there may be.
    pub(crate) fn cached(&self) -> (usize, usize) {
        self.cache.size()
    }

    /// Bytes of fragments that were made for peers and this replica, and the most there may be beside
    /// those of one entry.
    pub(crate) fn coded(&self) -> (usize, usize) {
        self.coded.size()
    }

    /// Whether fragments are known to lack here, or it is not known yet.
    pub(crate) fn is_lacking(&self) -> bool {
        self.looking.is_some() || !self.lacking.is_empty()
    }

    /// Payloads known to lack their fragment here.
    pub(crate) fn lacking(&self) -> impl ExactSizeIterator<Item = PayloadId> {
        self.lacking.ids()
    }

    /// How long values are, in bytes, that are best submitted as payloads; `None` if none are.
    pub(crate) fn min(&self) -> Option<usize> {
        self.min
    }

    /// Messages that wait for fragments to be made.
    pub(crate) fn uncoded(&self) -> usize {
        self.uncoded.len()
    }

    /// Takes the payloads of which the driver is to make fragments, in any order.
    pub(crate) fn take_coding(&mut self) -> Vec<Coding> {
        std::mem::take(&mut self.to_code)
    }

    /// Takes an entry that the machine asked for and that is whole now.
    pub(crate) fn take_held(&mut self) -> Option<Entry> {
        self.held.pop()
    }

    /// Messages that wait for what is attached to them to be stored.
    pub(crate) fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Requests that wait for payloads.
    pub(crate) fn readers(&self) -> usize {
        self.gathers.readers()
    }
}
