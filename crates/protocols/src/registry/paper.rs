//! What a protocol's paper says of runs without faults: `quorate-lab figures` measures the same.

/// The figures of a paper, and of what they were taken.
pub struct Paper {
    /// What its figures are about.
    pub about: About,
    /// What is measured.
    pub settings: &'static [Setting],
    /// What the paper measured under load.
    pub shares: &'static [Shares],
    /// The configuration the paper measured.
    pub measured: &'static str,
    /// What is different here, beside the network.
    pub differs: &'static str,
}

/// What the figures of a paper are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// How slots are decided, and for what.
    Slots,
    /// Requests that are ordered by deadlines in synchronised time.
    Deadlines,
}

/// A way to run the protocol.
pub struct Setting {
    /// The name of the setting in tables.
    pub name: &'static str,
    /// What the setting is.
    pub what: &'static str,
    /// The parameters that are not as they are by default.
    pub params: &'static [(&'static str, &'static str)],
    /// Message delays from the proposals to the decision when all replicas propose the same.
    pub delays: u32,
}

/// Shares of slots that a paper reports.
pub struct Shares {
    /// Under which load.
    pub load: &'static str,
    /// Decided on the fast path, percent.
    pub fast_percent: f64,
    /// Decided to hold nothing, percent.
    pub noop_percent: f64,
}
