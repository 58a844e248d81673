//! The quorums and codes that an epoch's parameters ask for.

use super::quorum::{CODED_MEMBERS_MAX, Quorums};
use crate::shared::params::Params;

/// What an epoch fixes of the algebra.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Coding {
    pub(crate) quorums: Quorums,
    /// The largest `X` that a leader chooses.
    pub(crate) code_max: u8,
}

/// RS-Paxos. With the profile `paper`, `QR = N - F` with `F = (N - k) / 2`, so that both quorums
/// remain after `F` failures and values are cut into `k`. With `flex`, `QR` is a majority, so that
/// leaders are elected as long as with Paxos, and a write cut into `k` waits for more of the others.
pub(super) fn coded(params: &Params<'_>) -> Result<Coding, String> {
    let n = params.epoch.n();
    if !(1..=CODED_MEMBERS_MAX).contains(&n) {
        return Err(format!("{n} members: must be 1 to {CODED_MEMBERS_MAX}"));
    }
    let (read, k) = match params.text("profile").unwrap_or("paper") {
        "paper" => {
            let k = params.number("k", k_of_paper(n), 1..=n)?;
            let failures = (n - k) / 2;
            if failures == 0 && k > 1 {
                return Err(format!(
                    "k = {k}: {n} replicas would survive no failure; with profile = paper, k must \
                     be at most {}",
                    n.saturating_sub(2).max(1)
                ));
            }
            (n - failures, k)
        }
        "flex" => {
            let read = quorate_core::majority(n);
            let k = params.number("k", read, 1..=n)?;
            if k > read {
                return Err(format!(
                    "k = {k}: any read quorum must hold a value; with profile = flex, k must be at \
                     most {read} of {n}"
                ));
            }
            (read, k)
        }
        other => return Err(format!("profile = {other}: must be paper or flex")),
    };
    let quorums = Quorums { n, read };
    let code_max = k as u8;
    Ok(Coding { quorums, code_max })
}

/// The most failures that leave values cut at all: 1 of 3 to 5, 2 of 6 or 7, 3 of 8 or 9. Fewer than
/// three replicas cut nothing.
fn k_of_paper(n: usize) -> usize {
    match n {
        0..3 => 1,
        3..6 => n - 2,
        _ => n - 2 * ((n - 2) / 2),
    }
}

#[cfg(test)]
mod tests {
    use crate::multi_paxos::MultiPaxos;
    use crate::registry::Protocol;
    use crate::rs_paxos::RsPaxos;
    use crate::rs_paxos::tests::net::seat;

    /// N, profile, QR and QW(k), codes.
    type Row = (usize, &'static str, (usize, usize), &'static [u8]);

    fn error(n: usize, params: &[(&str, &str)]) -> String {
        RsPaxos::config(&seat::<RsPaxos>(n, 0, params)).unwrap_err()
    }

    /// N, k, then QR, QW(k), and the code when 0, 1, 2, and so on do not answer, as long as any
    /// write quorum is left.
    #[test]
    fn profiles_fix_the_read_quorum_and_x_follows_who_is_alive() {
        let rows: [Row; 13] = [
            (1, "paper", (1, 1), &[1]),
            (2, "paper", (2, 1), &[1, 1]),
            (3, "paper", (2, 2), &[1, 1]),
            (4, "paper", (3, 3), &[2, 2, 1]),
            (5, "paper", (4, 4), &[3, 3, 2, 1]),
            (6, "paper", (4, 4), &[2, 2, 2, 1]),
            (7, "paper", (5, 5), &[3, 3, 3, 2, 1]),
            (9, "paper", (6, 6), &[3, 3, 3, 3, 2, 1]),
            (1, "flex", (1, 1), &[1]),
            (3, "flex", (2, 3), &[2, 1]),
            (4, "flex", (3, 4), &[3, 2, 1]),
            (5, "flex", (3, 5), &[3, 2, 1]),
            (7, "flex", (4, 7), &[4, 3, 2, 1]),
        ];
        for (n, profile, quorums, codes) in rows {
            let config = RsPaxos::config(&seat::<RsPaxos>(n, 0, &[("profile", profile)])).unwrap();
            let thresholds = config.thresholds;
            let found = (thresholds.read, thresholds.write_of(config.code_max));
            assert_eq!(found, quorums, "{n} {profile}");
            let alive = (1..=n).rev().take_while(|alive| *alive >= thresholds.write);
            let alive = alive.map(|alive| config.code_for(alive));
            assert_eq!(alive.collect::<Vec<_>>(), codes, "{n} {profile}");
        }
    }

    #[test]
    fn what_survives_no_failure_is_refused() {
        assert!(
            error(5, &[("k", "4")])
                .contains("survive no failure; with profile = paper, k must be at most 3")
        );
        assert!(error(5, &[("k", "4"), ("profile", "flex")]).contains("k must be at most 3 of 5"));
        assert!(error(5, &[("k", "0")]).contains("k = 0: must be a number from 1 to 5"));
        assert!(error(5, &[("profile", "craft")]).contains("must be paper or flex"));
        assert!(error(2, &[("k", "2")]).contains("k must be at most 1"));
        assert!(error(10, &[]).contains("10 members: must be 1 to 9"));
        assert!(error(5, &[("qr", "3")]).contains("unknown parameter qr"));
        let whole = MultiPaxos::config(&seat::<MultiPaxos>(5, 0, &[("k", "3")]));
        assert!(whole.unwrap_err().contains("unknown parameter k"));
    }
}
