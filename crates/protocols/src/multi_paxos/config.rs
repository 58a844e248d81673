//! What Multi-Paxos lets operators set beside the parameters of RS-Paxos's machine: `qr`.

use crate::rs_paxos::{Coding, Config, Quorums, failures_survived as survived, known, params};
use crate::shared::params::Params;
use quorate_core::{Epoch, Seat};

/// Parameters of Multi-Paxos alone.
const OWN: &[&str] = &["qr"];

/// The configuration of one seat.
pub(super) fn of(seat: &Seat) -> Result<Config, String> {
    let known = known(OWN);
    let params = params(&seat.epoch, &known)?;
    Config::new(seat, &params, coding(&params)?)
}

/// How many replicas may fail while the others still elect leaders and choose values.
pub(super) fn failures_survived(epoch: &Epoch) -> usize {
    survived(coding_of(epoch))
}

fn coding_of(epoch: &Epoch) -> Result<Coding, String> {
    coding(&params(epoch, &known(OWN))?)
}

/// `X = 1` always, and `QR` a majority unless `qr` says otherwise.
fn coding(params: &Params<'_>) -> Result<Coding, String> {
    let n = params.members()?;
    let read = params.number("qr", Quorums::uncoded(n).read, 1..=n)?;
    let quorums = Quorums { n, read };
    let code_max = 1;
    Ok(Coding { quorums, code_max })
}
