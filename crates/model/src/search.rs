//! The general search: every order of every step that anybody may take, breadth first.
//!
//! Steps that nobody else can notice are not ordered against those of others: a replica that hears
//! something and neither says, writes nor decides anything could as well have heard it later, since
//! messages stay. So a state of the cluster is one in which nobody has heard anything in vain since
//! it last did something that shows, and a move is any number of hidden steps of one replica and
//! one that shows.

use crate::atlas::{Atlas, CUT};
use crate::duties::{Act, Duties, Fault};
use crate::panics::{Guard, INVARIANT};
use crate::tuples::Tuples;
use quorate_core::{Class, Machine};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a search came to.
#[derive(Clone, Default, Debug)]
pub(crate) struct Found {
    /// States of the whole cluster.
    pub(crate) states: u64,
    /// States of single replicas.
    pub(crate) replica_states: u64,
    /// Steps of machines.
    pub(crate) steps: u64,
    /// Moves between states of the cluster.
    pub(crate) transitions: u64,
    /// Moves of the longest of the shortest ways to a state.
    pub(crate) depth: u64,
    /// States in which everybody has decided everything.
    pub(crate) ends: u64,
    /// Bytes of the set of states, in all.
    pub(crate) bytes: u64,
    /// The first fault, and the shortest way to it in words.
    pub(crate) fault: Option<(Fault, Vec<String>)>,
}

/// A search under way.
struct Search<'a, M: Machine> {
    atlas: Atlas<'a, M>,
    tuples: Tuples,
    /// By state of a replica and what it sees of each other one: its moves.
    known: BTreeMap<(u32, Vec<u32>), Rc<[Move]>>,
    found: Found,
}

/// Steps of one replica, each from a state of it.
type Path = Vec<(u32, Act)>;

/// A move of one replica: some hidden steps, and one that shows.
#[derive(Clone, Copy)]
struct Move {
    /// The hidden state that the last step is taken from, by its place among those found.
    after: usize,
    act: Act,
    next: u32,
}

impl Move {
    fn path(&self, hidden: &Hidden) -> Path {
        let mut path = way(hidden, self.after);
        path.push((hidden[self.after].0, self.act));
        path
    }
}

/// The states that a replica may come to by hidden steps: each with the one before, by its place,
/// and the step between.
type Hidden = Vec<(u32, Option<(usize, Act)>)>;

/// Where the search stopped: the state, who did what there, and what is wrong with it.
struct Stop {
    state: u32,
    who: usize,
    path: Path,
    fault: Fault,
}

/// Searches the scope of these duties under their seed of the coin.
pub(crate) fn search<M: Machine>(duties: Duties<'_, M>, states_max: u64, guard: Guard) -> Found {
    let n = duties.scope.n;
    let mut search = Search::<M> {
        atlas: Atlas::new(duties, guard),
        tuples: Tuples::new(n),
        known: BTreeMap::new(),
        found: Found::default(),
    };
    if let Err(stop) = search.run(states_max) {
        let story = search.tell(&stop);
        search.found.fault = Some((stop.fault, story));
    }
    search.found.states = search.tuples.len() as u64;
    search.found.replica_states = search.atlas.len() as u64;
    search.found.steps = search.atlas.guard.steps();
    search.found.bytes = search.tuples.bytes() as u64;
    search.found
}

