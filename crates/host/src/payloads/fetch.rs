//! Getting payloads that are not here whole, and giving peers what they want of them.

use super::PayloadHandler;
use super::gather::Gathered;
use crate::api::{Answer, HostEvent, PayloadGone, Token};
use crate::fragments::{self, Lookup, ReadBack};
use crate::frame::{Body, Fragment};
use crate::timers::Timer;
use bytes::Bytes;
use quorate_core::{Application, Entry, Machine, Now, Payload, PayloadId, Peers, ReplicaId};
use quorate_erasure::FragmentHeader;

/// How long a reader waits while there are not enough fragments, and none come, in ns: less than a request waits
/// for anything, so that its client is told what is missing.
const GIVE_UP_NS: u64 = 3_000_000_000;
/// Payloads that are rebuilt at once.
const REBUILT_AT_ONCE: usize = 8;

/// What a read of the own store is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// To gather this payload here.
    Gather(PayloadId),
    /// A peer wants it.
    Peer(ReplicaId, PayloadId),
}

impl<M: Machine, A: Application> PayloadHandler<'_, M, A> {
    /// The machine wants all payloads of an entry.
    pub(crate) fn gather_for_machine(&mut self, now: Now, entry: Entry) {
        let id = entry.id;
        self.payloads.gathers.want_entry(entry.clone());
        for (part, payload) in (0..).zip(entry.payloads()) {
            let id = PayloadId { entry: id, part };
            self.want_payload(now, id, &payload, None);
        }
    }

    /// A client wants a payload that an answer of this replica named.
    pub(crate) fn read_payload(
        &mut self,
        now: Now,
        token: Token,
        id: PayloadId,
        payload: &Payload,
    ) {
        if !self.context.app().is_live(id) {
            let gone = Answer::Payload(Err(PayloadGone::Dead));
            return self.context.effects.answers.push((token, gone));
        }
        self.want_payload(now, id, payload, Some(token));
    }

    /// Lacking fragments are rebuilt, a few at a time and as fast as the rate allows: clients share links, disks
    /// and cores with that.
    pub(crate) fn rebuild_further(&mut self, now: Now) {
        while self.payloads.gathers.len() < REBUILT_AT_ONCE {
            let gathers = &self.payloads.gathers;
            let is_under_way = |id| gathers.is_wanted(id);
            let Some((id, payload)) = self.payloads.lacking.next(now.mono_ns, is_under_way) else {
                return;
            };
            let rate = self.context.limits.recode_rate;
            if !self
                .payloads
                .pace
                .take(now.mono_ns, payload.len.into(), rate)
            {
                return self.arm_gather(now);
            }
            self.want_payload(now, id, &payload, None);
        }
    }

    /// When the rate allows the next one to be rebuilt, if it does not now and there are any.
    fn rebuilds_next(&self, now: Now) -> Option<u64> {
        let held_until = self.payloads.pace.held_until(now.mono_ns);
        held_until.filter(|_| !self.payloads.lacking.is_empty())
    }

    fn want_payload(&mut self, now: Now, id: PayloadId, payload: &Payload, reader: Option<Token>) {
        let cached = self.payloads.cache.get(id);
        let code = self.payloads.code;
        if !self
            .payloads
            .gathers
            .want(now.mono_ns, id, payload, code, reader)
        {
            return;
        }
        if let Some(bytes) = cached {
            let n = self.payloads.coder.n();
            let header = FragmentHeader::new((n, 1), 0, bytes.len() as u64, &bytes);
            return self.take_fragment(id, (header, bytes));
        }
        let codes = self
            .context
            .storage
            .fragments
            .as_ref()
            .map_or(Vec::new(), |store| store.codes(id));
        for code in &codes {
            self.look_up(id, *code, Reading::Gather(id));
        }
        if !self.payloads.gathers.is_wanted(id) {
            return;
        }
        // What is here is on its way from the disk.
        let missing = match codes.iter().min() {
            Some(code) => code - 1,
            None => self.payloads.code,
        };
        self.ask_some(now, id, missing.into());
        self.arm_gather(now);
    }

    /// Asks so many peers, of those within reach if they are enough; which ones depends on the payload, so
    /// that they share the work.
    fn ask_some(&mut self, now: Now, id: PayloadId, count: usize) {
        let mut others = self.context.membership.peers.to_vec();
        let in_reach = others
            .iter()
            .filter(|peer| self.context.peer_versions.is_up(**peer));
        if in_reach.count() >= count {
            others.retain(|peer| self.context.peer_versions.is_up(*peer));
        }
        if !others.is_empty() {
            let first = (id.entry.seq as usize).wrapping_add(id.part as usize);
            let first = first % others.len();
            others.rotate_left(first);
        }
        others.truncate(count);
        self.ask(now, id, &others);
    }

    fn ask(&mut self, now: Now, id: PayloadId, peers: &[ReplicaId]) {
        for peer in self.payloads.gathers.ask(id, peers, now.mono_ns) {
            self.context.post(Peers::One(peer), &Body::WantFragment(id));
        }
    }

    /// A peer answered, with a fragment or that it has none. Whoever else has some is asked then without waiting
    /// for it.
    pub(crate) fn fragment_came(
        &mut self,
        now: Now,
        from: ReplicaId,
        id: PayloadId,
        fragment: Option<Fragment>,
    ) {
        let gathers = &mut self.payloads.gathers;
        gathers.answered(id, from, fragment.is_some(), now.mono_ns);
        match fragment {
            Some(fragment) => self.take_fragment(id, fragment),
            None => {
                gathers.hurry(id);
                self.gather_further(now);
            }
        }
    }

    /// A peer is out of reach: whoever else has some of what is wanted is asked without waiting for it.
    pub(crate) fn gather_elsewhere(&mut self, now: Now, lost: ReplicaId) {
        self.payloads.gathers.lost(lost);
        self.payloads.gathers.hurry_all();
        self.gather_further(now);
    }

    /// Time to ask everybody for some of what is still wanted.
    pub(crate) fn gather_further(&mut self, now: Now) {
        let before_ns = now.mono_ns.saturating_sub(GIVE_UP_NS);
        let is_up = |peer: &ReplicaId| self.context.peer_versions.is_up(*peer);
        for (token, have, need) in self.payloads.gathers.take_tired(before_ns, is_up) {
            let gone = PayloadGone::Scattered { have, need };
            self.context
                .effects
                .answers
                .push((token, Answer::Payload(Err(gone))));
        }
        for id in self.payloads.gathers.take_due(now.mono_ns) {
            for code in self
                .context
                .storage
                .fragments
                .as_ref()
                .map_or(Vec::new(), |store| store.codes(id))
            {
                self.look_up(id, code, Reading::Gather(id));
            }
            let others = self.context.membership.peers.to_vec();
            self.ask(now, id, &others);
        }
        self.arm_gather(now);
    }

    /// What is gathered goes on, and what is lacking is rebuilt, when it is time.
    pub(crate) fn arm_gather(&mut self, now: Now) {
        let kept = &*self.payloads;
        let dues = [
            kept.gathers.next_due(),
            kept.lacking.next_due(now.mono_ns),
            self.rebuilds_next(now),
        ];
        if let Some(due_ns) = dues.into_iter().flatten().min() {
            self.context.timers.arm(Timer::Gather, due_ns);
        }
    }

    /// Looks for a fragment in the own store; what has to be read comes later.
    fn look_up(&mut self, id: PayloadId, code: u8, purpose: Reading) {
        let Some(store) = &mut self.context.storage.fragments else {
            return;
        };
        match store.read(id, code) {
            Lookup::None => {}
            Lookup::Here(held, bytes) => self.found(purpose, (header_of(&held), bytes)),
            Lookup::Read(read) => {
                self.payloads.reading.insert(read.token, purpose);
                self.context.effects.read(read);
            }
        }
    }

    fn found(&mut self, purpose: Reading, fragment: Fragment) {
        match purpose {
            Reading::Gather(id) => self.take_fragment(id, fragment),
            Reading::Peer(peer, payload) => {
                let fragment = Some(fragment);
                self.context
                    .post(Peers::One(peer), &Body::Fragment { payload, fragment });
            }
        }
    }

    /// A read of the own store is done.
    pub(crate) fn fragment_read_done(&mut self, token: u64, bytes: Result<Bytes, String>) {
        let Some(store) = &mut self.context.storage.fragments else {
            return;
        };
        let read = store.read_done(token, bytes);
        if let ReadBack::Again(read) = read {
            return self.context.effects.read(read);
        }
        let purpose = self.payloads.reading.remove(&token);
        match read {
            ReadBack::Bytes(held, bytes) => {
                if let Some(purpose) = purpose {
                    self.found(purpose, (header_of(&held), bytes));
                }
            }
            ReadBack::Damaged(held, why) => {
                let payload = held.payload;
                if let Some(Reading::Peer(peer, payload)) = purpose {
                    let fragment = None;
                    self.context
                        .post(Peers::One(peer), &Body::Fragment { payload, fragment });
                }
                self.context
                    .effects
                    .events
                    .push(HostEvent::FragmentDamaged { payload, why });
                self.payloads.looking = Some(None);
            }
            ReadBack::Again(_) | ReadBack::Nothing => {}
        }
    }

    /// A peer wants what is here of a payload.
    pub(crate) fn serve_fragment(&mut self, peer: ReplicaId, payload: PayloadId) {
        let codes = self
            .context
            .storage
            .fragments
            .as_ref()
            .map_or(Vec::new(), |store| store.codes(payload));
        if codes.is_empty() {
            let fragment = self.payloads.cache.get(payload).map(|bytes| {
                let n = self.payloads.coder.n();
                (
                    FragmentHeader::new((n, 1), 0, bytes.len() as u64, &bytes),
                    bytes,
                )
            });
            return self
                .context
                .post(Peers::One(peer), &Body::Fragment { payload, fragment });
        }
        for code in codes {
            self.look_up(payload, code, Reading::Peer(peer, payload));
        }
    }

    /// Some of a payload came, from a peer or from here.
    pub(crate) fn take_fragment(&mut self, id: PayloadId, fragment: Fragment) {
        let kept = &mut *self.payloads;
        if let Some(gathered) = kept.gathers.take(&kept.coder, id, fragment) {
            self.gathered(id, gathered);
        }
    }

    fn gathered(&mut self, id: PayloadId, gathered: Gathered) {
        let Gathered {
            bytes,
            readers,
            code,
        } = gathered;
        self.context.effects.counters.gathered += u64::from(code > 1);
        self.rebuild(id, code, &bytes);
        self.payloads.cache.insert(id, bytes.clone());
        let answer = |token| (token, Answer::Payload(Ok(bytes.clone())));
        self.context
            .effects
            .answers
            .extend(readers.into_iter().map(answer));
        if let Some(entry) = self.payloads.gathers.part_of_entry(id, bytes.clone()) {
            self.payloads.held.push(entry);
        }
    }
}

/// What a fragment says of itself on the way to others.
fn header_of(held: &fragments::Fragment) -> FragmentHeader {
    FragmentHeader {
        n: held.n,
        k: held.code,
        index: held.index,
        payload_len: u64::from(held.payload_len),
        digest: held.checksum,
    }
}
