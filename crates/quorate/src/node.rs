//! A node that runs.

use crate::client::Client;
use crate::effects::{EffectSender, Effects};
use crate::error::{Error, StartError};
use crate::options::{Freshness, Protocol};
use crate::orders::{Orders, RETRY_PAUSE, is_early};
use crate::replicated::Replicated;
use crate::state_machine::{ClientId, StateMachine};
use quorate_core::ReplicaId;
use quorate_server::{ChangeError, Consistency, Embedded, Failure, GroupChange, Handle};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// A member of the cluster in this process. Put it into an `Arc` to share it between tasks.
///
/// A node that is dropped ends as one whose process is killed does; [`Node::stop`] waits for its end.
pub struct Node<S: StateMachine> {
    embedded: Embedded<Replicated<S>>,
    effects: EffectSender,
    /// What the URLs of nodes begin with.
    scheme: &'static str,
    timeout: Duration,
}

impl<S: StateMachine> fmt::Debug for Node<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

/// How a node and its cluster are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The node's id.
    pub id: u16,
    /// All members and those that follow, by id.
    pub members: Vec<MemberStatus>,
    /// The name of the protocol in force.
    pub protocol: String,
    /// The member that leads, if one does and a quorum is reached.
    pub leader: Option<u16>,
    /// How many slots of the log this node has applied.
    pub applied: u64,
    /// Whether this node reaches a quorum.
    pub has_quorum: bool,
    /// Bytes of the log and of snapshots on this node's disk.
    pub disk_bytes: u64,
    /// Trouble that somebody should know of, in words.
    pub alarms: Vec<String>,
}

/// A member as a node sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// The member's id.
    pub id: u16,
    /// The address at which the others reach it, as a URL; empty when unknown.
    pub address: String,
    /// Whether it has a vote; a node that follows has none yet.
    pub votes: bool,
    /// Whether this node has a connection to it, or it is this node.
    pub is_connected: bool,
}

impl<S: StateMachine> Node<S> {
    pub(crate) fn new(
        embedded: Embedded<Replicated<S>>,
        effects: EffectSender,
        scheme: &'static str,
        timeout: Duration,
    ) -> Self {
        Node {
            embedded,
            effects,
            scheme,
            timeout,
        }
    }

    /// Has a command applied on all nodes, and returns its reply.
    ///
    /// It is sent once. Where the node cannot order it yet, for want of a leader or of room, it waits, for the
    /// timeout of [`NodeBuilder::timeout`](crate::NodeBuilder::timeout) at most.
    ///
    /// # Errors
    /// [`Error::Unknown`] where it may have been done: [`Node::client`] has commands applied at most once although they
    /// are sent again.
    pub async fn submit(&self, command: S::Command) -> Result<S::Reply, Error> {
        self.submit_as(0, command).await
    }

    /// Has a command applied on behalf of somebody ([`Applied::who`](crate::Applied::who)).
    ///
    /// # Errors
    /// See [`Node::submit`].
    pub async fn submit_as(&self, who: u32, command: S::Command) -> Result<S::Reply, Error> {
        self.orders().submit(who, &command).await
    }

