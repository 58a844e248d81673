//! What the quorums promise, by arithmetic alone: which requests are served while so many replicas
//! are stopped.

/// What decides who is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quorums {
    /// Replicas.
    pub(super) n: usize,
    /// `QR`: promises that make a leader.
    pub(super) read: usize,
    /// Fragments that rebuild a value which was written while all ran.
    pub(super) k: usize,
}

/// Which requests are served; all others wait and then fail with an error that says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Promise {
    /// Writes of any length: what is cut is cut into fewer fragments.
    pub(super) writes: bool,
    /// Reads of values that are whole on every replica.
    pub(super) small_reads: bool,
    /// Reads of values that were cut while all ran.
    pub(super) coded_reads: bool,
}

impl Quorums {
    /// Of the protocol: `paper` takes `QR = N - F` with `F = (N - k) / 2`, everything else a majority.
    pub(super) fn new(n: usize, k: usize, is_paper: bool) -> Quorums {
        let read = if is_paper { n - (n - k) / 2 } else { n / 2 + 1 };
        Quorums { n, read, k }
    }

    /// `QW(1)`: accepts that choose a value that is not cut, and members that confirm a read.
    pub(super) fn write(self) -> usize {
        self.n - self.read + 1
    }

    /// The fewest replicas that serve everything, the leader among them.
    pub(super) fn fewest(self) -> usize {
        self.write().max(self.k)
    }

    /// What is promised while so many are stopped: a leader that is not among them goes on, another
    /// one has to be elected.
    pub(super) fn promise(self, stopped: usize, is_leader_stopped: bool) -> Promise {
        let alive = self.n - stopped;
        let is_led = alive >= self.write() && (!is_leader_stopped || alive >= self.read);
        Promise {
            writes: is_led,
            small_reads: is_led,
            coded_reads: is_led && alive >= self.k,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For 1, 2, 3 and 4 stopped: writes and small reads, then reads of what was cut.
    fn promised(quorums: Quorums, is_leader_stopped: bool) -> Vec<(bool, bool)> {
        let promise = |stopped| quorums.promise(stopped, is_leader_stopped);
        let both = |promise: Promise| (promise.writes, promise.coded_reads);
        (1..quorums.n)
            .map(|stopped| both(promise(stopped)))
            .collect()
    }

    #[test]
    fn five_replicas_as_in_the_papers_profile() {
        let quorums = Quorums::new(5, 3, true);
        assert_eq!((quorums.read, quorums.write(), quorums.fewest()), (4, 2, 3));
        let (all, some, none) = ((true, true), (true, false), (false, false));
        assert_eq!(promised(quorums, false), [all, all, some, none]);
        assert_eq!(promised(quorums, true), [all, none, none, none]);
    }

    #[test]
    fn five_replicas_with_majorities() {
        let (all, none) = ((true, true), (false, false));
        for quorums in [Quorums::new(5, 3, false), Quorums::new(5, 1, false)] {
            assert_eq!((quorums.read, quorums.write()), (3, 3));
            assert_eq!(promised(quorums, false), [all, all, none, none]);
            assert_eq!(promised(quorums, true), [all, all, none, none]);
        }
    }
}
