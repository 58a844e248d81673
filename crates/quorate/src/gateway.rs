//! A gateway: what orders commands without being a member.

use crate::client::Client;
use crate::error::{Error, StartError};
use crate::options::{Clock, TIMEOUT, Tls, cluster_id};
use crate::orders::Orders;
use crate::replicated::Replicated;
use crate::security::peer_security;
use crate::state_machine::{ClientId, StateMachine};

use quorate_server::{GatewayOptions, LinkedGateway, reach};
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

/// A way into a cluster for a process that is no member: a client that links its own gateway, or a service for many
/// clients that keeps nothing.
///
/// It stamps commands, sends them to all members, and counts their replies, so that a command takes one round trip in
/// the usual case and no member stands in between. It has no state, and no queries: what clients are to read, a command
/// replies. The cluster's protocol must have gateways ([`Protocol::Nezha`](crate::Protocol::Nezha)).
pub struct Gateway<S: StateMachine> {
    linked: LinkedGateway<Replicated<S>>,
    timeout: Duration,
}

impl<S: StateMachine> fmt::Debug for Gateway<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}

/// Options of a [`Gateway`]; see [`Gateway::builder`].
pub struct GatewayBuilder<S: StateMachine> {
    cluster: String,
    members: Vec<String>,
    tls: Option<Tls>,
    secret: Option<PathBuf>,
    clock: Clock,
    timeout: Duration,
    of: PhantomData<fn() -> S>,
}

impl<S: StateMachine> fmt::Debug for GatewayBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayBuilder")
            .field("cluster", &self.cluster)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl<S: StateMachine> GatewayBuilder<S> {
    /// Adds the addresses of members, `host:port`. One that answers is enough: it knows the others.
    #[must_use]
    pub fn members<A: Into<String>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.members.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// Encrypts connections to members, as [`NodeBuilder::tls`](crate::NodeBuilder::tls) does.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Has both ends of a connection prove that they have the secret in this file.
    #[must_use]
    pub fn secret(mut self, file: impl Into<PathBuf>) -> Self {
        self.secret = Some(file.into());
        self
    }

    /// Sets who knows the error of the machine's clock, by which commands are stamped.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long a request may take before it fails; 4 s unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Starts the gateway once a member has answered, for as long as that takes. Its connections are tasks of the
    /// present runtime.
    ///
    /// # Errors
    /// What is wrong with the options, or that the cluster's protocol has no gateways.
    pub async fn start(self) -> Result<Gateway<S>, StartError> {
        if self.members.is_empty() {
            return Err(StartError::new(
                "a gateway has nobody to reach: add members with .members([\"host:port\"])",
            ));
        }
        let options = GatewayOptions {
            cluster: Some(cluster_id(&self.cluster)),
            request_timeout: self.timeout,
            peer_security: peer_security(self.tls.as_ref(), self.secret.as_deref())?,
            clock: self.clock.source(),
            ..GatewayOptions::to(self.members)
        };
        let reached = reach(options).await?;
        let protocol = reached.epoch().protocol.clone();
        let linked = reached.link(Replicated::<S>::COMMAND_PROPERTIES);
        let has_gateways = linked.upstream.borrow().orders;
        if !has_gateways {
            linked.unlink().await?;
            return Err(StartError::new(format!(
                "the cluster {} agrees by {protocol}, which has no gateways: ask a node instead, or begin the cluster \
                 with .protocol(Protocol::Nezha)",
                self.cluster
            )));
        }
        Ok(Gateway {
            linked,
            timeout: self.timeout,
        })
    }
}

impl<S: StateMachine> Gateway<S> {
    /// Options of a gateway of the cluster with this name.
    #[must_use]
    pub fn builder(cluster: &str) -> GatewayBuilder<S> {
        GatewayBuilder {
            cluster: cluster.to_owned(),
            members: Vec::new(),
            tls: None,
            secret: None,
            clock: Clock::default(),
            timeout: TIMEOUT,
            of: PhantomData,
        }
    }

    /// Has a command applied on all nodes, and returns its reply; see [`Node::submit`](crate::Node::submit).
    ///
    /// # Errors
    /// [`Error::Unknown`] where it may have been done; [`Error::Retry`] while the cluster agrees by a protocol without
    /// gateways.
    pub async fn submit(&self, command: S::Command) -> Result<S::Reply, Error> {
        self.submit_as(0, command).await
    }

    /// Has a command applied on behalf of somebody ([`Applied::who`](crate::Applied::who)).
    ///
    /// # Errors
    /// See [`Gateway::submit`].
    pub async fn submit_as(&self, who: u32, command: S::Command) -> Result<S::Reply, Error> {
        self.orders().submit(who, &command).await
    }

    /// Begins a client, whose requests are applied at most once however often they are sent.
    ///
    /// # Errors
    /// See [`Gateway::submit`]; asking again is harmless.
    pub async fn client(&self) -> Result<Client<'_, S>, Error> {
        let orders = self.orders();
        Ok(Client::new(orders, orders.open().await?, 1))
    }

    /// Goes on with a client that was begun elsewhere; see [`Node::resume`](crate::Node::resume).
    #[must_use]
    pub fn resume(&self, id: ClientId, next: u64) -> Client<'_, S> {
        Client::new(self.orders(), id, next)
    }

    /// Ends the gateway. Requests under way may still be carried out.
    ///
    /// # Errors
    /// Why it had ended before.
    pub async fn stop(self) -> Result<(), StartError> {
        self.linked.unlink().await.map_err(StartError::from)
    }

    fn orders(&self) -> Orders<'_, S> {
        Orders::new(&self.linked.handle, self.timeout)
    }
}
