//! From options to a node that runs.

use crate::begin::{self, Place};
use crate::effects::EffectSender;
use crate::error::StartError;
use crate::node::Node;
use crate::options::{Clock, Durability, Options, Protocol, Tls, Transport};
use crate::replicated::Replicated;
use crate::security::peer_security;
use crate::state_machine::StateMachine;
use quorate_core::ReplicaId;
use quorate_protocols::{Only, Protocol as OwnProtocol, ProtocolSet, Registered, names};
use quorate_server::{
    Embedded, Layout, MemberInfo, PeerLinks, PeerSecurity, ServerConfig, ServerError, bind,
    bind_datagrams, embed, embed_with,
};
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::oneshot;

/// Options of a [`Node`]; see [`Node::builder`].
pub struct NodeBuilder<S: StateMachine> {
    pub(crate) options: Options,
    /// Starts a replica that has the protocols of the options.
    run: Run<S>,
}

/// Starts a replica of a state machine.
type Run<S> = fn(ServerConfig, Replicated<S>) -> Running<S>;

/// A replica that is being started.
type Running<S> =
    Pin<Box<dyn Future<Output = Result<Embedded<Replicated<S>>, ServerError>> + Send>>;

/// Starts one among the protocols that come with the library.
fn run_registered<S: StateMachine>(config: ServerConfig, app: Replicated<S>) -> Running<S> {
    Box::pin(embed(config, app))
}

impl<S: StateMachine> Clone for NodeBuilder<S> {
    fn clone(&self) -> Self {
        NodeBuilder {
            options: self.options.clone(),
            run: self.run,
        }
    }
}

impl<S: StateMachine> fmt::Debug for NodeBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

impl<S: StateMachine> Node<S> {
    /// Options of the node `id` (from 1) of the cluster with this name, which tells it from all others.
    #[must_use]
    pub fn builder(cluster: &str, id: u16) -> NodeBuilder<S> {
        NodeBuilder::new(cluster, id)
    }
}

impl<S: StateMachine> NodeBuilder<S> {
    fn new(cluster: &str, id: u16) -> Self {
        NodeBuilder {
            options: Options::new(cluster, id),
            run: run_registered,
        }
    }

    /// Adds a member, this node included, and the address at which the others reach it, `host:port`. All members of a
    /// new cluster are given the same list.
    #[must_use]
    pub fn member(mut self, id: u16, address: impl Into<String>) -> Self {
        self.options.members.insert(ReplicaId(id), address.into());
        self
    }

    /// Adds several members, as [`NodeBuilder::member`] does.
    #[must_use]
    pub fn members<A: Into<String>>(self, members: impl IntoIterator<Item = (u16, A)>) -> Self {
        let members = members.into_iter();
        members.fold(self, |all, (id, address)| all.member(id, address))
    }

