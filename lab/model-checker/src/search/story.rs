//! How the search came to where it stopped, in words.

use super::{Path, Search, Stop};
use crate::host_model::Act;
use crate::panics::INVARIANT;
use quorate_core::Plain;

impl<M: Plain> Search<'_, M> {
    /// The shortest way to where the search stopped, step by step.
    pub(super) fn tell(&mut self, stop: &Stop) -> Vec<String> {
        let mut lines = Vec::new();
        if self.tuples.len() == 0 {
            lines.push(format!("replica {} starts", stop.who + 1));
            if stop.fault.property != INVARIANT {
                let told = self.cache.tell_first(stop.who);
                lines.extend(told.into_iter().map(|line| format!("    {line}")));
            }
            return lines;
        }
        for (who, path) in self.way_to(stop) {
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

    /// The moves before a stop, each with who takes it. Which of the states behind its equivalence class a
    /// replica is in follows from where it goes later.
    fn way_to(&mut self, stop: &Stop) -> Vec<(usize, Path)> {
        let mut wanted = vec![None; self.tuples.get(0).len()];
        wanted[stop.who] = stop.path.first().map(|(from, _)| *from);
        let mut moves = Vec::new();
        let mut state = stop.state;
        while state != 0 {
            let before = self.tuples.parent(state);
            let (from, to) = (self.tuples.get(before), self.tuples.get(state));
            let who = (0..from.len()).find(|who| from[*who] != to[*who]);
            let who = who.expect("a move changes one replica");
            let (class, next, faces) = (from[who], to[who], self.faces(from));
            let (path, start) = self.path(class, &faces, who, next, wanted[who]);
            wanted[who] = Some(start);
            moves.push((who, path));
            state = before;
        }
        moves.reverse();
        moves
    }

    /// The steps of a move that leads to one state behind an equivalence class, or to any, and the state that
    /// they begin in.
    pub(super) fn path(
        &mut self,
        class: u32,
        faces: &[u32],
        who: usize,
        next: u32,
        wanted: Option<u32>,
    ) -> (Path, u32) {
        let states = self.classes.states(class).to_vec();
        let wanted = wanted.unwrap_or(self.classes.face(next));
        let found = self.explore(&states, faces, who);
        let (hidden, steps) = found.unwrap_or_else(|_| unreachable!("it was explored before"));
        let step = steps.into_iter().find(|step| step.next == wanted);
        let path = step.expect("the move was found before").path(&hidden);
        let start = path[0].0;
        (path, start)
    }

    fn tell_step(&mut self, from: u32, who: usize, act: Act, lines: &mut Vec<String>) {
        lines.push(self.headline(from, who, act));
        let told = self.cache.tell(from, act);
        lines.extend(told.into_iter().map(|line| format!("    {line}")));
    }

    fn headline(&self, from: u32, who: usize, act: Act) -> String {
        let what = match act {
            Act::Hear { mail, clock } => {
                let mail = self.cache.interner.mail(mail);
                let clock = self.clock(clock);
                format!("hears from {}{clock}: {:?}", mail.from + 1, mail.message)
            }
            Act::Fire { timer, .. } => {
                let mut timers = self.cache.node(from).timers.iter();
                let timer = timers.nth(usize::from(timer)).expect("it runs");
                format!("is woken by its timer {timer:?}")
            }
            Act::Flush { writes } => format!("its disk finishes {writes} write(s)"),
            Act::Crash { lines } => {
                let disk = &self.cache.node(from).disk;
                let all = disk.lines.len();
                format!("crashes and restarts with {lines} of {all} lines of its log")
            }
            Act::Lose => "crashes, and restarts with nothing".to_string(),
            Act::Submit { request, clock, .. } => {
                let class = self.cache.model.scope.requests[usize::from(request)].class;
                format!(
                    "is asked for request {} ({class:?}){}",
                    request + 1,
                    self.clock(clock)
                )
            }
            Act::Gather { place } => {
                let entry = &self.cache.node(from).gathers[usize::from(place)];
                format!("has gathered the payloads of {:?}", entry.id)
            }
            Act::CatchUp { log } => {
                let codes = &self.cache.logs[log as usize];
                let names = codes.iter().map(|code| self.cache.interner.name(*code));
                format!("catches up: {}", names.collect::<Vec<_>>().join(", "))
            }
        };
        format!("replica {} {what}", who + 1)
    }

    fn clock(&self, clock: u8) -> String {
        match self.cache.model.scope.clocks {
            [_] => String::new(),
            clocks => format!(" (clock {} ns)", clocks[usize::from(clock)]),
        }
    }
}
