//! The DOM receiver: what comes early waits for its deadline, what comes late waits for the leader
//! (paper, sections 3 and 5.3).

use super::Replica;
use super::digest::{Footprint, Tup};
use super::early::EarlyRequest;
use super::log::Unsynced;
use super::messages::{Body, FastReply, Message, Record};
use super::replica::Status;
use quorate_core::{Base, EntryId, Event, Out, ReplicaId};

/// Requests in the early buffer, at most.
const EARLY_MAX: usize = 65_536;

impl Replica {
    pub(super) fn on_request(
        &mut self,
        from: ReplicaId,
        body: Body,
        sent: u64,
        deadline: u64,
        out: &mut Out<Self>,
    ) {
        let id = body.entry.id;
        if self.status != Status::Normal {
            if !self.knows(id) {
                self.bodies.insert(body);
                self.go_on(out);
            }
            return;
        }
        if self.knows(id) {
            return self.say_again(from, &body, out);
        }
        if self.early.get(id).is_some() {
            return;
        }
        if self.bodies.get(id).is_none() {
            self.note_delay(from, sent);
        }
        let far = self.now.clock_ns.saturating_add(self.config.far_ns);
        let is_far = deadline > far;
        let tup = Tup { deadline, id };
        let is_early = tup > self.bound(&body.footprint) && !is_far;
        if is_early && self.early.len() < EARLY_MAX {
            self.bodies.remove(id);
            self.early.hold(body, deadline, self.now.mono_ns);
        } else if self.leads() {
            out.emit(Event::Branch(if is_far {
                "far deadline"
            } else {
                "late at the leader"
            }));
            self.append_late(body, out);
        } else {
            out.emit(Event::Branch("late at a follower"));
            self.leave_to_leader(body);
            self.sync_further(out);
        }
    }

    /// What is due leaves the early buffer.
    pub(super) fn release_due(&mut self, out: &mut Out<Self>) {
        let (clock_ns, mono_ns) = (self.now.clock_ns, self.now.mono_ns);
        while self.status == Status::Normal
            && let Some(EarlyRequest { body, deadline }) =
                self.early.next_due(clock_ns, mono_ns, self.config.far_ns)
        {
            self.release(body, deadline, out);
        }
    }

    /// The bound may have moved while it waited.
    fn release(&mut self, body: Body, deadline: u64, out: &mut Out<Self>) {
        let id = body.entry.id;
        if self.knows(id) {
            return;
        }
        let is_early = Tup { deadline, id } > self.bound(&body.footprint);
        match (self.leads(), is_early) {
            (true, true) => self.append(body, deadline, out),
            (true, false) => self.append_late(body, out),
            (false, true) if self.log.sums.is_some() && !self.is_unvouched => {
                self.add_unsynced(body, deadline, out);
            }
            (false, _) => self.leave_to_leader(body),
        }
    }

    /// What a follower promises nothing for. Its gateway waits for the leader, and so does this replica: if that
    /// one is gone and all requests are late, nothing else here would look for it.
    fn leave_to_leader(&mut self, body: Body) {
        self.bodies.insert(body);
        self.watch.is_called = true;
    }

    /// What a deadline has to be above: all that conflicts with it, in the log or unsynced. What the leader
    /// gave a smaller deadline counts with that one: a gateway whose clock was ahead leaves nothing behind
    /// in its own replica, which took its deadlines for what they said (S10).
    fn bound(&self, footprint: &Footprint) -> Tup {
        let conflicting = |un: &&Unsynced| un.item.body.footprint.conflicts(footprint);
        let unsynced = self.unsynced.iter().rev().find(conflicting);
        let unsynced = unsynced.map_or(Tup::default(), |un| un.item.tup);
        self.log.bounds.bound(footprint).max(unsynced)
    }

    /// A follower's promise: it stays until the leader's log says otherwise.
    fn add_unsynced(&mut self, body: Body, deadline: u64, out: &mut Out<Self>) {
        self.sync_lazy(out);
        let item = self.item(body, deadline);
        if let Some(sums) = &mut self.log.sums {
            sums.add(&item.body.footprint, item.hash);
        }
        let Some(sums) = &self.log.sums else {
            return;
        };
        let digest = self.digest(sums, &item.body);
        let id = item.tup.id;
        self.written.insert(id);
        out.persist(Record::Unsynced {
            view: self.view,
            deadline,
            body: item.body.clone(),
        });
        let said = Some(digest);
        self.unsynced.insert(Unsynced { item, digest: said });
        self.say_fast(id, digest, out);
    }

    fn say_fast(&mut self, id: EntryId, digest: u128, out: &mut Out<Self>) {
        let to = match self.config.leader_counts {
            true => self.config.members[self.leader()],
            false => id.origin,
        };
        // An entry of an earlier epoch's member has no gateway here.
        let Some(owd) = self.owd_from(to) else {
            return;
        };
        let reply = FastReply {
            view: self.view,
            id,
            digest,
            owd,
            outcome: None,
        };
        self.say_to(to, Message::FastReply(reply), out);
    }

    /// A request of what is here already: its reply may have been lost.
    fn say_again(&mut self, from: ReplicaId, body: &Body, out: &mut Out<Self>) {
        let id = body.entry.id;
        if self.done.contains(id) {
            self.tell(from, body, out);
        }
        if self.leads() {
            if let Some(slot) = self.log.slots.get(&id) {
                self.say_outcome(*slot, out);
            }
            if let Some(member) = self.config.member(from) {
                self.say_sign(member, out);
            }
            return;
        }
        if self.log.slots.contains_key(&id) {
            return self.say_synced(from, out);
        }
        if let Some(unsynced) = self.unsynced.get(id)
            && let Some(digest) = unsynced.digest
        {
            self.say_fast(id, digest, out);
        }
    }
}
