//! Payloads that are put together from what peers have of them.

use super::coder::Coder;
use crate::api::Token;
use crate::frame::Fragment;
use bytes::Bytes;
use quorate_core::{Entry, EntryId, Payload, PayloadId, Share};
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
}

/// How long the peers asked first may take before all others are asked too, in ns.
const HEDGE_NS: u64 = 20_000_000;
/// The longest pause between two rounds of questions, in ns.
const PAUSE_MAX_NS: u64 = 1_000_000_000;

/// Everything that is being gathered.
#[derive(Debug, Default)]
pub(crate) struct Gathers {
    payloads: BTreeMap<PayloadId, Gathering>,
    /// Entries that the machine waits for, and their parts that are here.
    entries: BTreeMap<EntryId, (Entry, BTreeMap<u32, Bytes>)>,
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

    /// When everybody is to be asked next.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.payloads.values().map(|one| one.due_ns).min()
    }

    /// Wants a payload; says whether it was not wanted before.
    pub(crate) fn want(
        &mut self,
        now_ns: u64,
        id: PayloadId,
        payload: &Payload,
        reader: Option<Token>,
    ) -> bool {
        let is_new = !self.payloads.contains_key(&id);
        let gathering = self.payloads.entry(id).or_insert_with(|| Gathering {
            payload: payload.clone(),
            fragments: BTreeMap::new(),
            readers: Vec::new(),
            since_ns: now_ns,
            rounds: 0,
            due_ns: now_ns + HEDGE_NS,
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
    /// that it takes.
    pub(crate) fn take_tired(&mut self, before_ns: u64) -> Vec<(Token, u8, u8)> {
        let late = |gathering: &&mut Gathering| gathering.since_ns < before_ns;
        let late = self.payloads.values_mut().filter(late);
        late.flat_map(|gathering| {
            let most = gathering
                .fragments
                .iter()
                .max_by_key(|(_, held)| held.len());
            let (need, have) = most.map_or((0, 0), |(code, held)| (*code, held.len() as u8));
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
    use quorate_codec::FragmentHeader;

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
        assert!(gathers.want(0, id(), &payload, Some(7)));
        assert!(!gathers.want(0, id(), &payload, Some(8)));
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
        gathers.want(0, part(0), &payload, None);
        let mut now_ns = 0;
        while now_ns < 2 * PAUSE_MAX_NS {
            now_ns = gathers.next_due().unwrap();
            assert_eq!(gathers.take_due(now_ns), [part(0)]);
        }
        assert_eq!(gathers.next_due(), Some(now_ns + PAUSE_MAX_NS));
        gathers.want(now_ns, part(1), &payload, None);
        assert_eq!(gathers.next_due(), Some(now_ns + HEDGE_NS));
        assert_eq!(gathers.take_due(now_ns + HEDGE_NS), [part(1)]);
    }

    #[test]
    fn who_has_nothing_is_not_waited_for() {
        let payload = Payload::of(Bytes::from_static(b"anything"));
        let part = |part| PayloadId { part, ..id() };
        let mut gathers = Gathers::default();
        gathers.want(5, part(0), &payload, None);
        gathers.want(5, part(1), &payload, None);
        gathers.hurry(part(1));
        assert_eq!(gathers.take_due(6), [part(1)]);
        gathers.hurry(part(1));
        assert!(gathers.take_due(7).is_empty(), "everybody was asked");
        gathers.hurry_all();
        assert_eq!(gathers.take_due(8), [part(0)]);
    }

    #[test]
    fn a_fragment_of_something_else_spoils_nothing_for_good() {
        let coder = Coder::new(3);
        let payload = Payload::of(Bytes::from_static(b"right"));
        let right = fragments(&coder, &payload, 2);
        let other = fragments(&coder, &Payload::of(Bytes::from_static(b"wrong")), 2);
        let mut gathers = Gathers::default();
        gathers.want(0, id(), &payload, None);
        let mut take = |fragment: &Fragment| gathers.take(&coder, id(), fragment.clone());
        assert!(take(&other[0]).is_none() && take(&right[1]).is_none());
        assert!(take(&right[1]).is_none() && take(&right[2]).is_some());
        let lying = FragmentHeader::new((3, 2), 0, 99, b"x");
        assert!(take(&(lying, Bytes::from_static(b"x"))).is_none());
    }
}
