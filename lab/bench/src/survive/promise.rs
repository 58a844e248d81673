//! What the quorums promise, by arithmetic alone: which requests are served while so many replicas
//! are stopped.

/// What decides who is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quorums {
    /// The number of replicas.
    pub(super) n: usize,
    /// Promises that make a leader (`QR`); without one, replicas that are heard before anything is
    /// decided (`n - f`).
    pub(super) read: usize,
    /// Fragments that rebuild a value which was written while all ran.
    pub(super) k: usize,
    /// Whether there is a leader.
    pub(super) is_led: bool,
}

/// Whether a request is served; one that is not waits and then fails with an error that says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Promised,
    Impossible,
    /// Whether it is served depends on what is under way.
    Either,
}

/// The requests that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Promise {
    /// Writes of any length.
    pub(super) writes: Service,
    /// Reads of values that are whole on every replica.
    pub(super) small_reads: Service,
    /// Reads of values that were cut while all ran.
    pub(super) coded_reads: Service,
}

impl Service {
    fn when(is_served: bool) -> Service {
        match is_served {
            true => Service::Promised,
            false => Service::Impossible,
        }
    }

    fn if_also(self, is_served: bool) -> Service {
        match is_served {
            true => self,
            false => Service::Impossible,
        }
    }
}

impl Quorums {
    /// Of RS-Paxos and Multi-Paxos: `paper` takes `QR = N - F` with `F = (N - k) / 2`, everything else a
    /// majority.
    pub(super) fn led(n: usize, k: usize, is_paper: bool) -> Quorums {
        let read = if is_paper { n - (n - k) / 2 } else { n / 2 + 1 };
        let is_led = true;
        Quorums { n, read, k, is_led }
    }

    /// Of Racos and Rabia: all but `f = (n - k) / 2`, at most a minority.
    pub(super) fn leaderless(n: usize, k: usize) -> Quorums {
        let f = ((n - k) / 2).min((n - 1) / 2);
        Quorums {
            n,
            read: n - f,
            k,
            is_led: false,
        }
    }

    /// `QW(1)`: accepts that choose a value that is not cut, and members that confirm a read. Without a
    /// leader, members that say how far they have proposed (`n - T + 1`, with `T` a majority).
    pub(super) fn write(self) -> usize {
        match self.is_led {
            true => self.n - self.read + 1,
            false => self.n - self.n / 2,
        }
    }

    /// The fewest replicas that serve everything, the leader among them.
    pub(super) fn fewest(self) -> usize {
        match self.is_led {
            true => self.write().max(self.k),
            false => self.read,
        }
    }

    /// What is promised while so many are stopped: a leader that is not among them goes on, another
    /// one has to be elected. Without a leader, a read waits for what is being decided.
    pub(super) fn promise(self, stopped: usize, is_leader_stopped: bool) -> Promise {
        let alive = self.n - stopped;
        let (writes, reads) = if self.is_led {
            let is_led = alive >= self.write() && (!is_leader_stopped || alive >= self.read);
            (Service::when(is_led), Service::when(is_led))
        } else {
            let reads = match Service::when(alive >= self.read) {
                Service::Impossible if alive >= self.write() => Service::Either,
                service => service,
            };
            (Service::when(alive >= self.read), reads)
        };
        Promise {
            writes,
            small_reads: reads,
            coded_reads: reads.if_also(alive >= self.k),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Service::{Either, Impossible as NO, Promised as YES};
    use super::*;

    /// For 1, 2, 3 and 4 stopped: writes and small reads, then reads of what was cut.
    fn promised(quorums: Quorums, is_leader_stopped: bool) -> Vec<(Service, Service)> {
        let promise = |stopped| quorums.promise(stopped, is_leader_stopped);
        let both = |promise: Promise| (promise.writes, promise.coded_reads);
        (1..quorums.n)
            .map(|stopped| both(promise(stopped)))
            .collect()
    }

    #[test]
    fn five_replicas_as_in_the_papers_profile() {
        let quorums = Quorums::led(5, 3, true);
        assert_eq!((quorums.read, quorums.write(), quorums.fewest()), (4, 2, 3));
        let (all, some, none) = ((YES, YES), (YES, NO), (NO, NO));
        assert_eq!(promised(quorums, false), [all, all, some, none]);
        assert_eq!(promised(quorums, true), [all, none, none, none]);
    }

    #[test]
    fn five_replicas_with_majorities() {
        let (all, none) = ((YES, YES), (NO, NO));
        for quorums in [Quorums::led(5, 3, false), Quorums::led(5, 1, false)] {
            assert_eq!((quorums.read, quorums.write()), (3, 3));
            assert_eq!(promised(quorums, false), [all, all, none, none]);
            assert_eq!(promised(quorums, true), [all, all, none, none]);
        }
    }

    #[test]
    fn without_a_leader_it_matters_only_how_many_are_left() {
        let five = Quorums::leaderless(5, 3);
        assert_eq!((five.read, five.write(), five.fewest()), (4, 3, 4));
        for is_leader_stopped in [false, true] {
            let promised = promised(five, is_leader_stopped);
            assert_eq!(promised, [(YES, YES), (NO, Either), (NO, NO), (NO, NO)]);
        }
        let seven = Quorums::leaderless(7, 4);
        assert_eq!((seven.read, seven.write()), (6, 4));
        assert_eq!(Quorums::leaderless(3, 1).read, 2);
    }
}
