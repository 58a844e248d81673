//! At-most-once execution: what every client's requests gave, until it has the answers.
//!
//! Commands of one client may be applied in any order, so a session keeps the results of all
//! sequence numbers above the one its client has acknowledged; a single "last number" would drop
//! commands. Sessions are part of the replicated state: every replica opens, uses and ends them
//! at the same slots.

use bytes::Bytes;
use quorate_core::{ClientId, Refusal, RequestId, Slot};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod wire;

/// Results kept per session: a client with more unacknowledged requests is refused.
const RESULTS_MAX: usize = 64 << 10;

/// Ended sessions remembered. A duplicate that comes after so many others have ended is lost anyway.
const ENDED_MAX: usize = 64 << 10;

/// One client's results.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Session {
    /// Who opened it; opening another session for the same owner ends this one. 0 is nobody.
    owner: u64,
    /// Every result up to this sequence number was acknowledged and dropped.
    acked: u64,
    results: BTreeMap<u64, (Slot, Bytes)>,
    used: Slot,
}

/// What a session says about a request that is about to be executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It was not executed before: execute it, then [`Sessions::record`] the result.
    Execute,
    /// It was; this is what it gave, at this slot.
    Duplicate(Slot, Bytes),
    /// It must not be executed.
    Refused(Refusal),
}

/// What the sessions say about a request without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Its session is open.
    Open,
    /// Its session is open, and its result was acknowledged.
    Forgotten,
    /// Its session has ended.
    Ended,
    /// Its session was not opened yet, or ended long ago.
    Nothing,
}

/// All sessions of a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sessions {
    sessions: BTreeMap<ClientId, Session>,
    sessions_max: usize,
    /// Sessions that ended, the last [`ENDED_MAX`] of them in the order they did: a late duplicate
    /// of a session's opening must not bring it back without its results, for then late
    /// duplicates of its commands would be executed again.
    ended: VecDeque<ClientId>,
    ended_set: BTreeSet<ClientId>,
}

impl Sessions {
    pub(crate) fn new(sessions_max: usize) -> Self {
        Sessions {
            sessions: BTreeMap::new(),
            sessions_max,
            ended: VecDeque::new(),
            ended_set: BTreeSet::new(),
        }
    }

    /// Sessions there are, and the most there may be.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.sessions.len(), self.sessions_max)
    }

    /// Opens a session and ends others of the same owner. Opening it again changes nothing, even
    /// after it has ended.
    pub(crate) fn open(&mut self, client: ClientId, owner: u64, slot: Slot) {
        if self.sessions.contains_key(&client) || self.ended_set.contains(&client) {
            return;
        }
        if owner != 0 {
            let owned = self
                .sessions
                .iter()
                .filter(|(_, session)| session.owner == owner);
            let owned: Vec<ClientId> = owned.map(|(client, _)| *client).collect();
            owned.into_iter().for_each(|client| self.end(client));
        }
        if self.sessions.len() >= self.sessions_max {
            self.end_least_recently_used();
        }
        self.sessions.insert(
            client,
            Session {
                owner,
                used: slot,
                ..Session::default()
            },
        );
    }

    /// Ends a session: later commands of the client are refused, never executed.
    pub(crate) fn end(&mut self, client: ClientId) {
        if self.sessions.remove(&client).is_none() {
            return;
        }
        self.ended.push_back(client);
        self.ended_set.insert(client);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.ended_set.remove(&oldest);
        }
    }

    /// Judges a request at its turn to be executed.
    pub(crate) fn judge(&mut self, id: RequestId, acked: u64, slot: Slot) -> Verdict {
        let Some(session) = self.sessions.get_mut(&id.client) else {
            return Verdict::Refused(Refusal::NoSession);
        };
        session.used = slot;
        if let Some((slot, result)) = session.results.get(&id.seq) {
            return Verdict::Duplicate(*slot, result.clone());
        }
        if id.seq <= session.acked {
            return Verdict::Refused(Refusal::Forgotten);
        }
        session.acknowledge(acked.min(id.seq.saturating_sub(1)));
        if session.results.len() >= RESULTS_MAX {
            // Nothing notes that it was refused: a second submission of it may find room, and is executed.
            return Verdict::Refused(Refusal::Unknown);
        }
        Verdict::Execute
    }

    /// Whether a request is sure to be executed, if that comes before `others` further requests of its
    /// client, all different from it, that acknowledge no more than `acked`.
    pub(crate) fn is_sure(&self, id: RequestId, others: usize, acked: u64) -> bool {
        self.sessions.get(&id.client).is_some_and(|session| {
            let is_new = !session.results.contains_key(&id.seq);
            // What commutes with it may come before it after all: of this client, no more than the half.
            let has_place = session.results.len() + others < RESULTS_MAX / 2;
            is_new && has_place && id.seq > session.acked.max(acked)
        })
    }

    /// Keeps the result of a request that was executed.
    pub(crate) fn record(&mut self, id: RequestId, slot: Slot, result: Bytes) {
        if let Some(session) = self.sessions.get_mut(&id.client) {
            session.results.insert(id.seq, (slot, result));
        }
    }

    /// The result of a request that was executed here, if it is still kept.
    pub(crate) fn result(&self, id: RequestId) -> Option<(Slot, Bytes)> {
        self.sessions.get(&id.client)?.results.get(&id.seq).cloned()
    }

    /// What is known of a request of a session here.
    pub(crate) fn known(&self, id: RequestId) -> Known {
        match self.sessions.get(&id.client) {
            Some(session) if id.seq <= session.acked => Known::Forgotten,
            Some(_) => Known::Open,
            None if self.ended_set.contains(&id.client) => Known::Ended,
            None => Known::Nothing,
        }
    }

    fn end_least_recently_used(&mut self) {
        let oldest = self
            .sessions
            .iter()
            .min_by_key(|(client, session)| (session.used, **client));
        if let Some(client) = oldest.map(|(client, _)| *client) {
            self.end(client);
        }
    }
}

