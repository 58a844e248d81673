//! A replica that lost its promises asks the others, and votes again in a new life ([`crate::shared::lives`]).
//!
//! Shared by the protocols whose members answer with a floor `F`, below which the former lives may have
//! promised anything, and with the end of the slots that they know of. Each protocol argues why that is
//! enough, and says what it promises when the new life begins.

use crate::shared::lives::{Life, Lives};
use quorate_core::{Boot, Lsn, MemberIndex, MemberSet, Slot};
use std::hash::{Hash, Hasher};

/// What a [`Voter`] is told of its place in the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VoterSeat {
    /// This replica's place among the members.
    pub(crate) me: MemberIndex,
    /// This start of the process.
    pub(crate) boot: Boot,
    /// How many members the epoch has.
    pub(crate) members: usize,
    /// How many others have to note a new life before it counts.
    pub(crate) notes_needed: usize,
}

/// Whether this replica may make promises, and in which life each member makes its own.
///
/// Invariants: a replica whose rejoin is under way makes no promise. A rejoin ends only when the record of
/// its life is durable. The number of a member's life in `lives` never falls.
#[derive(Clone, Debug)]
pub(crate) struct Voter<F> {
    seat: VoterSeat,
    /// The present life of each member, as far as known.
    lives: Lives,
    /// What a replica that lost its promises does before it may make new ones.
    rejoin: Option<Rejoin<F>>,
}

/// A rejoin under way.
///
/// Invariants: members in `heard` have noted the life of this `number` and boot; `floor` and `end` are the
/// highest that those members told. Nothing changes any more once the record of the life is `written`.
#[derive(Clone, Debug)]
struct Rejoin<F> {
    /// The number asked for.
    number: u64,
    /// Members that have noted it.
    heard: MemberSet,
    /// The highest floor they told.
    floor: F,
    /// The first slot behind all they know anything of.
    end: Slot,
    /// The record that ends the rejoin.
    written: Option<Lsn>,
}

/// A question that a rejoining replica asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejoinQuestion {
    /// The life that is to begin.
    pub(crate) life: Life,
    /// The members that have not answered.
    pub(crate) to: MemberSet,
}

/// How far a member has gone, for one that begins a life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejoinAnswer<F> {
    /// The asker's start of the process.
    pub boot: Boot,
    /// The highest promise of the sender, by which the former lives of the asker may be bound.
    pub floor: F,
    /// The first slot behind all that the sender knows anything of.
    pub end: Slot,
    /// The lives the sender knows of, the asker's too.
    pub lives: Lives,
}

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// Nothing of the present question.
    Nothing,
    /// The number is another life's; a later one is to be asked for.
    Taken,
    /// The member has noted the life.
    Noted,
}

impl<F: Hash> Hash for Voter<F> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.rejoin, &self.lives).hash(to);
    }
}

impl<F: Hash> Hash for Rejoin<F> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.number, self.heard, &self.floor, self.end).hash(to);
        self.written.is_some().hash(to);
    }
}

impl<F: Copy + Default + Ord> Voter<F> {
    /// A replica that has made no promise yet, while all members are in their first lives.
    pub(crate) fn new(seat: VoterSeat) -> Self {
        Voter {
            seat,
            lives: Lives::default(),
            rejoin: None,
        }
    }

    /// Takes up the lives known before a restart, and a rejoin that the restart interrupted.
    pub(crate) fn restore(&mut self, lives: Lives, is_member: bool) {
        self.lives = lives;
        self.rejoin = None;
        if !is_member {
            self.begin_rejoin();
        }
    }

    /// Whether this replica kept its promises, or has begun a new life, and may make new ones.
    pub(crate) fn is_voting(&self) -> bool {
        self.rejoin.is_none()
    }

    /// Whether the last record of lives says, or may say, that this replica votes.
    pub(crate) fn is_member(&self) -> bool {
        let rejoin = self.rejoin.as_ref();
        rejoin.is_none_or(|rejoin| rejoin.written.is_some())
    }

    /// The present life of each member, as far as known.
    pub(crate) fn lives(&self) -> &Lives {
        &self.lives
    }

