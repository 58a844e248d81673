//! Calls on their way to the store, and their replies.

use crate::gathered::Gathered;
use crate::rewrite::rewritten;
use crate::session::{Closing, ReplyMode, Session, Step};
use bytes::Bytes;
use quorate_redis_store::{REPLIES_BYTES_MAX, Request, Watched};
use quorate_resp::reply_bytes;
use quorate_server::{Consistency, Failure};

impl Session {
    /// Has the store carry out what was gathered, so that replies are ready for everything before.
    pub(crate) async fn flush(&mut self) -> Step {
        if self.gathered.calls.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.gathered);
        let before = self.out.len();
        let count = gathered.calls.len();
        if !gathered.has_write {
            return self.flush_reads(gathered).await;
        }
        let done = match self.order(gathered, None).await {
            Ok(replies) => {
                self.out.raw(&replies);
                Ok(())
            }
            Err(failure) => self.failed(failure, count),
        };
        self.mute(before);
        done
    }

    /// Asks reads until all are answered. Long replies are sent before there are more of them.
    async fn flush_reads(&mut self, mut gathered: Gathered) -> Step {
        while !gathered.calls.is_empty() {
            let (before, count) = (self.out.len(), gathered.calls.len());
            let replies = match self.ask(&gathered).await {
                Ok(Some(replies)) => Ok(replies),
                Ok(None) => self.order(std::mem::take(&mut gathered), None).await,
                Err(failure) => Err(failure),
            };
            match replies {
                Ok(replies) => {
                    gathered
                        .calls
                        .drain(..answered(&replies, gathered.calls.len()));
                    self.out.raw(&replies);
                }
                Err(failure) => {
                    gathered.calls.clear();
                    self.failed(failure, count)?;
                }
            }
            self.mute(before);
            self.write_many().await?;
        }
        Ok(())
    }

    /// Forgets replies that the client does not want.
    fn mute(&mut self, before: usize) {
        if self.replies == ReplyMode::Off {
            self.out.truncate(before);
        }
    }

    /// The replies to calls that change nothing; `None` if they have to be ordered.
    pub(crate) async fn ask(&mut self, gathered: &Gathered) -> Result<Option<Bytes>, Failure> {
        let consistency = match self.may_be_stale {
            true => Consistency::Serializable,
            false => Consistency::Linearizable,
        };
        let (resp, db) = (self.spoken.resp, self.spoken.db);
        let (calls, asker) = (gathered.calls.clone(), self.asker());
        self.server.ask((resp, db), calls, asker, consistency).await
    }

    /// The replies to calls that are ordered as one body; with the versions of watched keys, all or none of them are
    /// carried out, and there is one reply.
    pub(crate) async fn order(
        &mut self,
        gathered: Gathered,
        transaction: Option<Vec<Watched>>,
    ) -> Result<Bytes, Failure> {
        let atomic = transaction.is_some();
        let request = Request {
            resp: self.spoken.resp,
            db: self.spoken.db,
            watched: transaction.unwrap_or_default(),
            atomic,
            calls: gathered.calls,
            asker: self.asker(),
        };
        let replies = self.server.order(&request).await?;
        if gathered.rewrites.is_empty() {
            return Ok(replies);
        }
        let receivers = |channel: &Bytes| self.server.subscriptions.receivers(channel);
        Ok(rewritten(replies, atomic, &gathered.rewrites, receivers))
    }

    /// Tells the client of as many calls that they failed, or closes the connection where nobody knows.
    pub(crate) fn failed(&mut self, failure: Failure, calls: usize) -> Step {
        let for_each = match failure {
            // What may be done, and what the client may ask again elsewhere: as a server that dies does it.
            Failure::Timeout | Failure::Stopping => return Err(Closing::Now),
            Failure::Overloaded => {
                self.error(
                    "LOADING Quorate has too many requests waiting, nothing was done, try again",
                );
                return Err(Closing::AfterReplies);
            }
            Failure::NotServing | Failure::Stopped => {
                self.error("LOADING this replica takes no requests at present, nothing was done, try again");
                return Err(Closing::AfterReplies);
            }
            Failure::TooLarge => {
                "ERR the request is larger than this cluster takes (--max-request-bytes)"
            }
            Failure::NoSpace => {
                "OOM command not allowed when space is short: the disk of a replica is full"
            }
            Failure::Corrupt => {
                "MISCONF replicas hold different states, and nobody knows which one is right: nothing was done"
            }
        };
        for _ in 0..calls {
            self.error(for_each);
        }
        Ok(())
    }
}

/// Whether these are the replies to so many calls.
pub(crate) fn answers_all(replies: &[u8], calls: usize) -> bool {
    answered(replies, calls) == calls
}

/// How many of so many calls are answered by these replies. The store stops where they get long.
fn answered(replies: &[u8], calls: usize) -> usize {
    if replies.len() < REPLIES_BYTES_MAX {
        return calls;
    }
    let (mut rest, mut count) = (replies, 0);
    while let Ok(Some(bytes)) = reply_bytes(rest) {
        rest = &rest[bytes..];
        count += 1;
    }
    // What cannot be counted is not asked again.
    if count == 0 { calls } else { count.min(calls) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_the_store_left_out_are_asked_again() {
        let long = format!("${}\r\n{}\r\n", 600 << 10, "x".repeat(600 << 10));
        assert_eq!(answered(b":1\r\n", 5), 5);
        assert_eq!(answered(long.repeat(2).as_bytes(), 5), 2);
    }
}
