//! What one connection subscribes to.

use crate::limits::{NAME_BYTES, SUBSCRIPTIONS_BYTES_MAX};
use crate::pubsub::{Mailbox, Subscriptions, Topic};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The subscriptions of one connection, which end with it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    client: u64,
    all: Arc<Subscriptions>,
    pub(crate) mailbox: Arc<Mailbox>,
    channels: BTreeSet<Bytes>,
    patterns: BTreeSet<Bytes>,
    bytes: usize,
}

impl Subscriber {
    pub(crate) fn new(
        client: u64,
        all: Arc<Subscriptions>,
        mailbox_bytes_max: usize,
    ) -> Subscriber {
        Subscriber {
            client,
            all,
            mailbox: Arc::new(Mailbox::new(mailbox_bytes_max)),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// How many channels and how many patterns it subscribes to.
    pub(crate) fn counts(&self) -> [usize; 2] {
        [self.channels.len(), self.patterns.len()]
    }

    /// How many channels and patterns it subscribes to together.
    pub(crate) fn count(&self) -> usize {
        self.counts().iter().sum()
    }

    /// Subscribes to something. Says whether there was room for it.
    pub(crate) fn add(&mut self, topic: Topic, name: Bytes) -> bool {
        let bytes = self.bytes + name.len() + NAME_BYTES;
        if bytes > SUBSCRIPTIONS_BYTES_MAX {
            return false;
        }
        // A copy: the request it is a part of need not stay in memory.
        let name = Bytes::copy_from_slice(&name);
        if self.names(topic).insert(name.clone()) {
            self.bytes = bytes;
            self.all.add(topic, name, self.client, &self.mailbox);
        }
        true
    }

    /// Ends a subscription, if there is one.
    pub(crate) fn remove(&mut self, topic: Topic, name: &[u8]) {
        if self.names(topic).remove(name) {
            self.bytes -= name.len() + NAME_BYTES;
            self.all.remove(topic, name, self.client);
        }
    }

    /// Everything of a kind that it subscribes to.
    pub(crate) fn all_of(&mut self, topic: Topic) -> Vec<Bytes> {
        self.names(topic).iter().cloned().collect()
    }

    /// Bytes that the subscriptions take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ends all subscriptions.
    pub(crate) fn clear(&mut self) {
        for topic in [Topic::Channel, Topic::Pattern] {
            for name in self.all_of(topic) {
                self.remove(topic, &name);
            }
        }
    }

    fn names(&mut self, topic: Topic) -> &mut BTreeSet<Bytes> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.clear();
    }
}
