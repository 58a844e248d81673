//! Watchers in the workload, and their judge.
//!
//! Each replica has a reader that reads every change once, as the one behind a face does; what the
//! readers find is one record for all replicas. Watchers read keys of their own from where they
//! stopped, some of them seldom enough to be overtaken by compactions, and go on elsewhere when
//! their replica dies. They must see the record: all of it that concerns them, in order, once.

use crate::history::{Op, Seen};
use crate::report::Violation;
use crate::subject::{Change, Changes, Scope, Subject};
use crate::world::World;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{MILLIS, Machine};
use std::collections::BTreeMap;

/// The first revision that can have a change.
const FIRST: u64 = 2;

/// The changes of each revision, in their order; none where nobody has read them.
pub(crate) struct Record {
    revisions: Vec<Vec<Change>>,
}

/// Who watches what.
pub(crate) struct Watcher {
    home: usize,
    scope: Scope,
    /// The first revision not seen.
    next: u64,
    every_ns: u64,
    due_ns: u64,
}

impl Default for Record {
    fn default() -> Self {
        let revisions = vec![Vec::new(); FIRST as usize];
        Record { revisions }
    }
}

impl Record {
    /// The first revision nobody has read.
    fn end(&self) -> u64 {
        self.revisions.len() as u64
    }

    /// The changes of a revision.
    pub(crate) fn of(&self, revision: u64) -> &[Change] {
        let changes = self.revisions.get(revision as usize);
        changes.map_or(&[], |changes| changes)
    }

    /// Revisions that have changes, ascending.
    pub(crate) fn revisions(&self) -> impl Iterator<Item = u64> {
        FIRST..self.end()
    }

    /// All changes of `from..next` as one replica tells them: what others told, or new.
    fn add(&mut self, from: u64, next: u64, found: &[Change], blurred: u64) -> Result<(), String> {
        get_on(from, next)?;
        let mut rest = found;
        for revision in from.max(FIRST)..next {
            let mine = take_revision(&mut rest, revision);
            if mine.is_empty() {
                return Err(format!("no change is told of revision {revision}"));
            }
            if self.revisions.len() <= revision as usize {
                self.revisions.resize(revision as usize + 1, Vec::new());
            }
            let known = &mut self.revisions[revision as usize];
            if known.is_empty() {
                *known = mine.to_vec();
            } else {
                compare(known.iter(), mine, revision <= blurred)?;
            }
        }
        nothing_left(rest)
    }

    /// What a watcher is told of `from..next` is what the record says.
    fn check(
        &self,
        watcher: &Watcher,
        next: u64,
        found: &[Change],
        blurred: u64,
    ) -> Result<(), String> {
        get_on(watcher.next, next)?;
        let mut rest = found;
        for revision in watcher.next..next {
            let mine = take_revision(&mut rest, revision);
            let known = self.of(revision);
            if !known.is_empty() {
                let wanted = known.iter().filter(|change| watcher.scope.covers(change));
                compare(wanted, mine, revision <= blurred)?;
            }
        }
        nothing_left(rest)
    }

    /// What all changes together come to is what there is: none is missing, even of several in
    /// one revision.
    fn explains(&self, content: &BTreeMap<Bytes, Seen>) -> Result<(), String> {
        let mut state: BTreeMap<Bytes, Seen> = BTreeMap::new();
        for revision in self.revisions() {
            let changes = self.of(revision);
            if changes.is_empty() {
                // Nobody read it before it was compacted: nothing can be said.
                return Ok(());
            }
            for change in changes {
                let before = match change.after {
                    Some(after) => state.insert(change.key.clone(), after),
                    None => state.remove(&change.key),
                };
                if change.before.is_some() && change.before != before {
                    return Err(format!("before {change:?} it was told of {before:?}"));
                }
            }
        }
        if state == *content {
            return Ok(());
        }
        Err(format!(
            "the changes come to {state:?}, and there is {content:?}"
        ))
    }

    /// What clients were told they changed is in the record.
    pub(crate) fn covers(&self, history: &[Op]) -> Result<(), String> {
        for op in history {
            let Some((_, outcome)) = op.returned.filter(|(_, outcome)| outcome.changed()) else {
                continue;
            };
            let known = self.of(outcome.revision());
            let is_it = |change: &Change| {
                let value = change.after.map(|after| after.value);
                change.register == Some(op.key) && value == op.call.value()
            };
            if !known.is_empty() && !known.iter().any(is_it) {
                return Err(format!("no watcher was told of {op:?}, but of {known:?}"));
            }
        }
        Ok(())
    }
}

/// Who reads what there is gets on.
fn get_on(from: u64, next: u64) -> Result<(), String> {
    if next > from {
        return Ok(());
    }
    Err(format!("the changes from {from} on end before {next}"))
}

/// Takes the changes of a revision from the front.
fn take_revision<'a>(rest: &mut &'a [Change], revision: u64) -> &'a [Change] {
    let is_other = |change: &Change| change.revision != revision;
    let count = rest.iter().position(is_other).unwrap_or(rest.len());
    let (mine, others) = rest.split_at(count);
    *rest = others;
    mine
}

fn nothing_left(rest: &[Change]) -> Result<(), String> {
    match rest.first() {
        None => Ok(()),
        Some(change) => Err(format!("{change:?} is out of order or told twice")),
    }
}

