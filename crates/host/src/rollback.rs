//! Old copies of a folder: what peers remember of how far a replica's promises went.
//!
//! A replica whose data folder is replaced by an older copy of it has forgotten promises and does not know it. Its
//! peers do: every frame claims how far the promises of its sender go, peers remember the furthest claim, and a
//! replica that starts asks them before its machine takes part. Decision record 0028 has the argument.

use crate::position::Position;
use quorate_core::{
    Boot, Decoder, Encoder, Epoch, Incarnation, MILLIS, Member, ReplicaId, SECONDS, Wire, WireError,
};
use std::collections::BTreeMap;

/// How long after a promise became durable every peer that can be reached is told, at most, in ns.
pub(crate) const CLAIM_NS: u64 = 50 * MILLIS;
/// How long after a replica heard a claim its log says so, at most, in ns; the next flush makes that durable.
pub(crate) const NOTE_NS: u64 = 100 * MILLIS;
/// How long a replica that starts waits for peers that do not say what they remember, in ns. A peer calls back
/// within a second.
pub(crate) const WAIT_NS: u64 = 2 * SECONDS;
/// How often it asks those again, in ns.
pub(crate) const ASK_NS: u64 = 50 * MILLIS;
/// The last starts of a replica that its log names.
const STARTS_MAX: usize = 8;

/// How far the promises of a replica go. A later one is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Progress {
    /// How often the replica lost all promises that it had made before.
    pub(crate) losses: u64,
    /// Where in its log the last promise ends.
    pub(crate) at: Position,
}

/// What a frame says of its sender's promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    /// The start of the sender.
    pub(crate) boot: Boot,
    /// How far the promises went that it started with, or lost last.
    pub(crate) began: Progress,
    /// Where in its log the last promise ends that is on stable storage.
    pub(crate) durable: Position,
}

/// What is remembered of a replica: the furthest claim heard of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remembered {
    /// The start that claimed it.
    pub(crate) boot: Boot,
    /// How far the promises went.
    pub(crate) progress: Progress,
}

/// The body of a [`crate::log::Kind::Progress`] record: what a log must say about progress. The last one counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Noted {
    /// How often this replica lost its promises.
    pub(crate) losses: u64,
    /// The last starts since, the first of them first, and where each began in the log.
    pub(crate) starts: Vec<(Boot, Position)>,
    /// What is remembered of peers, each in the life that the epoch lists.
    pub(crate) peers: BTreeMap<ReplicaId, (Incarnation, Remembered)>,
}

impl Noted {
    /// What an empty log says. A life that follows another within the epoch gave up all that the former one promised:
    /// its number, which is above any count, says so.
    pub(crate) fn of_life(incarnation: Incarnation, listed_as: Incarnation) -> Noted {
        let is_later = incarnation != listed_as;
        Noted {
            losses: if is_later {
                (incarnation.0 >> 64) as u64
            } else {
                0
            },
            ..Noted::default()
        }
    }

    /// A start began at this place of the log.
    pub(crate) fn start(&mut self, boot: Boot, at: Position) {
        self.starts.push((boot, at));
        let first = self.starts.len().saturating_sub(STARTS_MAX);
        self.starts.drain(..first);
    }

    /// All promises were lost, as a record at this place says, for this time or, in a log that does not count, once
    /// more. What is said of peers may be old as well.
    pub(crate) fn lose(&mut self, losses: Option<u64>, at: Position) {
        self.losses = losses.unwrap_or(self.losses.saturating_add(1));
        self.peers.clear();
        let last = self.starts.last().map(|(boot, _)| *boot);
        self.starts = last.map(|boot| (boot, at)).into_iter().collect();
    }

    /// How far the promises went that the present start began with.
    pub(crate) fn began(&self) -> Progress {
        Progress {
            losses: self.losses,
            at: self.starts.last().map(|(_, at)| *at).unwrap_or_default(),
        }
    }

