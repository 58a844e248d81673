//! Admission of commands: what a replica takes in of clients, and how long it lets them wait in vain.

use crate::shared::params::Params;
use quorate_core::{Command, Due, ENTRY_BYTES_MAX, Machine, Out, Refusal};

/// How much of what clients sent may wait at a replica for an entry or an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// Requests, commands and reads alike (`queue`).
    pub commands_max: usize,
    /// Bytes of commands, payloads included.
    pub bytes_max: usize,
}

impl QueueLimits {
    /// The limits that parameters of an epoch set.
    pub(crate) fn of(params: &Params<'_>) -> Result<Self, String> {
        Ok(QueueLimits {
            commands_max: params.number("queue", 16_384, 1..=1 << 24)?,
            bytes_max: 256 << 20,
        })
    }

    /// How many more requests may wait beside `waiting` ones, of which the commands take `bytes`.
    pub(crate) fn room(&self, waiting: usize, bytes: usize) -> usize {
        match bytes < self.bytes_max {
            true => self.commands_max.saturating_sub(waiting),
            false => 0,
        }
    }
}

/// Why a command cannot be taken in where `room` more may wait; `None` if it can.
pub(crate) fn refusal(command: &Command, room: usize) -> Option<Refusal> {
    if command.encoded_len_max() > ENTRY_BYTES_MAX {
        Some(Refusal::TooLarge)
    } else if room == 0 {
        Some(Refusal::Overloaded)
    } else {
        None
    }
}

/// Whether clients wait in vain: a timer runs while any wait, and what is served meanwhile is noted.
///
/// Invariant: the timer runs from when a client begins to wait until it comes due, so that a client which is
/// told of refusal has waited for at least its period.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Patience {
    /// The timer runs.
    is_armed: bool,
    /// A request was served since the timer was armed.
    has_served: bool,
}

impl Patience {
    /// A request was served.
    pub(crate) fn note_served(&mut self) {
        self.has_served = true;
    }

    /// Has a timer run for so many ns while clients wait.
    pub(crate) fn watch<M: Machine>(
        &mut self,
        are_waiting: bool,
        timer: M::Timer,
        period_ns: u64,
        out: &mut Out<M>,
    ) {
        if are_waiting && self.begin() {
            out.arm(timer, Due::After(period_ns));
        }
    }

    /// Clients wait. Says whether the timer has to be armed.
    pub(crate) fn begin(&mut self) -> bool {
        let is_to_arm = !self.is_armed;
        if is_to_arm {
            (self.is_armed, self.has_served) = (true, false);
        }
        is_to_arm
    }

    /// The timer came due. Says whether no request was served since it was armed.
    pub(crate) fn is_over(&mut self) -> bool {
        self.is_armed = false;
        !std::mem::take(&mut self.has_served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_when_nothing_was_served_since_clients_began_to_wait() {
        let mut patience = Patience::default();
        patience.note_served();
        assert!(patience.begin() && !patience.begin());
        assert!(patience.is_over(), "what was served before does not count");
        assert!(patience.begin());
        patience.note_served();
        assert!(!patience.is_over());
    }

    #[test]
    fn there_is_room_for_as_many_requests_and_bytes_as_the_limits_say() {
        let limits = QueueLimits {
            commands_max: 3,
            bytes_max: 10,
        };
        assert_eq!(
            [limits.room(1, 9), limits.room(1, 10), limits.room(5, 0)],
            [2, 0, 0]
        );
    }
}
