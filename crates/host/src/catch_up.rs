//! Catching up from peers' logs, and serving peers that do.
//!
//! Every frame tells how far its sender is. A replica that stays behind without progress for
//! a moment fetches decided slots; one whose machine is asked about a slot that is decided here
//! sends them unasked. Whatever the protocol, decided slots travel only this way.

use crate::api::{HostEvent, LogRead, Store};
use crate::context::Context;
use crate::decided::{Located, Lookup};
use crate::fetch_pacing::FetchPacing;
use crate::frame::{Body, DECIDED_SLOTS_MAX};
use crate::position::Position;
use crate::serve_pacing::ServePacing;
use crate::timers::Timer;
use bytes::Bytes;
use quorate_core::{Application, Entry, Machine, Now, Peers, ReplicaId, Slot};
use std::ops::Range;

/// Slots in one answer: enough to keep a link busy, few enough to read from disk in one turn.
const SLOTS_PER_ANSWER: usize = 256;
const _: () = assert!(SLOTS_PER_ANSWER <= DECIDED_SLOTS_MAX);

/// How long a peer that was informed unasked is not informed again, in ns.
const INFORM_GAP_NS: u64 = 2_000_000;

/// A replica that is behind does not look on for longer than this beyond its usual delay, in ns.
const LAG_MORE_NS_MAX: u64 = 200_000_000;

/// What is known of a peer.
#[derive(Debug)]
struct PeerState {
    id: ReplicaId,
    /// Its first slot not applied, as far as known.
    applied: Slot,
    /// Whether the peer was asked in vain, and nothing was heard of it since: others are asked before it.
    is_silent: bool,
    informed_ns: Option<u64>,
    informed_from: Slot,
    on_its_way: ServePacing,
    serving: Option<Serving>,
}

impl PeerState {
    fn new(id: ReplicaId) -> PeerState {
        PeerState {
            id,
            applied: Slot(0),
            is_silent: false,
            informed_ns: None,
            informed_from: Slot(0),
            on_its_way: ServePacing::default(),
            serving: None,
        }
    }
}

/// An answer to a peer, being put together.
#[derive(Debug)]
struct Serving {
    from: Slot,
    slots: Vec<Ready>,
    missing: usize,
}

#[derive(Debug)]
enum Ready {
    Entry(Option<Entry>),
    Reading { token: u64, at: Position },
}

/// Both sides of catching up.
#[derive(Debug)]
pub(crate) struct CatchUp {
    peers: Vec<PeerState>,
    /// Who was asked last, and from which slot on.
    fetching: Option<(ReplicaId, Slot)>,
    answers: FetchPacing,
    /// The last peer whose answer brought nothing: others are asked before it.
    fruitless: Option<ReplicaId>,
    /// The first slot not applied when lag was looked at last.
    lag_seen_at: Slot,
    /// How much longer than usual it may stay so: what was fetched came by itself meanwhile.
    lag_more_ns: u64,
    next_token: u64,
}

impl CatchUp {
    /// With nobody.
    pub(crate) fn new() -> Self {
        CatchUp {
            peers: Vec::new(),
            fetching: None,
            answers: FetchPacing::default(),
            fruitless: None,
            lag_seen_at: Slot(0),
            lag_more_ns: 0,
            next_token: 1,
        }
    }

    /// These are the peers now, ascending.
    pub(crate) fn meet(&mut self, peers: &[ReplicaId]) {
        self.peers.retain(|peer| peers.contains(&peer.id));
        for id in peers {
            if let Err(place) = self.peers.binary_search_by_key(id, |peer| peer.id) {
                self.peers.insert(place, PeerState::new(*id));
            }
        }
    }

    /// The peer asked for decided slots, while one is.
    pub(crate) fn fetching(&self) -> Option<ReplicaId> {
        self.fetching.map(|(peer, _)| peer)
    }

    /// A peer says that every slot before `applied` is decided. It may be none that was met: who is to
    /// become a member catches up first.
    pub(crate) fn saw(&mut self, peer: ReplicaId, applied: Slot, now: Now) {
        let place = self.peers.binary_search_by_key(&peer, |peer| peer.id);
        let place = place.unwrap_or_else(|place| {
            self.peers.insert(place, PeerState::new(peer));
            place
        });
        let state = &mut self.peers[place];
        state.applied = state.applied.max(applied);
        state.is_silent = false;
        state.on_its_way.applied(state.applied, now.mono_ns);
    }

