//! Clients that take an element, or wait for one.

use crate::blocked::Blocked;
use crate::clients::Unblocked;
use crate::gathered::Gathered;
use crate::pop::Pop;
use crate::session::{ReplyMode, Session, Step};
use crate::table::Kind;
use bytes::Bytes;
use tokio::time::Instant;

impl Session {
    pub(super) async fn pop(&mut self, kind: Kind, args: &[Bytes]) -> Step {
        match Pop::read(kind, args) {
            Ok(pop) => self.take_or_wait(pop).await,
            Err(why) => {
                self.error(why);
                Ok(())
            }
        }
    }

    /// Takes elements, or begins to wait for some.
    async fn take_or_wait(&mut self, pop: Pop) -> Step {
        self.client.begin_waiting();
        let db = self.spoken.db;
        let keys = pop.keys.iter();
        let keys = keys.map(|key| (db, Bytes::copy_from_slice(key))).collect();
        let now = Instant::now();
        let blocked = Blocked {
            // A time that no clock reaches is none.
            deadline: pop.patience.and_then(|patience| now.checked_add(patience)),
            place: self.server.subscriptions.waiters.join(keys),
            is_muted: self.replies != ReplyMode::On,
            pop,
        };
        self.attempt(blocked, false).await
    }

    /// Tries again to take elements, since there may be some.
    pub(crate) async fn retry(&mut self) -> Step {
        match self.blocked.take() {
            Some(blocked) => self.attempt(blocked, true).await,
            None => Ok(()),
        }
    }

    async fn attempt(&mut self, mut blocked: Blocked, is_again: bool) -> Step {
        blocked.place.begin_attempt();
        let mut gathered = Gathered::default();
        gathered.push_pop(blocked.pop.call.clone(), blocked.pop.rewrite.clone());
        match self.order(gathered, None).await {
            Ok(reply) if is_nothing(&reply, is_again) => {
                if !is_again {
                    // Copies: what was read with them need not stay in memory.
                    let call = blocked.pop.call.iter();
                    blocked.pop.call = call.map(|arg| Bytes::copy_from_slice(arg)).collect();
                    blocked.pop.keys.clear();
                }
                self.blocked = Some(blocked);
            }
            Ok(reply) if !blocked.is_muted => self.out.raw(&reply),
            Ok(_) => {}
            Err(failure) => return self.failed(failure, 1),
        }
        Ok(())
    }

    /// Tells a client that it has waited long enough, or that somebody else ended that.
    pub(crate) fn end_waiting(&mut self, how: Unblocked) {
        if self.blocked.take().is_none_or(|blocked| blocked.is_muted) {
            return;
        }
        match how {
            Unblocked::TimedOut => self.out.null_array(),
            Unblocked::Error => self.error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        }
    }
}

/// Whether the store had nothing to take. A key that became one of another type while somebody waits is none, too.
fn is_nothing(reply: &[u8], is_again: bool) -> bool {
    let is_null = matches!(reply, b"*-1\r\n" | b"$-1\r\n" | b"_\r\n");
    is_null || is_again && reply.starts_with(b"-WRONGTYPE")
}
