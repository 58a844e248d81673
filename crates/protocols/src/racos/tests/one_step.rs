//! The decision in one step, in every way it can happen.
//!
//! One slot, and the code that decides it: [`Instance::next_value`] and [`Instance::decision`], with the
//! thresholds of Racos's own configuration or altered ones. Members are alike, so what matters of a step is how
//! many said what. From every such count follow all values that a member may take next, whatever it hears that is
//! enough for the code, and from those all counts of the next step, whatever the coin says; that ends since
//! counts are few. Whatever the code would decide on anything heard of any step counts as decided: whoever
//! decides may hear the rest later than it speaks, and may be silent from then on.

use crate::rabia::weak_mvc::slot::{Instance, Next, View};
use crate::rabia::weak_mvc::{Config, Mode, Thresholds, Trail, Value};
use crate::racos::Racos;
use crate::registry::Protocol;
use quorate_core::{Boot, EntryId, MemberSet, ReplicaId, Slot, coin};
use quorate_testkit::seat;
use std::collections::{BTreeMap, BTreeSet};

/// How many members said each of three things: requests A and B, and NULL; or 0, 1, and `?`.
type Counts = [usize; 3];

const VALUES: [Value; 3] = [Value::Zero, Value::One, Value::Unsure];
const ONE: usize = 1;

/// What the values of a step are made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Proposals,
    /// Without a phase, and so without a coin.
    FirstVotes,
    States,
    Votes,
}

impl Step {
    /// In which order of steps it is looked at, and where in a trail it stands.
    fn place(self, mode: Mode) -> (Mode, usize) {
        match self {
            Step::Proposals => (mode, 0),
            Step::FirstVotes => (Mode::TwoStep, 0),
            Step::States => (Mode::ThreeStep, 0),
            Step::Votes => (Mode::ThreeStep, 1),
        }
    }

    fn next(self, mode: Mode) -> Step {
        match (self, mode) {
            (Step::Proposals, Mode::TwoStep) => Step::FirstVotes,
            (Step::States, _) => Step::Votes,
            _ => Step::States,
        }
    }
}

fn request(which: usize) -> Option<EntryId> {
    let seq = which as u64 + 1;
    (which < 2).then_some(EntryId {
        origin: ReplicaId(1),
        boot: Boot(1),
        seq,
    })
}

/// All counts that are at most these.
fn within(most: Counts) -> impl Iterator<Item = Counts> {
    let last = move |x, y| (0..=most[2]).map(move |z| [x, y, z]);
    (0..=most[0]).flat_map(move |x| (0..=most[1]).flat_map(move |y| last(x, y)))
}

/// All ways for so many members to say one of these.
fn spread_over(members: usize, values: &BTreeSet<usize>) -> BTreeSet<Counts> {
    let most = [0, 1, 2].map(|value| members * usize::from(values.contains(&value)));
    let all = within(most).filter(|counts| counts.iter().sum::<usize>() == members);
    all.collect()
}

/// What can follow when so many said what.
#[derive(Clone, Default)]
struct Follow {
    /// What may be decided.
    decided: BTreeSet<Option<EntryId>>,
    /// What a member may say next, by side of the coin and by what it said itself.
    next: [[BTreeSet<usize>; 3]; 2],
}

/// All slots with these numbers.
struct Search {
    config: Config,
    mode: Mode,
    /// Slots of which the coin shows one side each.
    coins: [Slot; 2],
    /// By step, the request that `T` propose, and counts.
    known: BTreeMap<(Step, Option<EntryId>, Counts), Follow>,
}

impl Search {
    fn new(config: Config, mode: Mode) -> Search {
        let shows = |side| {
            let shown = |slot: &u64| coin(config.seed, config.epoch, Slot(*slot), 1) == side;
            Slot((0..).find(shown).expect("both sides come up"))
        };
        Search {
            coins: [shows(false), shows(true)],
            known: BTreeMap::new(),
            config,
            mode,
        }
    }

    /// What the code has before it at a member that heard this, what it said itself included.
    fn instance(&self, step: Step, q: Option<EntryId>, heard: Counts, own: usize) -> Instance {
        let mut instance = Instance::new(&self.config);
        let others = (0..3).flat_map(|what| vec![what; heard[what] - usize::from(what == own)]);
        let all = std::iter::once(own).chain(others).enumerate();
        for (member, what) in all {
            let voice = &mut instance.voices[member];
            if step == Step::Proposals {
                voice.prop = request(what).into();
                continue;
            }
            let (mode, at) = step.place(self.mode);
            voice.trail = Trail::new(mode);
            // Of States before votes nothing is known but that there were some.
            (0..at).for_each(|_| voice.trail.push(VALUES[member % 2]));
            voice.trail.push(VALUES[what]);
        }
        instance.q = q.filter(|_| step != Step::Proposals && heard[ONE] > 0);
        instance.learn(&self.config.thresholds);
        instance
    }

