//! The quorum algebra of RS-Paxos (paper, section 3.2 and Table 1), exact.
//!
//! `N` members; any `QR` promises end phase 1; a value coded so that any `X` of its fragments
//! rebuild it is chosen by `QW(X)` accepts. Safety needs `QR + QW - X >= N`: then every read
//! quorum meets every set that chose a value in at least `X` members. Hence
//! `QW(X) = N - QR + X`, the smallest that is safe. With `X = 1` (a fragment is the whole value)
//! this is Paxos.

/// Most members of an epoch that codes values: more than anybody has needed, and few enough that a
/// set of codes is a small number.
pub(super) const CODED_MEMBERS_MAX: usize = 9;

/// The numbers that an epoch fixes: `QR` may not change within it, `X` may with every proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quorums {
    /// Members of the epoch.
    pub n: usize,
    /// `QR`: promises that end phase 1.
    pub read: usize,
}

impl Quorums {
    /// The most even choice for values that are not coded: `QR = floor(N/2) + 1`.
    #[must_use]
    pub fn uncoded(n: usize) -> Quorums {
        let read = quorate_core::majority(n);
        Quorums { n, read }
    }

    /// `QW(X)`: accepts that choose a value of which any `x` fragments rebuild the whole.
    #[must_use]
    pub fn write(self, x: usize) -> usize {
        assert!((1..=self.read).contains(&x), "1 <= X <= QR");
        self.n - self.read + x
    }

    /// `QL = QW(1)`: the fewest members of which one is in every read quorum. While that many
    /// follow a ballot, no higher one has a leader.
    #[must_use]
    pub fn leader(self) -> usize {
        self.write(1)
    }

    /// `F`: failures under which both quorums remain.
    #[must_use]
    pub fn failures(self, x: usize) -> usize {
        self.n - self.read.max(self.write(x))
    }
}

/// A line of Table 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    /// How many failures the epoch survives.
    pub f: usize,
    /// `QR`, the read quorum.
    pub read: usize,
    /// `QW`, the write quorum.
    pub write: usize,
    /// Fragments that rebuild a value.
    pub x: usize,
}

/// Table 1 for `n` members: everything that survives a failure, most failures first.
#[must_use]
pub fn table(n: usize) -> Vec<Row> {
    let every = (1..=n).flat_map(|read| (1..=read).map(move |x| (Quorums { n, read }, x)));
    let rows = every.filter(|(quorums, x)| quorums.write(*x) <= n && quorums.failures(*x) > 0);
    let mut rows: Vec<Row> = rows
        .map(|(quorums, x)| Row {
            f: quorums.failures(x),
            read: quorums.read,
            write: quorums.write(x),
            x,
        })
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.f), *row));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triples(n: usize, f: usize) -> Vec<(usize, usize, usize)> {
        let rows = table(n).into_iter().filter(|row| row.f == f);
        rows.map(|row| (row.read, row.write, row.x)).collect()
    }

    #[test]
    fn table_1_of_the_paper_for_seven_members() {
        assert_eq!(triples(7, 3), [(4, 4, 1)]);
        let two = [(3, 5, 1), (4, 5, 2), (5, 3, 1), (5, 4, 2), (5, 5, 3)];
        assert_eq!(triples(7, 2), two);
        let one = [
            (2, 6, 1),
            (3, 6, 2),
            (4, 6, 3),
            (5, 6, 4),
            (6, 2, 1),
            (6, 3, 2),
            (6, 4, 3),
            (6, 5, 4),
            (6, 6, 5),
        ];
        assert_eq!(triples(7, 1), one);
        assert_eq!(triples(7, 4), []);
    }

    /// N, F, then Q = QR = QW, the largest X, and QL.
    #[test]
    fn the_largest_codes_for_three_to_nine_members() {
        let largest = |n: usize, f: usize| {
            let rows = table(n).into_iter().filter(|row| row.f == f);
            let row = rows.max_by_key(|row| row.x).expect("there is one");
            let quorums = Quorums { n, read: row.read };
            assert_eq!(row.read, row.write);
            (row.read, row.x, quorums.leader())
        };
        let expected = [
            ((3, 1), (2, 1, 2)),
            ((4, 1), (3, 2, 2)),
            ((5, 1), (4, 3, 2)),
            ((5, 2), (3, 1, 3)),
            ((6, 1), (5, 4, 2)),
            ((6, 2), (4, 2, 3)),
            ((7, 1), (6, 5, 2)),
            ((7, 2), (5, 3, 3)),
            ((7, 3), (4, 1, 4)),
            ((8, 1), (7, 6, 2)),
            ((8, 2), (6, 4, 3)),
            ((8, 3), (5, 2, 4)),
            ((9, 1), (8, 7, 2)),
            ((9, 2), (7, 5, 3)),
            ((9, 3), (6, 3, 4)),
            ((9, 4), (5, 1, 5)),
        ];
        for ((n, f), numbers) in expected {
            assert_eq!(largest(n, f), numbers, "N = {n}, F = {f}");
        }
    }

    /// Sets of members as bits.
    fn subsets(n: usize, size: usize) -> impl Iterator<Item = u32> + Clone {
        (0..1u32 << n).filter(move |set| set.count_ones() as usize == size)
    }

    #[test]
    fn quorums_meet_in_x_members_and_not_always_when_one_is_smaller() {
        for n in 1..=7 {
            for read in 1..=n {
                let quorums = Quorums { n, read };
                for x in (1..=read).filter(|x| quorums.write(*x) <= n) {
                    let least = |read: usize, write: usize| {
                        let writes = subsets(n, write);
                        let pairs =
                            subsets(n, read).flat_map(|r| writes.clone().map(move |w| r & w));
                        pairs.map(|both| both.count_ones() as usize).min()
                    };
                    let write = quorums.write(x);
                    assert_eq!(least(read, write), Some(x), "{quorums:?} X = {x}");
                    assert!(least(read, write - 1) < Some(x));
                    assert!(least(read - 1, write) < Some(x));
                }
            }
        }
    }

    #[test]
    fn the_leader_quorum_meets_every_read_quorum_and_is_not_always_a_majority() {
        for n in 1..=9 {
            for read in 1..=n {
                let leader = Quorums { n, read }.leader();
                assert!(leader + read > n && leader - 1 + read <= n);
            }
        }
        assert_eq!(Quorums { n: 7, read: 3 }.leader(), 5);
        assert_eq!(Quorums { n: 4, read: 3 }.leader(), 2);
    }
}
