//! When the payloads of earlier epochs are safe in a new one.
//!
//! A seal hands over the metadata: whoever holds the state knows every payload's name, length and
//! digest. The bytes may still lie with members of earlier epochs, cut by earlier codes. RS-Paxos
//! (section 4.6) has every server confirm its share, and moves no data when `Q' >= X`. Here holders are
//! counted, and the condition is `h >= X + F'`: `h` members of the new epoch durably hold distinct
//! fragments, any `X` of which rebuild the value, and the new epoch survives `F'` failures. With
//! `h >= X` alone the first of those failures would take the value.
//!
//! Where the condition fails, missing fragments of the same code are made, up to one for each member;
//! where that is too few, the value is coded anew, for fewer fragments each of which is longer. Members
//! that left serve until the condition holds for every live payload ([`Order::Settled`]).
//!
//! Hosts do so for all payloads at once (`payloads/settle.rs`): every member makes its fragment under the
//! new epoch's code, and `N' - F'` members that hold all of theirs are enough, as that is at least `X' + F'`.
//!
//! [`Order::Settled`]: super::Order::Settled

use super::rule::Invalid;
use super::state::State;
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

/// What is to be done for a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// Nothing: it is safe.
    Nothing,
    /// Make fragments of the same code for so many more members.
    Fill {
        /// How many.
        missing: usize,
    },
    /// Gather it and cut it for this many fragments. It may be named in the place of the old one once
    /// [`is_safe`] holds for the new fragments, and only then are old ones deleted.
    Recode {
        /// The new code.
        code: usize,
    },
}

/// The next move for a payload coded for `code`, of which `holders` members of the new epoch hold
/// fragments, while `reachable` members (those holders that cannot be reached now included) could.
///
/// Never stuck as long as no more than the failures the epoch is made for are out of reach: a code of
/// one is safe on `F' + 1` members.
#[must_use]
pub fn next_move(code: usize, holders: usize, reachable: usize, new: &Numbers) -> Move {
    let needed = holders_needed(code, new.failures);
    if holders >= needed {
        return Move::Nothing;
    }
    if needed <= reachable {
        return Move::Fill {
            missing: needed - holders,
        };
    }
    let largest = reachable.saturating_sub(new.failures);
    Move::Recode {
        code: largest.clamp(1, new.code.max(1)),
    }
}

/// Whether every payload that is safe in the newest epoch is so in the next one without any move:
/// those who stay hold `X + F` less one for each member that leaves, which must be `X + F'`. Under another
/// code payloads move all the same: they are to cost what the code promises.
///
/// That also covers what the newest epoch wrote itself: a value is chosen by at least `X + F`.
#[must_use]
pub fn nothing_to_move(state: &State, next: &Epoch, catalogue: &(impl Catalogue + ?Sized)) -> bool {
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
    state: &State,
    next: &Epoch,
    catalogue: &(impl Catalogue + ?Sized),
) -> Result<(), Invalid> {
    let Some(since) = state.unsettled else {
        return Ok(());
    };
    let newest = state.chain.newest();
    let ids = |epoch: &Epoch| epoch.members.iter().map(|m| m.id).collect::<Vec<_>>();
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
