//! The replica or gateway that takes a write.

use crate::meter::WARM_UP_NS;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::Machine;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Where a write goes that is measured where it is offered: to the gateways if there are any.
    pub(super) fn entrance(&mut self) -> Option<usize> {
        let offers = self.setup.schedule.offers()?;
        let replicas = self.nodes.len();
        let decider = self.meter.as_ref().and_then(|meter| meter.decider);
        let among = match self.gateways.len() {
            0 if offers.is_led => return Some(decider.unwrap_or(0)),
            0 if self.is_first_asked() => 0..1,
            0 => self.setup.schedule.gateways(replicas),
            gateways => replicas..replicas + gateways,
        };
        Some(self.clients.draw_entrance(&mut self.rng, among))
    }

    /// Whether the first replica is asked until measuring begins, so that it leads where one leads: it is measured what
    /// others see of that.
    fn is_first_asked(&self) -> bool {
        let steady = self.setup.schedule.steady;
        let is_one_asked = steady.is_some_and(|steady| steady.gateways.is_some());
        is_one_asked && self.queue.now_ns() < WARM_UP_NS
    }
}
