//! A request's way: is it a command, may this client ask for it, and who answers.

use crate::access::denies;
use crate::fed;
use crate::gathered::call_bytes;
use crate::limits::TRANSACTION_CALLS_MAX;
use crate::pop::Pop;
use crate::session::{Closing, ReplyMode, Session, Step};
use crate::table::{self, Found, Kind, Own, wrong_arguments};
use bytes::Bytes;
use std::sync::atomic::Ordering::Relaxed;

/// The first words of HTTP on a line: whoever says them is a browser that somebody sent here.
const HTTP: [&[u8]; 2] = [b"post", b"host:"];

impl Session {
    /// Takes a request, which has at least one argument.
    pub(crate) async fn handle(&mut self, args: Vec<Bytes>) -> Step {
        self.server.counters.commands.fetch_add(1, Relaxed);
        if self.replies == ReplyMode::On {
            return self.take(args).await;
        }
        self.flush().await?;
        let (before, mode) = (self.out.len(), self.replies);
        let done = match self.take(args).await {
            Ok(()) => self.flush().await,
            closing => closing,
        };
        match (mode, self.replies) {
            // `CLIENT REPLY ON` is answered.
            (ReplyMode::Off, ReplyMode::On) => {}
            (ReplyMode::SkipNext, ReplyMode::SkipNext) => {
                self.out.truncate(before);
                self.replies = ReplyMode::On;
            }
            _ => self.out.truncate(before),
        }
        done
    }

    async fn take(&mut self, args: Vec<Bytes>) -> Step {
        let Some(name) = args.first() else {
            return Ok(());
        };
        if HTTP.iter().any(|word| word.eq_ignore_ascii_case(name)) {
            tracing::warn!(from = %self.client.from, "a client speaks HTTP to the port for Redis: closed");
            return Err(Closing::Now);
        }
        let found = table::find(name);
        let Some(user) = &self.user else {
            return match found {
                Some(Found::Own(own)) if own.kind.is_open() => self.open(own, &args).await,
                _ => self.refuse("NOAUTH Authentication required.").await,
            };
        };
        let Some(found) = found else {
            let why = match self.server.fed.is_some() {
                true => fed::missing(&args),
                false => quorate_redis_store::refused(&args),
            };
            let why = why.unwrap_or_else(|| "ERR no such command".to_owned());
            return self.refuse(&why).await;
        };
        self.spoken.command = Some(found.name());
        if !found.takes(args.len()) {
            return self.refuse(&wrong_arguments(found.name())).await;
        }
        let is_own = matches!(found, Found::Own(own) if own.kind.is_open());
        if let Some(denied) = denies(user, found, &args).filter(|_| !is_own) {
            return self.refuse(&denied.to_string()).await;
        }
        if self.is_only_subscriber() && !is_for_subscribers(found) {
            let name = found.name();
            let why = format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
                 allowed in this context"
            );
            return self.refuse(&why).await;
        }
        let refused = self
            .server
            .fed
            .as_ref()
            .and_then(|_| fed::refused(found, &args));
        if let Some(why) = refused {
            return self.refuse(&why).await;
        }
        match found {
            _ if self.queues(found) => self.queue(found, args),
            Found::Own(own) => self.answer(own, &args).await,
            Found::Stored(command) => {
                if !self.gathered.fits(command, &args) {
                    self.flush().await?;
                }
                self.gathered.push(command, args);
                Ok(())
            }
        }
    }

    /// What a client may ask for before it has said who it is.
    async fn open(&mut self, own: &'static Own, args: &[Bytes]) -> Step {
        match table::Found::Own(own).takes(args.len()) {
            true => self.answer(own, args).await,
            false => self.refuse(&wrong_arguments(own.name)).await,
        }
    }

    async fn answer(&mut self, own: &'static Own, args: &[Bytes]) -> Step {
        self.flush().await?;
        self.answer_own(own.kind, args).await
    }

    /// Tells an error behind the replies to everything before; a transaction in which it happens is not carried out.
    async fn refuse(&mut self, text: &str) -> Step {
        self.flush().await?;
        if let Some(transaction) = &mut self.transaction {
            transaction.is_broken = true;
        }
        self.error(text);
        Ok(())
    }

    /// Whether a transaction is open in which the command is to wait.
    fn queues(&self, found: Found) -> bool {
        let is_outside = matches!(found, Found::Own(own) if own.kind.is_outside_transactions());
        self.transaction.is_some() && !is_outside
    }

    /// Adds a call to the open transaction.
    fn queue(&mut self, found: Found, args: Vec<Bytes>) -> Step {
        let bytes_max = self.server.limits.request_bytes_max;
        let Some(transaction) = &mut self.transaction else {
            return Ok(());
        };
        let gathered = &mut transaction.gathered;
        let is_too_large = gathered.calls.len() >= TRANSACTION_CALLS_MAX
            || gathered.bytes() + call_bytes(&args) > bytes_max;
        let refused = match found {
            _ if is_too_large => {
                "ERR the transaction is larger than this server takes (--max-request-bytes)"
            }
            Found::Stored(command) => {
                gathered.push(command, kept(&args));
                return self.queued();
            }
            Found::Own(own) if own.kind.is_pop() => match Pop::read(own.kind, &kept(&args)) {
                Ok(pop) => {
                    gathered.push_pop(pop.call, pop.rewrite);
                    return self.queued();
                }
                Err(why) => why,
            },
            Found::Own(own) if own.kind.is_in_transactions() => {
                gathered.push_own(kept(&args));
                return self.queued();
            }
            Found::Own(_) => "ERR Command not allowed inside a transaction",
        };
        transaction.is_broken = true;
        self.error(refused);
        Ok(())
    }

    fn queued(&mut self) -> Step {
        self.out.simple("QUEUED");
        Ok(())
    }
}

/// Arguments that are kept for a while: as copies, so that all that was read with them need not stay in memory.
fn kept(args: &[Bytes]) -> Vec<Bytes> {
    args.iter().map(|arg| Bytes::copy_from_slice(arg)).collect()
}

fn is_for_subscribers(found: Found) -> bool {
    matches!(found, Found::Own(Own { kind, .. }) if Kind::is_for_subscribers(*kind))
}
