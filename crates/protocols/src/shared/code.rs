//! `N,K`: how values are coded, as people name it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A code: `n` fragments, one for each replica, any `k` of which rebuild a value. It is the parameter
/// `k` of the epoch, by another name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// How many fragments there are.
    pub n: usize,
    /// How many rebuild a value.
    pub k: usize,
}

impl Code {
    /// Adds the parameter to those of a protocol.
    ///
    /// # Errors
    /// If there are not as many replicas as fragments, or `k` is given twice, differently.
    pub fn add_to(
        self,
        replicas: usize,
        params: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        if self.n != replicas {
            return Err(format!(
                "--code {self} has a fragment for each of {} replicas, and there are {replicas}: choose one of \
                 {replicas} fragments, as in --code {replicas},1",
                self.n
            ));
        }
        let k = self.k.to_string();
        match params.insert("k".to_owned(), k.clone()) {
            Some(other) if other != k => {
                Err(format!("--code {self} contradicts --param k={other}"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.n, self.k)
    }
}

impl FromStr for Code {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let numbers = text.split_once(',');
        let numbers = numbers.and_then(|(n, k)| Some((number(n)?, number(k)?)));
        match numbers {
            Some((n, k)) if (1..=n).contains(&k) => Ok(Code { n, k }),
            Some((n, k)) => Err(format!("{k} of {n} fragments cannot be needed")),
            None => Err(format!("{text:?} is not N,K, as in 5,3")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_two_numbers_that_fit_the_cluster() {
        let code: Code = "5,3".parse().unwrap();
        assert_eq!((code.n, code.k, code.to_string().as_str()), (5, 3, "5,3"));
        for bad in ["5", "5,", "5,6", "5,0", "a,b"] {
            assert!(bad.parse::<Code>().is_err(), "{bad}");
        }
        let mut params = BTreeMap::new();
        assert!(
            code.add_to(3, &mut params)
                .unwrap_err()
                .contains("there are 3")
        );
        code.add_to(5, &mut params).unwrap();
        assert_eq!(params["k"], "3");
        code.add_to(5, &mut params).unwrap();
        let other: Code = "5,2".parse().unwrap();
        let why = other.add_to(5, &mut params).unwrap_err();
        assert_eq!(why, "--code 5,2 contradicts --param k=3");
    }
}