    /// The promises are lost: a life later than the last one is to be asked for.
    pub(crate) fn begin_rejoin(&mut self) {
        self.rejoin = Some(Rejoin::after(self.lives.of(self.seat.me)));
    }

    /// What members `to` are to be asked, while answers are awaited.
    pub(crate) fn question(&self, to: MemberSet) -> Option<RejoinQuestion> {
        let asking = self.rejoin.as_ref().filter(|one| one.written.is_none())?;
        Some(RejoinQuestion {
            life: asking.life(self.seat.boot),
            to: to - asking.heard,
        })
    }

    /// The answer to a member that begins a life in `boot`.
    pub(crate) fn answer(&self, boot: Boot, floor: F, end: Slot) -> RejoinAnswer<F> {
        RejoinAnswer {
            boot,
            floor,
            end,
            lives: self.lives.clone(),
        }
    }

    /// A member's answer. Once enough members have noted the life, what more of them say does not count.
    pub(crate) fn hear(&mut self, from: MemberIndex, answer: &RejoinAnswer<F>) -> Heard {
        let VoterSeat {
            me,
            boot,
            notes_needed,
            ..
        } = self.seat;
        let asking = self.rejoin.as_mut().filter(|one| one.written.is_none());
        let Some(rejoin) = asking.filter(|_| answer.boot == boot) else {
            return Heard::Nothing;
        };
        let noted = answer.lives.of(me);
        if noted != rejoin.life(boot) {
            if noted.number < rejoin.number {
                return Heard::Nothing;
            }
            *rejoin = Rejoin::after(noted);
            return Heard::Taken;
        }
        if !rejoin.heard.contains(from) && rejoin.heard.len() < notes_needed {
            rejoin.heard.insert(from);
            rejoin.floor = rejoin.floor.max(answer.floor);
            rejoin.end = rejoin.end.max(answer.end);
        }
        Heard::Noted
    }

    /// Asks all members anew if enough have answered: what they said of slots may have been cut since.
    pub(crate) fn forget_full_answers(&mut self) {
        let needed = self.seat.notes_needed;
        if let Some(rejoin) = &mut self.rejoin
            && rejoin.written.is_none()
            && rejoin.heard.len() >= needed
        {
            (rejoin.heard, rejoin.end) = (MemberSet::EMPTY, Slot(0));
        }
    }

    /// The first slot behind all that members which answered know of, while a rejoin is under way.
    pub(crate) fn known_end(&self) -> Option<Slot> {
        self.rejoin.as_ref().map(|rejoin| rejoin.end)
    }

    /// Begins the new life once enough members have noted it and everything is `delivered` that the former
    /// lives may have accepted. Gives the floor, once: the caller binds itself to it, writes both, and says
    /// with [`Voter::life_written`] where.
    pub(crate) fn begin_life(&mut self, delivered: Slot) -> Option<F> {
        let VoterSeat {
            me,
            boot,
            notes_needed,
            ..
        } = self.seat;
        let asking = self.rejoin.as_ref().filter(|one| one.written.is_none())?;
        if asking.heard.len() < notes_needed || delivered < asking.end {
            return None;
        }
        self.lives.note(me, asking.life(boot));
        Some(asking.floor)
    }

    /// The new life is in this record; the rejoin ends when that is durable.
    pub(crate) fn life_written(&mut self, lsn: Lsn) {
        if let Some(rejoin) = &mut self.rejoin {
            rejoin.written = Some(lsn);
        }
    }

    /// Ends a rejoin whose life is durable. Gives the floor, once.
    pub(crate) fn end_rejoin(&mut self, durable: Lsn) -> Option<F> {
        let is_durable = |lsn: Lsn| lsn <= durable;
        let ended = self
            .rejoin
            .take_if(|rejoin| rejoin.written.is_some_and(is_durable))?;
        Some(ended.floor)
    }

    /// Notes a member's life. Gives that member if the life is later than the one known.
    pub(crate) fn note_life(&mut self, member: MemberIndex, life: Life) -> MemberSet {
        match self.lives.note(member, life) {
            true => MemberSet::only(member),
            false => MemberSet::EMPTY,
        }
    }

