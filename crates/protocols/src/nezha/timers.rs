//! What is waited for, and for how long. Where nothing is under way, nothing is armed.

use super::Replica;
use super::gateway::BACKOFF_MAX;
use super::messages::Timer;
use super::replica::Status;
use quorate_core::{Due, Out};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Views in vain after which none is given longer.
const IN_VAIN_MAX: u32 = 6;

/// The timers that are armed. Every step asks for most of them.
#[derive(Clone, Copy, Hash, Default)]
pub(super) struct Armed(u16);

impl Armed {
    fn contains(self, timer: Timer) -> bool {
        self.0 & 1 << timer as u16 != 0
    }

    fn insert(&mut self, timer: Timer) {
        self.0 |= 1 << timer as u16;
    }

    /// Says whether it was.
    fn remove(&mut self, timer: Timer) -> bool {
        let was_armed = self.contains(timer);
        self.0 &= !(1 << timer as u16);
        was_armed
    }

    fn all(self) -> impl Iterator<Item = Timer> {
        Timer::ALL
            .into_iter()
            .filter(move |timer| self.contains(*timer))
    }
}

impl fmt::Debug for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all()).finish()
    }
}

/// The timers that run, and what moved since they were armed.
#[derive(Clone, Default, Debug)]
pub(super) struct Watch {
    pub(super) armed: Armed,
    /// Repetitions since something was delivered.
    pub(super) backoff: u32,
    /// Views left since anything was decided, or read.
    pub(super) in_vain: u32,
    /// The leader gave a sign of life since the timer was armed.
    pub(super) has_heard: bool,
    /// Somebody asked for what only the leader can place, and the leader was not heard since.
    pub(super) is_called: bool,
    /// Since when the log has something and does not move, on the own monotonic clock, ns.
    pub(super) stuck_since_ns: Option<u64>,
}

/// Without the time: what depends on it depends on the clock, too.
impl Hash for Watch {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.armed, self.backoff, self.in_vain).hash(to);
        (self.has_heard, self.is_called).hash(to);
    }
}

impl Watch {
    /// Something was decided.
    pub(super) fn moved(&mut self) {
        (self.backoff, self.in_vain) = (0, 0);
    }
}

impl Replica {
    pub(super) fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        self.watch.armed.remove(timer);
        match timer {
            // Every step ends with what is due.
            Timer::Release => self.early.note_alarm(),
            Timer::Retry => self.on_retry(out),
            Timer::Poll => self.on_poll(out),
            Timer::Sync => self.sync_lazy(out),
            Timer::Resend => self.on_resend(out),
            Timer::Suspect => self.on_suspect(out),
            Timer::Change => self.on_change(out),
            Timer::GiveUp => self.on_give_up(out),
            Timer::Reads => self.on_reads_timer(out),
        }
    }

    /// Arms what something waits for, and nothing else.
    pub(super) fn tend(&mut self, out: &mut Out<Self>) {
        self.tend_release(out);
        self.tend_sync(out);
        let is_normal = self.status == Status::Normal;
        let has_reads = self.reads.count() > 0;
        let has_log = !self.log.items.is_empty()
            || !self.unsynced.is_empty()
            || !self.following.placed.is_empty();
        let is_following = self.follows() && (has_log || has_reads || self.watch.is_called);
        let is_leading = self.leads() && !self.log.items.is_empty() && self.config.n() > 1;
        let waits = is_following || self.gateway.is_busy() || has_reads;
        let again = self.wait();
        let election_ns = self.config.election_ns;
        // A network may be too slow for a view to begin in the time, or for anything to be decided in it:
        // one that is left too early helps nobody.
        let suspect_ns = election_ns << self.watch.in_vain.min(IN_VAIN_MAX);
        let give_up_ns = election_ns << self.watch.in_vain.saturating_sub(1).min(IN_VAIN_MAX);
        let is_changing = self.status == Status::ViewChange;
        for (timer, is_wanted, wait_ns) in [
            (Timer::Retry, !self.gateway.pending.is_empty(), again),
            (Timer::Poll, is_following, again),
            (Timer::Resend, is_leading, again),
            (Timer::Suspect, self.follows() && waits, suspect_ns),
            (Timer::Change, !is_normal, again),
            (Timer::GiveUp, is_changing, give_up_ns),
            (
                Timer::Reads,
                is_normal && self.reads.queries.is_asking(),
                again,
            ),
        ] {
            let is_armed = self.watch.armed.contains(timer);
            if is_wanted && !is_armed {
                self.watch.armed.insert(timer);
                out.arm(timer, Due::Within(wait_ns..=2 * wait_ns));
            } else if is_armed && !is_wanted {
                self.watch.armed.remove(timer);
                out.disarm(timer);
            }
        }
        if !self.watch.armed.contains(Timer::Suspect) {
            // A sign of life counts while somebody looks for one.
            self.watch.has_heard = false;
        }
    }

    /// What was said did not help: the next repetition waits longer.
    pub(super) fn back_off(&mut self) {
        self.watch.backoff = (self.watch.backoff + 1).min(BACKOFF_MAX);
    }

    /// How long to wait before something is said again.
    fn wait(&self) -> u64 {
        let config = &self.config;
        // A view that is given longer is spoken of less often: it may be what fills the network.
        let most_ns = match self.status {
            Status::Normal => config.rtx_max_ns,
            _ => config.rtx_max_ns << self.watch.in_vain.min(IN_VAIN_MAX),
        };
        (config.rtx_min_ns << self.watch.backoff.min(BACKOFF_MAX)).min(most_ns)
    }

    /// What waits for something else to be written waits this long.
    fn tend_sync(&mut self, out: &mut Out<Self>) {
        let is_armed = self.watch.armed.contains(Timer::Sync);
        if self.following.is_lazy && !is_armed {
            self.watch.armed.insert(Timer::Sync);
            out.arm(Timer::Sync, Due::After(self.config.lazy_ns));
        } else if is_armed && !self.following.is_lazy {
            self.watch.armed.remove(Timer::Sync);
            out.disarm(Timer::Sync);
        }
    }

    /// The first deadline may have come earlier, or the clock may have moved.
    fn tend_release(&mut self, out: &mut Out<Self>) {
        let (clock_ns, mono_ns) = (self.now.clock_ns, self.now.mono_ns);
        match self.early.wait(clock_ns, mono_ns, self.config.far_ns) {
            Some(wait_ns) if self.status == Status::Normal => {
                self.watch.armed.insert(Timer::Release);
                let wait_ns = wait_ns.max(self.early.wait_min_ns());
                out.arm(Timer::Release, Due::After(wait_ns));
            }
            _ => {
                if self.watch.armed.remove(Timer::Release) {
                    out.disarm(Timer::Release);
                }
            }
        }
    }

    /// What was waited for is over.
    pub(super) fn disarm_all(&mut self, out: &mut Out<Self>) {
        for timer in std::mem::take(&mut self.watch.armed).all() {
            out.disarm(timer);
        }
        self.watch.backoff = 0;
    }
}
