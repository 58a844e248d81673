//! One slot, every interleaving of the rules as they ship: phase 1(c) ([`decide`]), the quorums and
//! the retention rule, without the machinery around them. Acceptors are alike, so that states that
//! differ in who is who count once. The counts are what a search found, put here so that one that
//! covers less is noticed.

use crate::multi_paxos::MultiPaxos;
use crate::registry::{Protocol, Sabotage};
use crate::rs_paxos::decide::{Choice, Vote, decide};
use crate::rs_paxos::tests::net::seat;
use crate::rs_paxos::{Ballot, Config, Fault, Fragments, RsPaxos};
use quorate_core::{Boot, EntryId, ReplicaId};
use std::collections::{BTreeSet, VecDeque};

/// What an acceptor has accepted: in which ballot, the value, and what it holds of it.
type Accepted = Option<(u8, u8, Fragments)>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Acceptor {
    promised: u8,
    accepted: Accepted,
    /// By ballot that nothing is proposed in yet: what it had accepted when it promised.
    promises: Vec<(u8, Accepted)>,
    /// Ballots and codes of its accepts.
    accepts: BTreeSet<(u8, u8)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    acceptors: Vec<Acceptor>,
    /// By ballot: the value proposed, and the codes it was proposed under.
    proposed: Vec<Option<(u8, BTreeSet<u8>)>>,
}

/// How far a search goes.
struct Scope {
    config: Config,
    ballots: u8,
    codes: &'static [u8],
    /// Codes of one ballot.
    codes_per_ballot: usize,
}

impl Scope {
    fn new(config: Config, ballots: u8, codes: &'static [u8], codes_per_ballot: usize) -> Scope {
        Scope {
            config,
            ballots,
            codes,
            codes_per_ballot,
        }
    }

    /// States, if no two values are ever chosen, and every one that is can be rebuilt.
    fn search(&self) -> Result<usize, String> {
        self.search_for(true)
    }

    fn search_for(&self, is_rebuildable: bool) -> Result<usize, String> {
        let first = State {
            acceptors: vec![Acceptor::default(); self.config.seating.members.len()],
            proposed: vec![None; usize::from(self.ballots) + 1],
        };
        let mut known = BTreeSet::from([first.clone()]);
        let mut open = VecDeque::from([first]);
        while let Some(state) = open.pop_front() {
            let mut chosen = self.chosen(&state);
            if chosen.len() > 1 {
                return Err(format!("two values are chosen: {chosen:?}"));
            }
            if is_rebuildable && let Some(value) = chosen.pop_first() {
                self.check_rebuildable(&state, value)?;
            }
            for mut next in self.nexts(&state) {
                next.acceptors.sort();
                if known.insert(next.clone()) {
                    open.push_back(next);
                }
            }
        }
        Ok(known.len())
    }

    fn nexts(&self, state: &State) -> Vec<State> {
        let mut nexts = Vec::new();
        for ballot in 1..=self.ballots {
            match &state.proposed[usize::from(ballot)] {
                None => {
                    self.promise(state, ballot, &mut nexts);
                    self.propose(state, ballot, &mut nexts);
                }
                Some((value, codes)) => {
                    if codes.len() < self.codes_per_ballot {
                        let more = self.codes.iter().filter(|code| !codes.contains(code));
                        nexts.extend(more.map(|code| proposed(state, ballot, *value, *code)));
                    }
                    for code in codes {
                        self.accept(state, (ballot, *code), *value, &mut nexts);
                    }
                }
            }
        }
        nexts
    }

    /// Phase 1(b) of some acceptors.
    fn promise(&self, state: &State, ballot: u8, nexts: &mut Vec<State>) {
        for index in distinct(&state.acceptors, |a| a.promised < ballot) {
            let mut next = state.clone();
            let acceptor = &mut next.acceptors[index];
            acceptor.promised = ballot;
            acceptor.promises.push((ballot, acceptor.accepted));
            nexts.push(next);
        }
    }

    /// Phases 1(c) and 2(a), by any promises.
    fn propose(&self, state: &State, ballot: u8, nexts: &mut Vec<State>) {
        let of_ballot = |acceptor: &Acceptor| {
            let mut promises = acceptor.promises.iter();
            promises
                .find(|(of, _)| *of == ballot)
                .map(|(_, accepted)| *accepted)
        };
        let told: Vec<Accepted> = state.acceptors.iter().filter_map(of_ballot).collect();
        let mut values = BTreeSet::new();
        for set in 0..1u32 << told.len() {
            if (set.count_ones() as usize) < self.config.thresholds.read {
                continue;
            }
            let heard = told.iter().enumerate().filter(|(m, _)| set & 1 << m != 0);
            let votes: Vec<Vote> = heard
                .filter_map(|(_, accepted)| accepted.map(vote))
                .collect();
            match decide(&votes, !self.config.faults.is(Fault::CountByBallot)) {
                // A value of its own, or a no-op: either is another than all before.
                Choice::Free => values.insert(ballot),
                Choice::Value { value, .. } => values.insert(value.map_or(0, |id| id.seq as u8)),
                Choice::Wait { .. } => panic!("nothing is lost here"),
            };
        }
        for value in values {
            nexts.extend(
                self.codes
                    .iter()
                    .map(|code| proposed(state, ballot, value, *code)),
            );
        }
    }

