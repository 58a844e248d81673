//! Which members are there, and what an operator is told when they are too few.

use crate::core::Core;
use crate::disk::Disk;
use quorate_core::{Application, ReplicaId};

impl<A: Application> Core<A> {
    /// Whether so many members are there that they decide.
    pub(crate) fn has_quorum(&self) -> bool {
        self.present() >= self.host.quorum()
    }

    /// Members that frames reach, and this replica.
    pub(crate) fn present(&self) -> usize {
        let members = self.host.epoch().members.iter().map(|member| member.id);
        members.filter(|id| self.is_there(*id)).count()
    }

    fn is_there(&self, id: ReplicaId) -> bool {
        match id == self.folder.meta().replica {
            true => self.host.is_member(),
            false => self.state.links_up.contains(&id) && !self.group.is_lost(id),
        }
    }

    /// Trouble an operator should know of.
    pub(crate) fn alarms(&self) -> Vec<String> {
        let trouble = self.disk.as_ref().and_then(Disk::trouble);
        let full = trouble.map(|why| format!("NOSPACE: {why}"));
        full.into_iter().chain(self.no_quorum()).collect()
    }

    /// In words, when too few members can be reached from here.
    fn no_quorum(&self) -> Option<String> {
        if self.has_quorum() {
            return None;
        }
        let epoch = self.host.epoch();
        let members = epoch.members.iter().map(|member| member.id);
        let gone = members.filter(|id| !self.is_there(*id));
        let (lost, silent): (Vec<ReplicaId>, Vec<ReplicaId>) =
            gone.partition(|id| self.group.is_lost(*id));
        let mut text = format!(
            "NOQUORUM: {} of {} members can be reached from here, and {} takes {}",
            self.present(),
            epoch.n(),
            epoch.protocol,
            self.host.quorum(),
        );
        if !silent.is_empty() {
            text += &format!("; start again: {}", list(&silent));
        }
        if !lost.is_empty() {
            text += &format!(
                "; without their data, and not to be replaced by what is left: {}",
                list(&lost)
            );
        }
        Some(text)
    }
}

fn list(ids: &[ReplicaId]) -> String {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    names.join(", ")
}
