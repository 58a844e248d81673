//! What a leader does for values with payloads: which code it proposes them under, who needs a
//! fragment, and where the bytes of an earlier leader's value come from.
//!
//! `QR` is fixed; `X` is not. The more members answer, the larger the code and the smaller what each
//! of them gets; when too few answer for the code of a proposal, the value is proposed under a
//! smaller one, in the same ballot. Accepts of either code count for that code alone.

use super::Replica;
use super::messages::has_bulk;
use super::mutants::Fault;
use super::role::{Gathering, Leader, Recovered, Role, is_whole};
use super::spread::Spreading;
use crate::shared::ballot::Ballot;
use crate::shared::led::Led;
use quorate_core::{Entry, EntryId, Event, MemberIndex, MemberSet, Out, Slot};

impl Replica {
    /// How many members can be expected to accept, this one included.
    pub(super) fn alive(&self) -> usize {
        self.presence.alive().len() + 1
    }

    /// `X` for a value.
    pub(super) fn code_of(&self, value: Option<&Entry>) -> u8 {
        if has_bulk(value) {
            self.config.code_for(self.alive())
        } else {
            1
        }
    }

    /// Proposes what an earlier leader may have decided; its payloads are gathered first. New
    /// writes go on in later slots meanwhile.
    pub(super) fn propose_again(&mut self, recovered: Recovered, out: &mut Out<Self>) {
        if let Some(entry) = &recovered.value
            && !is_whole(Some(entry))
        {
            out.emit(Event::Branch("payloads gathered"));
            out.gather(entry.clone());
            if let Role::Leader(leader) = &mut self.role {
                let timeouts = 0;
                let slot = recovered.slot;
                leader.gathering.insert(
                    slot,
                    Gathering {
                        recovered,
                        timeouts,
                    },
                );
            }
            return;
        }
        // Under the code that members hold it in already, if enough of them may answer.
        let code = match recovered.code {
            code if self.config.thresholds.write_of(code) <= self.alive() => code,
            _ => self.code_of(recovered.value.as_ref()),
        };
        let holders = recovered.holders_of(code);
        self.propose(recovered.slot, recovered.value, code, holders, out);
    }

    /// Payloads that were gathered are here.
    pub(super) fn on_held(&mut self, entry: &Entry, out: &mut Out<Self>) {
        if !is_whole(Some(entry)) {
            return;
        }
        if let Role::Candidate(candidate) = &mut self.role
            && let Some(wanted) = candidate.wanted.get_mut(&entry.id)
        {
            *wanted = Some(entry.clone());
            return self.lead_if_elected(out);
        }
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let is_it = |_: &Slot, gathering: &mut Gathering| gathering.is_of(entry.id);
        let here: Vec<Gathering> = leader
            .gathering
            .extract_if(.., is_it)
            .map(|(_, gathering)| gathering)
            .collect();
        for Gathering { mut recovered, .. } in here {
            recovered.value = Some(entry.clone());
            self.propose_again(recovered, out);
        }
    }

    /// An election timer came due at the leader: whether payloads have been out of reach for so
    /// long that others must be asked what they hold. Whoever held a fragment when it promised may
    /// be gone; that proves nothing about the value.
    pub(super) fn is_out_of_reach(&mut self, out: &mut Out<Self>) -> bool {
        let patience = self.patience();
        let others = self.config.seating.others().len() as u64;
        let Role::Leader(leader) = &mut self.role else {
            return false;
        };
        let mut late = Vec::new();
        let mut is_spread_late = false;
        // Each waits for the links behind all others.
        let sent = |on: &Spreading| on.entry.bulk_len() * others / u64::from(on.code.max(1));
        let under_way = timeouts_of(leader.spreading.iter().map(sent).sum());
        for spreading in &mut leader.spreading {
            spreading.timeouts += 1;
            is_spread_late |= spreading.timeouts > TIMEOUTS_MIN + under_way + patience;
        }
        for (slot, gathering) in &mut leader.gathering {
            gathering.timeouts += 1;
            if gathering.timeouts > gathering.timeouts_max() {
                late.push(*slot);
            }
        }
        if late.is_empty() || !self.config.faults.is(Fault::GiveUpFragments) {
            return is_spread_late || !late.is_empty();
        }
        for slot in late {
            if let Role::Leader(leader) = &mut self.role {
                leader.gathering.remove(&slot);
            }
            self.propose(slot, None, 1, MemberSet::EMPTY, out);
        }
        false
    }

    /// A member has no fragment of a value: it gets one, if none is on its way.
    pub(super) fn on_lacks(
        &mut self,
        from: MemberIndex,
        ballot: Ballot,
        slot: Slot,
        code: u8,
        out: &mut Out<Self>,
    ) {
        if !self.is_leader() || ballot != self.promised {
            return;
        }
        self.presence.hear(from);
        let now_ns = self.now_ns();
        let Some(instance) = self.instance_mut(slot) else {
            return;
        };
        let is_proposed = instance.tallies.iter().any(|tally| tally.code == code);
        let accepted = instance.accepted.clone();
        let Some(proposal) = accepted.filter(|accepted| accepted.ballot == ballot) else {
            return;
        };
        if is_proposed && !instance.attached.is_to(from) {
            let it = MemberSet::only(from);
            let value = proposal.value;
            let until_ns = self.line.put(value.as_ref(), code, it, now_ns);
            if let Some(instance) = self.instance_mut(slot) {
                instance.attached.sent(it, until_ns);
            }
            self.say_accept(it, slot, value, code, true, out);
        }
    }

