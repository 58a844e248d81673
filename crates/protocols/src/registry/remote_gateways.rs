//! Remote gateways: gateways that run in a process of their own, not inside a replica.

use crate::nezha::RemoteGateway;
use crate::registry::{Protocol, Visitor, of_its_epoch, visit};
use quorate_core::{Machine, Seat, Touches};

/// The machine of a remote gateway, whatever the protocol that has one.
pub type RemoteGatewayMachine = RemoteGateway;

/// What the machine of a remote gateway is started with.
pub type RemoteGatewayConfig = <RemoteGatewayMachine as Machine>::Config;

/// The configuration of a remote gateway in an epoch, with the number and the boot of `seat`; `None` where the
/// epoch's protocol has no remote gateways, and requests go to its members.
#[must_use]
pub fn remote_gateway_config(seat: &Seat, touches: Option<Touches>) -> Option<RemoteGatewayConfig> {
    let seat = of_its_epoch(seat);
    let protocol = seat.epoch.protocol.clone();
    visit(&protocol, Configure { seat, touches }).flatten()
}

/// Asks a protocol for the configuration of a remote gateway.
struct Configure {
    seat: Seat,
    touches: Option<Touches>,
}

impl Visitor for Configure {
    type Output = Option<RemoteGatewayConfig>;

    fn visit<P: Protocol>(self) -> Self::Output {
        P::remote_gateway(&self.seat, self.touches)
    }
}
