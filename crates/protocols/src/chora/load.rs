//! What a replica sees of load and network, and what it makes of it: which mode, and how long a round.

use super::Replica;
use super::config::{Config, ModeRule};
use super::delays::Delays;
use super::messages::Value;
use super::network::Network;
use super::policy::{Policy, Setting, Tuner, Window};
use quorate_core::{Boot, MICROS, MILLIS, MemberIndex, Now, Out, Slot, coin};
use std::ops::RangeInclusive;

/// What the policy looks at, in ns.
const WINDOW_NS: u64 = 10 * MILLIS;
/// How long a mode lasts at least where chance decides.
const RANDOM_NS: u64 = 3 * MILLIS;
/// Of a hundred messages so many are not later than a round waits for.
const PERCENT: u64 = 99;
/// What a round lasts beyond the tail of delays.
const MARGIN_NS: u64 = 20 * MICROS;

/// What was seen in this window, and in all before.
#[derive(Clone, Debug)]
pub(super) struct Load {
    rule: ModeRule,
    /// `T0` where it is not measured.
    given_ns: u64,
    is_measured: bool,
    range_ns: RangeInclusive<u64>,
    policy: Policy,
    tuner: Tuner,
    delays: Delays,
    /// When the window began, and what the own clock shows at this step, in ns.
    since_ns: u64,
    now_ns: u64,
    window: Window,
    /// Commands proposed by each member in it.
    offered: Vec<u64>,
    /// When this replica proposed something last.
    proposed_ns: u64,
    /// What people are shown of the network.
    pub(super) network: Network,
}

impl Load {
    pub(super) fn new(config: &Config) -> Load {
        let n = config.members.len();
        Load {
            rule: config.mode,
            given_ns: config.round_ns,
            is_measured: config.is_round_measured,
            range_ns: config.round_range_ns.clone(),
            policy: Policy::default(),
            tuner: Tuner::new(config.round_ns, config.round_range_ns.clone()),
            delays: Delays::new(n),
            since_ns: 0,
            now_ns: 0,
            window: Window::default(),
            offered: vec![0; n],
            proposed_ns: 0,
            network: Network::new(config.message_ns),
        }
    }

    /// What the own clock shows at the start.
    pub(super) fn begin(&mut self, now: Now) {
        self.now_ns = now.mono_ns;
        self.network.begin(self.now_ns);
    }

    /// What the own clock shows at this step, in a view of so many proposers.
    pub(super) fn read_clock(&mut self, now: Now, proposers: usize) {
        self.now_ns = now.mono_ns;
        self.network.tick(self.now_ns, proposers);
    }

    /// What the own clock showed at this step, ns.
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A message of a member, by when it left.
    pub(super) fn note_delay(&mut self, from: MemberIndex, sent_ns: u64) {
        self.delays.note(from, sent_ns, self.now_ns);
    }

    /// A member proposed a value.
    pub(super) fn note_offered(&mut self, member: MemberIndex, value: &Value) {
        self.offered[member] += value.entry().map_or(0, |entry| entry.count() as u64);
    }

    /// This replica proposes a value.
    pub(super) fn note_proposed(&mut self) {
        self.proposed_ns = self.now_ns;
    }

