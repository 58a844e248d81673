//! What a replica that lost its promises may have promised in which epochs, and how it finds out.
//!
//! Such a replica may have had a part in epochs that its log knows nothing of, and begins in each of them as one that
//! forgot what it said. Of epochs that begin later it forgot nothing, and has to take part in them at once: where
//! most members lost something at one time or another, nobody would be left to recover from.
//!
//! A linearizable read tells them apart. A former life had a part in an epoch only once the seal before it was
//! decided. That was before this life began, so whatever a read that is asked now waits for includes that seal: once
//! all of it is applied here, the newest epoch is the last in which a former life can have said anything.

use super::reconfigure::EpochTransition;
use crate::context::Context;
use crate::epochs::{ANY_EPOCH, Record};
use crate::log::LogWriter;
use crate::requests::Requests;
use quorate_core::{Application, Machine, Now, Outcome, RequestId, SECONDS, Slot};

/// How long a read may take before another is asked, in ns.
const ASK_AGAIN_NS: u64 = SECONDS;

/// The read that shows which epochs are later than all promises that were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Question {
    /// Nothing is asked.
    #[default]
    Open,
    /// Asked, at this time on the monotonic clock in ns.
    Asked(RequestId, u64),
    /// Every slot before this one has to be applied.
    Answered(Slot),
}

impl EpochTransition {
    /// From now on every epoch may be one in which this replica forgot what it said; its log says so.
    pub(super) fn distrust(&mut self, log: Option<&mut LogWriter>) {
        (self.started_before, self.question) = (ANY_EPOCH, Question::Open);
        if let Some(log) = log {
            self.note_doubt(log);
        }
    }

    /// Whether nobody knows of which epochs promises may be lost.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.started_before == ANY_EPOCH
    }

    /// The machine says what becomes of a request; says whether it is the question here.
    pub(super) fn is_answer(&mut self, id: RequestId, outcome: &Outcome) -> bool {
        if !matches!(self.question, Question::Asked(asked, _) if asked == id) {
            return false;
        }
        self.question = match outcome {
            Outcome::ReadAt(slot) => Question::Answered(*slot),
            _ => Question::Open,
        };
        true
    }

    /// Finds out which epochs are later than whatever was lost.
    pub(super) fn settle_doubt<M: Machine, A: Application>(
        &mut self,
        now: Now,
        is_serving: bool,
        context: &mut Context<M, A>,
        requests: &mut Requests<A::Query>,
    ) {
        if !self.is_in_doubt() {
            return;
        }
        let is_due = match self.question {
            Question::Open => true,
            Question::Asked(_, at_ns) => now.mono_ns >= at_ns.saturating_add(ASK_AGAIN_NS),
            Question::Answered(slot) => {
                if context.applied() >= slot {
                    let epoch = context.epoch().number;
                    self.started_before = epoch;
                    if let Some(log) = &mut context.storage.log {
                        self.write_record(log, Record::Started { epoch });
                    }
                }
                false
            }
        };
        if is_due && is_serving {
            self.question = Question::Asked(requests.read_for_host(), now.mono_ns);
        }
    }
}
