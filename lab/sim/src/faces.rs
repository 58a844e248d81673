//! What the faces of replicas see of users: for whom something is asked, as they take it, and whether they see what
//! there is.

use crate::report::Violation;
use crate::rights::Behalf;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::Machine;
use quorate_etcd_store::Asker;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// How a replica, or a gateway, takes something that is asked there for somebody.
    pub(crate) fn asker_at(&mut self, node: usize, behalf: Behalf) -> Asker {
        if !self.rights.are_there() {
            return Asker::Anybody;
        }
        let host = self.nodes.get(node).and_then(|node| node.host.as_ref());
        let guarded = host.and_then(|host| host.look().app().guarded());
        let board = guarded.map(|guarded| guarded.board());
        self.rights.asker(behalf, board.as_deref())
    }

    /// What faces see of users is what the replica has applied.
    pub(crate) fn check_board(&self, index: usize) -> Result<(), Violation> {
        let host = self.nodes[index].host.as_ref();
        let Some(app) = host.and_then(|host| host.look().app().guarded()) else {
            return Ok(());
        };
        let (state, shown) = (app.state(), app.board().state());
        if state == shown {
            return Ok(());
        }
        let what = format!(
            "replica {} has {state:?}, and faces see {shown:?}",
            index + 1
        );
        Err(Violation::new("rights", what))
    }

    /// All replicas that have applied as much as any have the same users, with the same rights.
    pub(crate) fn compare_users(&self) -> Result<(), Violation> {
        let newest = self.nodes.iter().map(|node| node.applied()).max();
        let ahead = (self.nodes.iter()).filter(|node| Some(node.applied()) == newest);
        let apps = ahead.filter_map(|node| node.decided_app());
        let mut states = apps.filter_map(A::guarded).map(|app| app.state());
        let Some(first) = states.next() else {
            return Ok(());
        };
        match states.find(|state| *state != first) {
            None => Ok(()),
            Some(other) => {
                let what = format!("users differ: {first:?} and {other:?}");
                Err(Violation::new("rights", what))
            }
        }
    }
}
