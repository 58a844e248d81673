//! Who waits for which answer.

use crate::group::ChangeError;
use crate::handle::Failure;
use bytes::Bytes;
use quorate_core::Refusal;
use quorate_host::{Answer, PayloadGone, Token};
use std::time::Duration;
use tokio::sync::oneshot;

/// The channel that one answer goes to, by the kind of request.
#[derive(Debug)]
pub(crate) enum Reply<A> {
    Write(oneshot::Sender<Result<Bytes, Failure>>),
    Read(oneshot::Sender<Result<A, Failure>>),
    Payload(oneshot::Sender<Result<Result<Bytes, PayloadGone>, Failure>>),
    Change(oneshot::Sender<Result<(), ChangeError>>),
}

/// The time between two sweeps over those who wait, in ns: a timeout is told late by this much at most.
const SWEEP_NS: u64 = 100_000_000;

/// A slab: tokens are places in it, used again once answered.
///
/// Requests that wait too long are answered from here, all that are due at a time: a timer each in the
/// event loop would cost every request a system call and a wake-up.
#[derive(Debug)]
pub(crate) struct Replies<A> {
    places: Vec<ReplySlot<A>>,
    free: Vec<usize>,
    /// Places in which somebody waits.
    waiting: usize,
    /// When they are looked at, on the monotonic clock in ns.
    sweep_at_ns: u64,
    /// The longest time a request may wait, in ns.
    patience_ns: u64,
}

#[derive(Debug)]
struct ReplySlot<A> {
    /// `None` once nobody waits for it any more, and in a free place.
    reply: Option<Reply<A>>,
    due_ns: u64,
}

impl<A> Reply<A> {
    /// Whether nobody is there to take the answer. What the replica asks of the group has nobody from the
    /// start, and is wanted all the same.
    fn has_left(&self) -> bool {
        match self {
            Reply::Write(reply) => reply.is_closed(),
            Reply::Read(reply) => reply.is_closed(),
            Reply::Payload(reply) => reply.is_closed(),
            Reply::Change(_) => false,
        }
    }

    fn time_out(self) {
        // Clients may have left.
        match self {
            Reply::Write(reply) => drop(reply.send(Err(Failure::Timeout))),
            Reply::Read(reply) => drop(reply.send(Err(Failure::Timeout))),
            Reply::Payload(reply) => drop(reply.send(Err(Failure::Timeout))),
            Reply::Change(reply) => drop(reply.send(Err(Failure::Timeout.into()))),
        }
    }
}

impl<A> Replies<A> {
    /// Requests may wait this long.
    pub(crate) fn new(patience: Duration) -> Self {
        Replies {
            places: Vec::new(),
            free: Vec::new(),
            waiting: 0,
            sweep_at_ns: 0,
            patience_ns: u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Keeps a reply that begins to wait at `now_ns`, on the monotonic clock.
    pub(crate) fn insert(&mut self, now_ns: u64, reply: Reply<A>) -> Token {
        let filled = ReplySlot {
            reply: Some(reply),
            due_ns: now_ns.saturating_add(self.patience_ns),
        };
        if self.waiting == 0 {
            self.sweep_at_ns = now_ns + SWEEP_NS;
        }
        self.waiting += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = filled;
                place
            }
            None => {
                self.places.push(filled);
                self.places.len() - 1
            }
        };
        place as Token
    }

    /// When those who wait are to be looked at, on the monotonic clock in ns.
    pub(crate) fn next(&self) -> Option<u64> {
        (self.waiting > 0).then_some(self.sweep_at_ns)
    }

    /// Looks at those who wait, when it is time: answers the requests that have waited too long, and gives up
    /// those whose clients have left. Says whether there were any: the host is to withdraw what is not
    /// [wanted](Replies::is_wanted). Their places stay taken until it has done with them.
    pub(crate) fn sweep(&mut self, now_ns: u64) -> bool {
        if self.next().is_none_or(|sweep_at_ns| now_ns < sweep_at_ns) {
            return false;
        }
        self.sweep_at_ns = now_ns + SWEEP_NS;
        let before = self.waiting;
        for place in &mut self.places {
            let is_over = |reply: &mut Reply<A>| place.due_ns <= now_ns || reply.has_left();
            if let Some(reply) = place.reply.take_if(is_over) {
                self.waiting -= 1;
                reply.time_out();
            }
        }
        self.waiting < before
    }

    /// Whether somebody waits for the answer to a request.
    pub(crate) fn is_wanted(&self, token: Token) -> bool {
        let place = self.places.get(token as usize);
        place.is_some_and(|place| place.reply.is_some())
    }

    /// Nothing that waits will be answered any more.
    pub(crate) fn fail_all(&mut self) {
        // Nobody knows their places.
        let places = std::mem::take(&mut self.places).into_iter();
        places
            .filter_map(|place| place.reply)
            .for_each(Reply::time_out);
        (self.free, self.waiting) = (Vec::new(), 0);
    }

