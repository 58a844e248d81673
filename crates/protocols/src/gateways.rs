//! Gateways apart: of which protocols there are any.

use crate::nezha::{Config, Proxy};
use crate::registry::Protocol;
use quorate_core::{Machine, Seat, Touches};

/// The machine of a gateway apart, whatever the protocol that has one.
pub type AnyGateway = Proxy;

/// What such a machine is started with.
pub type GatewayMachine = <Proxy as Machine>::Config;

/// The configuration of a gateway apart in an epoch, with the number and the boot of `seat`; `None` where the
/// epoch's protocol has none, and requests are for its members.
#[must_use]
pub fn gateway_machine(seat: &Seat, touches: Option<Touches>) -> Option<GatewayMachine> {
    if seat.epoch.protocol != <crate::nezha::Nezha as Protocol>::NAME {
        return None;
    }
    let seat = &Seat {
        boot: seat.boot.of_epoch(seat.epoch.number),
        ..seat.clone()
    };
    // What the members take for parameters is what they were told to.
    let mut config = Config::of_gateway(seat).ok()?;
    if let Some(touches) = touches {
        crate::nezha::Nezha::commute(&mut config, touches);
    }
    Some((config, seat.me))
}