    fn follow(&mut self, step: Step, q: Option<EntryId>, counts: Counts) -> Follow {
        if let Some(known) = self.known.get(&(step, q, counts)) {
            return known.clone();
        }
        self.config.mode = step.place(self.mode).0;
        // What votes stand behind is not what was said: they alone decide here.
        self.config.fast_rules = step != Step::Votes;
        let mut follow = Follow::default();
        for heard in within(counts) {
            for own in (0..3).filter(|own| heard[*own] > 0) {
                let instance = self.instance(step, q, heard, own);
                let verdict = instance.decision(&self.config, View::All);
                follow.decided.extend(verdict.map(|verdict| verdict.value));
                for (next, slot) in follow.next.iter_mut().zip(self.coins) {
                    match instance.next_value(&self.config, slot, MemberSet::EMPTY) {
                        Next::Take(value) | Next::Settle(value, _) => {
                            next[own].extend(VALUES.iter().position(|one| *one == value));
                        }
                        Next::Wait => {}
                        Next::Hold | Next::Grace => panic!("nobody is waited for"),
                    }
                }
            }
        }
        self.known.insert((step, q, counts), follow.clone());
        follow
    }

    /// Two outcomes of one slot in which these are the proposals, if there are two.
    fn disagreement(&mut self, proposals: Counts) -> Option<String> {
        let enough = self.config.thresholds.proposal;
        if proposals[0] >= enough && proposals[1] >= enough {
            return Some(format!("{proposals:?}: two requests have T proposals"));
        }
        let q = (0..2).find(|which| proposals[*which] >= enough);
        let q = q.and_then(request);
        let mut seen = BTreeSet::new();
        let mut open = vec![(Step::Proposals, proposals, BTreeSet::new())];
        while let Some((step, counts, mut decided)) = open.pop() {
            let follow = self.follow(step, q, counts);
            decided.extend(follow.decided);
            if decided.len() > 1 {
                return Some(format!("{proposals:?}: {decided:?} at {step:?} {counts:?}"));
            }
            for next in &follow.next {
                for counts in all_next(counts, next) {
                    let place = (step.next(self.mode), counts, decided.clone());
                    if seen.insert(place.clone()) {
                        open.push(place);
                    }
                }
            }
        }
        None
    }
}

/// All counts of a step when so many members may say these.
fn all_next(counts: Counts, next: &[BTreeSet<usize>; 3]) -> BTreeSet<Counts> {
    let mut sums = BTreeSet::from([[0; 3]]);
    for own in (0..3).filter(|own| counts[*own] > 0) {
        let parts = spread_over(counts[own], &next[own]);
        let add = |x: &Counts, y: &Counts| [x[0] + y[0], x[1] + y[1], x[2] + y[2]];
        let all = sums
            .iter()
            .flat_map(|x| parts.iter().map(move |y| add(x, y)));
        sums = all.collect();
    }
    assert!(!sums.is_empty(), "whoever heard everybody goes on");
    sums
}

/// `n`, `f` and `k`.
type Case = (usize, usize, usize);

/// A slot's numbers, made of `n`, `f` and `k`.
type Numbers = fn(&mut Thresholds, k: usize);

/// Two outcomes of some slot, if there is one with two.
fn disagreement(case: Case, requests: usize, change: Numbers) -> Option<String> {
    disagreement_of(case, "false", requests, change)
}

/// Where who holds its segment proposes, and `T` is as many as have to hold theirs.
fn disagreement_merged(case: Case, change: Numbers) -> Option<String> {
    disagreement_of(case, "true", 2, change)
}

