//! A replica's state, and what every input does to it.

use super::config::Config;
use super::describe;
use super::log::Log;
use super::messages::{Message, Record};
use super::reads::Answers;
use super::role::Role;
use crate::shared::admission::Patience;
use crate::shared::backlog::Backlog;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::leadership::Leadership;
use crate::shared::led::Led;
use crate::shared::offers::Offers;
use crate::shared::peers::sender;
use crate::shared::reads::ReadQueries;
use crate::shared::rejoin::Voter;
use crate::shared::rejoins::Rejoins;
use crate::shared::timers::{Armed, Backoff, Timer};
use crate::shared::words::{plain_checks, plain_machine};
use quorate_core::pace::Pace;
use quorate_core::{Input, Introspect, Machine, MemberIndex, Now, Out, ReplicaId, Slot, Wire};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: follower, candidate, leader.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether this replica may vote, and the lives of all members.
    pub(super) voter: Voter<u64>,
    /// The latest term heard of.
    pub(super) term: u64,
    /// Who got this replica's vote in the term.
    pub(super) voted_for: Option<MemberIndex>,
    /// What is not delivered.
    pub(super) log: Log,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// A member that has delivered every slot before this one, which is the last heard of.
    pub(super) claim: Claim,
    /// What this replica is to the others.
    pub(super) role: Role,
    /// The leader as far as known; its ballot is its term.
    pub(super) leadership: Leadership<u64>,
    /// Commands without an entry.
    pub(super) backlog: Backlog,
    /// Own entries not delivered.
    pub(super) offers: Offers,
    /// Names of own entries.
    pub(super) names: EntryNames,
    /// Reads; none goes through the log.
    pub(super) reads: ReadQueries<Answers>,
    /// How long appends of long batches take.
    pub(super) pace: Pace,
    /// How far records are durable, and the ends of the own log, as leader, that wait for that.
    pub(super) disk: Disk<Slot>,
    /// Whether clients wait in vain.
    pub(super) patience: Patience,
    /// The timers that run.
    pub(super) armed: Armed,
    /// How long nothing moved.
    pub(super) backoff: Backoff,
    /// The own clock at this step, in ns.
    pub(super) now_ns: u64,
}

impl Machine for Replica {
    plain_machine!();

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        self.now_ns = now.mono_ns;
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => self.on_withdraw(&ids, out),
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Durable(lsn) => {
                self.disk.confirm(lsn);
                self.count_durable(out);
                self.lead_if_elected(out);
            }
            Input::Installed { next, base } => self.on_installed(next, base, out),
            Input::Link { peer, up } => self.on_link(peer, up, out),
            Input::Prefer(member) => self.on_prefer(member, out),
            // It has nothing gathered, and nothing executed ahead.
            Input::Held(_) | Input::Applied { .. } => {}
        }
        self.run_to_fixpoint(now, out);
    }

    fn room(&self) -> usize {
        self.queue_room()
    }

    fn is_serving(&self) -> bool {
        self.is_voting()
    }

    fn reach(config: &Config) -> Option<u64> {
        Some(config.slots_max as u64)
    }
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (&self.voter, self.term, self.voted_for).hash(to);
        self.done.to_bytes().hash(to);
        (&self.log, self.claim, &self.role, self.leadership).hash(to);
        (&self.backlog, &self.offers, self.names, &self.reads).hash(to);
        self.disk.hash(to);
        if let Role::Candidate(candidate) = &self.role {
            self.disk.is_durable(candidate.written).hash(to);
        }
        (self.patience, self.armed, self.backoff).hash(to);
    }

    plain_checks!(describe);

    fn leads(&self) -> Option<bool> {
        Some(self.is_leader())
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let leads = u8::from(self.is_leader());
        vec![("term", self.term as f64), ("leads", f64::from(leads))]
    }

    fn hands_over(&self) -> Option<bool> {
        Some(self.makes_room())
    }

    /// The depth of a run is counted in terms.
    fn depth(&self) -> usize {
        self.term as usize
    }
}

impl Replica {
    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let (member, me) = (self.config.seating.member(from), self.config.seating.me);
        let Some(from) = sender(from, member, me, out) else {
            return;
        };
        match message {
            Message::Offer { entry } => self.on_offer(from, entry, out),
            Message::PreVote {
                campaign,
                last,
                delivered,
            } => {
                if self.would_vote(from, last, delivered, out) {
                    self.say_pre_vote_ok(from, campaign, out);
                }
            }
            Message::PreVoteOk { campaign, term } => {
                self.on_pre_vote_ok(from, campaign == self.campaign_name(), term, out);
            }
            Message::Vote {
                term,
                last,
                delivered,
            } => self.on_vote(from, term, last, delivered, out),
            Message::Voted { term, lives } => self.on_voted(from, term, &lives, out),
            Message::Append(append) => self.on_append(from, append, out),
            Message::Appended { term, upto, lives } => {
                self.on_appended(from, term, upto, &lives, out);
            }
            Message::Behind(behind) => self.on_behind(from, behind, out),
            Message::Newer { term } => self.see_term(term, out),
            Message::Led { upto } => self.on_led(from, upto, out),
            // A peer waits for something. What its log has beyond the end of the leader's was not committed, and
            // is cut off when these slots end as no-ops.
            Message::Ask { next, until } => {
                self.tell(from, next, out);
                self.fill(until, out);
                self.note_wanted();
            }
            Message::Rejoin { life, next } => self.on_rejoin(from, life, next, out),
            Message::RejoinA(answer) => self.on_rejoin_a(from, &answer, out),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ReadA { query, term, mark } => {
                if query == self.query_name() {
                    self.on_read_a(from, term, mark, out);
                }
            }
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, now: Now, out: &mut Out<Self>) {
        self.rejoin_further(out);
        self.form_entries(now, out);
        self.append_pending(out);
        self.replicate(out);
        self.announce(out);
        self.ask_about_reads(out);
        self.rearm_timers(out);
    }
}
