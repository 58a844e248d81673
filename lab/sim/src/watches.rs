//! Watchers in the workload, and their judge.
//!
//! Each replica has a reader that reads every change once, as the one behind a face does; what the
//! readers find is one journal for all replicas. Watchers read keys of their own from where they
//! stopped, some of them seldom enough to be overtaken by compactions, and go on elsewhere when
//! their replica dies. They must see the journal: all of it that concerns them, in order, once.

use crate::judge::{Journal, Stream};
use crate::report::Violation;
use crate::requests;
use crate::rights::Rights;
use crate::subject::{Changes, Scope, Subject};
use crate::world::World;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{MILLIS, Machine};
use quorate_etcd_api::mvccpb::{Event, KeyValue};
use right::WatchRight;

mod right;

/// Who watches what.
pub(crate) struct Watcher {
    home: usize,
    scope: Scope,
    stream: Stream,
    every_ns: u64,
    due_ns: u64,
    /// The right that the watch takes, where there are users.
    right: Option<WatchRight>,
}

impl Watcher {
    /// A new one, from the past or the present.
    pub(crate) fn draw(rng: &mut Rng, replicas: usize, keys: u8, journal: &Journal) -> Watcher {
        let (key, range_end) = match rng.u8(..4) {
            0 | 1 => (requests::name(rng.u8(..keys)), Bytes::new()),
            2 => requests::registers(),
            _ => requests::leased(),
        };
        let end = journal.end() as u64;
        let next = if rng.bool() { end } else { rng.u64(1..=end) };
        Watcher {
            home: rng.usize(..replicas),
            scope: Scope::Range(key.clone(), range_end.clone()),
            stream: Stream::new(key, range_end, next as i64),
            every_ns: [0, rng.u64(..50 * MILLIS), rng.u64(..1_500 * MILLIS)][rng.usize(..3)],
            due_ns: 0,
            right: None,
        }
    }

