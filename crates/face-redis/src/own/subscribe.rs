//! `SUBSCRIBE` and what ends it, and `PUBSUB`.

use super::subcommand;
use crate::pubsub::Topic;
use crate::session::{Session, Step};
use bytes::Bytes;

impl Session {
    /// Subscribes behind everything that was published and answered before.
    pub(super) async fn subscribe(&mut self, topic: Topic, args: &[Bytes]) -> Step {
        if let Err(failure) = self.server.versions(Vec::new()).await {
            return self.failed(failure, 1);
        }
        // What was taken away meanwhile is gone.
        self.look_at_users()?;
        for name in &args[1..] {
            if !self.subscriber.add(topic, name.clone()) {
                self.error("ERR the channels of one connection take more memory than this server has for them");
                return Ok(());
            }
            self.confirm(topic.command(true), Some(name));
        }
        Ok(())
    }

    /// Ends subscriptions, to all if none is named.
    pub(super) fn unsubscribe(&mut self, topic: Topic, args: &[Bytes]) {
        let names = match args {
            [_] => self.subscriber.all_of(topic),
            args => args[1..].to_vec(),
        };
        if names.is_empty() {
            return self.confirm(topic.command(false), None);
        }
        for name in names {
            self.subscriber.remove(topic, &name);
            self.confirm(topic.command(false), Some(&name));
        }
    }

    fn confirm(&mut self, what: &str, name: Option<&[u8]>) {
        let count = self.subscriber.count();
        self.out.push(3);
        self.out.bulk(what.as_bytes());
        match name {
            Some(name) => self.out.bulk(name),
            None => self.out.null(),
        }
        self.out.integer(count as i64);
    }

    pub(super) fn pubsub(&mut self, args: &[Bytes]) {
        let subscriptions = &self.server.subscriptions;
        match (&subcommand(args)[..], &args[2..]) {
            ("channels", rest @ ([] | [_])) => {
                let channels = subscriptions.channels(rest.first().map(|pattern| &pattern[..]));
                self.out.array(channels.len());
                channels.iter().for_each(|channel| self.out.bulk(channel));
            }
            ("numsub", channels) => {
                let counts: Vec<_> = channels
                    .iter()
                    .map(|channel| subscriptions.count(channel))
                    .collect();
                self.out.array(2 * counts.len());
                for (channel, count) in channels.iter().zip(counts) {
                    self.out.bulk(channel);
                    self.out.integer(count as i64);
                }
            }
            ("numpat", []) => {
                let patterns = subscriptions.patterns();
                self.out.integer(patterns as i64);
            }
            ("shardchannels", [] | [_]) => self.out.array(0),
            ("shardnumsub", []) => self.out.array(0),
            ("channels" | "numpat", _) => self.wrong_arguments(args),
            _ => self.unknown_subcommand(args),
        }
    }
}