    /// How long ago it did.
    pub(super) fn proposed_ago_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.proposed_ns)
    }

    /// A slot was committed.
    pub(super) fn note_committed(&mut self, is_entry: bool) {
        self.window.committed += 1;
        self.network.note_committed(is_entry);
    }

    /// A round began.
    pub(super) fn note_round(&mut self) {
        self.window.rounds += 1;
        self.network.counts.rounds += 1;
    }

    /// A repair was needed.
    pub(super) fn note_repair(&mut self) {
        self.window.repairs += 1;
        self.network.counts.repairs += 1;
    }

    /// `T0`: what delays ask for, unless it was given.
    pub(super) fn needed_ns(&self) -> u64 {
        let tail_ns = self.tail_ns(PERCENT).filter(|_| self.is_measured);
        tail_ns.map_or(self.given_ns, |tail_ns| tail_ns + MARGIN_NS)
    }

    /// `p_x(d) - mean(d)`, once it is known.
    pub(super) fn tail_ns(&self, percent: u64) -> Option<u64> {
        self.delays.tail_ns(percent)
    }

    /// `T`: the length of a round, ns.
    pub(super) fn round_ns(&self) -> u64 {
        self.tuner.length_ns()
    }

    /// Other rounds than before begin: those of a view, or the first after a pause.
    pub(super) fn restart(&mut self) {
        self.tuner = Tuner::new(self.needed_ns(), self.range_ns.clone());
    }

    /// Pulses have begun or ended.
    pub(super) fn switched(&mut self, is_pulsing: bool) {
        self.policy.switched();
        self.network.switched(is_pulsing);
    }

    /// Ends the window, if it is over.
    fn take_window(&mut self, least_ns: u64, proposers: &[MemberIndex]) -> Option<Window> {
        let ns = self.now_ns.saturating_sub(self.since_ns);
        if ns < least_ns {
            return None;
        }
        let least = proposers.iter().map(|member| self.offered[*member]).min();
        let window = Window {
            ns,
            least_offered: least.unwrap_or(0),
            ..std::mem::take(&mut self.window)
        };
        self.since_ns = self.now_ns;
        self.offered.fill(0);
        Some(window)
    }

    /// Whether a window speaks for the other mode.
    fn judge(&mut self, is_pulsing: bool, window: Window, proposers: usize) -> bool {
        if is_pulsing {
            self.tuner.note(window);
        }
        let needed_ns = self.needed_ns();
        let setting = Setting {
            round_ns: if is_pulsing {
                self.round_ns()
            } else {
                needed_ns
            },
            needed_ns,
            round_max_ns: *self.range_ns.end(),
            proposers: proposers as u64,
        };
        self.policy.judge(is_pulsing, window, setting)
    }
}

impl Replica {
    /// Begins or ends pulses, as the rule or the load says.
    pub(super) fn watch_load(&mut self, now: Now, out: &mut Out<Self>) {
        let is_pulsing = self.rounds.is_pulsing();
        let is_wanted = match self.rounds.load.rule {
            ModeRule::Responsive => false,
            ModeRule::Pulsing => is_pulsing || self.may_begin_pulses(),
            ModeRule::Auto => self.judge_load(),
            ModeRule::Random => self.toss(),
        };
        match (is_pulsing, is_wanted) {
            (false, true) => self.begin_pulses(now, out),
            (true, false) => self.end_pulses(out),
            (true, true) => self.end_back_off(now, out),
            (false, false) => {}
        }
    }

    /// Whether there is anything to say in a view that has begun.
    fn may_begin_pulses(&self) -> bool {
        let init = self.init.as_ref();
        init.is_some_and(|init| self.ap() >= init.start()) && self.has_news()
    }

    /// Whether there should be pulses.
    fn judge_load(&mut self) -> bool {
        let is_pulsing = self.rounds.is_pulsing();
        let load = &mut self.rounds.load;
        let Some(init) = &self.init else {
            return is_pulsing;
        };
        let Some(window) = load.take_window(WINDOW_NS, &init.pattern) else {
            return is_pulsing;
        };
        let is_mixed = self.rounds.do_others_pulse();
        let window = Window { is_mixed, ..window };
        let load = &mut self.rounds.load;
        is_pulsing != load.judge(is_pulsing, window, init.pattern.len())
    }

    /// Whether there should be pulses, by chance. The coin is this replica's own, so that modes are mixed.
    fn toss(&mut self) -> bool {
        let is_pulsing = self.rounds.is_pulsing();
        if self.rounds.load.take_window(RANDOM_NS, &[]).is_none() {
            return is_pulsing;
        }
        let Boot(seed) = self.config.boot;
        let is_head = coin(seed, 0, Slot(self.rounds.load.now_ns() / RANDOM_NS), 0);
        is_head && (is_pulsing || self.may_begin_pulses())
    }
}
