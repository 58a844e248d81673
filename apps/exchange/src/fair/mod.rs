//! Fair access: every participant is as early as the others, whatever its gateway's way to the exchange is.
//!
//! A [`Gateway`] stamps requests as they come in. A [`Sequencer`] in front of the log holds each until a fixed delay
//! after its stamp, and lets them go in the order of their stamps. What is published has a time at which all gateways
//! show it ([`ReleaseHold`]). A gateway whose clock is wrong is found by [`ClockWatch`], and its stamps count no more.
//! [`InboundMeter`] and [`OutboundMeter`] measure what is left of unfairness; [`DelayControl`] chooses delays by it.
//!
//! Everything here is told the time, and does no input or output.

mod clock_watch;
mod delay;
mod gateway;
mod hold;
mod sequencer;
mod unfairness;

pub use clock_watch::{ClockProbe, ClockWatch};
pub use delay::{DelayBounds, DelayControl};
pub use gateway::{FUTURE_MAX_NS, Gateway, GatewayLimits, GatewayRefusal, StampedRequest};
pub use hold::{ReleaseHold, Released};
pub use sequencer::{Arrival, Sequencer, SequencerOptions, SequencerStats};
pub use unfairness::{InboundMeter, InboundUnfairness, OutboundMeter, OutboundUnfairness};

/// What a machine's clocks show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The clock that is kept in step with the others', in ns since the Unix epoch. It may jump.
    pub clock_ns: u64,
    /// A clock of this machine alone that never goes back, in ns since some moment.
    pub steady_ns: u64,
}

#[cfg(test)]
mod tests;