    /// The connection to a peer broke. Says whether an answer was to come over it.
    fn lost(&mut self, peer: ReplicaId) -> bool {
        if let Some(state) = self.peer(peer) {
            state.on_its_way.lost();
        }
        self.answers.lost(peer);
        self.fetching().is_some_and(|asked| asked == peer)
    }

    /// The first slot that a peer has not applied, as far as it has told.
    pub(crate) fn applied_by(&self, peer: ReplicaId) -> Slot {
        let place = self.peers.binary_search_by_key(&peer, |peer| peer.id);
        place.map_or(Slot(0), |place| self.peers[place].applied)
    }

    /// How many slots the peer that is ahead of all has beyond `next`.
    pub(crate) fn ahead_by(&self, next: Slot) -> u64 {
        let furthest = self.peers.iter().map(|peer| peer.applied.0).max();
        furthest.unwrap_or(0).saturating_sub(next.0)
    }

    /// What this peer has is of no use: others are asked before it.
    pub(crate) fn avoid(&mut self, peer: ReplicaId) {
        self.fruitless = Some(peer);
    }

    /// A peer tells what is decided in these slots, which is new here or is not; says whether that ends the fetch
    /// under way. The answer to an earlier question does not: the rest would be asked for again while it is on its
    /// way.
    fn told(&mut self, now: Now, peer: ReplicaId, slots: &Range<Slot>, is_new: bool) -> bool {
        self.answers.came(peer, slots, now.mono_ns, is_new);
        let is_it = |(asked, from): &mut (ReplicaId, Slot)| *asked == peer && slots.contains(from);
        self.fetching.take_if(is_it).is_some()
    }

    /// A peer offers a snapshot in place of the slots; says whether that ends the fetch under way.
    pub(crate) fn offered(&mut self, peer: ReplicaId) -> bool {
        self.answers.lost(peer);
        self.fetching.take_if(|(asked, _)| *asked == peer).is_some()
    }

    /// Segments before this one are going: answers that wait for reads of them are given up. The
    /// peer asks again, and is offered a snapshot.
    pub(crate) fn forget_reads(&mut self, segment: u64) {
        for peer in &mut self.peers {
            peer.serving
                .take_if(|serving| serving.reads_before(segment));
        }
    }

    /// How many peers were met or heard of.
    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }

    /// They, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ReplicaId> {
        self.peers.iter().map(|peer| peer.id)
    }

    /// The peer after `last`, in a circle.
    pub(crate) fn next_peer(&self, last: Option<ReplicaId>) -> Option<ReplicaId> {
        let mut ids = self.peers.iter().map(|peer| peer.id);
        let first = ids.clone().next();
        ids.find(|id| Some(*id) > last).or(first)
    }

    fn peer(&mut self, id: ReplicaId) -> Option<&mut PeerState> {
        self.peers.iter_mut().find(|peer| peer.id == id)
    }

    /// Of the peers that are ahead of `next` the first one after `last`, in a circle; a silent one if all are.
    fn ahead(&self, next: Slot, last: Option<ReplicaId>) -> Option<(ReplicaId, Slot)> {
        let order = |peer: &&PeerState| (peer.is_silent, Some(peer.id) <= last, peer.id);
        let ahead = self.peers.iter().filter(|peer| peer.applied > next);
        let first = ahead.min_by_key(order)?;
        Some((first.id, first.applied))
    }

    /// A read of the log is done; says what follows. `entry_at` finds the entry in a record.
    pub(crate) fn read_done(
        &mut self,
        token: u64,
        bytes: Result<Bytes, String>,
        entry_at: impl FnOnce(Position, &Bytes) -> Result<Entry, String>,
    ) -> Option<ReadDone> {
        let mut serving = self.peers.iter_mut().filter_map(|peer| {
            let place = peer.serving.as_ref()?.position_of(token)?;
            Some((peer, place))
        });
        let (peer, (index, at)) = serving.next()?;
        let serving = peer.serving.as_mut()?;
        let slot = Slot(serving.from.0 + index as u64);
        let damaged = match bytes.and_then(|bytes| entry_at(at, &bytes)) {
            Ok(entry) => {
                serving.slots[index] = Ready::Entry(Some(entry));
                serving.missing -= 1;
                None
            }
            Err(why) => {
                // The slots before it are good; another peer has the rest.
                serving.slots.truncate(index);
                let reading = |ready: &&Ready| matches!(ready, Ready::Reading { .. });
                serving.missing = serving.slots.iter().filter(reading).count();
                Some((slot, at, why))
            }
        };
        let answer = (serving.missing == 0)
            .then(|| peer.serving.take())
            .flatten();
        Some(ReadDone {
            peer: peer.id,
            slot,
            answer: answer.map(Serving::into_body),
            damaged,
        })
    }
}