    /// Hands an answer to who waits for it. Clients may have left.
    pub(crate) fn answer(&mut self, token: Token, answer: Answer<A>) {
        let place = token as usize;
        self.free.push(place);
        let Some(reply) = self.places[place].reply.take() else {
            return;
        };
        self.waiting -= 1;
        match (reply, answer) {
            (Reply::Write(reply), Answer::Applied(_, result)) => drop(reply.send(Ok(result))),
            (Reply::Read(reply), Answer::Read(_, answer)) => drop(reply.send(Ok(answer))),
            (Reply::Payload(reply), Answer::Payload(found)) => drop(reply.send(Ok(found))),
            (Reply::Payload(reply), Answer::Refused(why)) => drop(reply.send(Err(failure(why)))),
            (Reply::Change(reply), Answer::Applied(_, effect)) => {
                drop(reply.send(ChangeError::of(effect)));
            }
            (Reply::Change(reply), Answer::Refused(why)) => {
                drop(reply.send(Err(failure(why).into())));
            }
            (Reply::Write(reply), Answer::Refused(why)) => drop(reply.send(Err(failure(why)))),
            (Reply::Read(reply), Answer::Refused(why)) => drop(reply.send(Err(failure(why)))),
            (Reply::Write(_) | Reply::Read(_) | Reply::Change(_), Answer::Payload(_))
            | (Reply::Write(_) | Reply::Payload(_) | Reply::Change(_), Answer::Read(..))
            | (Reply::Read(_) | Reply::Payload(_), Answer::Applied(..)) => {
                debug_assert!(false, "token {token} got an answer of the other kind");
            }
        }
    }
}

fn failure(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Overloaded => Failure::Overloaded,
        Refusal::TooLarge => Failure::TooLarge,
        Refusal::NotServing => Failure::NotServing,
        // Whether it was executed is not known: the client must treat it like a lost answer.
        Refusal::NoSession | Refusal::Forgotten | Refusal::Unknown => Failure::Timeout,
        // Only what nobody waits for is withdrawn.
        Refusal::Withdrawn => Failure::Timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::Slot;

    #[test]
    fn answers_reach_who_asked_and_places_are_used_again() {
        let mut replies = Replies::<u32>::new(Duration::from_nanos(100));
        let (write, mut written) = oneshot::channel();
        let (read, mut got) = oneshot::channel();
        let (first, second) = (
            replies.insert(1, Reply::Write(write)),
            replies.insert(2, Reply::Read(read)),
        );
        replies.answer(second, Answer::Read(Slot(3), 7));
        assert_eq!(got.try_recv(), Ok(Ok(7)));
        replies.answer(first, Answer::Refused(Refusal::TooLarge));
        assert_eq!(written.try_recv(), Ok(Err(Failure::TooLarge)));
        let (write, mut written) = oneshot::channel();
        assert!(replies.insert(3, Reply::Write(write)) < 2);
        drop(replies);
        assert!(written.try_recv().is_err());
    }

    #[test]
    fn who_waits_too_long_is_told_so_and_the_place_stays_taken() {
        let mut replies = Replies::<u32>::new(Duration::from_nanos(2 * SWEEP_NS));
        assert_eq!(replies.next(), None);
        let (first, mut got_first) = oneshot::channel();
        let (second, mut got_second) = oneshot::channel();
        let (third, mut got_third) = oneshot::channel();
        replies.insert(10, Reply::Read(first));
        let answered = replies.insert(20, Reply::Read(second));
        replies.answer(answered, Answer::Read(Slot(1), 5));
        assert_eq!(replies.insert(SWEEP_NS + 10, Reply::Read(third)), answered);
        assert_eq!(replies.next(), Some(SWEEP_NS + 10));
        assert!(!replies.sweep(SWEEP_NS + 10));
        assert_eq!(replies.next(), Some(2 * SWEEP_NS + 10));
        assert!(replies.sweep(2 * SWEEP_NS + 10));
        assert_eq!(got_first.try_recv(), Ok(Err(Failure::Timeout)));
        assert_eq!(got_second.try_recv(), Ok(Ok(5)));
        assert!(got_third.try_recv().is_err());
        assert!(!replies.is_wanted(0) && replies.is_wanted(answered));
        let (fourth, _waits) = oneshot::channel();
        assert_eq!(
            replies.insert(2 * SWEEP_NS + 20, Reply::Read(fourth)),
            2,
            "the host has not done with place 0"
        );
        replies.answer(0, Answer::Refused(Refusal::Withdrawn));
        assert!(replies.sweep(3 * SWEEP_NS + 10));
        assert_eq!(got_third.try_recv(), Ok(Err(Failure::Timeout)));
        let (fifth, _waits) = oneshot::channel();
        assert_eq!(replies.insert(3 * SWEEP_NS + 20, Reply::Read(fifth)), 0);
    }

    #[test]
    fn who_has_left_waits_no_more_but_what_nobody_waited_for_from_the_start_does() {
        let mut replies = Replies::<u32>::new(Duration::from_secs(7));
        let (write, got) = oneshot::channel();
        let written = replies.insert(0, Reply::Write(write));
        let (change, _) = oneshot::channel();
        let changed = replies.insert(0, Reply::Change(change));
        assert!(!replies.sweep(SWEEP_NS) && replies.is_wanted(written));
        drop(got);
        assert!(replies.sweep(2 * SWEEP_NS) && !replies.is_wanted(written));
        assert!(replies.is_wanted(changed));
        assert!(!replies.sweep(3 * SWEEP_NS));
    }
}
