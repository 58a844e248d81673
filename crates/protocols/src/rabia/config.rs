//! What Rabia lets operators set: `f`, the largest that survives unless they say less, and one lane.

use super::Config;
use crate::rabia::weak_mvc::PARAMS;
use crate::shared::params::Params;
use quorate_core::{Epoch, Seat};

/// The configuration of one seat.
pub(super) fn of(seat: &Seat) -> Result<Config, String> {
    let params = params(&seat.epoch);
    params.check_names()?;
    Config::new(seat, &params, failures_survived(&seat.epoch)?, 1)
}

/// How many failures at once the epoch's parameters ask to survive.
pub(super) fn failures_survived(epoch: &Epoch) -> Result<usize, String> {
    let most = epoch.n().saturating_sub(1) / 2;
    params(epoch).number("f", most, 0..=most)
}

fn params(epoch: &Epoch) -> Params<'_> {
    let known = &PARAMS;
    Params { epoch, known }
}