/// What follows from a read of the log for a peer.
pub(crate) struct ReadDone {
    pub(crate) peer: ReplicaId,
    /// The slot that was read.
    pub(crate) slot: Slot,
    /// The answer it completes.
    pub(crate) answer: Option<Body>,
    /// The slot that cannot be read, where it is, and why.
    pub(crate) damaged: Option<(Slot, Position, String)>,
}

impl Serving {
    /// Which slot a read is for, and where it reads.
    fn position_of(&self, token: u64) -> Option<(usize, Position)> {
        self.slots
            .iter()
            .enumerate()
            .find_map(|(index, ready)| match ready {
                Ready::Reading { token: its, at } if *its == token => Some((index, *at)),
                _ => None,
            })
    }

    fn reads_before(&self, segment: u64) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|ready| matches!(ready, Ready::Reading { at, .. } if at.segment < segment))
    }

    fn into_body(self) -> Body {
        let entries = self.slots.into_iter().map(|ready| match ready {
            Ready::Entry(entry) => entry,
            Ready::Reading { .. } => unreachable!("an answer is sent when nothing is missing"),
        });
        Body::Decided {
            from: self.from,
            entries: entries.collect(),
        }
    }
}

/// Catching up slot by slot, and what that works on.
pub(crate) struct CatchUpHandler<'a, M: Machine, A: Application> {
    context: &'a mut Context<M, A>,
    catch_up: &'a mut CatchUp,
    /// A snapshot is being fetched: no slots are asked for meanwhile.
    is_pulling: bool,
}

impl CatchUp {
    /// Lends what catching up works on. While a snapshot is being fetched, no slots are asked for.
    pub(crate) fn with<'a, M: Machine, A: Application>(
        &'a mut self,
        context: &'a mut Context<M, A>,
        is_pulling: bool,
    ) -> CatchUpHandler<'a, M, A> {
        CatchUpHandler {
            context,
            catch_up: self,
            is_pulling,
        }
    }
}

