//! Commands whose payloads go inside, where nothing is kept apart.

use super::Requests;
use crate::api::Token;
use quorate_core::{Command, Join};

impl<Q> Requests<Q> {
    /// Puts payloads inside: commands may have been made for an epoch that keeps them apart. Leaves out what
    /// is longer than `bytes_max` then, and says who waits for it.
    pub(crate) fn put_inside(
        &mut self,
        commands: &mut Vec<Command>,
        bytes_max: usize,
        join: Join,
    ) -> Vec<Token> {
        let mut too_long = Vec::new();
        commands.retain_mut(|command| {
            if command.payloads.is_empty() {
                return true;
            }
            let len = command.body.len() as u64 + command.bulk_len();
            let is_short = len <= bytes_max as u64;
            let joined = is_short.then(|| join(&command.body, &command.payloads));
            let Some(body) = joined.flatten() else {
                too_long.extend(self.take_write(command.id).map(|waiting| waiting.token));
                return false;
            };
            command.body = body;
            command.payloads.clear();
            true
        });
        too_long
    }
}
