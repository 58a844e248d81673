//! The leader that the group names to clients ([`NamedLeader`](quorate_host::epochs::NamedLeader)): who names it, and
//! when.
//!
//! Where the protocol has a leader, that one names itself. Where it has none, the first member of those that reach each
//! other does so, once the one that is named cannot be reached: whoever is named stays it until then.

use crate::core::Core;
use crate::group::ChangeError;
use crate::handle::FIRST_TERM;
use quorate_core::{Introspect, Now, ReplicaId};
use quorate_host::USERS_LEVEL;
use quorate_host::epochs::Order;
use quorate_protocols::ProtocolSet;

/// How long the leader that is named may be out of reach before another one is named, in ns.
const UNREACHED_NS: u64 = 1_000_000_000;
/// A term that no leader follows.
const NEVER: u64 = u64::MAX;

impl<P: ProtocolSet> Core<P> {
    /// The member that this replica names as the leader: the first one that it reaches, before the group has named any.
    pub(crate) fn leader(&self) -> Option<ReplicaId> {
        if !self.has_quorum() {
            return None;
        }
        let named = self.host.look().epochs().leader.id;
        let mut members = self.host.look().epoch().member_ids();
        named.or_else(|| members.find(|id| self.is_reachable(*id)))
    }

    /// The term of the leader that is named.
    pub(crate) fn term(&self) -> u64 {
        FIRST_TERM + self.host.look().epochs().leader.term
    }

    /// Whether this replica leads by the protocol, and the group could name it and names another.
    pub(crate) fn leads_unnamed(&self) -> bool {
        let state = self.host.look().epochs();
        state.level >= USERS_LEVEL
            && state.leader.id != Some(self.folder.meta().replica)
            && self.leads() == Some(true)
            && self.hands_over() != Some(true)
    }

    /// Has the group name another leader, if it is this replica's turn to. Says whether to look again.
    pub(crate) fn name_leader(&mut self, now: Now) -> bool {
        let state = self.host.look().epochs();
        if state.level < USERS_LEVEL || !self.host.look().is_member() {
            return false;
        }
        let (named, after) = (state.leader.id, state.leader.term);
        let is_named_reached = named.is_some_and(|id| self.is_reachable(id));
        if is_named_reached {
            self.group.leader_missed_since = None;
        }
        let is_missed = !is_named_reached && self.is_first() && self.is_missed_for_long(now, named);
        let id = self.folder.meta().replica;
        match self.leads() {
            _ if !self.has_quorum() => {}
            Some(true) if self.leads_unnamed() => self.order_own_lead(now, after),
            None if is_missed => self.order_own_lead(now, after),
            // A protocol finds another leader when something is to be ordered: this does nothing besides.
            Some(false) if is_missed => {
                let after = NEVER;
                self.order(now, Order::Lead { id, after });
            }
            _ => {}
        }
        !is_named_reached || self.leads_unnamed()
    }

    fn order_own_lead(&mut self, now: Now, after: u64) {
        let id = self.folder.meta().replica;
        tracing::info!(
            term = FIRST_TERM + after + 1,
            "the group is to name this replica as leader"
        );
        self.order(now, Order::Lead { id, after });
    }

    /// Names a leader where the protocol has none of its own, or where its leader makes room for another.
    pub(crate) fn order_of_lead(&self, id: ReplicaId) -> Result<Order, ChangeError> {
        let epoch = self.host.look().epoch();
        if epoch.index_of(id).is_none() {
            return Err(ChangeError::Unknown(id));
        }
        if !self.is_reachable(id) {
            let why = format!("replica {id} is not connected: is it running?");
            return Err(ChangeError::NotReady(why));
        }
        if self.leads().is_some() && self.hands_over().is_none() {
            return Err(ChangeError::Refused(format!(
                "{} chooses its leader by itself: it changes when the one there is fails",
                epoch.protocol
            )));
        }
        let after = self.host.look().epochs().leader.term;
        Ok(Order::Lead { id, after })
    }

    /// Whether this replica leads by the protocol; `None` where no replica does.
    pub(crate) fn leads(&self) -> Option<bool> {
        self.host.look().machine().and_then(Introspect::leads)
    }

    /// Whether this replica leads and makes room for another; `None` where no leader does.
    fn hands_over(&self) -> Option<bool> {
        let machine = self.host.look().machine();
        machine.and_then(Introspect::hands_over)
    }

    /// Whether the leader that is named has been out of reach for long enough. Nobody is missed who was never named.
    fn is_missed_for_long(&mut self, now: Now, named: Option<ReplicaId>) -> bool {
        let since = *(self.group.leader_missed_since).get_or_insert(now.mono_ns);
        named.is_none() || now.mono_ns.saturating_sub(since) >= UNREACHED_NS
    }
}