impl<M: Machine> Search<'_, M> {
    fn run(&mut self, states_max: u64) -> Result<(), Stop> {
        let stop = |fault| Stop {
            state: 0,
            who: 0,
            path: Vec::new(),
            fault,
        };
        let n = self.atlas.duties.scope.n;
        let first = (0..n).map(|me| self.atlas.first(me));
        let first = first.collect::<Result<Vec<_>, _>>().map_err(stop)?;
        self.tuples.insert(&first, 0);
        let (mut state, mut layer_end) = (0, 1);
        while (state as usize) < self.tuples.len() {
            if state as usize == layer_end {
                layer_end = self.tuples.len();
                self.found.depth += 1;
            }
            if self.tuples.len() as u64 > states_max {
                let what = format!("more than {states_max} states");
                return Err(stop(Fault::new("size", what)));
            }
            self.expand(state)?;
            state += 1;
        }
        Ok(())
    }

    /// Takes every move from a state.
    fn expand(&mut self, state: u32) -> Result<(), Stop> {
        let mut tuple = self.tuples.get(state).to_vec();
        let slots = self.atlas.duties.scope.slots;
        let is_end = |from: &u32| self.atlas.node(*from).decided.len() >= slots;
        self.found.ends += u64::from(tuple.iter().all(is_end));
        let (crashes, losses) = self.faults_left(&tuple);
        for who in 0..tuple.len() {
            let stop = |path, fault| Stop {
                state,
                who,
                path,
                fault,
            };
            let moves = self
                .moves(&tuple, who)
                .map_err(|(path, fault)| stop(path, fault))?;
            let before = tuple[who];
            for step in moves.iter() {
                match step.act {
                    Act::Crash { .. } if crashes == 0 => continue,
                    Act::Lose if losses == 0 => continue,
                    _ => tuple[who] = step.next,
                }
                self.found.transitions += 1;
                if let Err(fault) = self.judge(&tuple, who, before) {
                    return Err(stop(self.path(state, who, step.next), fault));
                }
                self.tuples.insert(&tuple, state);
            }
            tuple[who] = before;
        }
        Ok(())
    }

    /// The moves of one replica, worked out once for all that it sees of the others.
    fn moves(&mut self, tuple: &[u32], who: usize) -> Result<Rc<[Move]>, (Path, Fault)> {
        let others = (0..tuple.len()).filter(|other| *other != who);
        let faces = others
            .map(|other| self.atlas.face(tuple[other], who))
            .collect::<Vec<_>>();
        let key = (tuple[who], faces);
        if let Some(moves) = self.known.get(&key) {
            return Ok(Rc::clone(moves));
        }
        let (_, moves) = self.work_out(tuple, who)?;
        let moves: Rc<[Move]> = moves.into();
        self.known.insert(key, Rc::clone(&moves));
        Ok(moves)
    }

    /// Follows all hidden steps of a replica up to those that show. Of states that one may come to
    /// from another by hidden steps only the other is kept: it can still hear what it did not.
    fn work_out(
        &mut self,
        tuple: &[u32],
        who: usize,
    ) -> Result<(Hidden, Vec<Move>), (Path, Fault)> {
        let (hidden, mut moves) = self.explore(tuple, who)?;
        let mut later = BTreeSet::new();
        let mut tuple = tuple.to_vec();
        for step in &moves {
            if later.contains(&step.next) {
                continue;
            }
            tuple[who] = step.next;
            let (reached, _) = self.explore(&tuple, who).map_err(|(rest, fault)| {
                let mut path = step.path(&hidden);
                path.extend(rest);
                (path, fault)
            })?;
            later.extend(reached[1..].iter().map(|(state, _)| *state));
        }
        moves.retain(|step| !later.contains(&step.next));
        Ok((hidden, moves))
    }

    fn explore(&mut self, tuple: &[u32], who: usize) -> Result<(Hidden, Vec<Move>), (Path, Fault)> {
        let from = tuple[who];
        let mut hidden: Hidden = vec![(from, None)];
        let mut seen = BTreeSet::from([from, CUT]);
        let mut moves = Vec::new();
        let mut after = 0;
        while after < hidden.len() {
            let state = hidden[after].0;
            for act in self.acts(state, tuple, who) {
                let next = self.atlas.take(state, act).map_err(|fault| {
                    let mut path = way(&hidden, after);
                    path.push((state, act));
                    (path, fault)
                })?;
                if !seen.insert(next) {
                    continue;
                }
                if self.atlas.is_midway(next) || self.atlas.look_alike(from, next) {
                    hidden.push((next, Some((after, act))));
                } else {
                    moves.push(Move { after, act, next });
                }
            }
            after += 1;
        }
        Ok((hidden, moves))
    }

    /// All that a replica in some state may do where the others are in these.
    fn acts(&mut self, state: u32, tuple: &[u32], who: usize) -> Vec<Act> {
        let mut acts = self.atlas.own_acts(state);
        if self.atlas.node(state).machine.is_none() || self.atlas.is_midway(state) {
            return acts;
        }
        for clock in 0..self.atlas.duties.scope.clocks.len() as u8 {
            for (_, peer) in tuple.iter().enumerate().filter(|(other, _)| *other != who) {
                let mails = self.atlas.sent(*peer, who).iter();
                acts.extend(mails.map(|mail| Act::Hear { mail: *mail, clock }));
            }
        }
        acts.extend(self.joint_acts(state, tuple, who));
        acts
    }

    /// Steps that depend on what others have decided.
    fn joint_acts(&mut self, state: u32, tuple: &[u32], who: usize) -> Vec<Act> {
        let mut acts = Vec::new();
        let have = self.atlas.node(state).decided.len();
        for peer in (0..tuple.len()).filter(|peer| *peer != who) {
            let chosen = self.atlas.node(tuple[peer]).chosen.clone();
            for end in have + 1..=chosen.len() {
                let log = self.atlas.log(&chosen[..end]);
                acts.push(Act::CatchUp { log });
            }
        }
        let reads = self.atlas.open_requests(state, Class::Read);
        let reads = reads.collect::<Vec<_>>();
        if !reads.is_empty() {
            let effects = tuple.iter().map(|state| self.atlas.effects(*state));
            let floor = effects.max().map_or(0, |slot| slot.0 as u8);
            acts.extend(reads.into_iter().map(|request| Act::Submit {
                request,
                clock: 0,
                floor,
            }));
        }
        acts
    }

    fn faults_left(&self, tuple: &[u32]) -> (u8, u8) {
        let scope = self.atlas.duties.scope;
        let nodes = tuple.iter().map(|state| self.atlas.node(*state));
        let sum = |(crashes, losses), (c, l)| (crashes + c, losses + l);
        let used = nodes
            .map(|node| (node.crashes, node.losses))
            .fold((0, 0), sum);
        (scope.crashes - used.0, scope.losses - used.1)
    }

    /// Whether what one replica decided in a step agrees with what all others ever did.
    fn judge(&self, tuple: &[u32], who: usize, before: u32) -> Result<(), Fault> {
        let mine = &self.atlas.node(tuple[who]).chosen;
        if mine.len() == self.atlas.node(before).chosen.len() {
            return Ok(());
        }
        for (other, state) in tuple.iter().enumerate() {
            let theirs = &self.atlas.node(*state).chosen;
            if let Some(slot) = mine.iter().zip(theirs).position(|(a, b)| a != b) {
                let what = format!(
                    "slot {slot}: replica {} decides {}, replica {} has decided {}",
                    who + 1,
                    self.atlas.book.name(mine[slot]),
                    other + 1,
                    self.atlas.book.name(theirs[slot]),
                );
                return Err(Fault::new("agreement", what));
            }
        }
        Ok(())
    }

    /// The steps of a replica from a state of the cluster to where a move leads.
    fn path(&mut self, state: u32, who: usize, next: u32) -> Path {
        let tuple = self.tuples.get(state).to_vec();
        let Ok((hidden, moves)) = self.work_out(&tuple, who) else {
            return Vec::new();
        };
        let step = moves.into_iter().find(|step| step.next == next);
        let step = step.expect("the move was found before");
        step.path(&hidden)
    }

    /// The shortest way to where the search stopped, step by step.
    fn tell(&mut self, stop: &Stop) -> Vec<String> {
        let mut states = vec![stop.state];
        while states[states.len() - 1] != 0 {
            states.push(self.tuples.parent(states[states.len() - 1]));
        }
        states.reverse();
        let mut lines = Vec::new();
        for pair in states.windows(2) {
            let (from, to) = (self.tuples.get(pair[0]), self.tuples.get(pair[1]));
            let who = (0..from.len()).find(|who| from[*who] != to[*who]);
            let who = who.expect("a move changes one replica");
            let next = to[who];
            let path = self.path(pair[0], who, next);
            path.into_iter()
                .for_each(|(from, act)| self.tell_step(from, who, act, &mut lines));
        }
        for (from, act) in &stop.path {
            let is_last = Some((*from, *act)) == stop.path.last().copied();
            if is_last && stop.fault.property == INVARIANT {
                lines.push(self.headline(*from, stop.who, *act));
            } else {
                self.tell_step(*from, stop.who, *act, &mut lines);
            }
        }
        lines
    }

    fn tell_step(&mut self, from: u32, who: usize, act: Act, lines: &mut Vec<String>) {
        lines.push(self.headline(from, who, act));
        let told = self.atlas.tell(from, act);
        lines.extend(told.into_iter().map(|line| format!("    {line}")));
    }

    fn headline(&self, from: u32, who: usize, act: Act) -> String {
        let what = match act {
            Act::Hear { mail, clock } => {
                let mail = self.atlas.book.mail(mail);
                let clock = self.clock(clock);
                format!("hears from {}{clock}: {:?}", mail.from + 1, mail.message)
            }
            Act::Fire { timer, .. } => {
                let mut timers = self.atlas.node(from).timers.iter();
                let timer = timers.nth(usize::from(timer)).expect("it runs");
                format!("is woken by its timer {timer:?}")
            }
            Act::Flush { writes } => format!("its disk finishes {writes} write(s)"),
            Act::Crash { lines } => {
                let disk = &self.atlas.node(from).disk;
                let all = disk.lines.len();
                format!("crashes and restarts with {lines} of {all} lines of its log")
            }
            Act::Lose => "crashes, and restarts with nothing".to_string(),
            Act::Submit { request, clock, .. } => {
                let class = self.atlas.duties.scope.requests[usize::from(request)].class;
                format!(
                    "is asked for request {} ({class:?}){}",
                    request + 1,
                    self.clock(clock)
                )
            }
            Act::CatchUp { log } => {
                let codes = &self.atlas.logs[log as usize];
                let names = codes.iter().map(|code| self.atlas.book.name(*code));
                format!("catches up: {}", names.collect::<Vec<_>>().join(", "))
            }
        };
        format!("replica {} {what}", who + 1)
    }

    fn clock(&self, clock: u8) -> String {
        match self.atlas.duties.scope.clocks {
            [_] => String::new(),
            clocks => format!(" (clock {} ns)", clocks[usize::from(clock)]),
        }
    }
}

/// The hidden steps to one of the states.
fn way(hidden: &Hidden, to: usize) -> Path {
    let mut path = Vec::new();
    let mut place = to;
    while let Some((before, act)) = hidden[place].1 {
        path.push((hidden[before].0, act));
        place = before;
    }
    path.reverse();
    path
}
