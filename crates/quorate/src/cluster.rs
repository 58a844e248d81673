//! A whole cluster in this process.

use crate::begin;
use crate::builder::NodeBuilder;
use crate::error::StartError;
use crate::node::Node;
use crate::options::Transport;
use crate::state_machine::StateMachine;
use quorate_core::Incarnation;
use quorate_server::{Rings, holds_data};
use std::fmt;
use std::path::Path;

/// All nodes of a cluster in this process, joined by memory: for tests, and for programs that want a log on several
/// disks.
///
/// A node whose folder was lost does not start again: there is nobody whom it could ask what it had promised.
pub struct Cluster<S: StateMachine> {
    builders: Vec<NodeBuilder<S>>,
    nodes: Vec<Option<Node<S>>>,
}

impl<S: StateMachine> fmt::Debug for Cluster<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

impl<S: StateMachine> Cluster<S> {
    /// Starts nodes 1 to `nodes`, each in a folder of its own below `folder`. `options` may change what they are
    /// started with.
    ///
    /// # Errors
    /// See [`NodeBuilder::start`].
    pub async fn start(
        nodes: u16,
        folder: &Path,
        options: impl Fn(NodeBuilder<S>) -> NodeBuilder<S>,
    ) -> Result<Cluster<S>, StartError> {
        let rings = Rings::default();
        let drawn = begin::random_incarnation().map_err(StartError::new)?;
        let builder = |id: u16| {
            let builder = Node::builder("in-process", id)
                .members((1..=nodes).map(|id| (id, id.to_string())))
                .folder(folder.join(id.to_string()))
                .transport(Transport::InProcess(rings.clone()));
            options(builder)
        };
        let mut cluster = Cluster {
            builders: (1..=nodes).map(builder).collect(),
            nodes: Vec::new(),
        };
        let mut is_new = true;
        for builder in &cluster.builders {
            is_new &= !holds_data(&builder.options.folder).map_err(StartError::new)?;
        }
        cluster.set_beginning(is_new.then_some(drawn));
        for builder in cluster.builders.clone() {
            cluster.nodes.push(Some(builder.start().await?));
        }
        cluster.set_beginning(None);
        Ok(cluster)
    }

    fn set_beginning(&mut self, begins: Option<Incarnation>) {
        for builder in &mut self.builders {
            builder.options.begins = begins;
        }
    }

    /// The node with this id, from 1; `None` if there is none, or it is stopped.
    #[must_use]
    pub fn node(&self, id: u16) -> Option<&Node<S>> {
        self.nodes.get(index(id)?)?.as_ref()
    }

    /// Stops a node; the others go on.
    ///
    /// # Errors
    /// Why it had ended before.
    pub async fn stop_node(&mut self, id: u16) -> Result<(), StartError> {
        let node = index(id).and_then(|at| self.nodes.get_mut(at)?.take());
        match node {
            Some(node) => node.stop().await,
            None => Ok(()),
        }
    }

    /// Starts a node that was stopped, from its folder.
    ///
    /// # Errors
    /// See [`NodeBuilder::start`].
    pub async fn start_node(&mut self, id: u16) -> Result<(), StartError> {
        let unknown = || StartError::new(format!("there is no node {id} in this cluster"));
        let at = index(id).filter(|at| *at < self.nodes.len());
        let at = at.ok_or_else(unknown)?;
        if self.nodes[at].is_none() {
            self.nodes[at] = Some(self.builders[at].clone().start().await?);
        }
        Ok(())
    }

    /// Stops all nodes.
    ///
    /// # Errors
    /// Why one of them had ended before.
    pub async fn stop(self) -> Result<(), StartError> {
        for node in self.nodes.into_iter().flatten() {
            node.stop().await?;
        }
        Ok(())
    }
}

fn index(id: u16) -> Option<usize> {
    usize::from(id).checked_sub(1)
}