fn disagreement_of(
    (n, f, k): Case,
    merged: &str,
    requests: usize,
    change: Numbers,
) -> Option<String> {
    let (f, k_text) = (f.to_string(), k.to_string());
    let params = [
        ("f", &*f),
        ("k", &*k_text),
        ("merged", merged),
        ("vote_hold_us", "0"),
    ];
    let mut config = Racos::config(&seat(Racos::NAME, n, 0, 1, &params))
        .unwrap()
        .mvc;
    change(&mut config.thresholds, k);
    let all = within([n, n * (requests - 1), n]).filter(|counts| counts.iter().sum::<usize>() == n);
    let all: Vec<Counts> = all.collect();
    // A first vote of 0 on M NULLs needs T + M > n.
    let t = &config.thresholds;
    let modes = match t.proposal + t.state_majority > n {
        true => &[Mode::ThreeStep, Mode::TwoStep][..],
        false => &[Mode::ThreeStep],
    };
    modes.iter().find_map(|mode| {
        let mut search = Search::new(config.clone(), *mode);
        let found = all
            .iter()
            .find_map(|proposals| search.disagreement(*proposals));
        found.map(|what| format!("{mode:?} {what}"))
    })
}

fn with_proposals(t: &mut Thresholds, enough: usize) {
    t.proposal = enough;
    (t.fast_0, t.read) = (t.n - enough + 1, t.n - enough + 1);
}

const AS_THEY_ARE: Numbers = |_, _| {};
/// The paper's: `n - f` decide at once; `T` a majority.
const MAJORITY: Numbers = |t, _| t.fast_1 = t.wait;
/// The paper's: `n - f` decide at once; `T = k + f`.
const CODED: Numbers = |t, k| {
    with_proposals(t, k + t.f);
    t.fast_1 = t.wait;
};
/// `n - f` decide at once; `T = f + 1`, which is enough for a slot that one request alone may get.
const FEW: Numbers = |t, _| {
    with_proposals(t, t.f + 1);
    t.fast_1 = t.wait;
};
const ONE_LESS: Numbers = |t, _| t.fast_1 -= 1;
const CODED_STATES: Numbers = |t, k| {
    t.state_majority = k + t.f;
    t.fast_state = t.state_majority + t.f;
};

const CASES: [Case; 4] = [(4, 1, 2), (5, 1, 3), (7, 2, 3), (7, 1, 4)];

/// The table: of each case whether `n - f` equal proposals may decide with `T` a majority, with `T = k + f`, and
/// with `T = f + 1` in slots that one request alone may get.
#[test]
fn the_table_of_when_n_less_f_proposals_may_decide() {
    let expected = [
        [false, false, true],
        [true, false, true],
        [false, false, true],
        [true, true, true],
    ];
    for (case, expected) in CASES.into_iter().zip(expected) {
        let columns = [(2, MAJORITY), (2, CODED), (1, FEW)];
        let found = columns.map(|(requests, numbers)| disagreement(case, requests, numbers));
        println!("n, f, k = {case:?}: {found:?}");
        assert_eq!(found.map(|two| two.is_none()), expected, "{case:?}");
        assert!(
            disagreement(case, 2, FEW).is_some(),
            "{case:?}: two requests"
        );
    }
}

/// What Racos uses, `F = T + f` and `T` a majority, is safe, and with one proposal less it is not.
#[test]
fn the_numbers_of_the_code_agree_and_no_smaller_ones_do() {
    let more = [(3, 1, 1), (5, 1, 2), (5, 2, 1), (7, 1, 3)];
    for case in CASES.into_iter().chain(more) {
        assert_eq!(disagreement(case, 2, AS_THEY_ARE), None, "{case:?}");
        let less = disagreement(case, 2, ONE_LESS);
        assert!(less.is_some(), "{case:?}: F = T + f - 1");
    }
}

/// With `merged`, `T = max(M, k + f)` and `F = T + f` are safe, and `F` one less is not.
#[test]
fn the_numbers_of_merged_agree_and_no_smaller_ones_do() {
    let cases = [
        (4, 1, 2),
        (5, 1, 3),
        (5, 1, 2),
        (7, 2, 3),
        (7, 1, 4),
        (7, 1, 3),
    ];
    for case in cases {
        assert_eq!(disagreement_merged(case, AS_THEY_ARE), None, "{case:?}");
        let less = disagreement_merged(case, ONE_LESS);
        assert!(less.is_some(), "{case:?}: F = T + f - 1");
    }
}

/// `k + f` States make a vote: safe where that is a majority, and nowhere else.
#[test]
fn states_are_counted_by_majority() {
    for case @ (n, f, k) in [(5, 1, 3), (7, 2, 3), (7, 1, 4), (7, 1, 2), (5, 1, 1)] {
        let is_majority = k + f > n / 2;
        let found = disagreement(case, 2, CODED_STATES);
        assert_eq!(found.is_none(), is_majority, "{case:?}: {found:?}");
    }
}
