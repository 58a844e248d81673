//! The codes that parameters allow.

use crate::racos::Racos;
use crate::registry::Protocol;
use quorate_testkit::seat;

fn error(n: usize, params: &[(&str, &str)]) -> String {
    Racos::config(&seat(Racos::NAME, n, 0, 1, params)).unwrap_err()
}

const MERGED: (&str, &str) = ("merged", "true");

/// n, parameters, then k, f, `k + f`, T, F1.
type Row = (usize, &'static [(&'static str, &'static str)], [usize; 5]);

#[test]
fn the_numbers_are_those_of_the_table() {
    let rows: [Row; 16] = [
        (1, &[], [1, 0, 1, 1, 1]),
        (2, &[], [1, 0, 1, 2, 2]),
        (3, &[("k", "1")], [1, 1, 2, 2, 3]),
        (4, &[("k", "2")], [2, 1, 3, 3, 4]),
        (5, &[], [3, 1, 4, 3, 4]),
        (5, &[("k", "2")], [2, 1, 3, 3, 4]),
        (5, &[("f", "2")], [1, 2, 3, 3, 5]),
        (7, &[("k", "3")], [3, 2, 5, 4, 6]),
        (7, &[("k", "3"), ("f", "1")], [3, 1, 4, 4, 5]),
        (7, &[("k", "4")], [4, 1, 5, 4, 5]),
        (4, &[("k", "2"), MERGED], [2, 1, 3, 3, 4]),
        (5, &[("k", "3"), MERGED], [3, 1, 4, 4, 5]),
        (5, &[("k", "2"), MERGED], [2, 1, 3, 3, 4]),
        (7, &[("k", "3"), MERGED], [3, 2, 5, 5, 7]),
        (7, &[("k", "4"), MERGED], [4, 1, 5, 5, 6]),
        (7, &[("k", "3"), ("f", "1"), MERGED], [3, 1, 4, 4, 5]),
    ];
    for (n, params, expected) in rows {
        let config = Racos::config(&seat(Racos::NAME, n, 0, 1, params)).unwrap();
        let t = config.mvc.thresholds;
        let code = usize::from(config.code);
        let holders = config.thresholds.holders(config.code);
        let found = [code, t.f, holders, t.proposal, t.fast_1];
        assert_eq!(found, expected, "{n} {params:?}");
        assert!(holders <= t.wait, "f failures stop no write");
        assert!(t.proposal <= t.wait && t.fast_1 <= n);
        assert!(t.proposal >= holders || !params.contains(&MERGED));
        assert!(t.read + t.proposal > n && t.fast_0 + t.proposal > n);
        // Answers after a loss meet the holders of what was announced with the lost disk's help.
        assert!(config.thresholds.rejoin + holders > n);
        assert!(config.thresholds.rejoin <= t.wait);
    }
}

/// With f members down, `1 + f` of the others are enough: values are cut less finely.
#[test]
fn with_smaller_codes_any_minority_may_fail() {
    for (n, k, f) in [
        ("5", "3", "2"),
        ("7", "3", "3"),
        ("7", "4", "3"),
        ("7", "5", "2"),
    ] {
        let n = n.parse().unwrap();
        let params = [("k", k), ("f", f), ("adaptive", "true")];
        let config = Racos::config(&seat(Racos::NAME, n, 0, 1, &params)).unwrap();
        let t = config.mvc.thresholds;
        assert!(
            config.thresholds.holders(config.code) <= n,
            "while all are up"
        );
        assert!(config.thresholds.holders(1) <= t.wait, "with f down");
        assert!(config.thresholds.rejoin + config.thresholds.holders(1) > n);
        assert!(config.thresholds.rejoin <= t.wait);
        let fixed = [("k", k), ("f", f)];
        assert!(Racos::config(&seat(Racos::NAME, n, 0, 1, &fixed)).is_err());
    }
    assert_eq!(
        error(5, &[("k", "4"), ("f", "2"), ("adaptive", "true")]),
        "k = 4, f = 2: a value must be on k + f = 6 disks before it is ordered, and with 2 of 5 replicas \
         down 3 remain; k must be at most 1"
    );
}

#[test]
fn what_cannot_be_is_refused_with_what_could() {
    assert_eq!(
        error(5, &[("k", "3"), ("f", "2")]),
        "k = 3, f = 2: a value must be on k + f = 5 disks before it is ordered, and with 2 of 5 replicas \
         down 3 remain; k must be at most 1"
    );
    assert_eq!(
        error(5, &[("k", "4")]),
        "k = 4: 5 replicas would survive no failure; k must be at most 3"
    );
    assert_eq!(
        error(5, &[("k", "3"), MERGED, ("adaptive", "true")]),
        "merged and adaptive: with merged the number of proposals that give a value its slot is k + f, \
         the same for all values of an epoch; choose one of the two, or change k by an order"
    );
    assert!(error(5, &[("k", "4"), MERGED]).contains("k must be at most 3"));
    assert_eq!(
        error(5, &[("k", "6")]),
        "k = 6: must be a number from 1 to 5"
    );
    assert_eq!(
        error(5, &[("f", "3")]),
        "f = 3: must be a number from 0 to 2"
    );
    assert!(
        error(5, &[("profile", "flex")])
            .starts_with("unknown parameter profile: racos knows adaptive, k, ")
    );
}
