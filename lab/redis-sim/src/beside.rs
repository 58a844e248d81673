//! Drivers, servers and clients beside hosts that somebody else runs.
//!
//! Hosts order commands and have [`Stream`](quorate_redis_effects::Stream) apply them; here is everything around that.
//! Time is told, and what drivers want of their hosts is taken away from here.

use crate::options::{KILLED, Options, Report};
use crate::wanted::{Asker, Wanted};
use crate::world::World;
use bytes::Bytes;
use quorate_redis_effects::{Input, Shared, StreamState};
use std::sync::Arc;

/// Drivers, their servers, and clients.
pub struct Beside {
    world: World,
    shared: Vec<Option<Arc<Shared>>>,
}

impl Beside {
    /// Replicas none of which runs yet.
    #[must_use]
    pub fn new(options: Options) -> Beside {
        let shared = vec![None; options.replicas];
        let mut world = World::without_replicas(options);
        world.wanted = Some(Vec::new());
        for node in &mut world.nodes {
            node.is_up = false;
        }
        world.begin_load();
        Beside { world, shared }
    }

    /// Everything that is due until then happens.
    ///
    /// # Errors
    /// What went wrong.
    pub fn advance(&mut self, now_ns: u64) -> Result<(), String> {
        // Before drivers look: they may forget what is in their RDBs.
        for shared in self.shared.iter().flatten() {
            self.world.reference.saw(shared)?;
        }
        self.world.run_until(now_ns)
    }

    /// What drivers wanted since the last call.
    pub fn take_wanted(&mut self) -> Vec<Wanted> {
        self.world.wanted.replace(Vec::new()).unwrap_or_default()
    }

    /// The process of a replica runs, and has loaded what it had.
    ///
    /// # Errors
    /// It loaded other bytes than another replica accepted.
    pub fn began(&mut self, index: usize, shared: &Arc<Shared>) -> Result<(), String> {
        self.world.reference.saw(shared)?;
        self.world.purge(index);
        self.world.nodes[index].begin(Arc::clone(shared));
        self.shared[index] = Some(Arc::clone(shared));
        self.world.begin_node(index);
        Ok(())
    }

    /// The process of a replica ended, and its server with it.
    pub fn ended(&mut self, index: usize) {
        self.shared[index] = None;
        self.world.end_node(index);
    }

    /// The process of a replica is stopped until then.
    pub fn stopped(&mut self, index: usize, until_ns: u64) {
        let node = &mut self.world.nodes[index];
        node.frozen_until_ns = node.frozen_until_ns.max(until_ns);
    }

    /// A host has applied something, perhaps.
    ///
    /// # Errors
    /// Two replicas accepted other bytes, or something else went wrong until then.
    pub fn applied(&mut self, index: usize, now_ns: u64) -> Result<(), String> {
        self.advance(now_ns)?;
        if self.shared[index].is_some() {
            let life = self.world.nodes[index].life;
            self.world.tell(index, life, Input::Shared);
        }
        Ok(())
    }

    /// What a command came to, if that is known.
    pub fn result(&mut self, (index, life, token): Asker, result: Option<Bytes>) {
        let result = result.filter(|_| !self.is_lost());
        self.world
            .tell(index, life, Input::Result { token, result });
    }

    /// What a quorum answered, if it did.
    pub fn read(&mut self, (index, life, token): Asker, state: Option<StreamState>) {
        let state = state.filter(|_| !self.is_lost());
        (self.world).tell(index, life, Input::ReadResult { token, state });
    }

    fn is_lost(&mut self) -> bool {
        self.world.rng.u8(..) < self.world.faults.lost_of_256
    }

    /// Nothing goes wrong any more, and clients ask nothing new.
    pub fn heal(&mut self) {
        self.world.heal();
    }

    /// The group counts on a replica, or does so no more.
    pub fn set_member(&mut self, index: usize, is_member: bool) {
        self.world.nodes[index].is_member = is_member;
    }

    /// Whether all clients have their answers, and all servers have the stream.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.world.is_calm()
    }

    /// What replicas and clients do, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.world.describe()
    }

    /// What happened so far, for people.
    pub fn take_trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.world.trace)
    }

    /// Whether one server without faults could have answered so, and holds what all hold.
    ///
    /// # Errors
    /// What went wrong.
    pub fn judge(&mut self) -> Result<Report, String> {
        self.world.judge_end()
    }
}

impl World {
    fn end_node(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.is_up = false;
        node.kill_server();
        node.gate = None;
        self.close_clients(index);
        self.note(|| format!("replica {index}: {KILLED}"));
    }
}
