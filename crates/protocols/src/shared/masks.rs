//! Sets of members as masks of bits.

use quorate_core::{Peers, ReplicaId};

/// The members of a mask, in order.
pub(crate) fn members(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let member = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            member
        })
    })
}

/// The receivers of what goes to some members: all others at once, or one after the other.
pub(crate) fn each_peer(to: u64, others: u64, ids: &[ReplicaId], mut send: impl FnMut(Peers)) {
    if to != 0 && to == others {
        return send(Peers::All);
    }
    let named = ids.iter().enumerate();
    let named = named.filter(|(member, _)| to & 1 << member != 0);
    named.for_each(|(_, id)| send(Peers::One(*id)));
}

/// How they are shown: counted from 1.
pub(crate) fn words(mask: u64) -> String {
    let members: Vec<String> = members(mask)
        .map(|member| (member + 1).to_string())
        .collect();
    format!("[{}]", members.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_the_bits_that_are_set() {
        for mask in [0, 1, 0b1010_0110, u64::MAX, 1 << 63] {
            let bits: Vec<usize> = (0..64).filter(|bit| mask & 1 << bit != 0).collect();
            assert_eq!(members(mask).collect::<Vec<_>>(), bits);
        }
        assert_eq!(words(0b101), "[1 3]");
    }

    #[test]
    fn all_others_are_one_receiver_and_who_is_no_member_is_none() {
        let ids = [1, 2, 3].map(ReplicaId);
        let receivers = |to, others| {
            let mut all = Vec::new();
            each_peer(to, others, &ids, |peers| all.push(peers));
            all
        };
        assert_eq!(receivers(0b110, 0b110), [Peers::All]);
        let named = [ReplicaId(1), ReplicaId(3)].map(Peers::One);
        assert_eq!(receivers(0b1101, 0b110), named);
        assert_eq!(receivers(0, 0), []);
    }
}