/// Two tellings of one revision are equal. What was there before may be missing, if `blurred`,
/// because the revision is compacted.
fn compare<'a>(
    known: impl Iterator<Item = &'a Change> + Clone,
    told: &[Change],
    blurred: bool,
) -> Result<(), String> {
    let is_equal = |(known, told): (&Change, &Change)| {
        let is_one_silent = known.before.is_none() || told.before.is_none();
        (known.revision, &known.key, known.after) == (told.revision, &told.key, told.after)
            && (known.before == told.before || blurred && is_one_silent)
    };
    if known.clone().count() == told.len() && known.clone().zip(told).all(is_equal) {
        return Ok(());
    }
    let known: Vec<&Change> = known.collect();
    Err(format!(
        "replicas tell of one revision {known:?} and {told:?}"
    ))
}

impl Watcher {
    /// A new one, from the past or the present.
    pub(crate) fn draw(rng: &mut Rng, replicas: usize, keys: u8, record: &Record) -> Watcher {
        let scope = match rng.u8(..4) {
            0 | 1 => Scope::Register(rng.u8(..keys)),
            2 => Scope::Registers,
            _ => Scope::Leased,
        };
        let next = if rng.bool() {
            record.end()
        } else {
            rng.u64(1..=record.end())
        };
        Watcher {
            home: rng.usize(..replicas),
            scope,
            next,
            every_ns: [0, rng.u64(..50 * MILLIS), rng.u64(..1_500 * MILLIS)][rng.usize(..3)],
            due_ns: 0,
        }
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// The watchers of a replica that died go on elsewhere; some stop, and others come.
    pub(crate) fn move_watchers(&mut self, dead: usize) {
        let n = self.nodes.len();
        for watcher in self.watchers.iter_mut().filter(|w| w.home == dead) {
            watcher.home = self.rng.usize(..n);
            if self.rng.u8(..4) == 0 {
                *watcher = Watcher::draw(&mut self.rng, n, self.plan.load.keys, &self.record);
            }
        }
    }

    /// Everybody at a replica reads what it has newly applied.
    pub(crate) fn read_changes(&mut self, index: usize) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        self.read_all(index)?;
        for at in 0..self.watchers.len() {
            let watcher = &mut self.watchers[at];
            if watcher.home == index && watcher.due_ns <= now_ns {
                watcher.due_ns = now_ns + watcher.every_ns;
                self.read_on(at)?;
            }
        }
        Ok(())
    }

    /// Every watcher reads up to the end, and what it saw explains what there is.
    pub(crate) fn read_last_changes(&mut self) -> Result<(), Violation> {
        for at in 0..self.watchers.len() {
            self.read_on(at)?;
            let next = self.watchers[at].next;
            if next != self.record.end() {
                let what = format!("watcher {at} is at {next} of {}", self.record.end());
                return Err(Violation::new("watch", what));
            }
        }
        let hosts = self.nodes.iter().flat_map(|node| &node.host);
        for app in hosts.map(|host| host.app()) {
            let explained = app.content().and_then(|all| self.record.explains(&all));
            explained.map_err(|why| Violation::new("watch", why))?;
        }
        Ok(())
    }

    /// The reader of all changes.
    fn read_all(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        let Some(app) = node.host.as_ref().map(|host| host.app()) else {
            return Ok(());
        };
        // A new reader begins with the present. What was replayed may be known to nobody yet, and
        // the record wants it.
        let (scope, mut from) = match node.told {
            Some(told) => (Scope::All, told),
            None => (Scope::Every, self.record.end().min(app.revision() + 1)),
        };
        let wrong = |why| Violation::new("watch", format!("replica {}: {why}", index + 1));
        while from <= app.revision() {
            match app.changes(scope, from).map_err(wrong)? {
                Changes::Found { changes, next } => {
                    let blurred = self.leases.compacted_max;
                    let added = self.record.add(from, next, &changes, blurred);
                    added.map_err(wrong)?;
                    from = next;
                }
                // Everybody who waits for them looks for himself.
                Changes::Compacted { readable } => from = readable.max(from + 1),
            }
        }
        if node.told.is_none() {
            // From now on nothing is freed that was not read.
            app.changes(Scope::All, from).map_err(wrong)?;
        }
        node.told = Some(from);
        Ok(())
    }

    /// A watcher reads up to the present of its replica.
    fn read_on(&mut self, at: usize) -> Result<(), Violation> {
        let watcher = &mut self.watchers[at];
        let home = watcher.home;
        let Some(app) = self.nodes[home].host.as_ref().map(|host| host.app()) else {
            return Ok(());
        };
        let wrong = |why| {
            let what = format!("watcher {at} at replica {}: {why}", home + 1);
            Violation::new("watch", what)
        };
        let blurred = self.leases.compacted_max;
        while watcher.next <= app.revision() {
            let next = match app.changes(watcher.scope, watcher.next).map_err(wrong)? {
                Changes::Found { changes, next } => {
                    let checked = self.record.check(watcher, next, &changes, blurred);
                    checked.map_err(wrong)?;
                    self.totals.watched += changes.len() as u64;
                    next
                }
                Changes::Compacted { readable }
                    if watcher.next < readable && readable <= blurred =>
                {
                    self.totals.overtaken += 1;
                    readable
                }
                Changes::Compacted { readable } => {
                    return Err(wrong(format!(
                        "from {} it was told that {readable} is compacted; asked for was {blurred}",
                        watcher.next
                    )));
                }
            };
            watcher.next = next;
            let now_ns = self.queue.now_ns();
            self.trace.event(now_ns, "watch", &[at as u64, next], || {
                format!("watcher {at} at r{} has seen all before {next}", home + 1)
            });
        }
        Ok(())
    }
}
