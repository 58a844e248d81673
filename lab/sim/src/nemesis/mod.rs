//! What breaks, and when.

mod clocks;
mod copies;
mod epochs;
mod links;
mod process;
mod recent;

pub(crate) use copies::{FolderCopy, OldCopy};
pub(crate) use epochs::ORDER;
pub(crate) use recent::Forgotten;

use crate::mix::generator;
use crate::network::exponential;
use crate::recording::What;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, World};
use fastrand::Rng;
use quorate_core::Machine;
use quorate_host::SupportedVersions;

/// A kind of fault that strikes again and again.
///
/// The first seven are those of the classic profile: they draw from the seed's main generator, in
/// this order, so that its seeds go on meaning what they meant. The others draw from the nemesis's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    Crash,
    CrashAll,
    Pause,
    Partition,
    Reset,
    ClockJump,
    Wipe,
    OneWay,
    Bridge,
    SlowLink,
    Restart,
    RollingRestart,
    RestartStorm,
    ClockLeap,
    ClockBack,
    ClockStop,
    RollingUpgrade,
    Rot,
    FullDisk,
    Reconfigure,
    Switch,
    Upkeep,
    Gateway,
    OldCopy,
    RecentCopy,
}

/// All kinds, by the names people use.
pub(crate) const FAULTS: [(Fault, &str); 25] = [
    (Fault::Crash, "crash"),
    (Fault::CrashAll, "blackout"),
    (Fault::Pause, "pause"),
    (Fault::Partition, "partition"),
    (Fault::Reset, "reset"),
    (Fault::ClockJump, "clock-jump"),
    (Fault::Wipe, "wipe"),
    (Fault::OneWay, "one-way"),
    (Fault::Bridge, "bridge"),
    (Fault::SlowLink, "slow-link"),
    (Fault::Restart, "restart"),
    (Fault::RollingRestart, "rolling-restart"),
    (Fault::RestartStorm, "restart-storm"),
    (Fault::ClockLeap, "clock-leap"),
    (Fault::ClockBack, "clock-back"),
    (Fault::ClockStop, "clock-stop"),
    (Fault::RollingUpgrade, "rolling-upgrade"),
    (Fault::Rot, "rot-everywhere"),
    (Fault::FullDisk, "full-disk"),
    (Fault::Reconfigure, "reconfiguration"),
    (Fault::Switch, "protocol-switch"),
    (Fault::Upkeep, "upkeep"),
    (Fault::Gateway, "gateway"),
    (Fault::OldCopy, "old-copy"),
    (Fault::RecentCopy, "recent-copy"),
];

/// A later part of a fault that strikes in several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sequel {
    /// The process of a replica is killed and starts again.
    Restart { node: usize },
    /// The process of a replica ends, and another program starts, which speaks these versions.
    ChangeOver {
        node: usize,
        supported: SupportedVersions,
    },
    /// A replica crashes once more, and so many times after that.
    Storm { node: usize, left: u8 },
    /// A clock goes again.
    ClockGoes { node: usize },
    /// A copy of a folder is put back.
    PutBack { node: usize },
    /// A copy of a folder is put back before the others have noted much.
    PutBackAtOnce { node: usize },
}

/// What the nemesis remembers.
pub(crate) struct Nemesis {
    /// No new outage begins.
    pub(crate) tired: bool,
    pub(crate) rng: Rng,
}

impl Nemesis {
    pub(crate) fn new(seed: u64) -> Self {
        Nemesis {
            tired: false,
            rng: generator(seed, "nemesis"),
        }
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Schedules the first strike of every kind of fault in the plan.
    pub(crate) fn schedule_faults(&mut self) {
        let faults: Vec<Fault> = self.plan.every_ns.keys().copied().collect();
        faults
            .into_iter()
            .for_each(|fault| self.schedule_fault(fault));
    }

    fn schedule_fault(&mut self, fault: Fault) {
        let rng = if fault <= Fault::Wipe {
            &mut self.rng
        } else {
            &mut self.nemesis.rng
        };
        let delay = exponential(rng, self.plan.every_ns[&fault]);
        self.queue.after(delay, Event::Fault(fault));
    }

    /// A fault strikes.
    pub(crate) fn strike(&mut self, fault: Fault) -> Result<(), Violation> {
        if self.nemesis.tired {
            return Ok(());
        }
        // An old copy is a failure itself, until it is noticed.
        if self.has_old_copy() && ![Fault::OldCopy, Fault::Upkeep].contains(&fault) {
            self.schedule_fault(fault);
            return Ok(());
        }
        let now_ns = self.queue.now_ns();
        self.trace
            .event(now_ns, "fault", &[fault as u64], || format!("{fault:?}"));
        self.record(|| What::Note(format!("{fault:?}")));
        match fault {
            Fault::Crash => self.aim_crash(),
            Fault::CrashAll => self.crash_all(),
            Fault::Pause => self.pause(),
            Fault::Partition => self.partition(),
            Fault::Reset => self.reset(),
            Fault::ClockJump => self.jump_clock(),
            Fault::Wipe => self.wipe(),
            Fault::OneWay => self.cut_one_way(),
            Fault::Bridge => self.bridge(),
            Fault::SlowLink => self.slow_link(),
            Fault::Restart => self.restart_one(),
            Fault::RollingRestart => self.restart_all_in_turn(),
            Fault::RestartStorm => self.begin_storm(),
            Fault::ClockLeap => self.leap_clock(),
            Fault::ClockBack => self.set_clock_back(),
            Fault::ClockStop => self.stop_clock(),
            Fault::RollingUpgrade => self.change_over_in_turn(),
            Fault::Rot => self.corrupt_everywhere()?,
            Fault::FullDisk => self.fill_disk(),
            Fault::Reconfigure => self.reconfigure(),
            Fault::Switch => self.switch_protocol(),
            Fault::Upkeep => self.keep_up(),
            Fault::Gateway => self.kill_gateway(),
            Fault::OldCopy => self.copy_or_put_back()?,
            Fault::RecentCopy => self.copy_and_put_back()?,
        }
        self.schedule_fault(fault);
        Ok(())
    }

    /// A fault goes on.
    pub(crate) fn follow(&mut self, sequel: Sequel) -> Result<(), Violation> {
        match sequel {
            Sequel::ClockGoes { node } => self.nodes[node].clock.start(self.queue.now_ns()),
            _ if self.nemesis.tired => {}
            Sequel::PutBack { node } => self.put_back(node)?,
            Sequel::PutBackAtOnce { node } => self.put_back_at_once(node)?,
            _ if self.has_old_copy() => {}
            Sequel::Restart { node } => self.restart(node),
            Sequel::ChangeOver { node, supported } => self.change_over(node, supported),
            Sequel::Storm { node, left } => self.storm(node, left),
        }
        Ok(())
    }
}
