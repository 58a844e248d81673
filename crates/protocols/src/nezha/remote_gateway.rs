//! A remote gateway: the paper's proxy, in a process of its own. It is the gateway of `gateway.rs`, and nothing
//! else: it stores nothing, votes on nothing, and may be lost at any time.
//!
//! # Why it is safe
//!
//! - *What it answers is committed.* It counts the same replies under the same rules as a gateway inside a
//!   replica; nothing there depends on who counts. What was decided without having been executed ahead is
//!   told by hosts that have applied it.
//! - *No life is mistaken for another.* It draws number and boot when it starts, names its entries by them, and has
//!   a session of that boot: what a former life left behind is decided under that one's names, at most once,
//!   and its answers reach nobody.
//! - *It may acknowledge what is decided.* A gateway inside a replica sees what is delivered. This one knows
//!   that an answer will stay when `f + 1` have the entry at its place in the log of one view
//!   ([`Outcome::Decided`]), or when a host says so; until then it sends its requests again.

use super::config::Config;
use super::gateway::{BACKOFF_MAX, Dispatch, Gateway};
use super::messages::{Message, Record, Timer};
use crate::shared::admission::refusal;
use crate::shared::decided::DecidedSet;
use crate::shared::words::plain_words;
use quorate_core::{
    Class, Command, Due, EntryId, Event, Input, Introspect, Machine, Now, Out, Outcome, Past,
    Peers, Refusal, ReplicaId, RequestId,
};
use std::hash::Hasher;
use std::sync::Arc;

/// A gateway without a replica.
#[derive(Clone, Debug)]
pub struct RemoteGateway {
    config: Arc<Config>,
    now: Now,
    gateway: Gateway,
    is_armed: bool,
    /// Repetitions since something was decided.
    backoff: u32,
}

/// What a remote gateway is started with.
#[derive(Clone, Debug)]
pub struct RemoteGatewayConfig {
    /// What the members of its epoch run with ([`Config::of_gateway`]).
    pub(super) members: Config,
    /// The number that the gateway has drawn.
    pub(super) me: ReplicaId,
}

impl Machine for RemoteGateway {
    type Message = Message;
    /// There are none.
    type Record = Record;
    type Timer = Timer;
    type Base = DecidedSet;
    type Config = RemoteGatewayConfig;

    plain_words!();

    fn recover(config: &Self::Config, _: Past<Self>, now: Now, _: &mut Out<Self>) -> Self {
        let RemoteGatewayConfig { members, me } = config;
        assert!(me.is_gateway(), "{me} is the number of a replica");
        RemoteGateway {
            gateway: Gateway::remote(members, *me),
            config: Arc::new(members.clone()),
            now,
            is_armed: false,
            backoff: 0,
        }
    }

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        self.now = now;
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => self.gateway.withdraw(&ids, out),
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Applied { entry, .. } => self.on_told(entry),
            // It writes nothing, delivers nothing, and asks whoever can be reached.
            Input::Durable(_)
            | Input::Held(_)
            | Input::Installed { .. }
            | Input::Prefer(_)
            | Input::Link { .. } => {}
        }
        self.gateway.refuse_old(&self.config, self.now, out);
        while let Some(id) = self.gateway.form_entry(&self.config, self.now) {
            self.dispatch(id, out);
        }
        self.tend(out);
    }

    fn room(&self) -> usize {
        self.gateway.room(&self.config, 0)
    }
}

impl Introspect for RemoteGateway {
    fn fingerprint(&self, to: &mut impl Hasher) {
        use std::hash::Hash;
        (&self.gateway, self.is_armed, self.backoff).hash(to);
        let pending = self.gateway.pending.values();
        pending.for_each(|pending| pending.hash_replies(to));
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let (fast, slow) = self.gateway.answered;
        vec![
            ("hold_percent", self.gateway.hold.percent() as f64),
            ("answered_fast_total", fast as f64),
            ("answered_slowly_total", slow as f64),
            ("pending", self.gateway.pending.len() as f64),
        ]
    }
}

impl RemoteGateway {
    fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        for command in commands {
            let refused = match command.class {
                // What is read is at replicas.
                Class::Read => Some(Refusal::NotServing),
                _ => refusal(&command, self.gateway.room(&self.config, 0)),
            };
            match refused {
                Some(refusal) => out.reply(command.id, Outcome::Refused(refusal)),
                None => self.gateway.wait(command, self.now),
            }
        }
    }

    fn dispatch(&mut self, id: EntryId, out: &mut Out<Self>) {
        let dispatch = self.gateway.dispatch(&self.config, self.now, id);
        if let Some(Dispatch {
            body,
            sent,
            deadline,
        }) = dispatch
        {
            // It promises nothing.
            out.send_early(
                Peers::All,
                Message::Request {
                    body,
                    sent,
                    deadline,
                },
            );
        }
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let Some(member) = self.config.member(from) else {
            let what = "a message from no member";
            return out.emit(Event::Misbehaved { peer: from, what });
        };
        match message {
            Message::FastReply(reply) => {
                let id = reply.id;
                match self.gateway.on_fast(&self.config, self.now, member, reply) {
                    Ok(true) => self.look_at(id, out),
                    Ok(false) => {}
                    Err(what) => out.emit(Event::Misbehaved { peer: from, what }),
                }
            }
            Message::Synced { view, upto, owd } => {
                let mono_ns = self.now.mono_ns;
                self.gateway.estimates.told(member, owd, mono_ns);
                for id in self.gateway.on_synced(member, view, upto) {
                    self.look_at(id, out);
                }
            }
            // What replicas say to each other.
            _ => {
                let what = "what is not for a gateway";
                out.emit(Event::Misbehaved { peer: from, what });
            }
        }
    }

    /// Whether an entry is committed by now, and whether it is decided.
    fn look_at(&mut self, id: EntryId, out: &mut Out<Self>) {
        if let Some(committed) = self.gateway.commit(&self.config, self.now, id) {
            committed.say(out);
        }
        if self.gateway.is_decided(&self.config, id) {
            for request in self.finish(id) {
                out.reply(request, Outcome::Decided);
            }
        }
    }

    /// A host has applied it, and told the clients' side of this gateway.
    fn on_told(&mut self, id: EntryId) {
        self.finish(id);
    }

    fn finish(&mut self, id: EntryId) -> Vec<RequestId> {
        self.backoff = 0;
        let pending = self.gateway.remove(id);
        pending.map_or(Vec::new(), |pending| pending.requests())
    }

    fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        debug_assert_eq!(timer, Timer::Retry, "it waits for nothing else");
        self.is_armed = false;
        let old = self.gateway.old(&self.config, self.now);
        if !old.is_empty() {
            self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
        }
        for id in old {
            self.dispatch(id, out);
        }
    }

    fn tend(&mut self, out: &mut Out<Self>) {
        let is_wanted = !self.gateway.pending.is_empty();
        if is_wanted && !self.is_armed {
            let config = &self.config;
            let wait_ns = (config.rtx_min_ns << self.backoff).min(config.rtx_max_ns);
            out.arm(Timer::Retry, Due::Within(wait_ns..=2 * wait_ns));
        } else if self.is_armed && !is_wanted {
            out.disarm(Timer::Retry);
        }
        self.is_armed = is_wanted;
    }
}
