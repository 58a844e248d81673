//! In whose name a connection asks, and how a cluster gets its first users.

use crate::access::{DEFAULT, User, at_first, denies, log_in, rules};
use crate::pubsub::Topic;
use crate::server::Server;
use crate::session::{Closing, Session, Step};
use crate::table;
use bytes::Bytes;
use quorate_core::Wire;
use quorate_redis_store::{Asker, Change, UserTable, UsersChange};
use quorate_server::{Failure, REDIS_USERS_LEVEL};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long clients are held until a cluster has its first users: it gets there as soon as its replicas have met.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// The pause between two looks at whether the cluster has its first users, at first and later.
const SETTLE_RETRY: Duration = Duration::from_millis(50);
const LATER_RETRY: Duration = Duration::from_secs(1);

impl Server {
    /// The users there are, and whether they are the replica's own since the cluster has none.
    pub(crate) fn known_users(&self) -> (Arc<UserTable>, bool) {
        let users = self.subscriptions.users.borrow().clone();
        let is_of_replica = users.is_none();
        let own = || Arc::clone(self.users.table());
        (users.unwrap_or_else(own), is_of_replica)
    }

    /// Has the users that the replica was started with become those of the cluster, unless it has some.
    pub(crate) async fn settle_users(&self) {
        // In command mode users are each replica's own.
        if !self.users.are_given() || self.fed.is_some() {
            return;
        }
        let deadline = Instant::now() + SETTLE_MAX;
        loop {
            if self.subscriptions.users.borrow().is_some() {
                break;
            }
            match self.handle.status().await {
                Ok(status) if status.level >= REDIS_USERS_LEVEL => {
                    let change = Change::Begin(self.users.rules());
                    let change = UsersChange {
                        asker: None,
                        change,
                    };
                    if let Err(why) = self.order_body(change.to_bytes()).await {
                        tracing::debug!(?why, "the cluster has no users yet, which is tried again");
                    }
                }
                Ok(_) => {}
                Err(_) => drop(self.is_settled.send_replace(true)),
            }
            let is_late = Instant::now() >= deadline;
            if is_late {
                self.is_settled.send_replace(true);
            }
            sleep(if is_late { LATER_RETRY } else { SETTLE_RETRY }).await;
        }
        self.is_settled.send_replace(true);
        let (users, _) = self.known_users();
        if rules(&users) != self.users.rules() {
            tracing::warn!(
                "the users of the cluster are others than those of --redis-acl-file and --requirepass, with which only \
                 a new cluster begins: ACL SETUSER changes them, ACL LOAD takes those of the file"
            );
        }
    }
}

impl Session {
    /// Goes on in the name in which connections begin.
    pub(crate) fn begin_anew(&mut self) {
        let (users, is_of_replica) = self.server.known_users();
        self.log_in(at_first(&users), is_of_replica);
    }

    /// Goes on in the name of a user who needs no password here, if there is one who is on.
    pub(crate) fn log_in_as(&mut self, name: &[u8]) {
        let (users, is_of_replica) = self.server.known_users();
        if let Some(user) = users.get(name).filter(|user| user.is_on) {
            self.log_in(Some(Arc::clone(user)), is_of_replica);
        }
    }

    /// Goes on in the name of a user, if the password is right.
    pub(crate) async fn log_in_by(
        &mut self,
        name: &[u8],
        password: &[u8],
    ) -> Result<bool, Failure> {
        let (mut users, mut is_of_replica) = self.server.known_users();
        let mut user = log_in(&users, name, password);
        if user.is_none() && !is_of_replica {
            // The password may be one that this replica has not heard of yet.
            self.server.versions(Vec::new()).await?;
            (users, is_of_replica) = self.server.known_users();
            user = log_in(&users, name, password);
        }
        let is_known = user.is_some();
        if is_known {
            self.log_in(user, is_of_replica);
        }
        Ok(is_known)
    }

    fn log_in(&mut self, user: Option<Arc<User>>, is_of_replica: bool) {
        let name = user
            .as_ref()
            .map_or(Bytes::from_static(DEFAULT), |user| user.name.clone());
        self.spoken.user = name;
        (self.user, self.is_of_replica) = (user, is_of_replica);
    }

    /// Whether the default user has a password.
    pub(crate) fn has_password(&self) -> bool {
        let (users, _) = self.server.known_users();
        users
            .get(DEFAULT)
            .is_some_and(|user| !user.needs_no_password)
    }

    /// In whose name the store is asked; `None` for the default user as it is at first.
    pub(crate) fn asker(&self) -> Option<Asker> {
        let user = self.user.as_ref().filter(|_| !self.is_of_replica)?;
        let is_plain = user.name == DEFAULT && user.since == 0;
        (!is_plain).then(|| Asker {
            name: user.name.clone(),
            since: user.since,
        })
    }

    /// Ends the connection if its user is no more, has other passwords, or may not hear what it subscribes to.
    pub(crate) fn look_at_users(&mut self) -> Step {
        if !self.users.has_changed().unwrap_or(false) {
            return Ok(());
        }
        let users = self.users.borrow_and_update().clone();
        let topics = [Topic::Channel, Topic::Pattern];
        let topics = topics.map(|topic| (topic, self.subscriber.all_of(topic)));
        let (Some(users), Some(user)) = (users, &self.user) else {
            return Ok(());
        };
        let stays = |now: &&Arc<User>| match self.is_of_replica {
            true => now.keeps_logins_of(user),
            false => now.is_on && now.since == user.since,
        };
        let now = users.get(&user.name).filter(stays).cloned();
        let now = now.filter(|now| may_listen(now, topics));
        if now.is_none() {
            tracing::debug!(from = %self.client.from, "the user of a connection is no more: closed");
            return Err(Closing::AfterReplies);
        }
        (self.user, self.is_of_replica) = (now, false);
        Ok(())
    }
}

/// Whether a user may subscribe to all of this.
fn may_listen(user: &User, topics: [(Topic, Vec<Bytes>); 2]) -> bool {
    topics.into_iter().all(|(topic, names)| {
        let command = Bytes::from_static(topic.command(true).as_bytes());
        let args: Vec<Bytes> = std::iter::once(command).chain(names).collect();
        let found = table::find(&args[0]);
        args.len() == 1 || found.is_some_and(|found| denies(user, found, &args).is_none())
    })
}
