//! What replicas say, what they write down, and what they wait for.

use crate::shared::ballot::Ballot;
use crate::shared::lags::Probe;
use crate::shared::question::QuestionName;
use crate::shared::words::carried_whole;
use quorate_core::{Entry, EntryId, MemberIndex, Slot};
use std::fmt;

/// A time that is a position in a lane, in ns as clocks show them. Nothing is at 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The last position there is: no clock shows it before the year 2116, and whoever says more lies. No replica gives
    /// an entry a position behind it, even where all before it are taken.
    pub(super) const LAST: Stamp = Stamp(1 << 62);

    /// The position behind this one.
    pub(super) fn next(self) -> Stamp {
        Stamp(self.0.saturating_add(1))
    }

    /// The position before this one.
    pub(super) fn before(self) -> Stamp {
        Stamp(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// A lane: those of members have the numbers of their positions, the fast one has the number behind them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LaneNo(pub u8);

impl LaneNo {
    /// The lane of a member.
    pub(super) fn of(member: MemberIndex) -> LaneNo {
        LaneNo(member.position() as u8)
    }
}

/// Where an entry stands in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Named {
    /// The position of the entry in a lane.
    pub stamp: Stamp,
    /// The name of the entry that stands there.
    pub id: EntryId,
}

/// An entry and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Placed {
    /// The position of the entry in its lane.
    pub stamp: Stamp,
    /// The entry that stands there.
    pub entry: Entry,
}

/// An entry of a gateway for the fast lane.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// The position that it wants, when it should have reached a fast quorum.
    pub stamp: Stamp,
    /// When it left, as the clock of its gateway showed.
    pub sent_ns: u64,
    /// The entry that wants a position.
    pub entry: Entry,
}

/// What a member made of a proposal, told to its gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vote {
    /// The ballot of the vote.
    pub ballot: Ballot,
    /// The position and the entry.
    pub named: Named,
    /// Whether the entry got the vote; otherwise its position has, or will have, another.
    pub is_for: bool,
    /// How long messages take.
    pub probe: Probe,
}

/// All votes of a member in the fast lane behind `from`, up to `nat`, for its leader.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Votes {
    /// The ballot of the votes.
    pub ballot: Ballot,
    /// Nothing is said of positions up to here.
    pub from: Stamp,
    /// "No accept time": where no entry is named up to here, the vote is for a no-op.
    pub nat: Stamp,
    /// The entries that got its vote; some may be behind `nat`.
    pub named: Vec<Named>,
}

/// Positions of a lane that are decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Learn {
    /// The lane in which they are.
    pub lane: LaneNo,
    /// Nothing is told to those that have not delivered all slots before this one: what they lack may be missing here.
    pub since: Slot,
    /// Nothing is said of positions up to here.
    pub from: Stamp,
    /// All positions up to here are decided.
    pub through: Stamp,
    /// Positions that hold entries.
    pub named: Vec<Named>,
}

/// What a member says of its own accord.
#[derive(Clone, PartialEq, Debug)]
pub struct Beat {
    /// What is decided in lanes that it leads, or owns.
    pub learned: Vec<Learn>,
    /// Votes of the sender in the fast lane.
    pub votes: Option<Votes>,
}

/// What a lane holds behind `prev`, up to `through`, as its leader wants it.
#[derive(Clone, PartialEq, Debug)]
pub struct Accept {
    /// The lane that its leader fills.
    pub lane: LaneNo,
    /// The ballot of its leader.
    pub ballot: Ballot,
    /// This is for those alone that have delivered all slots before this one.
    pub since: Slot,
    /// Nothing is said of positions up to here.
    pub prev: Stamp,
    /// Where no entry is named up to here, there is none.
    pub through: Stamp,
    /// When it left, as the clock of its sender showed.
    pub sent_ns: u64,
    /// The entries that the leader wants there.
    pub placed: Vec<Placed>,
}

/// A member has accepted what the leader of a ballot wants in a lane, durably.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// The lane of the leader.
    pub lane: LaneNo,
    /// The ballot of the leader.
    pub ballot: Ballot,
    /// Up to here.
    pub through: Stamp,
    /// How long messages take.
    pub probe: Probe,
}

/// How far a member has accepted a lane of one leader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// Up to here.
    pub through: Stamp,
    /// The ballot of that leader.
    pub ballot: Ballot,
}

/// An open fast round.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Round {
    /// The ballot of the round.
    pub ballot: Ballot,
    /// No entry gets a vote up to here any more.
    pub nat: Stamp,
}

/// How an entry got the vote of a member at a position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Held {
    /// The ballot of the vote.
    pub ballot: Ballot,
    /// Whether the leader of the ballot wanted it there; otherwise it was a vote in a fast round.
    pub is_classic: bool,
    /// The name of the entry.
    pub id: EntryId,
}

