//! What a client may know of the other replicas.

use crate::session::{Session, Step};
use std::collections::BTreeSet;

impl Session {
    /// `WAIT`: how many other replicas are sure to have all writes that were answered.
    pub(super) async fn wait(&mut self) -> Step {
        match self.server.handle.status().await {
            Ok(status) => {
                let members = status.members.iter().filter(|member| !member.is_learner);
                let members: BTreeSet<_> = members.map(|member| member.id).collect();
                // A majority of an odd number, or of an even one, without this replica.
                self.out.integer((members.len() / 2) as i64);
                Ok(())
            }
            Err(failure) => self.failed(failure, 1),
        }
    }

    pub(super) fn role(&mut self) {
        self.out.array(3);
        self.out.bulk(b"master");
        self.out.integer(0);
        self.out.array(0);
    }
}