    /// Notes the later lives that another replica knows of. Gives the members that have one: what their
    /// former lives said does not count any more.
    pub(crate) fn note_lives(&mut self, lives: &Lives) -> MemberSet {
        self.lives.merge(lives, self.seat.members)
    }

    /// Whether members that have later lives than known include this replica, while it votes. A life of it
    /// that died early had a higher number: what the present one says is not counted where that is known.
    pub(crate) fn is_outnumbered(&self, reborn: MemberSet) -> bool {
        self.is_voting() && reborn.contains(self.seat.me)
    }

    /// Whether what a member said in its life among `lives` counts, as far as known here.
    pub(crate) fn is_present(&self, from: MemberIndex, lives: &Lives) -> bool {
        lives.of(from).number >= self.lives.of(from).number
    }
}

impl<F: Default> Rejoin<F> {
    /// Asks for a life later than this one.
    fn after(life: Life) -> Self {
        Rejoin {
            number: life.next_number(),
            heard: MemberSet::EMPTY,
            floor: F::default(),
            end: Slot(0),
            written: None,
        }
    }
}

impl<F> Rejoin<F> {
    /// The life asked for.
    fn life(&self, boot: Boot) -> Life {
        Life {
            number: self.number,
            boot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: MemberIndex = MemberIndex::new(0);
    const OTHERS: [MemberIndex; 2] = [MemberIndex::new(1), MemberIndex::new(2)];

    /// A replica of three that rejoins.
    fn rejoining() -> Voter<u64> {
        let mut voter = Voter::new(VoterSeat {
            me: ME,
            boot: Boot(1),
            members: 3,
            notes_needed: 2,
        });
        voter.begin_rejoin();
        voter
    }

    /// An answer of a member that has noted this life of the asker.
    fn answer(number: u64, boot: u64, floor: u64, end: u64) -> RejoinAnswer<u64> {
        let mut lives = Lives::default();
        let boot = Boot(boot);
        lives.note(ME, Life { number, boot });
        RejoinAnswer {
            boot: Boot(1),
            floor,
            end: Slot(end),
            lives,
        }
    }

    fn number_asked_for(voter: &Voter<u64>) -> Option<u64> {
        let question = voter.question(MemberSet::first(3))?;
        Some(question.life.number)
    }

    #[test]
    fn a_number_that_is_taken_is_left_to_its_life() {
        let [first, second] = OTHERS;
        let mut voter = rejoining();
        let taken = answer(1, 2, 7, 9);
        assert_eq!(voter.hear(first, &taken), Heard::Taken);
        assert_eq!(number_asked_for(&voter), Some(2));
        assert_eq!(voter.hear(first, &taken), Heard::Nothing);
        assert_eq!(voter.hear(first, &answer(2, 1, 7, 9)), Heard::Noted);
        assert_eq!(voter.begin_life(Slot(9)), None, "one member is too few");
        assert_eq!(voter.hear(second, &answer(2, 1, 3, 1)), Heard::Noted);
        assert_eq!(voter.begin_life(Slot(8)), None, "a slot is not delivered");
        assert_eq!(voter.begin_life(Slot(9)), Some(7));
        voter.life_written(Lsn(5));
        assert_eq!(number_asked_for(&voter), None);
        assert_eq!(voter.end_rejoin(Lsn(4)), None, "the life is not durable");
        assert_eq!(voter.end_rejoin(Lsn(5)), Some(7));
        assert!(voter.is_voting());
    }

    #[test]
    fn a_life_of_this_replica_that_others_know_outnumbers_the_present_one() {
        let mut voter = rejoining();
        voter.restore(Lives::default(), true);
        let known = answer(1, 2, 0, 0).lives;
        let reborn = voter.note_lives(&known);
        assert!(voter.is_outnumbered(reborn) && voter.note_lives(&known).is_empty());
        assert!(voter.is_present(ME, &known) && !voter.is_present(ME, &Lives::default()));
    }

    #[test]
    fn no_number_that_a_peer_says_ends_the_process() {
        let mut voter = rejoining();
        let last = answer(u64::MAX, 2, 0, 0);
        assert_eq!(voter.hear(OTHERS[0], &last), Heard::Taken);
        assert_eq!(number_asked_for(&voter), Some(u64::MAX));
    }
}
