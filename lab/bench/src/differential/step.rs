//! What one step of a sequence asks of both systems, and what came of it.

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, TxnRequest,
    WatchCreateRequest,
};
use serde::{Deserialize, Serialize};

use super::users::{Caller, UserAction};

/// Watch streams open at a time, each through an endpoint of its own.
pub(crate) const STREAMS: usize = 3;

/// A step, through which endpoint of a cluster it goes, and in which form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// Taken modulo the number of endpoints; steps about a stream go through the stream's.
    pub(crate) endpoint: usize,
    /// Whether what can be is asked in JSON.
    pub(crate) in_json: bool,
    /// Who it is that asks.
    pub(crate) caller: Caller,
    pub(crate) action: Action,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Range(RangeRequest),
    /// Reads a range in several messages.
    RangeStream(RangeRequest),
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    Grant(LeaseGrantRequest),
    /// Grants a lease whose time is short, and revokes it at once, before it could expire.
    GrantBriefly(LeaseGrantRequest),
    Revoke {
        id: i64,
    },
    /// Renews leases over one stream.
    KeepAlive(Vec<i64>),
    TimeToLive {
        id: i64,
        keys: bool,
    },
    Leases,
    /// Takes and gives back a lock under a lease.
    Lock {
        lease: i64,
    },
    /// Stands for election under a lease, and resigns.
    Elect {
        lease: i64,
        value: Bytes,
    },
    Watch {
        stream: usize,
        request: WatchCreateRequest,
    },
    /// Ends a watch; what was to be told before has been told by then.
    Cancel {
        stream: usize,
        watch_id: i64,
    },
    /// Ends a stream with all its watches and opens a new one in its place, for the caller of the step.
    Reopen {
        stream: usize,
    },
    /// Writes a key and waits until every stream has told everything up to there.
    Settle,
    Status,
    HashKv {
        revision: i64,
    },
    Hash,
    Alarms,
    /// Raises alarm NOSPACE.
    RaiseNoSpace,
    /// Writes a value for which the quota has no room, which raises alarm NOSPACE.
    PutTooMuch {
        key: Bytes,
    },
    /// Raises alarm CORRUPT, asks for this, and ends the alarm.
    WhileCorrupt(Vec<Action>),
    /// Ends all alarms, one after the other.
    Disarm,
    Users(UserAction),
    Defragment,
    Members {
        linearizable: bool,
    },
    MoveLeader {
        target_id: u64,
    },
}

impl Action {
    /// Whether it is about watches, and therefore as whom its stream was opened.
    pub(crate) fn is_of_stream(&self) -> bool {
        matches!(
            self,
            Action::Watch { .. } | Action::Cancel { .. } | Action::Settle
        )
    }
}

/// What came of a step, with everything left out that may differ.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The answer, the error, or what the watches told.
    #[serde(rename = "t")]
    pub(crate) text: String,
    /// The revision the system has come to; 0 when the answer does not say.
    #[serde(rename = "r", default, skip_serializing_if = "is_zero")]
    pub(crate) revision: i64,
    /// Seconds that a lease has left.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub(crate) seconds_left: i64,
    /// The watch that began, if one did.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub(crate) watch_id: Option<i64>,
    /// Nothing went wrong with the request.
    #[serde(rename = "ok", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) succeeded: bool,
    /// Events that watches told.
    #[serde(skip)]
    pub(crate) events: u64,
}

impl Outcome {
    /// Adds what came of a further call of the same step.
    pub(crate) fn add(&mut self, next: Outcome) {
        self.text.push_str(&next.text);
        self.text.push_str("; ");
        self.revision = self.revision.max(next.revision);
        self.succeeded |= next.succeeded;
    }

    /// Whether two systems did the same. Seconds may differ by as many as that.
    pub(crate) fn agrees(&self, other: &Outcome, seconds: u64) -> bool {
        self.text == other.text
            && self.revision == other.revision
            && self.watch_id == other.watch_id
            && self.seconds_left.abs_diff(other.seconds_left) <= seconds
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_more_or_less_is_no_difference_and_two_are() {
        let outcome = |seconds_left| Outcome {
            seconds_left,
            ..Outcome::default()
        };
        assert!(outcome(99).agrees(&outcome(100), 1));
        assert!(!outcome(98).agrees(&outcome(100), 1));
        let other = Outcome {
            revision: 1,
            ..outcome(99)
        };
        assert!(!other.agrees(&outcome(99), 1));
    }
}