    /// Begins a client, whose requests are applied at most once however often they are sent.
    ///
    /// # Errors
    /// See [`Node::submit`]; asking again is harmless.
    pub async fn client(&self) -> Result<Client<'_, S>, Error> {
        let orders = self.orders();
        Ok(Client::new(orders, orders.open().await?, 1))
    }

    /// Goes on with a client that was begun on another node, or before this process was started: `next` is the number
    /// of its next request, or of the last one, to learn what that came to.
    #[must_use]
    pub fn resume(&self, id: ClientId, next: u64) -> Client<'_, S> {
        Client::new(self.orders(), id, next)
    }

    /// Answers a query from a state that everything is in which completed before.
    ///
    /// # Errors
    /// Why it has no answer: never [`Error::Unknown`].
    pub async fn query(&self, query: S::Query) -> Result<S::Answer, Error> {
        self.query_at(query, Freshness::Linearizable).await
    }

    /// Answers a query from a state that is as fresh as asked for.
    ///
    /// # Errors
    /// Why it has no answer: never [`Error::Unknown`].
    pub async fn query_at(&self, query: S::Query, from: Freshness) -> Result<S::Answer, Error> {
        let consistency = match from {
            Freshness::Linearizable => Consistency::Linearizable,
            Freshness::Local => Consistency::Serializable,
        };
        let query = Arc::new(query);
        let deadline = Instant::now() + self.timeout;
        loop {
            let read = self.handle().read(Arc::clone(&query), consistency);
            let read = timeout_at(deadline.into(), read).await;
            match read.unwrap_or(Err(Failure::Timeout)) {
                Err(failure) if is_early(failure) && Instant::now() < deadline => {}
                answer => return answer.map_err(Error::of_query),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// The effects of commands on this node, from now on.
    #[must_use]
    pub fn watch_effects(&self) -> Effects<S> {
        self.effects.watch()
    }

    /// Waits until this node has applied this many slots of the log.
    ///
    /// # Errors
    /// The node has stopped.
    pub async fn applied(&self, slots: u64) -> Result<(), Error> {
        let mut applied = self.handle().applied();
        let waited = applied.wait_for(|next| next.0 >= slots).await;
        waited.map(drop).map_err(|_| stopped())
    }

    /// How this node and its cluster are.
    ///
    /// # Errors
    /// The node has stopped, or has too much to do.
    pub async fn status(&self) -> Result<Status, Error> {
        let status = self.handle().status().await.map_err(Error::of_query)?;
        let (me, links) = (status.me, status.links_up);
        let members = status.members.into_iter().map(|member| MemberStatus {
            id: member.id.0,
            address: member.peer_url,
            votes: !member.is_learner,
            is_connected: member.id == me || links.contains(&member.id),
        });
        Ok(Status {
            id: me.0,
            members: members.collect(),
            protocol: status.protocol,
            leader: status.leader.map(|id| id.0),
            applied: status.applied.0,
            has_quorum: status.quorum,
            disk_bytes: status.log_bytes + status.snapshot_bytes,
            alarms: status.alarms,
        })
    }

    /// The node's metrics, as a page for Prometheus; empty without the feature `metrics-page`.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.embedded.metrics().render()
    }

    /// Tells the cluster of a node that is to become a member; it is started with
    /// [`NodeBuilder::joins`](crate::NodeBuilder::joins).
    ///
    /// # Errors
    /// See [`Node::remove_member`].
    pub async fn add_member(&self, id: u16, address: &str) -> Result<(), Error> {
        let id = ReplicaId(id);
        let url = format!("{}://{address}", self.scheme);
        self.change(GroupChange::Address { id, url }).await
    }

    /// Removes a member, which ends.
    ///
    /// # Errors
    /// [`Error::Retry`] while the change before it is under way, [`Error::Refused`] where too few members would remain,
    /// [`Error::Unknown`] where nobody said what became of it.
    pub async fn remove_member(&self, id: u16) -> Result<(), Error> {
        self.change(GroupChange::Remove(ReplicaId(id))).await
    }

    /// Goes on with another protocol, or other parameters of the same; nothing is lost, and nobody has to stop.
    ///
    /// # Errors
    /// See [`Node::remove_member`].
    pub async fn change_protocol(
        &self,
        protocol: Protocol,
        params: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let name = protocol.name().to_owned();
        let change = GroupChange::Protocol {
            name,
            params,
            may_measure: false,
        };
        self.change(change).await
    }

    /// Stops the node and waits until it has ended. Requests under way may fail with [`Error::Unknown`].
    ///
    /// # Errors
    /// Why it had ended before: a disk that failed, a state that differs from the others', its removal.
    pub async fn stop(self) -> Result<(), StartError> {
        self.embedded.stop().await.map_err(StartError::from)
    }

    async fn change(&self, change: GroupChange) -> Result<(), Error> {
        let changed = self.handle().change_soon(change).await;
        changed.map_err(|error| match error {
            ChangeError::Failed(failure) => Error::of_submit(failure),
            ChangeError::NotYet(why) | ChangeError::NotReady(why) => Error::Retry(why),
            other => Error::Refused(other.to_string()),
        })
    }

    fn handle(&self) -> &Handle<Replicated<S>> {
        &self.embedded.handle
    }

    fn orders(&self) -> Orders<'_, S> {
        Orders::new(self.handle(), self.timeout)
    }
}

fn stopped() -> Error {
    Error::of_submit(Failure::Stopped)
}