    /// Whether what a peer remembers of this replica is part of what this log holds: promises that were lost
    /// knowingly, or made by a start that the log names and before the next, or so long ago that it names no start.
    fn includes(&self, remembered: &Remembered) -> bool {
        let Progress { losses, at } = remembered.progress;
        if losses != self.losses {
            return losses < self.losses;
        }
        let mut starts = self.starts.iter();
        match starts.find(|(boot, _)| *boot == remembered.boot) {
            Some(_) => starts.next().is_none_or(|(_, next)| at <= *next),
            None => self.starts.first().is_some_and(|(_, first)| at <= *first),
        }
    }
}

/// What the answer of a peer is worth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Memory {
    /// It remembers nothing, and may have forgotten.
    None,
    /// It waits for answers itself: its own log may be an old copy, too.
    Doubtful,
    /// It knows that its own log is none.
    Certain,
}

/// How a replica guards against an old copy of a folder, its own or a peer's.
#[derive(Debug)]
pub(crate) struct Rollback {
    noted: Noted,
    /// Where the log says so; `None` before it does.
    note: Option<Position>,
    /// The note that is under way ends here.
    writing: Option<Position>,
    /// A note is on stable storage: this replica makes claims.
    is_noted: bool,
    /// A claim was heard that no note has.
    is_news: bool,
    /// The peers that have said what they remember.
    answers: BTreeMap<ReplicaId, Memory>,
    /// The machine waits for answers until then, on the monotonic clock in ns.
    waits_until: Option<u64>,
}

impl Rollback {
    /// What a log says, and where the last note is.
    pub(crate) fn new(noted: Noted, note: Option<Position>) -> Rollback {
        Rollback {
            is_noted: note.is_some(),
            noted,
            note,
            writing: None,
            is_news: false,
            answers: BTreeMap::new(),
            waits_until: None,
        }
    }

    /// What the log is to say.
    pub(crate) fn noted(&self) -> &Noted {
        &self.noted
    }

    /// What frames say, once the log does; nothing while this replica asks what others remember.
    pub(crate) fn claim(&self, durable: Position) -> Option<Claim> {
        let (boot, _) = self.noted.starts.last()?;
        let began = self.noted.began();
        let claim = Claim {
            boot: *boot,
            began,
            durable: durable.max(began.at),
        };
        (self.is_noted && self.waits_until.is_none()).then_some(claim)
    }

    /// Whether a member of the epoch claims less than is remembered of it: it is an old copy, or an old frame.
    pub(crate) fn is_outdated(&self, from: Member, claim: Option<&Claim>) -> bool {
        let Some(known) = self.remembered(from) else {
            return false;
        };
        claim.is_none_or(|claim| claim.boot != known.boot && claim.began < known.progress)
    }

    /// What is remembered of a member of the epoch.
    pub(crate) fn remembered(&self, of: Member) -> Option<&Remembered> {
        let (life, known) = self.noted.peers.get(&of.id)?;
        (*life == of.incarnation).then_some(known)
    }

    /// A member of the epoch claims this.
    pub(crate) fn hear(&mut self, from: Member, claim: &Claim) {
        if self.is_outdated(from, Some(claim)) {
            return;
        }
        let progress = Progress {
            losses: claim.began.losses,
            at: claim.durable,
        };
        if self
            .remembered(from)
            .is_none_or(|known| known.progress < progress)
        {
            let known = Remembered {
                boot: claim.boot,
                progress,
            };
            self.noted.peers.insert(from.id, (from.incarnation, known));
            self.is_news = true;
        }
    }

    /// Forgets whoever the epoch does not list.
    pub(crate) fn meet(&mut self, epoch: &Epoch) {
        let is_listed = |id: ReplicaId, incarnation| epoch.has(Member { id, incarnation });
        self.noted
            .peers
            .retain(|id, (life, _)| is_listed(*id, *life));
    }

    /// The machine waits until enough peers have answered, or until then.
    pub(crate) fn wait(&mut self, until_ns: u64) {
        self.waits_until = Some(until_ns);
    }

