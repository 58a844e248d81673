//! What does one thing after the other: a disk, a core, a direction of a link.

use quorate_core::SECONDS;

/// Something that is busy with one thing at a time; what comes meanwhile waits.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Serial {
    free_ns: u64,
    busy_ns: u64,
}

impl Serial {
    /// Something is given to it that takes so long: when it is done.
    pub(crate) fn take(&mut self, now_ns: u64, takes_ns: u64) -> u64 {
        self.free_ns = self.free_ns.max(now_ns) + takes_ns;
        self.busy_ns += takes_ns;
        self.free_ns
    }

    /// When everything is done that it was given.
    pub(crate) fn free_ns(&self, now_ns: u64) -> u64 {
        self.free_ns.max(now_ns)
    }

    /// How long it was busy until now.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        // What is left goes on without a pause.
        self.busy_ns - self.free_ns.saturating_sub(now_ns)
    }
}

/// How long so many bytes take at a rate; no time at a rate of 0, which stands for none.
pub(crate) fn takes_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let takes_ns = u128::from(bytes) * u128::from(SECONDS);
    takes_ns
        .checked_div(u128::from(bytes_per_second))
        .map_or(0, |ns| ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::MILLIS;

    #[test]
    fn one_thing_goes_after_the_other() {
        let mut disk = Serial::default();
        // 5 MB at 500 MB/s, and 1 ms for the flush.
        let takes = takes_ns(5_000_000, 500_000_000) + MILLIS;
        assert_eq!(disk.take(0, takes), 11 * MILLIS);
        assert_eq!(disk.take(MILLIS, takes), 22 * MILLIS);
        assert_eq!(disk.busy_ns(2 * MILLIS), 2 * MILLIS);
        assert_eq!(disk.take(30 * MILLIS, takes), 41 * MILLIS);
        assert_eq!(disk.busy_ns(100 * MILLIS), 33 * MILLIS);
        assert_eq!(takes_ns(1, 0), 0);
    }
}
