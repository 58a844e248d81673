//! Sets of members as masks of bits.

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
}