/// An entry that a promise shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// The position of the entry.
    pub stamp: Stamp,
    /// How the entry got there.
    pub held: Held,
    /// The entry itself.
    pub entry: Entry,
}

/// The sender takes part in no lower ballot of a lane any more, durably.
#[derive(Clone, PartialEq, Debug)]
pub struct Promise {
    /// The lane that the ballot is for.
    pub lane: LaneNo,
    /// The ballot of the candidate.
    pub ballot: Ballot,
    /// How far the sender has delivered. It may have forgotten what it held of entries that are.
    pub mark: Mark,
    /// What the sender has accepted of leaders: of the highest ballot first, each reaching further than those before.
    pub steps: Vec<Step>,
    /// The last fast round of the sender.
    pub round: Option<Round>,
    /// The entries that it holds.
    pub shown: Vec<Shown>,
}

/// How far a replica has delivered, in slots and in positions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mark {
    /// The first slot not delivered.
    pub next: Slot,
    /// What is chosen up to here, in any lane, is in slots before it, or gets none.
    pub walk: Stamp,
}

/// "Something waits here."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// How far the sender has delivered.
    pub mark: Mark,
    /// What waits is at positions up to here.
    pub until: Stamp,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// An entry for the fast lane. Promises nothing.
    Propose(Proposal),
    /// What came of it, to its gateway.
    Vote(Vote),
    /// What is decided, and what got the sender's votes.
    Beat(Beat),
    /// What the leader of a lane wants in it. Promises nothing but what is reserved.
    Accept(Accept),
    /// The answer to it.
    Accepted(Accepted),
    /// The sender wants to lead a lane (phase 1).
    Prepare(LaneNo, Ballot),
    /// A promise of a ballot.
    Promise(Promise),
    /// The sender has promised this ballot in a lane, which is more than what somebody still uses.
    Nack(LaneNo, Ballot),
    /// Something waits: what is decided, and what have I missed?
    Ask(Ask),
    /// The answer to the question which time a slot has.
    Mark(Mark),
    /// "Up to where may there be entries?", for reads. Promises nothing.
    ReadQ(QuestionName),
    /// The answer: no entry got the sender's vote behind this position.
    ReadA(QuestionName, Stamp),
}

/// What is written of a lane: all that counts of it but for entries. The last one written counts.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneRecord {
    /// The lane that this is about.
    pub lane: LaneNo,
    /// The highest ballot that is promised in the lane.
    pub promised: Ballot,
    /// The stretches of the lane in which something is accepted, each with its ballot.
    pub steps: Vec<Step>,
    /// The fast round, if this is the fast lane.
    pub round: Option<Round>,
}

/// A position of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The lane of the position.
    pub lane: LaneNo,
    /// The position in that lane.
    pub stamp: Stamp,
    /// The ballot of the vote.
    pub ballot: Ballot,
    /// Whether a leader wanted it there.
    pub is_classic: bool,
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// All votes for an entry that matter, in whatever lanes: hosts carry one record of an entry on.
    Entry(Entry, Vec<Place>),
    /// What counts of a lane.
    Lane(LaneRecord),
    /// Own stamps, what is said to be none, and votes are not behind this one. A later start uses none up to here.
    Reserve(Stamp),
    /// Promises were lost: nothing of what earlier starts wrote counts, and no later start takes part.
    Lost,
}

carried_whole!(Message, Record);

impl quorate_core::Record for Record {
    /// None: the slot of a position is known when it is delivered, and not before.
    fn slot(&self) -> Option<Slot> {
        None
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::Entry(..) => None,
            Record::Lost => Some(0),
            Record::Reserve(_) => Some(1),
            Record::Lane(lane) => Some(lane.lane.0.saturating_add(2)),
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Entry(entry, _) => Some(entry),
            _ => None,
        }
    }
}

impl Record {
    /// Whether this is about the positions of an entry.
    pub(super) fn is_entry(&self) -> bool {
        matches!(self, Record::Entry(..))
    }

    /// Whether this says what was promised and accepted in a lane.
    pub(super) fn is_lane(&self) -> bool {
        matches!(self, Record::Lane(_))
    }

    /// Whether this reserves stamps.
    pub(super) fn is_reserve(&self) -> bool {
        matches!(self, Record::Reserve(_))
    }
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// The own clock passes a position at which something waits, or should have.
    Hold,
    /// Something said here went unanswered for a while.
    Retransmit,
    /// Whoever has to fill a lane was silent for long.
    Election,
    /// Votes of the fast round are not equal, or have not come, for a while.
    Collide,
    /// Slots decided elsewhere have not become known here for a while.
    CatchUp,
    /// Requests have waited as long as they should.
    Patience,
}
