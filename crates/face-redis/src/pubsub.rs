//! Who subscribes to which channels on this replica.

use crate::waiters::Waiters;
use bytes::Bytes;
use quorate_redis_store::{Subscribers, UserTable, matches};
use quorate_resp::{ReplyWriter, Resp};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// What somebody subscribes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Topic {
    /// A channel by its name.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
}

impl Topic {
    /// The name of the command that subscribes, or of the one that ends it.
    pub(crate) fn command(self, subscribes: bool) -> &'static str {
        match (self, subscribes) {
            (Topic::Channel, true) => "subscribe",
            (Topic::Channel, false) => "unsubscribe",
            (Topic::Pattern, true) => "psubscribe",
            (Topic::Pattern, false) => "punsubscribe",
        }
    }
}

/// The subscriptions on one replica, and who waits for elements. The store tells of both as it applies.
#[derive(Debug, Default)]
pub struct Subscriptions {
    topics: Mutex<Topics>,
    /// The users of the cluster; `None` while it has none.
    pub(crate) users: watch::Sender<Option<Arc<UserTable>>>,
    pub(crate) waiters: Arc<Waiters>,
}

#[derive(Debug, Default)]
struct Topics {
    channels: BTreeMap<Bytes, Mailboxes>,
    patterns: BTreeMap<Bytes, Mailboxes>,
}

/// The mailboxes of those who subscribe to one topic, by the numbers of their connections.
type Mailboxes = BTreeMap<u64, Arc<Mailbox>>;

impl Topics {
    fn of(&mut self, topic: Topic) -> &mut BTreeMap<Bytes, Mailboxes> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
        }
    }

    /// How many get a message to a channel, by the channel and by patterns; one who has both counts twice.
    fn receivers(&self, channel: &[u8]) -> usize {
        let by_name = self.channels.get(channel).map_or(0, BTreeMap::len);
        let matching = self
            .patterns
            .iter()
            .filter(|(pattern, _)| matches(pattern, channel));
        by_name
            + matching
                .map(|(_, mailboxes)| mailboxes.len())
                .sum::<usize>()
    }
}

impl Subscriptions {
    /// Has a connection get what is published from now on.
    pub(crate) fn add(&self, topic: Topic, name: Bytes, client: u64, mailbox: &Arc<Mailbox>) {
        let mut topics = self.lock();
        let mailboxes = topics.of(topic).entry(name).or_default();
        mailboxes.insert(client, Arc::clone(mailbox));
    }

    /// Ends a subscription of a connection.
    pub(crate) fn remove(&self, topic: Topic, name: &[u8], client: u64) {
        let mut topics = self.lock();
        let topics = topics.of(topic);
        if let Some(mailboxes) = topics.get_mut(name) {
            mailboxes.remove(&client);
            if mailboxes.is_empty() {
                topics.remove(name);
            }
        }
    }

    /// How many clients of this replica get a message to a channel.
    pub(crate) fn receivers(&self, channel: &[u8]) -> usize {
        self.lock().receivers(channel)
    }

    /// The channels that anybody here subscribes to by name, of those that match a pattern.
    pub(crate) fn channels(&self, pattern: Option<&[u8]>) -> Vec<Bytes> {
        let topics = self.lock();
        let wanted = |name: &&Bytes| pattern.is_none_or(|pattern| matches(pattern, name));
        topics.channels.keys().filter(wanted).cloned().collect()
    }

    /// How many clients here subscribe to a channel by name.
    pub(crate) fn count(&self, channel: &[u8]) -> usize {
        self.lock().channels.get(channel).map_or(0, BTreeMap::len)
    }

    /// How many patterns anybody here subscribes to.
    pub(crate) fn patterns(&self) -> usize {
        self.lock().patterns.len()
    }

    /// How many channels anybody here subscribes to by name.
    pub(crate) fn channel_count(&self) -> usize {
        self.lock().channels.len()
    }

    fn lock(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscribers for Subscriptions {
    fn publish(&self, channel: &Bytes, message: &Bytes) {
        let topics = self.lock();
        if let Some(mailboxes) = topics.channels.get(channel) {
            put_all(mailboxes, &[b"message", channel, message]);
        }
        let patterns = topics.patterns.iter();
        for (pattern, mailboxes) in patterns.filter(|(pattern, _)| matches(pattern, channel)) {
            put_all(mailboxes, &[b"pmessage", pattern, channel, message]);
        }
    }

    fn users(&self, users: Option<&Arc<UserTable>>) {
        self.users.send_replace(users.cloned());
    }

    fn awaits_elements(&self) -> bool {
        self.waiters.count() > 0
    }

    fn elements(&self, db: u32, key: &Bytes, count: usize) {
        self.waiters.call(&(db, key.clone()), count);
    }

    fn all_elements(&self) {
        self.waiters.call_all();
    }
}

/// Puts a message into mailboxes.
fn put_all(mailboxes: &Mailboxes, parts: &[&[u8]]) {
    let mut message = Encoded {
        parts,
        ready: [None, None],
    };
    for mailbox in mailboxes.values() {
        mailbox.put(&mut message);
    }
}

/// A message, encoded once for all who get it in one version of the protocol.
struct Encoded<'a> {
    parts: &'a [&'a [u8]],
    ready: [Option<Bytes>; 2],
}