impl Session {
    fn acknowledge(&mut self, acked: u64) {
        if acked > self.acked {
            self.acked = acked;
            self.results = self.results.split_off(&(acked + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(client: u64, seq: u64) -> RequestId {
        RequestId {
            client: ClientId(client),
            seq,
        }
    }

    fn execute(sessions: &mut Sessions, id: RequestId, acked: u64) {
        assert_eq!(sessions.judge(id, acked, Slot(1)), Verdict::Execute);
        sessions.record(id, Slot(1), Bytes::from(format!("result {}", id.seq)));
    }

    #[test]
    fn commands_of_one_client_may_come_in_any_order_and_run_once() {
        let mut sessions = Sessions::new(10);
        sessions.open(ClientId(7), 0, Slot(0));
        for seq in [3, 1, 2] {
            execute(&mut sessions, id(7, seq), 0);
        }
        for seq in [1, 2, 3] {
            let saved = Verdict::Duplicate(Slot(1), Bytes::from(format!("result {seq}")));
            assert_eq!(sessions.judge(id(7, seq), 0, Slot(2)), saved);
        }
    }

    #[test]
    fn an_acknowledged_result_is_forgotten_and_never_executed_again() {
        let mut sessions = Sessions::new(10);
        sessions.open(ClientId(7), 0, Slot(0));
        execute(&mut sessions, id(7, 1), 0);
        execute(&mut sessions, id(7, 2), 1);
        let verdict = sessions.judge(id(7, 1), 0, Slot(2));
        assert_eq!(verdict, Verdict::Refused(Refusal::Forgotten));
        assert_eq!(sessions.result(id(7, 1)), None);
    }

    #[test]
    fn a_request_without_room_for_its_result_is_not_called_refused_for_good() {
        let mut sessions = Sessions::new(10);
        sessions.open(ClientId(7), 0, Slot(0));
        let last = RESULTS_MAX as u64 + 1;
        (1..last).for_each(|seq| execute(&mut sessions, id(7, seq), 0));
        let verdict = sessions.judge(id(7, last), 0, Slot(2));
        assert_eq!(verdict, Verdict::Refused(Refusal::Unknown));
        // A copy of it that acknowledges more.
        execute(&mut sessions, id(7, last), 1);
    }

    #[test]
    fn a_client_cannot_acknowledge_the_request_it_is_sending() {
        let mut sessions = Sessions::new(10);
        sessions.open(ClientId(7), 0, Slot(0));
        execute(&mut sessions, id(7, 1), u64::MAX);
        assert!(sessions.result(id(7, 1)).is_some());
    }

    #[test]
    fn without_a_session_nothing_runs() {
        let mut sessions = Sessions::new(10);
        let refused = Verdict::Refused(Refusal::NoSession);
        assert_eq!(sessions.judge(id(7, 1), 0, Slot(0)), refused);
        sessions.open(ClientId(7), 0, Slot(0));
        sessions.end(ClientId(7));
        assert_eq!(sessions.judge(id(7, 1), 0, Slot(0)), refused);
    }

    #[test]
    fn a_new_session_of_an_owner_ends_its_old_one() {
        let mut sessions = Sessions::new(10);
        sessions.open(ClientId(7), 1, Slot(0));
        sessions.open(ClientId(8), 2, Slot(0));
        sessions.open(ClientId(9), 1, Slot(0));
        let refused = Verdict::Refused(Refusal::NoSession);
        assert_eq!(sessions.judge(id(7, 1), 0, Slot(1)), refused);
        assert_eq!(sessions.judge(id(8, 1), 0, Slot(1)), Verdict::Execute);
    }

    #[test]
    fn a_late_duplicate_of_its_opening_does_not_bring_a_session_back() {
        let mut sessions = Sessions::new(10);
        sessions.open(ClientId(7), 1, Slot(0));
        execute(&mut sessions, id(7, 1), 0);
        sessions.open(ClientId(8), 1, Slot(1));
        sessions.open(ClientId(7), 1, Slot(2));
        let refused = Verdict::Refused(Refusal::NoSession);
        assert_eq!(sessions.judge(id(7, 1), 0, Slot(3)), refused);
        assert_eq!(sessions.judge(id(8, 1), 0, Slot(3)), Verdict::Execute);
    }

    #[test]
    fn the_least_recently_used_session_makes_room() {
        let mut sessions = Sessions::new(2);
        sessions.open(ClientId(1), 0, Slot(0));
        sessions.open(ClientId(2), 0, Slot(1));
        assert_eq!(sessions.judge(id(1, 1), 0, Slot(2)), Verdict::Execute);
        sessions.open(ClientId(3), 0, Slot(3));
        let refused = Verdict::Refused(Refusal::NoSession);
        assert_eq!(sessions.judge(id(2, 1), 0, Slot(4)), refused);
        assert_eq!(sessions.judge(id(1, 2), 0, Slot(4)), Verdict::Execute);
    }
}
