//! Performing what the host wants done.

use super::Core;
use crate::any_application::AnyValue;
use crate::error::ServerError;
use crate::timed_app::TimedApp;
use quorate_core::{Application, Machine, Now, Seat};
use quorate_host::{Driver, Effects, Frame, Host, Pace};
use quorate_protocols::ProtocolSet;
use std::time::Instant;

impl<P: ProtocolSet> Driver for Core<P> {
    type Machine = P::Machine;
    type App = TimedApp;
    type Error = ServerError;
    const PACE: Pace = Pace::AtOnce;

    fn host(&mut self) -> Option<&mut Host<P::Machine, TimedApp>> {
        Some(&mut self.host)
    }

    fn now(&mut self) -> Now {
        self.clock.now()
    }

    fn can_write(&self) -> bool {
        self.held.is_none()
    }

    fn configure(&mut self, seat: &Seat) -> Result<<P::Machine as Machine>::Config, ServerError> {
        let commands = self.host.look().app().command_properties();
        P::config(seat, commands.touches).map_err(ServerError::Epoch)
    }

    /// Messages that promise nothing leave before the flush and travel while the disk works.
    fn perform(&mut self, now: Now, effects: Effects<AnyValue>) -> Result<bool, ServerError> {
        let Effects {
            frames,
            answers,
            reads,
            events,
            countdowns,
            flush,
            fragment_step,
            coding,
            snapshot_writes,
            snapshot_reads,
            release,
            released_fragments,
        } = effects;
        let mut may_want_more = !(frames.is_empty() && answers.is_empty() && reads.is_empty());
        self.send(frames);
        for (token, answer) in answers {
            self.answer(token, answer);
        }
        for read in &reads {
            self.read(now, read);
        }
        self.note_events(now, events)?;
        self.set_countdowns(countdowns);
        if let Some(mean) = self.host.look().app().take_mean() {
            self.metrics.apply.record(mean);
        }
        may_want_more |= self.flush(now, flush)?;
        self.give_to_workers(coding, fragment_step)?;
        self.write_snapshots(snapshot_writes);
        self.read_snapshots(snapshot_reads);
        self.release(release, &released_fragments);
        self.hold_back(now);
        Ok(may_want_more)
    }
}

impl<P: ProtocolSet> Core<P> {
    fn send(&mut self, frames: Vec<Frame>) {
        if !frames.is_empty() {
            let began = Instant::now();
            self.links.send(frames);
            self.metrics.network.record(began.elapsed());
        }
    }
}