impl<M: Machine, A: Application> CatchUpHandler<'_, M, A> {
    /// Sends a peer decided slots from `from` on. Unasked answers are limited in rate. Says whether the peer needs a
    /// snapshot instead.
    pub(crate) fn serve(&mut self, now: Now, peer: ReplicaId, from: Slot, unasked: bool) -> bool {
        let next = self.context.applied();
        let Some(state) = self.catch_up.peer(peer) else {
            return false;
        };
        if state.serving.is_some() || from >= next {
            return false;
        }
        if state.on_its_way.covers(from, now.mono_ns) {
            return false;
        }
        if unasked {
            let again = state
                .informed_ns
                .is_some_and(|then| now.mono_ns < then + INFORM_GAP_NS);
            if again && from <= state.informed_from
                || !state.on_its_way.is_stuck(state.applied, now.mono_ns)
            {
                return false;
            }
            (state.informed_ns, state.informed_from) = (Some(now.mono_ns), from);
        }
        if from < self.context.storage.decided.first() {
            return true;
        }
        let serving = self.gather(from, next);
        if serving.slots.is_empty() {
            return false;
        }
        if serving.missing == 0 {
            self.answer(now, peer, &serving.into_body());
        } else if let Some(state) = self.catch_up.peer(peer) {
            state.serving = Some(serving);
        }
        false
    }

    /// Gives a peer an answer.
    pub(crate) fn answer(&mut self, now: Now, peer: ReplicaId, body: &Body) {
        if let Body::Decided { from, entries } = body
            && let Some(state) = self.catch_up.peer(peer)
        {
            let bytes = entries.iter().flatten().map(Entry::body_len).sum();
            let slots = (*from, Slot(from.0 + entries.len() as u64));
            state.on_its_way.sent(slots, bytes, now.mono_ns);
        }
        self.context.post(Peers::One(peer), body);
    }

    /// Collects slots until the answer is full; what is not in memory is read from the log.
    fn gather(&mut self, from: Slot, next: Slot) -> Serving {
        let mut serving = Serving {
            from,
            slots: Vec::new(),
            missing: 0,
        };
        let mut bytes = 0;
        for slot in (from.0..next.0).take(SLOTS_PER_ANSWER).map(Slot) {
            let ready = match self.context.storage.decided.lookup(slot) {
                Lookup::Absent => break,
                // Still on its way to the disk: the peer asks again.
                Lookup::OnDisk(located) if !self.is_written(located.at) => break,
                Lookup::Ready(entry) => {
                    bytes += entry.as_ref().map_or(0, Entry::body_len);
                    Ready::Entry(entry)
                }
                Lookup::OnDisk(located) => {
                    bytes += located.len as usize;
                    serving.missing += 1;
                    self.read_later(located)
                }
            };
            serving.slots.push(ready);
            if bytes >= self.context.limits.catch_up_bytes_max {
                break;
            }
        }
        serving
    }

    fn is_written(&self, at: Position) -> bool {
        self.context
            .storage
            .log
            .as_ref()
            .is_some_and(|log| log.is_written(at))
    }

    fn read_later(&mut self, located: Located) -> Ready {
        let token = self.catch_up.next_token;
        self.catch_up.next_token += 1;
        self.context.effects.read(LogRead {
            token,
            store: Store::Log,
            at: located.at,
            len: located.len,
        });
        Ready::Reading {
            token,
            at: located.at,
        }
    }

    /// Asks a peer for decided slots, unless an answer is already awaited.
    pub(crate) fn fetch_from(&mut self, now: Now, peer: ReplicaId) {
        if self.catch_up.fetching.is_some() || self.is_pulling {
            return;
        }
        let from = self.context.applied();
        self.catch_up.fetching = Some((peer, from));
        let usual_ns = self.context.limits.catch_up_timeout_ns;
        let wait_ns = self.catch_up.answers.ask(peer, from, now.mono_ns, usual_ns);
        self.context
            .timers
            .arm(Timer::FetchTimeout, now.mono_ns + wait_ns);
        self.context.post(Peers::One(peer), &Body::Fetch { from });
    }

    /// A peer has told what is decided in these slots, and so many of them were learned here.
    pub(crate) fn learned(&mut self, now: Now, peer: ReplicaId, told: &Range<Slot>, slots: u64) {
        if !self.catch_up.told(now, peer, told, slots > 0) {
            return;
        }
        self.context.timers.disarm(Timer::FetchTimeout);
        let (more_ns, usual_ns) = (self.catch_up.lag_more_ns, self.context.limits.lag_delay_ns);
        self.catch_up.lag_more_ns = match slots {
            0 => (2 * more_ns).max(usual_ns).min(LAG_MORE_NS_MAX),
            _ => more_ns / 2,
        };
        // An answer that brought nothing is no reason to ask the same peer at once again.
        self.catch_up.fruitless = (slots == 0).then_some(peer);
        if slots > 0 {
            self.fetch_if_behind(now, Some(peer));
        }
    }

    /// A peer is ahead: look again in a moment whether this replica got there by itself.
    pub(crate) fn watch_lag(&mut self, now: Now) {
        let next = self.context.applied();
        if self.is_pulling {
            return;
        }
        if self.catch_up.ahead(next, None).is_some() && !self.context.timers.is_armed(Timer::Lag) {
            self.catch_up.lag_seen_at = next;
            let delay_ns = self.context.limits.lag_delay_ns + self.catch_up.lag_more_ns;
            self.context.timers.arm(Timer::Lag, now.mono_ns + delay_ns);
        }
    }

    pub(crate) fn look_for_lag(&mut self, now: Now) {
        if self.context.applied() == self.catch_up.lag_seen_at {
            self.fetch_if_behind(now, self.catch_up.fruitless);
        }
        self.watch_lag(now);
    }

    /// The connection to a peer broke: what it was asked for is asked elsewhere.
    pub(crate) fn fetch_lost(&mut self, now: Now, peer: ReplicaId) {
        if self.catch_up.lost(peer) {
            self.context.timers.disarm(Timer::FetchTimeout);
            self.fetch_timed_out(now);
        }
    }

    pub(crate) fn fetch_timed_out(&mut self, now: Now) {
        let last = self.catch_up.fetching.take().map(|(peer, _)| peer);
        if let Some(asked) = last.and_then(|peer| self.catch_up.peer(peer)) {
            asked.is_silent = true;
        }
        self.fetch_if_behind(now, last);
    }

    pub(crate) fn fetch_if_behind(&mut self, now: Now, last: Option<ReplicaId>) {
        let from = self.context.applied();
        if let Some((peer, peer_applied)) = self.catch_up.ahead(from, last) {
            if self.catch_up.fetching.is_none() && !self.is_pulling {
                self.context
                    .effects
                    .events
                    .push(HostEvent::CatchUp { from, peer_applied });
            }
            self.fetch_from(now, peer);
        }
    }
}
