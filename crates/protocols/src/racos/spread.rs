//! What an origin does: it cuts, spreads, counts, and announces.

use super::Replica;
use super::config::Config;
use super::messages::{Manifest, Message, SegAck, Spread, Timer};
use super::mutants::Fault;
use crate::shared::admission::refusal;
use crate::shared::lives::Lives;
use crate::shared::under_way::UnderWay;
use quorate_core::pace;
use quorate_core::{
    Class, Command, Due, EntryId, Event, Input, Lsn, MemberIndex, MemberSet, Now, Out, Outcome,
    Peers, Refusal, ReplicaId,
};
use std::hash::{Hash, Hasher};

/// An own value that is spread.
#[derive(Clone, Debug)]
pub(super) struct Spreading {
    /// With the whole of the payloads at hand.
    pub(super) manifest: Manifest,
    /// Others that have acknowledged the value.
    pub(super) acks: MemberSet,
    /// The record of the own segment.
    written: Lsn,
    /// Members to which a segment went.
    attached: UnderWay,
    /// When the segments left, on the own clock.
    pub(super) since_ns: u64,
    /// When the links have moved the segments, on the own clock.
    due_ns: u64,
    /// Whether it was sent since the last retransmission timer.
    is_fresh: bool,
    /// Whether it is a candidate.
    pub(super) is_announced: bool,
}

impl Spreading {
    /// An acknowledgement that takes longer tells of a loss: what is long may wait long for a full link.
    pub(super) fn ack_ns_max(&self, usual_ns: u64) -> u64 {
        let segment_bytes = self.manifest.entry.bulk_len() / u64::from(self.manifest.code.max(1));
        if pace::is_long(segment_bytes as usize) {
            usual_ns.max(pace::ACK_NS_MAX)
        } else {
            usual_ns
        }
    }

    pub(super) fn fingerprint(&self, durable: Lsn, to: &mut impl Hasher) {
        (self.acks, self.written <= durable, self.attached).hash(to);
        (self.is_fresh, self.is_announced).hash(to);
    }

    /// Whether its segments had their time, and their acknowledgements theirs.
    pub(super) fn is_late(&self, now_ns: u64, config: &Config) -> bool {
        now_ns >= self.due_ns.saturating_add(config.spread_timeout_ns)
    }

    /// `H` as far as it is reached.
    pub(super) fn holders(&self, durable: Lsn) -> usize {
        self.acks.len() + usize::from(self.written <= durable)
    }
}

