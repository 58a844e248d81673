//! The members that propose: views that begin for other proposers, and not because
//! anything fails. The first proposer asks for them.
//!
//! How many propose is a parameter of the epoch. Where it is `auto`, it follows from where clients are:
//! as long as they all are at one replica, the others' slots would only be skipped, at the price of a
//! delay each, and that replica proposes alone.

use super::Replica;
use super::messages::{Reason, Timer};
use super::role::Role;
use quorate_core::{Due, Event, MemberIndex, MemberSet, Out, Slot};

/// Commands in a period below which it says nothing.
const COMMANDS_MIN: u64 = 16;
/// Of a hundred commands, how many must come from one replica for it to propose alone, and how many from
/// others for all to propose.
const ALONE_PERCENT: u64 = 95;
const OTHERS_PERCENT: u64 = 25;
/// Periods in a row that must say the same, and periods between two such views.
const PERIODS: u32 = 2;
const PERIODS_BETWEEN: u32 = 4;

/// Who should propose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Wish {
    Only(MemberIndex),
    All,
}

/// Where clients are, as seen in what is committed.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Ingress {
    /// By member, the commands of this period.
    commands: Vec<u64>,
    wish: Option<Wish>,
    /// Periods in a row that said so, and periods since a view was asked for because of it.
    said: u32,
    rested: u32,
}

impl Ingress {
    pub(super) fn new(members: usize) -> Ingress {
        Ingress {
            commands: vec![0; members],
            ..Ingress::default()
        }
    }

    /// Commands of a replica's clients were committed.
    pub(super) fn note(&mut self, member: MemberIndex, commands: usize) {
        self.commands[member] += commands as u64;
    }

    /// A period is over in which these proposed. What should change, if enough of them have said so.
    fn judge(&mut self, pattern: &[MemberIndex]) -> Option<Wish> {
        let wish = self.wish_of(pattern);
        self.commands.fill(0);
        let is_same = wish.is_some() && wish == self.wish;
        self.said = if is_same { self.said + 1 } else { 1 };
        self.wish = wish;
        self.rested = self.rested.saturating_add(1);
        let is_time = self.said >= PERIODS && self.rested >= PERIODS_BETWEEN;
        wish.filter(|_| is_time)
    }

    fn wish_of(&self, pattern: &[MemberIndex]) -> Option<Wish> {
        let all: u64 = self.commands.iter().sum();
        let members = MemberSet::first(self.commands.len()).iter();
        let busiest = members.max_by_key(|member| self.commands[*member])?;
        let most = self.commands[busiest];
        if all < COMMANDS_MIN {
            return None;
        }
        if most * 100 >= all * ALONE_PERCENT {
            return (pattern != [busiest]).then_some(Wish::Only(busiest));
        }
        let [alone] = pattern else { return None };
        let others = all - self.commands[*alone];
        (others * 100 >= all * OTHERS_PERCENT).then_some(Wish::All)
    }
}

impl Replica {
    /// How many members should propose.
    pub(super) fn wanted_proposers(&self) -> usize {
        self.config.proposers
    }

    /// Whether a member may begin a view for the sake of other proposers: the first of those there are.
    pub(super) fn is_planner(&self, member: MemberIndex) -> bool {
        let init = self.init.as_ref();
        init.and_then(|init| init.pattern.iter().min()) == Some(&member)
    }

    /// Members that have kept up and do not propose, though more should.
    fn left_out(&self) -> MemberSet {
        let Some(init) = &self.init else {
            return MemberSet::EMPTY;
        };
        let is_alone = self.config.is_adaptive && init.pattern.len() == 1;
        if is_alone || init.proposers().len() >= self.wanted_proposers() {
            return MemberSet::EMPTY;
        }
        self.able_to_join()
    }

    /// Members that do not propose and could.
    fn able_to_join(&self) -> MemberSet {
        let members = self.config.all().iter();
        members.filter(|member| self.may_join(*member)).collect()
    }

    /// Whether a member does not propose and could: it has kept up.
    fn may_join(&self, member: MemberIndex) -> bool {
        let near = Slot(self.ap().0.saturating_sub(self.config.window as u64 / 4));
        self.init.as_ref().is_some_and(|init| {
            let has_kept_up = self.traffic.acked[member] >= near.max(init.start());
            !init.has(member) && has_kept_up && !self.down.contains(member)
        })
    }

