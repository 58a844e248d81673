//! Payloads that are put together from what peers have of them.
//!
//! A peer that was asked for a long fragment is asked again only when that had its time: it would send it
//! once more, behind itself where the link is full. Others are asked sooner.

use super::coder::Coder;
use crate::api::Token;
use crate::frame::Fragment;
use bytes::Bytes;
use quorate_core::pace::{ACK_NS_MAX, Pace, is_long, under_way_ns};
use quorate_core::{Entry, EntryId, MILLIS, Payload, PayloadId, ReplicaId, Share};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One payload that is being gathered.
#[derive(Debug)]
struct Gathering {
    payload: Payload,
    /// By code, then index.
    fragments: BTreeMap<u8, BTreeMap<u8, Bytes>>,
    /// Requests that wait for it.
    readers: Vec<Token>,
    /// When it was wanted first.
    since_ns: u64,
    /// How many times everybody was asked, and when everybody will be next.
    rounds: u32,
    due_ns: u64,
    /// Bytes of a fragment, as a rule.
    fragment_bytes: usize,
    /// Peers whose answer may be on its way.
    asked: BTreeMap<ReplicaId, Asked>,
}

/// What a peer was asked and did not answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    since_ns: u64,
    /// When it may be asked again.
    due_ns: u64,
}

/// How long the peers asked first may take before all others are asked too, in ns, beyond the time that a
/// fragment is under way.
const HEDGE_NS: u64 = 20 * MILLIS;
/// Others wait no longer than this because answers took long of late.
const HEDGE_MORE_NS: u64 = 200 * MILLIS;
/// The longest pause between two rounds of questions, in ns.
const PAUSE_MAX_NS: u64 = 1000 * MILLIS;

/// Everything that is being gathered.
#[derive(Debug, Default)]
pub(crate) struct Gathers {
    payloads: BTreeMap<PayloadId, Gathering>,
    /// Entries that the machine waits for, and their parts that are here.
    entries: BTreeMap<EntryId, (Entry, BTreeMap<u32, Bytes>)>,
    /// How long peers take for long fragments.
    pace: Pace,
    /// When the last fragment of anything came from a peer.
    came_ns: u64,
}

impl Gathering {
    /// Of the code with the most fragments here: how many, and how many it takes. Without any, nothing is
    /// known of it.
    fn most(&self) -> (u8, u8) {
        let most = self.fragments.iter().max_by_key(|(_, held)| held.len());
        most.map_or((0, 0), |(code, held)| (held.len() as u8, *code))
    }

    /// Whether peers that are within reach, and did not answer yet, may have what is missing.
    fn may_come(&self, is_up: impl Fn(&ReplicaId) -> bool) -> bool {
        let (have, need) = self.most();
        let asked = self.asked.keys().filter(|peer| is_up(peer)).count();
        asked > 0 && usize::from(have) + asked >= usize::from(need)
    }
}

/// A payload that was gathered.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) bytes: Bytes,
    pub(crate) readers: Vec<Token>,
    /// The code it was gathered under: others hold fragments of it.
    pub(crate) code: u8,
}

impl Gathers {
    /// How many payloads are being gathered.
    pub(crate) fn len(&self) -> usize {
        self.payloads.len()
    }