    /// Phase 2(b), with the retention rule.
    fn accept(&self, state: &State, (ballot, code): (u8, u8), value: u8, nexts: &mut Vec<State>) {
        let is_open = |a: &Acceptor| a.promised <= ballot && !a.accepts.contains(&(ballot, code));
        for index in distinct(&state.acceptors, is_open) {
            let mut next = state.clone();
            let acceptor = &mut next.acceptors[index];
            let keeps = !self.config.faults.is(Fault::DropFragments);
            let before = acceptor
                .accepted
                .filter(|(_, held, _)| *held == value && keeps);
            let mut fragments = before.map_or(Fragments::default(), |(.., held)| held);
            fragments.add(code);
            acceptor.promised = ballot;
            acceptor.accepted = Some((ballot, value, fragments));
            acceptor.accepts.insert((ballot, code));
            nexts.push(next);
        }
    }

    /// Every value that enough accepts of one ballot and code have chosen.
    fn chosen(&self, state: &State) -> BTreeSet<u8> {
        let mut chosen = BTreeSet::new();
        for (ballot, proposed) in state.proposed.iter().enumerate() {
            let Some((value, codes)) = proposed else {
                continue;
            };
            let is_chosen = |code: &u8| {
                let accept = (ballot as u8, *code);
                let accepted = state
                    .acceptors
                    .iter()
                    .filter(|a| a.accepts.contains(&accept));
                accepted.count() >= self.config.thresholds.write_of(*code)
            };
            chosen.extend(codes.iter().any(is_chosen).then_some(*value));
        }
        chosen
    }

    /// Every read quorum has fragments enough of a chosen value (I3).
    fn check_rebuildable(&self, state: &State, value: u8) -> Result<(), String> {
        let outside = self.config.seating.members.len() - self.config.thresholds.read;
        let is_safe = self.codes.iter().any(|code| {
            let holds = |a: &&Acceptor| {
                a.accepted
                    .is_some_and(|(_, held, fragments)| held == value && fragments.has(*code))
            };
            state.acceptors.iter().filter(holds).count() >= outside + usize::from(*code)
        });
        is_safe
            .then_some(())
            .ok_or(format!("value {value} cannot be rebuilt everywhere"))
    }
}

fn vote((ballot, value, fragments): (u8, u8, Fragments)) -> Vote {
    let (node, boot) = (ReplicaId(1), Boot(1));
    let seq = u64::from(value);
    Vote {
        ballot: Ballot {
            round: ballot.into(),
            node,
        },
        value: Some(EntryId {
            origin: node,
            boot,
            seq,
        }),
        fragments,
    }
}

fn proposed(state: &State, ballot: u8, value: u8, code: u8) -> State {
    let mut next = state.clone();
    let (_, codes) =
        next.proposed[usize::from(ballot)].get_or_insert_with(|| (value, BTreeSet::new()));
    codes.insert(code);
    for acceptor in &mut next.acceptors {
        acceptor.promises.retain(|(of, _)| *of != ballot);
    }
    next
}

/// One of each kind of acceptor for which something holds; they are sorted.
fn distinct(acceptors: &[Acceptor], holds: impl Fn(&Acceptor) -> bool) -> Vec<usize> {
    let is_first = |index: &usize| *index == 0 || acceptors[*index] != acceptors[*index - 1];
    let all = 0..acceptors.len();
    all.filter(is_first)
        .filter(|index| holds(&acceptors[*index]))
        .collect()
}

fn whole(n: usize) -> Config {
    MultiPaxos::config(&seat::<MultiPaxos>(n, 0, &[])).unwrap()
}

fn coded(n: usize, params: &[(&str, &str)]) -> Config {
    RsPaxos::config(&seat::<RsPaxos>(n, 0, params)).unwrap()
}

fn mutated(mut config: Config, name: &str) -> Config {
    let mutant = RsPaxos::mutants()
        .into_iter()
        .find(|mutant| mutant.name == name);
    match mutant.expect("it is registered").sabotage {
        Sabotage::Config(edit) => edit(&mut config),
        _ => panic!("{name} is no fault of the rules"),
    }
    config
}

#[test]
fn three_members_and_whole_values() {
    assert_eq!(Scope::new(whole(3), 3, &[1], 1).search(), Ok(2_218));
}

#[test]
fn five_members_of_which_any_three_rebuild_a_value() {
    assert_eq!(Scope::new(coded(5, &[]), 3, &[3], 1).search(), Ok(16_978));
}

#[test]
fn four_members_and_two_codes_in_one_ballot() {
    assert_eq!(
        Scope::new(coded(4, &[]), 2, &[1, 2], 2).search(),
        Ok(13_783)
    );
}

#[test]
fn five_members_and_another_code_in_each_ballot() {
    assert_eq!(
        Scope::new(coded(5, &[]), 3, &[2, 3], 1).search(),
        Ok(71_752)
    );
}

#[test]
#[ignore = "takes minutes"]
fn five_members_and_four_ballots() {
    assert_eq!(Scope::new(coded(5, &[]), 4, &[3], 1).search(), Ok(847_088));
}

#[test]
#[ignore = "takes minutes"]
fn seven_members_of_which_any_three_rebuild_a_value() {
    assert_eq!(Scope::new(coded(7, &[]), 3, &[3], 1).search(), Ok(168_148));
}

/// Two values are chosen when a rule is broken.
fn choose_two(name: &str, codes: &'static [u8]) {
    let scope = Scope::new(mutated(coded(5, &[]), name), 3, codes, 1);
    let what = scope.search_for(false).unwrap_err();
    assert!(what.starts_with("two values are chosen"), "{what}");
}

/// Phase 1(c) of the paper, read literally, chooses two values.
#[test]
fn fragments_counted_by_ballot_choose_two_values() {
    choose_two("count-by-ballot", &[3]);
}

#[test]
fn one_accept_too_few_chooses_two_values() {
    choose_two("write-quorum", &[3]);
}

#[test]
fn one_promise_too_few_chooses_two_values() {
    choose_two("read-quorum", &[3]);
}

#[test]
fn without_the_retention_rule_two_values_are_chosen() {
    choose_two("no-retention", &[2, 3]);
}