    /// Watches, while things move, who should propose.
    pub(super) fn watch_proposers(&mut self, out: &mut Out<Self>) {
        let is_due =
            !self.watch.armed.plan && (self.config.is_adaptive || !self.left_out().is_empty());
        if is_due && self.is_planner(self.config.me) {
            self.watch.armed.plan = true;
            out.arm(Timer::Plan, Due::After(self.config.rejoin_ns));
        }
    }

    /// Asks for another view, if there should be other proposers.
    pub(super) fn on_plan(&mut self, out: &mut Out<Self>) {
        self.watch.armed.plan = false;
        if let Role::Canvassing {
            reason: Reason::Planned,
            ..
        } = self.role
        {
            // Not granted all the time: again, if it is still worth it.
            self.role = Role::Follower;
        }
        let is_mine = self.is_planner(self.config.me) && self.is_voting();
        let is_free = matches!(self.role, Role::Follower | Role::Initiator);
        let Some(init) = self.init.clone().filter(|_| is_mine && is_free) else {
            return;
        };
        let wish = self
            .config
            .is_adaptive
            .then(|| self.ingress.judge(&init.pattern));
        match wish.flatten() {
            Some(Wish::Only(member)) if !self.down.contains(member) => {
                self.ask_for_proposers(Some(member), MemberSet::EMPTY, out);
            }
            Some(Wish::All) => {
                let back = self.able_to_join();
                self.ask_for_proposers(None, init.proposers() | back, out);
            }
            _ => {
                let back = self.left_out();
                if !back.is_empty() {
                    out.emit(Event::Branch("proposers taken back"));
                    self.ask_for_proposers(None, init.proposers() | back, out);
                }
            }
        }
    }

    /// One member is to propose alone, or these.
    fn ask_for_proposers(
        &mut self,
        only: Option<MemberIndex>,
        these: MemberSet,
        out: &mut Out<Self>,
    ) {
        let name = match only {
            Some(_) => "one proposer asked for",
            None => "proposers asked for",
        };
        out.emit(Event::Branch(name));
        self.ingress.rested = 0;
        self.campaign.suspects = if only.is_some() {
            MemberSet::EMPTY
        } else {
            self.config.others() - these
        };
        self.campaign.only = only;
        self.canvass(Reason::Planned, out);
    }

    /// Who is to propose in a view that this replica begins: whoever it is asked to let propose alone, or
    /// everybody but those that seem to be the reason, this replica in any case.
    pub(super) fn new_pattern(&self) -> Vec<MemberIndex> {
        let me = self.config.me;
        let is_fit =
            |member: &MemberIndex| *member == me || !self.campaign.suspects.contains(*member);
        if let Some(only) = self.campaign.only.filter(is_fit) {
            return vec![only];
        }
        let fit = self.config.all().iter().filter(is_fit);
        let mut pattern: Vec<MemberIndex> = fit.take(self.wanted_proposers()).collect();
        if !pattern.contains(&me) {
            pattern.pop();
            pattern.push(me);
        }
        pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ingress: &mut Ingress, commands: [u64; 3], pattern: &[usize]) -> Option<Wish> {
        ingress.commands = commands.to_vec();
        let pattern: Vec<_> = pattern.iter().copied().map(MemberIndex::new).collect();
        ingress.judge(&pattern)
    }

    #[test]
    fn one_replica_with_clients_proposes_alone_after_some_periods() {
        let mut ingress = Ingress::new(3);
        let wishes: Vec<_> = (0..4)
            .map(|_| judged(&mut ingress, [0, 96, 4], &[0, 1, 2]))
            .collect();
        assert_eq!(
            wishes,
            [None, None, None, Some(Wish::Only(MemberIndex::new(1)))]
        );
        assert_eq!(judged(&mut ingress, [0, 96, 4], &[1]), None, "it does");
        assert_eq!(
            judged(&mut ingress, [3, 93, 4], &[0, 1, 2]),
            None,
            "too few"
        );
        assert_eq!(
            judged(&mut ingress, [0, 15, 0], &[0, 1, 2]),
            None,
            "too little"
        );
    }

    #[test]
    fn clients_elsewhere_bring_all_proposers_back() {
        let mut ingress = Ingress::new(3);
        let mut judge = |commands| (0..4).map(|_| judged(&mut ingress, commands, &[1])).last();
        assert_eq!(judge([12, 76, 12]), Some(None));
        assert_eq!(judge([13, 74, 13]), Some(Some(Wish::All)));
        assert_eq!(
            judge([99, 0, 1]),
            Some(Some(Wish::Only(MemberIndex::new(0))))
        );
    }
}
