//! Processes of the server: from which RDB they start, and how often they die.

use super::api::{Conn, Life, Note, Output};
use super::control::{Ask, Control};
use super::link::Link;
use super::office::Office;
use super::{Driver, MS, TICK_NS};
use std::collections::VecDeque;

/// Deaths within [`DEATHS_NS`], of processes with one RDB that did not catch up, after which it is taken for damaged.
const DEATHS_MAX: usize = 3;
/// The time in which deaths are counted together.
const DEATHS_NS: u64 = 60_000 * MS;
/// How long a process has to connect its link, after which it is replaced.
const JOIN_NS: u64 = 120_000 * MS;
/// How often a process that catches up is asked how far it is.
const PROGRESS_NS: u64 = 20 * MS;
/// How often one is asked that had all of the stream once.
const WATCH_NS: u64 = 1_000 * MS;
/// The pause before a process that died is replaced, for each death.
const PAUSE_NS: u64 = 100 * MS;

/// The server process.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) life: Life,
    /// The offset that it told last.
    pub(super) offset: u64,
    pub(super) deaths_total: u64,
    /// The offset of the RDB that it began with.
    base: u64,
    began_ns: u64,
    /// Whether it has had all of the stream once.
    has_caught_up: bool,
    asked_ns: u64,
    /// When it was last seen to take something, or had nothing to take.
    moved_ns: u64,
    /// When deaths happened, all with the RDB of `base`.
    deaths: VecDeque<u64>,
    /// When to start the next process, in the place of one that died.
    start_ns: Option<u64>,
}

impl Driver {
    /// Replaces the process, whatever it does: V6, and the answer to every doubt.
    pub(super) fn reload(&mut self, why: &str) {
        let base = self.shared.lock().base.clone();
        if base.offset != self.server.base {
            self.server.deaths.clear();
        }
        self.server.life.0 += 1;
        self.server.base = base.offset;
        self.server.offset = base.offset;
        self.server.began_ns = self.now_ns;
        self.server.has_caught_up = false;
        self.server.start_ns = None;
        self.control = Control::default();
        self.link = Link::default();
        self.link.expect_exactly(base.offset);
        self.saving.forget_process();
        self.note(Note::Reload {
            offset: base.offset,
            why: why.to_owned(),
        });
        let (life, rdb) = (self.server.life, base.rdb);
        self.out.push_back(Output::Start { life, rdb });
    }

    /// Gives up the process, and the office if there is one.
    pub(super) fn give_up(&mut self, why: &str) {
        self.leave_office_without_process();
        self.reload(why);
    }

    pub(super) fn started(&mut self) {
        let life = self.server.life;
        let conn = Conn::Control;
        self.out.push_back(Output::Connect { life, conn });
    }

    pub(super) fn died(&mut self, why: &str) {
        self.leave_office_without_process();
        self.control = Control::default();
        self.link = Link::default();
        self.server.deaths_total += 1;
        let deaths = &mut self.server.deaths;
        // What dies for want of memory, or by a hand, has done so without a reason in its data.
        if !self.server.has_caught_up {
            deaths.push_back(self.now_ns);
        }
        deaths.retain(|death| self.now_ns - death < DEATHS_NS);
        let count = deaths.len();
        if count >= DEATHS_MAX && self.shared.lock().base.offset == self.server.base {
            let offset = self.server.base;
            self.fail(format!(
                "the server died {count} times within {} s with the RDB at offset {offset}, which may be damaged; the \
                 last time: {why}. Look at its log; to take the state from another replica, stop this one, remove its \
                 data folder, and let it join anew",
                DEATHS_NS / (1000 * MS)
            ));
            return;
        }
        self.server.start_ns = Some(self.now_ns + PAUSE_NS * (count as u64).saturating_sub(1));
    }

    pub(super) fn fail(&mut self, why: String) {
        self.failed = true;
        if !matches!(self.office, Office::None) {
            self.leave_office_without_process();
        }
        let life = self.server.life;
        self.out.push_back(Output::Kill { life });
        self.out.push_back(Output::Fail(why));
    }

    pub(super) fn has_caught_up(&self) -> bool {
        self.server.has_caught_up
    }

    /// The server told how far it is.
    pub(super) fn note_progress(&mut self, offset: u64) {
        if offset != self.server.offset {
            self.server.moved_ns = self.now_ns;
        }
        self.server.offset = offset;
        self.server.has_caught_up |= self.link.is_streaming() && offset >= self.stream.len;
    }

    /// What the server is given from here on, it has to take: before, it had all that it was given.
    pub(super) fn note_feeding(&mut self) {
        if !self.is_behind() {
            self.server.moved_ns = self.now_ns;
        }
    }

    /// Whether the server was given more than it told to have.
    pub(super) fn is_behind(&self) -> bool {
        self.is_following() && self.link.fed().is_some_and(|fed| fed > self.server.offset)
    }

    /// When a server that is idle otherwise is to be asked whether it has what it was given.
    pub(super) fn watch_ns(&self) -> Option<u64> {
        let at_ns = (self.server.asked_ns + WATCH_NS).max(self.now_ns + TICK_NS);
        self.is_behind().then_some(at_ns)
    }

    /// A server that answers and takes nothing of what it was given is no better than one that hangs.
    pub(super) fn look_for_stall(&mut self) {
        let stood_ns = self.server.asked_ns.saturating_sub(self.server.moved_ns);
        if self.is_behind() && stood_ns > self.config.hang_max_ns {
            self.give_up("it takes nothing of the stream");
        }
    }

    pub(super) fn advance_server(&mut self) {
        let pause_ns = match self.server.has_caught_up {
            true => WATCH_NS,
            false => PROGRESS_NS,
        };
        let is_due = self.now_ns >= self.server.asked_ns + pause_ns;
        let is_wanted = self.is_behind() || (self.is_following() && !self.server.has_caught_up);
        if is_due && is_wanted && self.control.is_quiet() {
            self.server.asked_ns = self.now_ns;
            self.ask(Ask::Progress, &["ROLE"]);
        }
        if self.server.start_ns.is_some_and(|at| at <= self.now_ns) {
            self.reload("the last one died");
        }
        let is_late = self.now_ns - self.server.began_ns > JOIN_NS;
        let is_joining = matches!(self.office, Office::None) && !self.link.is_streaming();
        if is_joining && is_late && !self.control.is_loading() && self.server.start_ns.is_none() {
            self.reload("it did not ask for the stream");
        }
    }
}
