//! Pairs of small configurations of RS-Paxos.

use quorate_core::Numbers;

/// `N`, `QR` and `X` of RS-Paxos.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Code {
    pub(super) n: u32,
    read: u32,
    pub(super) x: u32,
}

impl Code {
    /// `QW(X) = N - QR + X`: accepts that choose a value.
    pub(super) fn write(self) -> u32 {
        self.n - self.read + self.x
    }

    /// `F = N - max(QR, QW)`: failures under which both quorums remain.
    pub(super) fn failures(self) -> u32 {
        self.n - self.read.max(self.write())
    }

    /// Those that survive a failure, and the single member.
    fn all(n: u32) -> Vec<Code> {
        let every = (1..=n).flat_map(|read| (1..=read).map(move |x| Code { n, read, x }));
        let fits = |code: &Code| code.write() <= code.n && (code.failures() > 0 || n == 1);
        every.filter(fits).collect()
    }

    pub(super) fn numbers(self) -> Numbers {
        Numbers {
            n: self.n as usize,
            failures: self.failures() as usize,
            code: self.x as usize,
        }
    }
}

/// A change from one configuration to another that have some nodes in common, at most seven in all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) old: Code,
    pub(super) new: Code,
    pub(super) common: u32,
}

impl Pair {
    pub(super) const NODES_MAX: u32 = 7;

    pub(super) fn all() -> Vec<Pair> {
        let mut pairs = Vec::new();
        for old in (3..=5).flat_map(Code::all) {
            for new in [1, 3, 4, 5].into_iter().flat_map(Code::all) {
                for common in 0..=old.n.min(new.n) {
                    if old.n + new.n - common <= Pair::NODES_MAX {
                        pairs.push(Pair { old, new, common });
                    }
                }
            }
        }
        pairs
    }

    /// Members of the old configuration: the first nodes.
    pub(super) fn before(&self) -> u32 {
        (1 << self.old.n) - 1
    }

    /// Members of the new one: the last of those, and others behind.
    pub(super) fn after(&self) -> u32 {
        ((1 << self.new.n) - 1) << (self.old.n - self.common)
    }
}
