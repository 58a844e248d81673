//! Calls of one connection that came together, and go to the store together.

use crate::limits::{BODY_BYTES_MAX, BODY_CALLS_MAX};
use crate::rewrite::Rewrite;
use bytes::Bytes;
use quorate_redis_store::{Call, Command};

/// What an argument takes beside its bytes.
const ARGUMENT_BYTES: usize = 40;

/// Consecutive calls of one connection.
///
/// They are reads alone, or writes with short reads between them: then all of them are ordered as one body, so that
/// what was sent at once is answered after one round.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) calls: Vec<Call>,
    /// Whether one of the calls changes something.
    pub(crate) has_write: bool,
    /// What becomes of replies, by the places of their calls.
    pub(crate) rewrites: Vec<(usize, Rewrite)>,
    bytes: usize,
}

impl Gathered {
    /// Whether a call can be added without making any that is there wait for what it need not.
    pub(crate) fn fits(&self, command: &Command, args: &[Bytes]) -> bool {
        if self.calls.is_empty() {
            return true;
        }
        let goes_along = match self.has_write {
            true => command.is_write() || command.is_fast(),
            false => !command.is_write(),
        };
        goes_along
            && self.calls.len() < BODY_CALLS_MAX
            && self.bytes + call_bytes(args) <= BODY_BYTES_MAX
    }

    /// Adds a call behind the others.
    pub(crate) fn push(&mut self, command: &Command, args: Vec<Bytes>) {
        self.bytes += call_bytes(&args);
        self.has_write |= command.is_write();
        if let ("publish", Some(channel)) = (command.name, args.get(1)) {
            let rewrite = Rewrite::Receivers(channel.clone());
            self.rewrites.push((self.calls.len(), rewrite));
        }
        self.calls.push(Call { args });
    }

    /// Adds a call that the store knows and the face answers outside transactions.
    pub(crate) fn push_own(&mut self, args: Vec<Bytes>) {
        self.bytes += call_bytes(&args);
        self.has_write = true;
        self.calls.push(Call { args });
    }

    /// Adds a call that takes elements, and what becomes of its reply.
    pub(crate) fn push_pop(&mut self, call: Vec<Bytes>, rewrite: Option<Rewrite>) {
        let place = self.calls.len();
        self.rewrites
            .extend(rewrite.map(|rewrite| (place, rewrite)));
        self.push_own(call);
    }

    /// Bytes that the calls come to.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Bytes that a call comes to.
pub(crate) fn call_bytes(args: &[Bytes]) -> usize {
    args.iter().map(|arg| arg.len() + ARGUMENT_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_redis_store::find;

    fn gather(calls: &[&str]) -> Vec<usize> {
        let mut sizes = Vec::new();
        let mut gathered = Gathered::default();
        for call in calls {
            let args: Vec<Bytes> = call
                .split(' ')
                .map(|arg| Bytes::copy_from_slice(arg.as_bytes()))
                .collect();
            let command = find(&args[0]).expect("it is a command");
            if !gathered.fits(command, &args) {
                sizes.push(std::mem::take(&mut gathered).calls.len());
            }
            gathered.push(command, args);
        }
        sizes.push(gathered.calls.len());
        sizes
    }

    #[test]
    fn reads_go_together_and_writes_take_short_reads_along() {
        assert_eq!(gather(&["get a", "get b", "lrange c 0 -1"]), [3]);
        assert_eq!(gather(&["set a 1", "get a", "set b 2"]), [3]);
        assert_eq!(gather(&["get a", "set a 1"]), [1, 1]);
        assert_eq!(gather(&["set a 1", "lrange b 0 -1"]), [1, 1]);
    }

    #[test]
    fn a_body_has_bounds() {
        let many = vec!["incr a"; BODY_CALLS_MAX + 1];
        assert_eq!(gather(&many), [BODY_CALLS_MAX, 1]);
        let long = format!("set a {}", "1".repeat(BODY_BYTES_MAX));
        assert_eq!(gather(&[&long, &long]), [1, 1]);
    }
}
