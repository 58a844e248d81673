//! Keys and random values made from a seed, so that nothing but numbers need be remembered.

use bytes::Bytes;

/// Makes every key and value of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Values {
    seed: u64,
}

impl Values {
    /// The values that this seed stands for.
    pub fn new(seed: u64) -> Values {
        Values { seed }
    }

    /// The key of a number: keys are in the order of their numbers.
    pub fn key(self, number: u64) -> Bytes {
        format!("trial/{:010x}/{number:012}", self.seed).into()
    }

    /// The value of a number, of so many bytes: all of them random.
    pub fn value(self, number: u64, len: usize) -> Bytes {
        let mut bytes = vec![0; len];
        fastrand::Rng::with_seed(self.seed ^ number.wrapping_mul(ODD)).fill(&mut bytes);
        bytes.into()
    }

    /// How what was found under a key differs from the value of its number and length, if it does.
    pub fn difference(self, number: u64, len: usize, found: Option<&[u8]>) -> Option<String> {
        let Some(found) = found else {
            return Some("no value".to_owned());
        };
        if found.len() != len {
            return Some(format!("{} bytes instead of {len}", found.len()));
        }
        let value = self.value(number, len);
        let at = value.iter().zip(found).position(|(a, b)| a != b)?;
        Some(format!("differs from byte {at} on"))
    }
}

/// Numbers beside each other begin far apart.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_again_from_its_number_alone() {
        let values = Values::new(7);
        assert_eq!(values.value(3, 1000), Values::new(7).value(3, 1000));
        assert_ne!(values.value(3, 1000), values.value(4, 1000));
        assert_ne!(values.value(3, 1000), Values::new(8).value(3, 1000));
        assert!(values.key(9) < values.key(10));
    }

    #[test]
    fn what_differs_is_said() {
        let values = Values::new(7);
        let mut found = values.value(1, 100).to_vec();
        assert_eq!(values.difference(1, 100, Some(&found)), None);
        found[40] ^= 1;
        let says = |found| values.difference(1, 100, found).unwrap();
        assert_eq!(says(Some(&found)), "differs from byte 40 on");
        assert_eq!(says(Some(&found[..99])), "99 bytes instead of 100");
        assert_eq!(says(None), "no value");
    }
}
