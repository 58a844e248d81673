//! The receivers of a message to some members, and who sends one.

#[cfg(feature = "yardsticks")]
use crate::shared::seating::Seating;
use quorate_core::{Event, Machine, MemberIndex, MemberSet, Out, Peers, ReplicaId};

/// The position of a message's sender, another member than this replica, which is at `me`. A message from
/// anybody else is counted as an offence.
pub(crate) fn sender<M: Machine>(
    id: ReplicaId,
    member: Option<MemberIndex>,
    me: MemberIndex,
    out: &mut Out<M>,
) -> Option<MemberIndex> {
    let member = member.filter(|member| *member != me);
    if member.is_none() {
        let what = "a message from no other member";
        out.emit(Event::Misbehaved { peer: id, what });
    }
    member
}

/// Sends to some members, whose ids are in the order of their positions: to all others at once, or to one after
/// the other.
pub(crate) fn each_peer(
    to: MemberSet,
    others: MemberSet,
    ids: &[ReplicaId],
    mut send: impl FnMut(Peers),
) {
    if !to.is_empty() && to == others {
        return send(Peers::All);
    }
    let members = MemberSet::first(ids.len()).iter().zip(ids);
    let named = members.filter(|(member, _)| to.contains(*member));
    named.for_each(|(_, id)| send(Peers::One(*id)));
}

/// A machine that has a seat among the members of an epoch, and speaks to the others.
#[cfg(feature = "yardsticks")]
pub(crate) trait Member: Machine {
    /// The members, and the seat of this one.
    fn seating(&self) -> &Seating;

    /// One member, as a receiver.
    fn peer(&self, member: MemberIndex) -> Peers {
        Peers::One(self.seating().members[member])
    }

    /// Tells some members what promises nothing; all others by a broadcast.
    fn tell(&self, to: MemberSet, message: &Self::Message, out: &mut Out<Self>) {
        let seating = self.seating();
        each_peer(to, seating.others(), &seating.members, |peers| {
            out.send_early(peers, message.clone());
        });
    }

    /// Counts a peer's offence; what it said is ignored.
    fn misbehaved(&self, from: MemberIndex, what: &'static str, out: &mut Out<Self>) {
        let peer = self.seating().members[from];
        out.emit(Event::Misbehaved { peer, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_others_are_one_receiver_and_who_is_no_member_is_none() {
        let ids = [1, 2, 3].map(ReplicaId);
        let receivers = |to, others| {
            let mut all = Vec::new();
            let [to, others] = [to, others].map(MemberSet::from_bits);
            each_peer(to, others, &ids, |peers| all.push(peers));
            all
        };
        assert_eq!(receivers(0b110, 0b110), [Peers::All]);
        let named = [ReplicaId(1), ReplicaId(3)].map(Peers::One);
        assert_eq!(receivers(0b1101, 0b110), named);
        assert_eq!(receivers(0, 0), []);
    }
}
