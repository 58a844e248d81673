//! Reachability of the members, and what an operator is told when too few can be reached.

use crate::core::Core;
use crate::disk::Disk;
use crate::quorum::Quorum;
use quorate_core::{Now, ReplicaId};
use quorate_host::Directive;
use quorate_host::epochs::{Alarm, AlarmKind, Scope};
use quorate_protocols::ProtocolSet;

impl<P: ProtocolSet> Core<P> {
    /// Whether so many members are there that they decide.
    pub(crate) fn has_quorum(&self) -> bool {
        self.reachable_members() >= self.host.look().quorum()
    }

    /// Whether nothing can be decided: what is decided is with more members than may fail. A quorum may take more, for
    /// some of what is asked. Members that only say nothing may do so for a moment, and count as connected.
    pub(crate) fn lacks_majority(&self) -> bool {
        let failures = self.host.look().epoch().n() - self.host.look().quorum();
        self.count_members(|id| self.is_connected(id)) <= failures
    }

    /// Members that frames reach, and this replica.
    pub(crate) fn reachable_members(&self) -> usize {
        self.count_members(|id| self.is_reachable(id))
    }

    fn count_members(&self, counts: impl Fn(ReplicaId) -> bool) -> usize {
        let members = self.host.look().epoch().member_ids();
        members.filter(|id| counts(*id)).count()
    }

    pub(crate) fn is_reachable(&self, id: ReplicaId) -> bool {
        self.is_connected(id) && !self.state.quorum.is_silent(id)
    }

    fn is_connected(&self, id: ReplicaId) -> bool {
        match id == self.folder.meta().replica {
            true => self.host.look().is_member(),
            false => self.state.links_up.contains(&id) && !self.group.is_lost(id),
        }
    }

    /// Has peers give a sign of life while a client watches the quorum; says whether one is reached.
    pub(crate) fn check_quorum(&mut self, now: Now, is_watched: bool) -> Quorum {
        let me = self.folder.meta().replica;
        let peers = self.host.look().epoch().member_ids();
        let peers = peers.filter(|id| *id != me);
        for peer in self.state.quorum.check(now.mono_ns, is_watched, peers) {
            self.host.direct(now, Directive::AskProgress(peer));
        }
        let is_reached = self.has_quorum();
        self.state.quorum.judge(now.mono_ns, is_reached)
    }

    /// Trouble an operator should know of.
    pub(crate) fn alarms(&self) -> Vec<String> {
        let trouble = self.disk.as_ref().and_then(Disk::trouble);
        let full = trouble.map(|why| format!("NOSPACE: {why}"));
        let raised = self.host.look().epochs().alarms.iter();
        let known = raised.filter(|(alarm, _)| {
            let is_own = *alarm == self.own_alarm(AlarmKind::NoSpace);
            !(is_own && full.is_some())
        });
        let known = known.filter_map(|(alarm, scope)| in_words(alarm, scope));
        let known: Vec<String> = known.collect();
        full.into_iter()
            .chain(known)
            .chain(self.undecided())
            .chain(self.no_quorum())
            .chain(self.certificates.warnings())
            .collect()
    }

    /// In words, when too few members can be reached from here.
    fn no_quorum(&self) -> Option<String> {
        if self.has_quorum() {
            return None;
        }
        let epoch = self.host.look().epoch();
        let members = epoch.member_ids();
        let gone = members.filter(|id| !self.is_reachable(*id));
        let (lost, silent): (Vec<ReplicaId>, Vec<ReplicaId>) =
            gone.partition(|id| self.group.is_lost(*id));
        let mut text = format!(
            "NOQUORUM: {} of {} members can be reached from here, and {} takes {}",
            self.reachable_members(),
            epoch.n(),
            epoch.protocol,
            self.host.look().quorum(),
        );
        if !silent.is_empty() {
            text += &format!("; start again: {}", list(&silent));
        }
        if !lost.is_empty() {
            text += &format!(
                "; members without their data, which too few others are left to replace: {}",
                list(&lost)
            );
        }
        Some(text)
    }
}

/// What an alarm means, and what to do; nothing of one that [`Core::undecided`] speaks of.
fn in_words(Alarm { kind, id }: Alarm, scope: Scope) -> Option<String> {
    let text = match (kind, scope) {
        (_, Scope::Undecided) => return None,
        (AlarmKind::NoSpace, Scope::Member) => format!(
            "NOSPACE: the disk of replica {id} is full, and it takes no writes; free some space there, and this ends \
             by itself"
        ),
        (AlarmKind::NoSpace, Scope::Group) => format!(
            "NOSPACE: raised for all replicas (member {id}), which take no writes that store anything; delete what \
             is not needed, compact, and disarm it"
        ),
        (AlarmKind::Corrupt, Scope::Member) => format!(
            "CORRUPT: the state of replica {id} differs from that of the majority, which goes on; delete the data \
             folder of replica {id} and start it again, and this ends by itself"
        ),
        (AlarmKind::Corrupt, Scope::Group) => format!(
            "CORRUPT: raised for all replicas (member {id}), of which only serializable reads are answered; once it \
             is known which of them are right, replace the others and disarm it"
        ),
    };
    Some(text)
}

fn list(ids: &[ReplicaId]) -> String {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    names.join(", ")
}