    /// Proposes values under smaller codes for which too few members answer. Whether they do their
    /// links tell; and after some retransmissions in vain, whom was heard since the last one.
    pub(super) fn shrink_codes(&mut self, out: &mut Out<Self>) {
        let heard = self.presence.take_heard();
        // Who is busy with what was sent to it is not silent.
        let is_silence =
            self.backoff.repeats() >= BACKOFF_SILENT && self.line.is_through(self.now_ns());
        if is_silence {
            self.mark_silent(heard);
        }
        for offset in 0..self.slots.len() {
            let instance = &self.slots[offset];
            let Some(tally) = instance.tallies.last().copied() else {
                continue;
            };
            let accepted = instance.accepted.as_ref();
            let is_own = accepted.is_some_and(|accepted| accepted.ballot == self.promised);
            if tally.code == 1 || instance.is_chosen || instance.is_fresh || !is_own {
                continue;
            }
            if is_silence {
                let others = self.config.seating.others();
                self.presence.mark_silent(others - tally.acks - heard);
            }
            let code = self.config.code_for(self.alive());
            if code < tally.code && self.config.thresholds.write_of(code) <= self.alive() {
                self.propose_smaller(offset, code, out);
            }
        }
    }

    /// Nothing was delivered for long: takes those for silent that have not answered what is spread.
    fn mark_silent(&mut self, heard: MemberSet) {
        if let Role::Leader(leader) = &self.role
            && let Some(spreading) = leader
                .spreading
                .iter()
                .find(|spreading| !spreading.is_fresh)
        {
            let others = self.config.seating.others();
            self.presence
                .mark_silent(others - spreading.holders - heard);
        }
    }

    /// Proposes a value again in the same ballot, cut into fewer and larger fragments.
    fn propose_smaller(&mut self, offset: usize, code: u8, out: &mut Out<Self>) {
        let Some(proposal) = self.slots[offset].accepted.clone() else {
            return;
        };
        out.emit(Event::Branch("smaller code"));
        let (slot, nobody) = (self.slot_at(offset), MemberSet::EMPTY);
        self.propose(slot, proposal.value, code, nobody, out);
    }
}

impl Replica {
    /// An election timer came due at the leader: whether nothing was chosen for longer than the
    /// payloads on their way account for.
    pub(super) fn is_stuck(&mut self) -> bool {
        let unchosen = self.slots.iter().filter(|instance| !instance.is_chosen);
        let values = unchosen.filter_map(|instance| instance.accepted.as_ref()?.value.as_ref());
        let others = self.config.seating.others().len() as u64;
        let sent = |value| Entry::bulk_len(value) * others / u64::from(self.code_of(Some(value)));
        let bytes = values.map(sent).sum();
        let (has_unchosen, patience) = (self.has_unchosen(), self.patience());
        let Role::Leader(leader) = &mut self.role else {
            return false;
        };
        let is_effective = std::mem::take(&mut leader.is_effective);
        leader.timeouts = if is_effective { 0 } else { leader.timeouts + 1 };
        has_unchosen && leader.timeouts > timeouts_of(bytes) + patience
    }

    /// How many election timers more to try, because so many members took up what is not chosen that a smaller
    /// code, or a little time, may do: who steps down needs `QR` promises to lead again.
    fn patience(&self) -> u32 {
        let Role::Leader(leader) = &self.role else {
            return 0;
        };
        let unchosen = self.slots.iter().filter(|instance| !instance.is_chosen);
        let acks = unchosen.flat_map(|instance| instance.tallies.iter().map(|tally| tally.acks));
        let holders = leader.spreading.iter().map(|spreading| spreading.holders);
        let answered = acks
            .chain(holders)
            .fold(MemberSet::only(self.config.seating.me), MemberSet::union);
        if answered.len() >= self.config.thresholds.write_of(1) {
            TIMEOUTS_HEARD
        } else {
            0
        }
    }

    /// The connection to a member broke, with what was on its way.
    pub(super) fn lose_fragments_to(&mut self, member: MemberIndex) {
        let slots = self.slots.iter_mut();
        slots.for_each(|instance| instance.attached.lose(member));
        if let Role::Leader(leader) = &mut self.role {
            let spreading = leader.spreading.iter_mut();
            spreading.for_each(|spreading| spreading.attached.lose(member));
        }
    }
}

impl Leader {
    /// Whether an entry is to be proposed again once its payloads are here.
    pub(super) fn is_gathering(&self, id: EntryId) -> bool {
        self.gathering.values().any(|gathering| gathering.is_of(id))
    }
}

impl Gathering {
    fn is_of(&self, id: EntryId) -> bool {
        self.recovered
            .value
            .as_ref()
            .is_some_and(|entry| entry.id == id)
    }

    /// How many election timers it may take.
    fn timeouts_max(&self) -> u32 {
        self.recovered
            .value
            .as_ref()
            .map_or(TIMEOUTS_MIN, timeouts_max)
    }
}

/// How many election timers it may take to move an entry's payloads.
fn timeouts_max(entry: &Entry) -> u32 {
    TIMEOUTS_MIN + timeouts_of(entry.bulk_len())
}

/// How many election timers come due while so many bytes of payloads are moved.
fn timeouts_of(bytes: u64) -> u32 {
    u32::try_from(bytes / BYTES_PER_TIMEOUT).unwrap_or(u32::MAX)
}

/// Retransmissions in vain after which silence counts more than what links seem to be.
pub(super) const BACKOFF_SILENT: u32 = 4;
/// Election timers that a leader keeps on while enough members answer.
const TIMEOUTS_HEARD: u32 = 8;
/// Election timers that gathering may take, however little there is to gather.
const TIMEOUTS_MIN: u32 = 2;
/// What is moved in an election timeout at least.
const BYTES_PER_TIMEOUT: u64 = 1 << 20;