    /// Those that are being gathered.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PayloadId> {
        self.payloads.keys().copied()
    }

    /// Requests that wait.
    pub(crate) fn readers(&self) -> usize {
        self.payloads
            .values()
            .map(|gathering| gathering.readers.len())
            .sum()
    }

    /// The payloads of which everybody is to be asked now. Each has pauses of its own: one that
    /// cannot be had for long must not hold up the others.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Vec<PayloadId> {
        let due = self.payloads.iter_mut();
        let due = due.filter(|(_, gathering)| gathering.due_ns <= now_ns);
        due.map(|(id, gathering)| {
            gathering.rounds = (gathering.rounds + 1).min(6);
            let pause_ns = (HEDGE_NS << gathering.rounds).min(PAUSE_MAX_NS);
            gathering.due_ns = now_ns + pause_ns;
            *id
        })
        .collect()
    }

    /// Whoever was asked for some of this has nothing: everybody is asked at once, unless everybody was.
    pub(crate) fn hurry(&mut self, id: PayloadId) {
        if let Some(gathering) = self.payloads.get_mut(&id).filter(|one| one.rounds == 0) {
            gathering.due_ns = 0;
        }
    }

    /// Somebody who was asked, perhaps, is out of reach.
    pub(crate) fn hurry_all(&mut self) {
        let first = self.payloads.values_mut().filter(|one| one.rounds == 0);
        first.for_each(|gathering| gathering.due_ns = 0);
    }

    /// Of these peers, those to ask for some of a payload now: an answer of the others may be on its way.
    pub(crate) fn ask(
        &mut self,
        id: PayloadId,
        peers: &[ReplicaId],
        now_ns: u64,
    ) -> Vec<ReplicaId> {
        let Some(gathering) = self.payloads.get_mut(&id) else {
            return Vec::new();
        };
        let asked = &mut gathering.asked;
        let mut due = peers.to_vec();
        due.retain(|peer| asked.get(peer).is_none_or(|asked| asked.due_ns <= now_ns));
        for peer in &due {
            let since_ns = asked.get(peer).map(|asked| asked.since_ns);
            let due_ns = match since_ns {
                _ if !is_long(gathering.fragment_bytes) => now_ns,
                Some(since_ns) => self.pace.again_ns(since_ns, now_ns),
                None => {
                    let under_way_ns = under_way_ns(gathering.fragment_bytes as u64);
                    now_ns + HEDGE_NS + under_way_ns + self.pace.patience_ns()
                }
            };
            let since_ns = since_ns.unwrap_or(now_ns);
            asked.insert(*peer, Asked { since_ns, due_ns });
        }
        due
    }

    /// A peer answered, with a fragment or that it has none.
    pub(crate) fn answered(&mut self, id: PayloadId, peer: ReplicaId, has: bool, now_ns: u64) {
        if has {
            self.came_ns = now_ns;
        }
        let Some(gathering) = self.payloads.get_mut(&id) else {
            return;
        };
        if let Some(asked) = gathering.asked.remove(&peer)
            && has
            && is_long(gathering.fragment_bytes)
        {
            self.pace
                .note(now_ns.saturating_sub(asked.since_ns), ACK_NS_MAX);
        }
    }

    /// The connection to a peer broke, with what was on it.
    pub(crate) fn lost(&mut self, peer: ReplicaId) {
        for gathering in self.payloads.values_mut() {
            gathering.asked.remove(&peer);
        }
    }

    /// When everybody is to be asked next.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.payloads.values().map(|one| one.due_ns).min()
    }

    /// Wants a payload, of which peers have fragments under this code as a rule; says whether it was not wanted
    /// before.
    pub(crate) fn want(
        &mut self,
        now_ns: u64,
        id: PayloadId,
        payload: &Payload,
        code: u8,
        reader: Option<Token>,
    ) -> bool {
        let fragment_bytes = payload.len as usize / usize::from(code.max(1));
        let hedge_ns = HEDGE_NS
            + match is_long(fragment_bytes) {
                true => {
                    let more_ns = self.pace.patience_ns().min(HEDGE_MORE_NS);
                    under_way_ns(fragment_bytes as u64) + more_ns
                }
                false => 0,
            };
        let is_new = !self.payloads.contains_key(&id);
        let gathering = self.payloads.entry(id).or_insert_with(|| Gathering {
            payload: payload.clone(),
            fragments: BTreeMap::new(),
            readers: Vec::new(),
            since_ns: now_ns,
            rounds: 0,
            due_ns: now_ns + hedge_ns,
            fragment_bytes,
            asked: BTreeMap::new(),
        });
        gathering.readers.extend(reader);
        is_new
    }

    /// The machine wants an entry's payloads.
    pub(crate) fn want_entry(&mut self, entry: Entry) {
        self.entries.insert(entry.id, (entry, BTreeMap::new()));
    }

    /// Whether the machine waits for this entry.
    pub(crate) fn is_entry_wanted(&self, id: EntryId) -> bool {
        self.entries.contains_key(&id)
    }

    /// The machine has no use for this entry any more.
    pub(crate) fn forget_entry(&mut self, id: EntryId) {
        self.entries.remove(&id);
    }

    /// Whether a payload is wanted and not here yet.
    pub(crate) fn is_wanted(&self, id: PayloadId) -> bool {
        self.payloads.contains_key(&id)
    }

    /// A payload is here: the entry that the machine waits for, if that is whole now.
    pub(crate) fn part_of_entry(&mut self, id: PayloadId, bytes: Bytes) -> Option<Entry> {
        let (entry, parts) = self.entries.get_mut(&id.entry)?;
        parts.insert(id.part, bytes);
        if parts.len() < entry.payloads().count() {
            return None;
        }
        let (entry, parts) = self.entries.remove(&id.entry)?;
        let share = Share::whole(parts.into_values().collect());
        Some(entry.with_share(Some(Arc::new(share))))
    }

    /// The requests that have waited since before this, with how many fragments are here of those
    /// that it takes. While fragments come from peers, those of a payload that enough peers may have are
    /// waited for.
    pub(crate) fn take_tired(
        &mut self,
        before_ns: u64,
        is_up: impl Fn(&ReplicaId) -> bool,
    ) -> Vec<(Token, u8, u8)> {
        let some_come = self.came_ns >= before_ns;
        let late = |gathering: &&mut Gathering| {
            let is_late = gathering.since_ns < before_ns && !gathering.readers.is_empty();
            is_late && !(some_come && gathering.may_come(&is_up))
        };
        let late = self.payloads.values_mut().filter(late);
        late.flat_map(|gathering| {
            let (have, need) = gathering.most();
            let readers = std::mem::take(&mut gathering.readers);
            readers.into_iter().map(move |token| (token, have, need))
        })
        .collect()
    }

    /// Some of a payload, from here or from a peer. The payload, if that was enough. Fragments that do not rebuild it are thrown away: one of them is wrong.
    pub(crate) fn take(
        &mut self,
        coder: &Coder,
        id: PayloadId,
        (header, bytes): Fragment,
    ) -> Option<Gathered> {
        let gathering = self.payloads.get_mut(&id)?;
        if header.payload_len != u64::from(gathering.payload.len) {
            return None;
        }
        let fragments = gathering.fragments.entry(header.k).or_default();
        fragments.insert(header.index, bytes);
        if fragments.len() < usize::from(header.k) {
            return None;
        }
        let enough: Vec<(usize, Bytes)> = fragments
            .iter()
            .map(|(index, bytes)| (usize::from(*index), bytes.clone()))
            .collect();
        match coder.rebuild(&gathering.payload, header.k, &enough) {
            None => {
                fragments.clear();
                None
            }
            Some(bytes) => {
                let gathering = self.payloads.remove(&id)?;
                Some(Gathered {
                    bytes,
                    readers: gathering.readers,
                    code: header.k,
                })
            }
        }
    }

    /// The fragment that a payload was gathered for is here, unless somebody else waits for it.
    pub(crate) fn give_up(&mut self, id: PayloadId) {
        let is_idle = |gathering: &Gathering| gathering.readers.is_empty();
        if self.payloads.get(&id).is_some_and(is_idle) && !self.is_entry_wanted(id.entry) {
            self.payloads.remove(&id);
        }
    }

    /// A payload is dead: the requests that waited for it.
    pub(crate) fn drop_payload(&mut self, id: PayloadId) -> Vec<Token> {
        let gathering = self.payloads.remove(&id);
        gathering.map_or_else(Vec::new, |gathering| gathering.readers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_erasure::FragmentHeader;

    const SECOND: u64 = 1000 * MILLIS;

    fn id() -> PayloadId {
        PayloadId::default()
    }

    fn fragments(coder: &Coder, payload: &Payload, code: u8) -> Vec<Fragment> {
        let whole = Arc::new(Share::whole(vec![payload.bytes.clone().unwrap()]));
        let shares = coder.shares(&whole, code).unwrap();
        let fragment = |share: &Arc<Share>| {
            let bytes = share.parts[0].clone();
            (coder.header(share, payload, (&bytes, None)), bytes)
        };
        shares.iter().map(fragment).collect()
    }

    #[test]
    fn a_payload_is_whole_with_enough_fragments_of_one_code() {
        let coder = Coder::new(5);
        let payload = Payload::of(Bytes::from_static(b"a payload to gather"));
        let (three, two) = (
            fragments(&coder, &payload, 3),
            fragments(&coder, &payload, 2),
        );
        let mut gathers = Gathers::default();
        assert!(gathers.want(0, id(), &payload, 3, Some(7)));
        assert!(!gathers.want(0, id(), &payload, 3, Some(8)));
        for fragment in [&three[0], &three[1], &two[2], &three[0]] {
            let gathered = gathers.take(&coder, id(), fragment.clone());
            assert!(gathered.is_none(), "two of three, one of two");
        }
        let last = gathers.take(&coder, id(), three[4].clone());
        let gathered = last.expect("three of three");
        assert_eq!((gathered.code, gathered.readers), (3, vec![7, 8]));
        assert_eq!(Some(gathered.bytes), payload.bytes);
        assert_eq!(gathers.len(), 0);
    }

    #[test]
    fn a_payload_out_of_reach_does_not_slow_the_others() {
        let payload = Payload::of(Bytes::from_static(b"anything"));
        let part = |part| PayloadId { part, ..id() };
        let mut gathers = Gathers::default();
        gathers.want(0, part(0), &payload, 1, None);
        let mut now_ns = 0;
        while now_ns < 2 * PAUSE_MAX_NS {
            now_ns = gathers.next_due().unwrap();
            assert_eq!(gathers.take_due(now_ns), [part(0)]);
        }
        assert_eq!(gathers.next_due(), Some(now_ns + PAUSE_MAX_NS));
        gathers.want(now_ns, part(1), &payload, 1, None);
        assert_eq!(gathers.next_due(), Some(now_ns + HEDGE_NS));
        assert_eq!(gathers.take_due(now_ns + HEDGE_NS), [part(1)]);
    }

    #[test]
    fn who_has_nothing_is_not_waited_for() {
        let payload = Payload::of(Bytes::from_static(b"anything"));
        let part = |part| PayloadId { part, ..id() };
        let mut gathers = Gathers::default();
        gathers.want(5, part(0), &payload, 1, None);
        gathers.want(5, part(1), &payload, 1, None);
        gathers.hurry(part(1));
        assert_eq!(gathers.take_due(6), [part(1)]);
        gathers.hurry(part(1));
        assert!(gathers.take_due(7).is_empty(), "everybody was asked");
        gathers.hurry_all();
        assert_eq!(gathers.take_due(8), [part(0)]);
    }

    #[test]
    fn who_sends_a_long_fragment_is_not_asked_again_before_it_had_its_time() {
        let [first, other] = [1, 2].map(ReplicaId);
        let payload = Payload::of(Bytes::from(vec![7; 400_000]));
        let mut gathers = Gathers::default();
        gathers.want(0, id(), &payload, 2, None);
        // 200 kB are under way for 20 ms.
        assert_eq!(gathers.next_due(), Some(HEDGE_NS + 20 * MILLIS));
        assert_eq!(gathers.ask(id(), &[first], 0), [first]);
        assert_eq!(gathers.ask(id(), &[first, other], 39 * MILLIS), [other]);
        assert_eq!(gathers.ask(id(), &[first, other], 40 * MILLIS), [first]);
        gathers.lost(first);
        assert_eq!(gathers.ask(id(), &[first, other], 41 * MILLIS), [first]);
        // Who took long once has more time from then on, and others are asked 200 ms later at most.
        gathers.answered(id(), first, true, 541 * MILLIS);
        gathers.drop_payload(id());
        gathers.want(SECOND, id(), &payload, 2, None);
        assert_eq!(gathers.next_due(), Some(SECOND + 240 * MILLIS));
        assert_eq!(gathers.ask(id(), &[first], SECOND), [first]);
        assert!(
            gathers
                .ask(id(), &[first], SECOND + 1039 * MILLIS)
                .is_empty()
        );
        assert_eq!(gathers.ask(id(), &[first], SECOND + 1040 * MILLIS), [first]);
    }

    #[test]
    fn readers_wait_while_fragments_come_and_enough_peers_may_have_theirs() {
        let coder = Coder::new(5);
        let [first, other] = [1, 2].map(ReplicaId);
        let payload = Payload::of(Bytes::from_static(b"a payload to gather"));
        let three = fragments(&coder, &payload, 3);
        let mut gathers = Gathers::default();
        gathers.want(0, id(), &payload, 3, Some(7));
        gathers.ask(id(), &[first, other], 0);
        gathers.answered(id(), first, true, 4 * SECOND);
        assert!(gathers.take(&coder, id(), three[0].clone()).is_none());
        // One of three is here, and only one peer may send another.
        assert_eq!(gathers.take_tired(SECOND, |_| true), [(7, 1, 3)]);
        gathers.want(0, id(), &payload, 3, Some(8));
        assert!(gathers.take(&coder, id(), three[1].clone()).is_none());
        assert!(gathers.take_tired(SECOND, |_| true).is_empty());
        assert!(gathers.take_tired(4 * SECOND, |_| true).is_empty());
        assert_eq!(gathers.take_tired(4 * SECOND, |_| false), [(8, 2, 3)]);
        gathers.want(0, id(), &payload, 3, Some(9));
        // Nothing has come for so long.
        assert_eq!(gathers.take_tired(5 * SECOND, |_| true), [(9, 2, 3)]);
    }

    #[test]
    fn a_fragment_of_something_else_spoils_nothing_for_good() {
        let coder = Coder::new(3);
        let payload = Payload::of(Bytes::from_static(b"right"));
        let right = fragments(&coder, &payload, 2);
        let other = fragments(&coder, &Payload::of(Bytes::from_static(b"wrong")), 2);
        let mut gathers = Gathers::default();
        gathers.want(0, id(), &payload, 1, None);
        let mut take = |fragment: &Fragment| gathers.take(&coder, id(), fragment.clone());
        assert!(take(&other[0]).is_none() && take(&right[1]).is_none());
        assert!(take(&right[1]).is_none() && take(&right[2]).is_some());
        let lying = FragmentHeader::new((3, 2), 0, 99, b"x");
        assert!(take(&(lying, Bytes::from_static(b"x"))).is_none());
    }
}
