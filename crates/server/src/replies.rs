//! Who waits for which answer.

use crate::group::ChangeError;
use crate::handle::Failure;
use bytes::Bytes;
use quorate_core::Refusal;
use quorate_host::{Answer, PayloadGone, Token};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::oneshot;

/// Where one answer goes.
#[derive(Debug)]
pub(crate) enum Reply<A> {
    Write(oneshot::Sender<Result<Bytes, Failure>>),
    Read(oneshot::Sender<Result<A, Failure>>),
    Payload(oneshot::Sender<Result<Result<Bytes, PayloadGone>, Failure>>),
    Change(oneshot::Sender<Result<(), ChangeError>>),
}

/// A slab: tokens are places in it, used again once answered.
///
/// Requests that wait too long are answered from here, in the order they came: a timer each in the
/// event loop would cost every request a system call and a wake-up.
#[derive(Debug)]
pub(crate) struct Replies<A> {
    places: Vec<Place<A>>,
    free: Vec<usize>,
    /// When each request that came is due, and its place, oldest first. Those answered meanwhile
    /// are skipped.
    due: VecDeque<(u64, usize)>,
    /// How long a request may wait, in ns.
    patience_ns: u64,
}

#[derive(Debug)]
struct Place<A> {
    /// `None` once it waited too long, and in a free place.
    reply: Option<Reply<A>>,
    due_ns: u64,
}

impl<A> Replies<A> {
    /// Requests may wait this long.
    pub(crate) fn new(patience: Duration) -> Self {
        Replies {
            places: Vec::new(),
            free: Vec::new(),
            due: VecDeque::new(),
            patience_ns: u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Keeps a reply that begins to wait at `now_ns`, on the monotonic clock.
    pub(crate) fn insert(&mut self, now_ns: u64, reply: Reply<A>) -> Token {
        let filled = Place {
            reply: Some(reply),
            due_ns: now_ns.saturating_add(self.patience_ns),
        };
        let due_ns = filled.due_ns;
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
        self.due.push_back((due_ns, place));
        place as Token
    }

    /// When the oldest request will have waited too long, on the monotonic clock in ns.
    pub(crate) fn next(&mut self) -> Option<u64> {
        while let Some(&(due_ns, place)) = self.due.front() {
            let waiting = &self.places[place];
            if waiting.reply.is_some() && waiting.due_ns == due_ns {
                return Some(due_ns);
            }
            self.due.pop_front();
        }
        None
    }

    /// Answers requests that have waited too long by now. Their places stay taken until the host
    /// has done with them.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        while self.next().is_some_and(|due_ns| due_ns <= now_ns) {
            let Some((_, place)) = self.due.pop_front() else {
                return;
            };
            match self.places[place].reply.take() {
                Some(Reply::Write(reply)) => drop(reply.send(Err(Failure::Timeout))),
                Some(Reply::Read(reply)) => drop(reply.send(Err(Failure::Timeout))),
                Some(Reply::Payload(reply)) => drop(reply.send(Err(Failure::Timeout))),
                Some(Reply::Change(reply)) => drop(reply.send(Err(Failure::Timeout.into()))),
                None => {}
            }
        }
    }

    /// Nothing that waits will be answered any more.
    pub(crate) fn give_up(&mut self) {
        self.expire(u64::MAX);
        // Nobody knows their places.
        *self = Replies {
            patience_ns: self.patience_ns,
            places: Vec::new(),
            free: Vec::new(),
            due: VecDeque::new(),
        };
    }

    /// Hands an answer to who waits for it. Clients may have left.
    pub(crate) fn answer(&mut self, token: Token, answer: Answer<A>) {
        let place = token as usize;
        self.free.push(place);
        let Some(reply) = self.places[place].reply.take() else {
            return;
        };
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
        let mut replies = Replies::<u32>::new(Duration::from_nanos(100));
        let (first, mut got_first) = oneshot::channel();
        let (second, mut got_second) = oneshot::channel();
        let (third, mut got_third) = oneshot::channel();
        replies.insert(10, Reply::Read(first));
        let answered = replies.insert(20, Reply::Read(second));
        replies.answer(answered, Answer::Read(Slot(1), 5));
        assert_eq!(replies.insert(30, Reply::Read(third)), answered);
        assert_eq!(replies.next(), Some(110));
        replies.expire(109);
        assert!(got_first.try_recv().is_err());
        replies.expire(110);
        assert_eq!(got_first.try_recv(), Ok(Err(Failure::Timeout)));
        assert_eq!(got_second.try_recv(), Ok(Ok(5)));
        assert_eq!(replies.next(), Some(130));
        let (fourth, _waits) = oneshot::channel();
        assert_eq!(replies.insert(40, Reply::Read(fourth)), 2);
        replies.answer(0, Answer::Read(Slot(1), 5));
        replies.expire(130);
        assert_eq!(got_third.try_recv(), Ok(Err(Failure::Timeout)));
        assert_eq!(replies.next(), Some(140));
    }
}
