//! Who waits for which answer.

use crate::handle::Failure;
use bytes::Bytes;
use quorate_core::Refusal;
use quorate_host::{Answer, Token};
use tokio::sync::oneshot;

/// Where one answer goes.
#[derive(Debug)]
pub(crate) enum Reply<A> {
    Write(oneshot::Sender<Result<Bytes, Failure>>),
    Read(oneshot::Sender<Result<A, Failure>>),
}

/// A slab: tokens are places in it, used again once answered.
#[derive(Debug)]
pub(crate) struct Replies<A> {
    places: Vec<Option<Reply<A>>>,
    free: Vec<usize>,
}

impl<A> Default for Replies<A> {
    fn default() -> Self {
        Replies {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<A> Replies<A> {
    pub(crate) fn insert(&mut self, reply: Reply<A>) -> Token {
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(reply);
                place
            }
            None => {
                self.places.push(Some(reply));
                self.places.len() - 1
            }
        };
        place as Token
    }

    /// Hands an answer to who waits for it. Clients may have left.
    pub(crate) fn answer(&mut self, token: Token, answer: Answer<A>) {
        let place = token as usize;
        let Some(reply) = self.places.get_mut(place).and_then(Option::take) else {
            debug_assert!(false, "token {token} was answered twice");
            return;
        };
        self.free.push(place);
        match (reply, answer) {
            (Reply::Write(reply), Answer::Applied(_, result)) => drop(reply.send(Ok(result))),
            (Reply::Read(reply), Answer::Read(_, answer)) => drop(reply.send(Ok(answer))),
            (Reply::Write(reply), Answer::Refused(why)) => drop(reply.send(Err(failure(why)))),
            (Reply::Read(reply), Answer::Refused(why)) => drop(reply.send(Err(failure(why)))),
            (Reply::Write(_), Answer::Read(..)) | (Reply::Read(_), Answer::Applied(..)) => {
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
        let mut replies = Replies::<u32>::default();
        let (write, mut written) = oneshot::channel();
        let (read, mut got) = oneshot::channel();
        let (first, second) = (
            replies.insert(Reply::Write(write)),
            replies.insert(Reply::Read(read)),
        );
        replies.answer(second, Answer::Read(Slot(3), 7));
        assert_eq!(got.try_recv(), Ok(Ok(7)));
        replies.answer(first, Answer::Refused(Refusal::TooLarge));
        assert_eq!(written.try_recv(), Ok(Err(Failure::TooLarge)));
        let (write, mut written) = oneshot::channel();
        assert!(replies.insert(Reply::Write(write)) < 2);
        drop(replies);
        assert!(written.try_recv().is_err());
    }
}
