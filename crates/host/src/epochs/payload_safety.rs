//! When the payloads of earlier epochs are safe in a new one.
//!
//! A seal hands over the metadata: whoever holds the state knows every payload's name, length and
//! digest. The bytes may still lie with members of earlier epochs, cut by earlier codes. RS-Paxos
//! (section 4.6) has every server confirm its share, and moves no data when `Q' >= X`. Here holders are
//! counted, and the condition is `h >= X + F'`: `h` members of the new epoch durably hold distinct
//! fragments, any `X` of which rebuild the value, and the new epoch survives `F'` failures. With
//! `h >= X` alone the first of those failures would take the value.
//!
//! Where the condition may fail, or the code differs, every member makes its fragments under the new epoch's
//! code (`payloads/settle.rs`), until all but `F'` members hold all of theirs, and at least `X' + F'`
//! ([`members_to_settle`]). Members that left serve until then ([`Order::Settled`]).
//!
//! [`Order::Settled`]: super::Order::Settled

use super::rule::Invalid;
use super::state::GroupState;
use quorate_core::{Catalogue, Epoch, Numbers};

/// Holders in the new epoch that a payload needs: `X + F'`.
#[must_use]
pub fn holders_needed(code: usize, failures: usize) -> usize {
    code + failures
}

/// Whether a payload coded for `code` fragments is safe in an epoch of which `failures` members may
/// fail, when `holders` of its members durably hold distinct fragments. A whole copy counts as any.
#[must_use]
pub fn is_safe(code: usize, holders: usize, failures: usize) -> bool {
    holders >= holders_needed(code, failures)
}

/// Members that must hold all of their fragments before an epoch is settled: `N' - F'`, so that nobody who
/// failed is waited for. Where codes adapt to who answers, that may be fewer than `X' + F'` (n = 4, k = 3,
/// f = 1): then those who are away are waited for, or replaced, for without them the first failure would take
/// values.
#[must_use]
pub fn members_to_settle(numbers: &Numbers) -> usize {
    let up = numbers.n.saturating_sub(numbers.failures);
    up.max(holders_needed(numbers.code, numbers.failures))
}

/// Whether every payload that is safe in the newest epoch is so in the next one without any move:
/// those who stay hold `X + F` less one for each member that leaves, which must be `X + F'`. Under another
/// code payloads move all the same: they are to cost what the code promises.
///
/// That also covers what the newest epoch wrote itself: a value is chosen by at least `X + F`.
#[must_use]
pub fn nothing_to_move(
    state: &GroupState,
    next: &Epoch,
    catalogue: &(impl Catalogue + ?Sized),
) -> bool {
    let newest = state.chain.newest();
    let numbers = [newest, next].map(|epoch| catalogue.numbers(state.level, epoch));
    let [Ok(old), Ok(new)] = numbers else {
        return false;
    };
    old.code == new.code && stays_safe(&old, left(newest, next), &new)
}

/// The same in numbers.
#[must_use]
pub fn stays_safe(old: &Numbers, leavers: usize, new: &Numbers) -> bool {
    old.failures >= leavers + new.failures
}

/// Whether the next epoch may follow while payloads are on their way: it may do no more than
/// replace lives that were lost, and of the members that payloads were to be safe on no more than may
/// fail.
pub(super) fn check_unsettled(
    state: &GroupState,
    next: &Epoch,
    catalogue: &(impl Catalogue + ?Sized),
) -> Result<(), Invalid> {
    let Some(since) = state.unsettled else {
        return Ok(());
    };
    let newest = state.chain.newest();
    let ids = |epoch: &Epoch| epoch.member_ids().collect::<Vec<_>>();
    let is_same = ids(newest) == ids(next)
        && (&newest.protocol, &newest.params) == (&next.protocol, &next.params);
    let begun = state.chain.get(since).filter(|_| is_same);
    let unsettled = Invalid::Unsettled {
        epoch: newest.number,
    };
    let begun = begun.ok_or(unsettled)?;
    let most = catalogue.numbers(state.level, begun);
    let most = most.map_err(|_| unsettled)?.failures;
    let count = left(begun, next);
    if count > most {
        let (count, most) = (count as u64, most as u64);
        return Err(Invalid::Replaced { count, most });
    }
    Ok(())
}

/// Lives that one epoch lists and another does not.
fn left(before: &Epoch, after: &Epoch) -> usize {
    let stays = before.members.iter().filter(|member| after.has(**member));
    before.n() - stays.count()
}
