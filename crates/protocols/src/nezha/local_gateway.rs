//! The gateway inside a replica: its requests reach this replica at once, and what this replica says to it
//! waits for nothing but the disk.

use super::Replica;
use super::gateway::{Dispatch, Pending};
use super::messages::{Body, Message};
use super::replica::Status;
use crate::shared::admission::refusal;
use quorate_core::{Base, Class, Command, EntryId, MemberIndex, Out, Outcome as Fate, Peers, Slot};

impl Replica {
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        for command in commands {
            match refusal(&command, self.queue_room()) {
                Some(refusal) => out.reply(command.id, Fate::Refused(refusal)),
                None if command.class == Class::Read => self.reads.queries.wait(command.id),
                None => self.gateway.wait(command, self.now),
            }
        }
    }

    /// How many more commands may wait.
    pub(super) fn queue_room(&self) -> usize {
        self.gateway.room(&self.config, self.reads.count())
    }

    /// Forms entries of whatever waits, while few enough are under way, and sends them. While the view changes, or what
    /// is in the log is not decided, requests wait here, where they can be withdrawn.
    pub(super) fn form_entries(&mut self, out: &mut Out<Self>) {
        self.gateway.refuse_old(&self.config, self.now, out);
        if self.holds_entries() {
            return;
        }
        while let Some(id) = self.gateway.form_entry(&self.config, self.now) {
            self.dispatch(id, out);
        }
    }

    /// Whether nothing new is sent at present.
    fn holds_entries(&self) -> bool {
        self.status == Status::ViewChange || self.is_stuck()
    }

    /// Whether something waits that could be sent: after a step nothing may, for where all else is decided, no other
    /// step may ever come.
    pub(super) fn may_form_entry(&self) -> bool {
        !self.holds_entries() && self.gateway.may_form_entry(&self.config, self.now)
    }

    /// Whether the log has not moved for as long as a leader may be silent.
    fn is_stuck(&self) -> bool {
        let enough_ns = self.config.election_ns;
        self.watch
            .stuck_since_ns
            .is_some_and(|since_ns| self.now.mono_ns >= since_ns + enough_ns)
    }

    /// Sends a request, with a deadline of now, to all, this replica among them.
    fn dispatch(&mut self, id: EntryId, out: &mut Out<Self>) {
        let Some(dispatch) = self.gateway.dispatch(&self.config, self.now, id) else {
            return;
        };
        let Dispatch {
            body,
            sent,
            deadline,
        } = dispatch;
        let request = Message::Request {
            body: body.clone(),
            sent,
            deadline,
        };
        if self.config.n() > 1 {
            // It promises nothing.
            out.send_early(Peers::All, request);
        }
        let me = self.config.members[self.config.me];
        self.on_request(me, body, sent, deadline, out);
    }

    /// What was not decided for a while is sent again.
    pub(super) fn on_retry(&mut self, out: &mut Out<Self>) {
        let old = self.gateway.old(&self.config, self.now);
        if !old.is_empty() {
            self.back_off();
        }
        for id in old {
            self.dispatch(id, out);
        }
    }

    /// Sees to it that an entry is decided that was written down here: its bytes are kept until then.
    pub(super) fn adopt(&mut self, body: Body) {
        let id = body.entry.id;
        if !self.done.contains(id) {
            let pending = self.gateway.pending.entry(id);
            pending.or_insert_with(|| Pending::new(body, true));
        }
    }

    /// A fast reply, or how far a member is.
    pub(super) fn on_reply(&mut self, from: MemberIndex, message: Message, out: &mut Out<Self>) {
        match message {
            Message::FastReply(reply) => {
                self.heard(from, reply.view);
                let id = reply.id;
                if self.is_for_counter(from, &reply) {
                    return self.count_reply(from, reply, out);
                }
                match self.gateway.on_fast(&self.config, self.now, from, reply) {
                    Ok(true) => self.answer_if_committed(id, out),
                    Ok(false) => {}
                    Err(what) => self.misbehaved(from, what, out),
                }
            }
            Message::Synced { view, upto, owd } => {
                self.gateway.estimates.told(from, owd, self.now.mono_ns);
                self.heard(from, view);
                self.on_synced(from, view, upto, out);
            }
            _ => {}
        }
    }

    /// A member has the leader's log of its view up to here.
    pub(super) fn on_synced(
        &mut self,
        from: MemberIndex,
        view: u64,
        upto: Slot,
        out: &mut Out<Self>,
    ) {
        let news = self.gateway.on_synced(from, view, upto);
        if from != self.config.me {
            self.on_log_status(from, view, upto, out);
        }
        for id in news {
            self.answer_if_committed(id, out);
        }
        self.count_synced(from, view, upto, out);
    }

    /// Answered once; what is decided is delivered here, which ends it.
    pub(super) fn answer_if_committed(&mut self, id: EntryId, out: &mut Out<Self>) {
        if let Some(committed) = self.gateway.commit(&self.config, self.now, id) {
            committed.say(out);
        }
    }
}