    /// Sets the address that is listened at, if it is not the node's own of the list: `0.0.0.0:7001`.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.options.listen = Some(address.into());
        self
    }

    /// Sets the folder of the node's data; `CLUSTER-ID` in the current folder unless told.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.folder = folder.into();
        self
    }

    /// Sets the protocol of a new cluster. One that exists goes on with its own.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.options.has_own_protocol = false;
        self.among::<Registered>(protocol.name(), run_registered)
    }

    /// Runs a protocol of the program's own, in the place of those that come with the library: a machine without I/O
    /// (`quorate_core::Machine`), and what the library has to know of it. Log, snapshots, sessions and connections are
    /// as for any other. All members of the cluster are given the same protocol, and it is the only one they have:
    /// the cluster cannot change to another.
    ///
    /// What holds of a cluster then rests on the protocol: try it in the simulator first (`quorate-testing`).
    #[must_use]
    pub fn own_protocol<P: OwnProtocol>(mut self) -> Self {
        self.options.has_own_protocol = true;
        self.among::<Only<P>>(P::NAME, |config, app| {
            Box::pin(embed_with::<_, Only<P>>(config, app))
        })
    }

    fn among<P: ProtocolSet>(mut self, protocol: &'static str, run: Run<S>) -> Self {
        self.options.protocol = protocol;
        self.options.catalogue = P::CATALOGUE;
        self.run = run;
        self
    }

    /// Sets an agreed parameter of the protocol of a new cluster, as `quorate protocols` lists them.
    #[must_use]
    pub fn param(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.options
            .params
            .insert(name.to_owned(), value.to_string());
        self
    }

    /// Sets what survives a crash of a node of a new cluster.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Sets how nodes reach each other.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.options.transport = transport;
        self
    }

    /// Encrypts connections between nodes, each of which shows its certificate. Without this or
    /// [`NodeBuilder::secret`], whoever reaches a node's port can act as a member.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.options.tls = Some(tls);
        self
    }

    /// Has nodes prove to each other that they have the secret in this file.
    #[must_use]
    pub fn secret(mut self, file: impl Into<PathBuf>) -> Self {
        self.options.secret = Some(file.into());
        self
    }

    /// Sets who knows the error of the machine's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = clock;
        self
    }

    /// Says that the cluster exists, and that this node is to become a member once one of them was told of it
    /// ([`Node::add_member`]).
    #[must_use]
    pub fn joins(mut self) -> Self {
        self.options.joins = true;
        self
    }

    /// Runs the node as a task of the present runtime, in the place of a thread of its own. While a state machine is at
    /// work, or the disk is, the runtime's thread waits.
    #[must_use]
    pub fn on_this_runtime(mut self) -> Self {
        self.options.is_threaded = false;
        self
    }

    /// Sets how long a request may take before it fails; 4 s unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Starts the node from its folder, or begins one there. A member of a new cluster waits until a majority of the
    /// others has been started, too; if nobody waits for it any more, it ends soon. Call it in a tokio runtime, which
    /// has to run for as long as the node does.
    ///
    /// # Errors
    /// What is wrong with the options, the folder, the port or the certificates.
    pub async fn start(self) -> Result<Node<S>, StartError> {
        let options = self.options;
        options.check()?;
        let security = peer_security(options.tls.as_ref(), options.secret.as_deref())?;
        let (peers, place) = match &options.transport {
            Transport::InProcess(rings) => {
                let place = begin::alone(&options)?;
                (PeerLinks::Rings(rings.clone()), place)
            }
            Transport::Tcp | Transport::Udp => options.sockets(&security).await?,
        };
        let effects = EffectSender::default();
        let scheme = security.scheme();
        let told = options.members.iter();
        let told = told.map(|(id, at)| {
            MemberInfo::told(
                *id,
                format!("{}-{id}", options.cluster),
                format!("{scheme}://{at}"),
            )
        });
        let config = ServerConfig {
            members: told.collect(),
            request_timeout: options.timeout,
            peer_security: security,
            layout: match options.is_threaded {
                true => Layout::Threaded,
                false => Layout::Fused,
            },
            clock: options.clock.source(),
            ..ServerConfig::embedded(place.folder, peers, place.others)
        };
        let app = Replicated::<S>::telling(effects.clone());
        let embedded = (self.run)(config, app).await?;
        Ok(Node::new(embedded, effects, scheme, options.timeout))
    }
}

impl Options {
    fn check(&self) -> Result<(), StartError> {
        let (me, protocol) = (self.me, self.protocol);
        if self.has_own_protocol && names().contains(&protocol) {
            return Err(StartError::new(format!(
                "{protocol:?} is a protocol of the library: the program's own needs another name, so that no node \
                 takes one for the other"
            )));
        }
        match self.members.get(&me) {
            None => Err(StartError::new(format!(
                "node {me} is not among the members: add it with .member({me}, \"host:port\")"
            ))),
            Some(_) => Ok(()),
        }
    }

    async fn sockets(&self, security: &PeerSecurity) -> Result<(PeerLinks, Place), StartError> {
        let own = &self.members[&self.me];
        let address = self.listen.as_ref().unwrap_or(own);
        let failed = |error| ServerError::Listen {
            what: "peers",
            address: address.clone(),
            error,
        };
        let port = bind(address).map_err(failed)?;
        let datagrams = match self.transport {
            Transport::Udp => Some(bind_datagrams(&port).map_err(failed)?),
            Transport::Tcp | Transport::InProcess(_) => None,
        };
        let asked: TcpListener = port.try_clone().map_err(StartError::new)?;
        let (options, security) = (self.clone(), security.clone());
        // Dropped with this future.
        let (_waits, abandoned) = oneshot::channel::<()>();
        let abandoned = async {
            let _ = abandoned.await;
        };
        let begun = tokio::task::spawn_blocking(move || {
            begin::asking(&options, security, asked, abandoned)
        });
        let place = begun.await.map_err(StartError::new)??;
        let peers = PeerLinks::Sockets {
            ports: vec![port],
            datagrams,
        };
        Ok((peers, place))
    }
}