    /// Makes it one for somebody who needs the right to it, where there are users.
    pub(crate) fn by(self, rights: &mut Rights) -> Watcher {
        let are_there = rights.are_there();
        let right = are_there.then(|| WatchRight::new(rights.draw_user()));
        Watcher { right, ..self }
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// The watchers of a replica that died go on elsewhere; some stop, and others come.
    pub(crate) fn move_watchers(&mut self, dead: usize) {
        let n = self.nodes.len();
        for watcher in self.watchers.iter_mut().filter(|w| w.home == dead) {
            watcher.home = self.rng.usize(..n);
            watcher.right.iter_mut().for_each(WatchRight::begin_anew);
            if self.rng.u8(..4) == 0 {
                let keys = self.plan.load.keys;
                let drawn = Watcher::draw(&mut self.rng, n, keys, &self.journal);
                *watcher = drawn.by(&mut self.rights);
            }
        }
    }

    /// A watcher of anything, anywhere.
    fn draw_watcher(&mut self) -> Watcher {
        let (n, keys) = (self.nodes.len(), self.plan.load.keys);
        Watcher::draw(&mut self.rng, n, keys, &self.journal).by(&mut self.rights)
    }

    /// All watchers go to members of the group.
    pub(crate) fn watch_members(&mut self) {
        let newest = self.newest_epoch();
        let is_member = |index: &usize| newest.has(self.member(*index));
        let members: Vec<usize> = (0..self.nodes.len()).filter(is_member).collect();
        for watcher in &mut self.watchers {
            if !members.contains(&watcher.home)
                && let Some(home) = self.nemesis.rng.choice(&members)
            {
                watcher.home = *home;
                watcher.right.iter_mut().for_each(WatchRight::begin_anew);
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

    /// Every watcher reads up to the end.
    pub(crate) fn read_last_changes(&mut self) -> Result<(), Violation> {
        for at in 0..self.watchers.len() {
            self.read_on(at)?;
            let watcher = &self.watchers[at];
            let next = watcher.stream.next();
            let is_served = watcher.right.iter().all(WatchRight::is_served);
            if is_served && next != self.journal.end() {
                let what = format!("watcher {at} is at {next} of {}", self.journal.end());
                return Err(Violation::new("watch", what));
            }
        }
        let wrong = |why| Violation::new("answer", why);
        self.agreement.check_promised().map_err(wrong)?;
        self.compare_users()?;
        (0..self.nodes.len()).try_for_each(|index| self.compare_content(index))
    }

    /// What a replica holds, loaded from a snapshot or not, is what all changes up to its revision
    /// come to.
    pub(crate) fn compare_content(&self, index: usize) -> Result<(), Violation> {
        let Some(app) = self.nodes[index].decided_app().and_then(A::revisions) else {
            return Ok(());
        };
        let wrong = |why| Violation::new("content", format!("replica {}: {why}", index + 1));
        let revision = app.revision();
        let content = app.content(&self.values).map_err(wrong)?;
        let expected = self.journal.range(b"\0", b"\0", revision);
        if content.iter().eq(expected) {
            return Ok(());
        }
        let expected: Vec<&KeyValue> = self.journal.range(b"\0", b"\0", revision).collect();
        Err(wrong(format!(
            "the changes up to {revision} come to {expected:?}, and there is {content:?}"
        )))
    }

    /// The reader of all changes.
    pub(crate) fn read_all(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        let Some(app) = node.decided_app().and_then(A::revisions) else {
            return Ok(());
        };
        // A new reader begins with the present. What was replayed may be known to nobody yet, and
        // the journal wants it.
        let (scope, mut from) = match node.told {
            Some(told) => (Scope::All, told),
            None => (Scope::every(), self.journal.end().min(app.revision() + 1)),
        };
        let wrong = |why| Violation::new("watch", format!("replica {}: {why}", index + 1));
        while from <= app.revision() {
            match app.changes(&scope, from, &self.values).map_err(wrong)? {
                Changes::Found { events, next } => {
                    let blurred = self.leases.compacted_max;
                    let added = add(&mut self.journal, from, next, &events, blurred);
                    added.map_err(wrong)?;
                    from = next;
                }
                // Everybody who waits for them looks for himself.
                Changes::Compacted { readable } => from = readable.max(from + 1),
            }
        }
        if node.told.is_none() {
            // From now on nothing is freed that was not read.
            app.changes(&Scope::All, from, &self.values)
                .map_err(wrong)?;
        }
        node.told = Some(from);
        Ok(())
    }

    /// A watcher reads up to the present of its replica.
    fn read_on(&mut self, at: usize) -> Result<(), Violation> {
        if !self.look_at_right(at) {
            return Ok(());
        }
        let watcher = &mut self.watchers[at];
        let home = watcher.home;
        let Some(app) = self.nodes[home].decided_app().and_then(A::revisions) else {
            return Ok(());
        };
        let wrong = |why| {
            let what = format!("watcher {at} at replica {}: {why}", home + 1);
            Violation::new("watch", what)
        };
        let blurred = self.leases.compacted_max;
        while watcher.stream.next() <= app.revision() {
            let from = watcher.stream.next();
            match app
                .changes(&watcher.scope, from, &self.values)
                .map_err(wrong)?
            {
                Changes::Found { events, next } => {
                    let told = watcher.stream.advance(&events, next, &self.journal);
                    let told = told.and_then(|()| tell_before(&self.journal, &events, blurred));
                    told.map_err(wrong)?;
                    self.totals.watched += events.len() as u64;
                    if !events.is_empty()
                        && let Some(sight) =
                            watcher.sight(self.clients.tick(), app.revision(), None)
                    {
                        self.rights.sights.push(sight);
                    }
                }
                Changes::Compacted { readable } if from < readable && readable <= blurred => {
                    self.totals.overtaken += 1;
                    watcher.stream.skip_to(readable);
                }
                Changes::Compacted { readable } => {
                    return Err(wrong(format!(
                        "from {from} it was told that {readable} is compacted; asked for was \
                         {blurred}"
                    )));
                }
            }
            let (now_ns, next) = (self.queue.now_ns(), watcher.stream.next());
            let numbers = [at as u64, next as u64];
            self.trace.event(now_ns, "watch", &numbers, || {
                format!("watcher {at} at r{} has seen all before {next}", home + 1)
            });
        }
        Ok(())
    }
}

/// All changes of `from..next` as one replica tells them: what others told, or new.
fn add(
    journal: &mut Journal,
    from: i64,
    next: i64,
    events: &[Event],
    blurred: i64,
) -> Result<(), String> {
    let end = journal.end();
    let is_known = |event: &Event| event.kv.as_ref().is_some_and(|kv| kv.mod_revision < end);
    let (known, new) = events.split_at(events.partition_point(is_known));
    if from < end {
        let mut told = Stream::new(Bytes::from_static(b"\0"), Bytes::from_static(b"\0"), from);
        told.advance(known, next.min(end), journal)?;
    }
    if next > end {
        if from > end {
            return Err(format!("nobody has read revisions {end} to {from}"));
        }
        journal.add(new, next)?;
        if let Some(silent) = (end..next).find(|revision| journal.of(*revision).is_empty()) {
            return Err(format!("no change is told of revision {silent}"));
        }
    }
    tell_before(journal, events, blurred)
}

/// Every change of a revision that nobody asked to compact comes with what was there before.
fn tell_before(journal: &Journal, events: &[Event], blurred: i64) -> Result<(), String> {
    for event in events {
        let Some(kv) = event.kv.as_ref().filter(|kv| kv.mod_revision > blurred) else {
            continue;
        };
        let before = journal.get(&kv.key, kv.mod_revision - 1);
        if event.prev_kv.as_ref() != before {
            return Err(format!("before {event:?} there was {before:?}"));
        }
    }
    Ok(())
}