    /// Whether the machine waits for answers.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits_until.is_some()
    }

    /// A peer says what it remembers of this replica, and whether it waits for answers itself; says whether this
    /// replica has forgotten it.
    pub(crate) fn answered(
        &mut self,
        by: ReplicaId,
        remembered: Option<&Remembered>,
        waits: bool,
    ) -> bool {
        let worth = match (remembered, waits) {
            (None, _) => Memory::None,
            (Some(_), true) => Memory::Doubtful,
            (Some(_), false) => Memory::Certain,
        };
        self.answers.insert(by, worth);
        remembered.is_some_and(|known| !self.noted.includes(known))
    }

    /// Whether this replica may have made claims.
    pub(crate) fn has_claimed(&self) -> bool {
        self.is_noted
    }

    /// Whether a peer is to be asked, or asked again.
    pub(crate) fn asks(&self, peer: ReplicaId) -> bool {
        let worth = self.answers.get(&peer);
        worth.is_none() || self.is_waiting() && worth < Some(&Memory::Certain)
    }

    /// The wait is over when so many of the other members have answered that one of them remembers, if as many
    /// `failures` as the protocol survives have struck, an old copy of this folder and of others among them; or when
    /// the time is up. With a promise that was acknowledged, all but `failures` of the others heard of it; so
    /// `failures + 1` that know what they heard are enough, or as many more as may run on old copies.
    pub(crate) fn stop_waiting(&mut self, others: &[ReplicaId], failures: usize, now_ns: u64) {
        let worth = |least: Memory| {
            let answers = others.iter().filter_map(|id| self.answers.get(id));
            answers.filter(|worth| **worth >= least).count()
        };
        let certain = (failures + 1).min(others.len());
        let any = (2 * failures).clamp(certain, others.len());
        let is_enough = worth(Memory::Certain) >= certain || worth(Memory::Doubtful) >= any;
        self.waits_until
            .take_if(|until| is_enough || *until <= now_ns);
    }

    /// The promises are lost, and the log says so from this place on. Whoever remembers them need not say so again.
    pub(crate) fn lose(&mut self, losses: u64, at: Position) {
        self.noted.lose(Some(losses), at);
        self.waits_until = None;
    }

    /// Whether the log lacks something.
    pub(crate) fn is_news(&self) -> bool {
        self.is_news || self.note.is_none()
    }

    /// A note was appended here, and ends there.
    pub(crate) fn appended(&mut self, at: Position, end: Position) {
        (self.note, self.writing, self.is_news) = (Some(at), Some(end), false);
    }

    /// Whether the log before this place, which is about to be released, holds the last note.
    pub(crate) fn is_before(&self, end: Position) -> bool {
        self.note.is_some_and(|at| at < end)
    }

    /// Where the note ends that is not on stable storage yet.
    pub(crate) fn writing(&self) -> Option<Position> {
        self.writing
    }

    /// The note that was under way is on stable storage.
    pub(crate) fn written(&mut self) {
        self.writing = None;
        self.is_noted = true;
    }
}

impl Wire for Progress {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.losses);
        self.at.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Progress {
            losses: input.varint()?,
            at: Position::decode(input)?,
        })
    }
}

impl Wire for Claim {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.boot.0);
        self.began.encode(out);
        self.durable.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Claim {
            boot: Boot(input.u64()?),
            began: Progress::decode(input)?,
            durable: Position::decode(input)?,
        })
    }
}

impl Wire for Remembered {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.boot.0);
        self.progress.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Remembered {
            boot: Boot(input.u64()?),
            progress: Progress::decode(input)?,
        })
    }
}

impl Wire for Noted {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.losses);
        out.varint(self.starts.len() as u64);
        for (boot, at) in &self.starts {
            out.u64(boot.0);
            at.encode(out);
        }
        out.varint(self.peers.len() as u64);
        for (id, (life, known)) in &self.peers {
            id.encode(out);
            life.encode(out);
            known.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let losses = input.varint()?;
        let starts = (0..input.count(10)?)
            .map(|_| Ok((Boot(input.u64()?), Position::decode(input)?)))
            .collect::<Result<_, WireError>>()?;
        let mut peers = BTreeMap::new();
        for _ in 0..input.count(28)? {
            let id = ReplicaId::decode(input)?;
            if peers.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return Err(WireError::Range("order of replicas"));
            }
            peers.insert(
                id,
                (Incarnation::decode(input)?, Remembered::decode(input)?),
            );
        }
        Ok(Noted {
            losses,
            starts,
            peers,
        })
    }
}