impl Encoded<'_> {
    fn get(&mut self, resp: Resp) -> Bytes {
        let parts = self.parts;
        let ready = &mut self.ready[usize::from(resp == Resp::Three)];
        let message = ready.get_or_insert_with(|| {
            let mut out = ReplyWriter::new(resp);
            out.push(parts.len());
            for part in parts {
                out.bulk(part);
            }
            out.into_bytes()
        });
        message.clone()
    }
}

/// Messages that wait for one connection.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// The number of the version of the protocol that the client speaks.
    resp: AtomicU8,
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    arrived: Notify,
    is_full: AtomicBool,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: Vec<Bytes>,
    bytes: usize,
}

/// What a message takes beside its bytes.
const MESSAGE_BYTES: usize = 32;

impl Mailbox {
    /// An empty mailbox of a client that speaks the second version.
    pub(crate) fn new(bytes_max: usize) -> Mailbox {
        Mailbox {
            resp: AtomicU8::new(Resp::Two.number()),
            bytes_max,
            waiting: Mutex::default(),
            arrived: Notify::new(),
            is_full: AtomicBool::new(false),
            filled: Notify::new(),
        }
    }

    /// The client goes on in another version.
    pub(crate) fn set_resp(&self, resp: Resp) {
        self.resp.store(resp.number(), Relaxed);
    }

    fn put(&self, message: &mut Encoded<'_>) {
        let resp = match self.resp.load(Relaxed) {
            3 => Resp::Three,
            _ => Resp::Two,
        };
        let message = message.get(resp);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = waiting.bytes + message.len() + MESSAGE_BYTES;
        // One message is taken, however long it is.
        if bytes > self.bytes_max && !waiting.messages.is_empty() {
            self.is_full.store(true, Relaxed);
            self.filled.notify_one();
        } else if !self.is_full.load(Relaxed) {
            waiting.bytes = bytes;
            waiting.messages.push(message);
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Takes what has arrived.
    pub(crate) fn take(&self) -> Vec<Bytes> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting).messages
    }

    /// Waits until more has arrived than may wait: the client does not read, and misses messages.
    pub(crate) async fn filled(&self) {
        while !self.is_full.load(Relaxed) {
            self.filled.notified().await;
        }
    }

    /// Waits until something has arrived since the last time.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(mailbox: &Mailbox) -> Vec<String> {
        let text = |message: &Bytes| String::from_utf8_lossy(message).into_owned();
        mailbox.take().iter().map(text).collect()
    }

    #[test]
    fn messages_reach_those_who_subscribe_and_nobody_else() {
        let all = Subscriptions::default();
        let [named, matching, other] = [(); 3].map(|()| Arc::new(Mailbox::new(1 << 20)));
        matching.set_resp(Resp::Three);
        all.add(Topic::Channel, "news".into(), 1, &named);
        all.add(Topic::Pattern, "n*".into(), 2, &matching);
        all.add(Topic::Channel, "old".into(), 3, &other);
        assert_eq!(all.receivers(b"news"), 2);
        all.publish(&"news".into(), &"hi".into());
        let message = "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(texts(&named), [message]);
        let message = ">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(texts(&matching), [message]);
        assert!(texts(&other).is_empty());
        all.remove(Topic::Channel, b"news", 1);
        all.remove(Topic::Pattern, b"n*", 2);
        assert_eq!((all.receivers(b"news"), all.patterns()), (0, 0));
        assert_eq!(all.channels(None), [Bytes::from("old")]);
    }

    #[test]
    fn a_subscriber_that_does_not_read_gets_no_more_than_its_share() {
        let all = Subscriptions::default();
        let mailbox = Arc::new(Mailbox::new(1000));
        all.add(Topic::Channel, "a".into(), 1, &mailbox);
        for _ in 0..1000 {
            all.publish(&"a".into(), &Bytes::from(vec![7; 100]));
        }
        assert!(mailbox.is_full.load(Relaxed));
        let waiting = mailbox.waiting.lock().unwrap();
        assert!(waiting.bytes <= 1000, "{}", waiting.bytes);
    }
}