impl Replica {
    /// Takes what waits: long values to be spread, the rest for Weak-MVC.
    pub(super) fn on_submit(&mut self, now: Now, commands: Vec<Command>, out: &mut Out<Self>) {
        let is_long = |command: &Command| command.bulk_len() > 0 && command.class != Class::Read;
        let (long, short): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_long);
        for command in long {
            let refused = match self.is_voting() {
                true => refusal(&command, quorate_core::Machine::room(self)),
                false => Some(Refusal::NotServing),
            };
            match refused {
                Some(refusal) => out.reply(command.id, Outcome::Refused(refusal)),
                None => self.backlog.push(command),
            }
        }
        self.pass_on(now, Input::Submit(short), out);
    }

    /// Forms entries of the long values that wait, while few enough are under way.
    pub(super) fn form_entries(&mut self, now: Now, out: &mut Out<Self>) {
        while self.may_form_entry() {
            let commands_max = self.config.mvc.batch_commands_max;
            let batch = self
                .backlog
                .fill(commands_max, self.config.spread_bytes_max);
            let name = self.mvc.name_entry(now);
            let manifest = Manifest {
                entry: batch.finish(name.id, name.stamp_ns),
                code: self.next_code(out),
                life: self.life,
            };
            self.spread_own(manifest, out);
        }
    }

    /// Whether a long value waits that an entry may be formed of.
    pub(super) fn may_form_entry(&self) -> bool {
        let is_open = || self.under_way() < self.config.spreading_max;
        self.is_voting() && !self.backlog.is_empty() && is_open()
    }

    /// Own values that are spread, but for those of former lives that a lost disk may have announced: these
    /// wait for whom they wait for, and hold up no other.
    fn under_way(&self) -> usize {
        let own = self.spreading.keys();
        own.filter(|id| !self.orphans.contains(id)).count()
    }

    /// Spreads a new value, and writes the own segment of it.
    pub(super) fn spread_own(&mut self, manifest: Manifest, out: &mut Out<Self>) {
        let id = manifest.entry.id;
        self.spread(manifest.clone(), out);
        self.keep(manifest, out);
        self.note_written(id);
    }

    /// The record of the own segment of a value that is spread.
    fn note_written(&mut self, id: EntryId) {
        if let (Some(spreading), Some(segment)) =
            (self.spreading.get_mut(&id), self.segments.get(id))
        {
            spreading.written = segment.written;
        }
    }

    /// Gives every other member its segment. That promises nothing, so that they write while the origin
    /// does; but the life it is said in must be known to the next one.
    fn spread(&mut self, manifest: Manifest, out: &mut Out<Self>) {
        let others = self.config.others();
        let (entry, code) = (&manifest.entry, manifest.code);
        let until_ns = self.line.put(Some(entry), code, others, self.now.mono_ns);
        let attached = UnderWay::new(others, until_ns);
        self.sent.all += others.len() as u64;
        let message = Message::Spread(Spread {
            manifest: manifest.clone(),
            round: self.rounds.now,
            is_attached: true,
        });
        if !others.is_empty() {
            self.say_spread(Peers::All, message, out);
        }
        self.spreading.insert(
            manifest.entry.id,
            Spreading {
                manifest,
                acks: MemberSet::EMPTY,
                written: Lsn(u64::MAX),
                attached,
                since_ns: self.now.mono_ns,
                due_ns: until_ns,
                is_fresh: true,
                is_announced: self.config.merged,
            },
        );
    }

    /// A value of a former life, of which the disk and with it the fate was lost, is whole here again, and
    /// its own segment written. It is spread in the present life, whatever rosters of earlier ones say of it;
    /// the own record keeps the earlier one, as long as its fate is not known.
    pub(super) fn spread_again(&mut self, mut manifest: Manifest, out: &mut Out<Self>) {
        let id = manifest.entry.id;
        if self.spreading.contains_key(&id) {
            return;
        }
        out.emit(Event::Branch("own value spread again"));
        if !self.config.faults.is(Fault::HeedOldRosters) {
            manifest.life = self.life;
        }
        self.spread(manifest, out);
        self.note_written(id);
    }

    fn say_spread(&self, to: Peers, message: Message, out: &mut Out<Self>) {
        if self.life_written <= self.durable {
            out.send_early(to, message);
        } else {
            out.send(to, message);
        }
    }

    /// A holder's answer.
    pub(super) fn on_seg_ack(
        &mut self,
        now: Now,
        from: MemberIndex,
        ack: &SegAck,
        out: &mut Out<Self>,
    ) {
        self.silent.remove(from);
        if !self.rounds.counts(from, ack.round) {
            return;
        }
        let Some(spreading) = self.spreading.get_mut(&ack.id) else {
            return;
        };
        if (spreading.manifest.code, spreading.manifest.life) != (ack.code, ack.life) {
            return;
        }
        self.backoff = 0;
        if ack.is_here && !spreading.acks.contains(from) {
            let took_ns = self.now.mono_ns.saturating_sub(spreading.since_ns);
            let most_ns = spreading.ack_ns_max(self.config.mvc.rtx_max_ns);
            self.pace.note(took_ns, most_ns);
        }
        if ack.is_here {
            spreading.acks.insert(from);
            self.announce_if_held(now, ack.id, out);
        } else {
            spreading.acks.remove(from);
            self.send_segment(from, ack.id, out);
        }
    }

    /// A member has no segment: it gets one, if none is on its way.
    fn send_segment(&mut self, member: MemberIndex, id: EntryId, out: &mut Out<Self>) {
        let round = self.rounds.now;
        let to = self.peer(member);
        let Some(spreading) = self.spreading.get_mut(&id) else {
            return;
        };
        if spreading.attached.is_to(member) {
            return;
        }
        out.emit(Event::Branch("segment asked for again"));
        self.sent.all += 1;
        self.sent.again += 1;
        let manifest = spreading.manifest.clone();
        let whom = MemberSet::only(member);
        let now_ns = self.now.mono_ns;
        let until_ns = self
            .line
            .put(Some(&manifest.entry), manifest.code, whom, now_ns);
        spreading.attached.sent(whom, until_ns);
        let message = Message::Spread(Spread {
            manifest,
            round,
            is_attached: true,
        });
        self.say_spread(to, message, out);
    }

    /// Own segments became durable, perhaps.
    pub(super) fn announce_held(&mut self, now: Now, out: &mut Out<Self>) {
        let is_open = |(_, spreading): &(&EntryId, &Spreading)| !spreading.is_announced;
        let open: Vec<EntryId> = self
            .spreading
            .iter()
            .filter(is_open)
            .map(|(id, _)| *id)
            .collect();
        open.into_iter()
            .for_each(|id| self.announce_if_held(now, id, out));
    }

    /// Makes a value a candidate once `k + f` members hold it (C1): that it was announced, and the own
    /// proposal, are one write.
    fn announce_if_held(&mut self, now: Now, id: EntryId, out: &mut Out<Self>) {
        let Some(spreading) = self.spreading.get_mut(&id) else {
            return;
        };
        let needed = self.config.thresholds.holders(spreading.manifest.code);
        if spreading.is_announced || spreading.holders(self.durable) < needed {
            return;
        }
        assert!(needed <= self.config.mvc.members.len(), "k + f <= n - f");
        spreading.is_announced = true;
        let entry = spreading.manifest.entry.clone();
        if self.mvc.holds(id) {
            return;
        }
        self.within(out, |mvc, out| mvc.order(now, entry, out));
    }

    /// Losses are heard of: who had one is asked anew, and until it answers does not count.
    pub(super) fn hear_losses(&mut self, losses: &Lives, out: &mut Out<Self>) {
        let lost = self.rounds.hear(losses) & self.config.others();
        if lost.is_empty() || self.config.faults.is(Fault::IgnoreLosses) {
            return;
        }
        if self.config.merged {
            self.mvc.discredit(lost);
        }
        let ids: Vec<EntryId> = self.spreading.keys().copied().collect();
        for id in ids {
            if let Some(spreading) = self.spreading.get_mut(&id) {
                if spreading.acks.intersects(lost) {
                    out.emit(Event::Branch("acknowledgement lost with its disk"));
                }
                spreading.acks -= lost;
            }
            self.ask(id, lost, out);
        }
    }

    /// Asks members whether they hold a value.
    fn ask(&self, id: EntryId, members: MemberSet, out: &mut Out<Self>) {
        let Some(spreading) = self.spreading.get(&id) else {
            return;
        };
        for member in members - spreading.attached.members() {
            let message = Message::Spread(Spread {
                manifest: spreading.manifest.bare(),
                round: self.rounds.now,
                is_attached: false,
            });
            self.say_spread(self.peer(member), message, out);
        }
    }

    /// Says again what went unanswered.
    pub(super) fn on_spread_timer(&mut self, now: Now, out: &mut Out<Self>) {
        self.is_armed = false;
        self.backoff += 1;
        self.adapt(now, out);
        let (others, limit_ns) = (self.config.others(), self.config.origin_gone_ns);
        self.absence.note_gone(others, now.mono_ns, limit_ns);
        let ids: Vec<EntryId> = self.spreading.keys().copied().collect();
        for id in ids {
            let Some(spreading) = self.spreading.get_mut(&id) else {
                continue;
            };
            if std::mem::take(&mut spreading.is_fresh) {
                continue;
            }
            let patience_ns = self.pace.patience_ns();
            let by_ns = self.now.mono_ns.saturating_sub(patience_ns);
            spreading.attached.expire(by_ns);
            if self.config.merged {
                spreading.acks |= self.mvc.proposers(id) & others;
            }
            let silent = others - spreading.acks;
            self.ask(id, silent, out);
        }
        self.say_roster_again(out);
        self.ask_what_is_undecided(out);
    }

    /// A link came up: say at once what may have been lost. Or went down, with what was on it.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.config.member(peer) else {
            return;
        };
        let it = MemberSet::only(member) & self.config.others();
        self.silent = if up {
            self.silent - it
        } else {
            self.silent | it
        };
        let spreading = self.spreading.values_mut();
        spreading.for_each(|spreading| spreading.attached.lose(member));
        if it.is_empty() || !up {
            return;
        }
        let silent = |spreading: &Spreading| !spreading.acks.contains(member);
        let asked = self.spreading.iter().filter(|(_, one)| silent(one));
        let ids: Vec<EntryId> = asked.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.ask(id, it, out));
        self.say_roster(it, out);
    }

    /// Arms the retransmission timer while anything said of segments may go unanswered.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let others = self.config.others();
        let is_open = |spreading: &Spreading| !others.is_subset(spreading.acks);
        let has_work = self.spreading.values().any(is_open)
            || self.roster.is_some()
            || self.rejoin.is_some()
            || self.config.merged && !self.segments.is_empty();
        if has_work && !self.is_armed {
            self.is_armed = true;
            let mvc = &self.config.mvc;
            let wait = mvc.rtx_min_ns << self.backoff.min(16);
            let wait = wait.min(mvc.rtx_max_ns);
            out.arm(Timer::Spread, Due::Within(wait..=wait + wait / 4));
        }
    }
}
