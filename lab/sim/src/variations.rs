//! Parameters that seeds draw: what a protocol does at every setting, and not only at the usual one.

use fastrand::Rng;
use quorate_core::{Boot, Epoch, Group, Seat};
use quorate_protocols::{Protocol, Visitor, visit};

/// Draws parameters of an epoch's protocol that were not given. About half of them stay as they are.
pub(crate) fn vary(epoch: &mut Epoch, rng: &mut Rng) {
    let protocol = epoch.protocol.clone();
    visit(&protocol, Vary { epoch, rng });
}

struct Vary<'a> {
    epoch: &'a mut Epoch,
    rng: &'a mut Rng,
}

impl Visitor for Vary<'_> {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let Vary { epoch, rng } = self;
        for (name, values) in P::variations() {
            // Drawn in any case, so that one parameter given changes no other.
            let (is_drawn, value) = (rng.bool(), values[rng.usize(..values.len())]);
            if !is_drawn || epoch.params.contains_key(*name) {
                continue;
            }
            epoch.params.insert((*name).into(), value.into());
            if !is_fit::<P>(epoch) {
                epoch.params.remove(*name);
            }
        }
    }
}

fn is_fit<P: Protocol>(epoch: &Epoch) -> bool {
    let first = epoch.members.first();
    first.is_some_and(|first| {
        let seat = Seat {
            group: Group(0),
            epoch: epoch.clone(),
            me: first.id,
            boot: Boot(0),
        };
        P::config(&seat).is_ok()
    })
}
