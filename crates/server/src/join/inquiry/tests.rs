//! Random walks of a cluster that runs while members are added, removed and replaced: folders are lost at any moment,
//! and those that lost them start with lists of addresses of any time, told that the cluster is new or not.

use super::super::rule::JoinWait;
use super::*;
use crate::meta::tests::meta;
use crate::peer::addresses::Addresses;
use quorate_core::{Epoch, Incarnation, Member, majority};

const CLUSTER: ClusterId = ClusterId(1 << 90);
/// Machines there are; the cluster begins on the first three.
const MACHINES: u16 = 7;
const STEPS: u64 = 250;
/// Rounds of questions in which a replica is back once everybody answers.
const ROUNDS_MAX: usize = 4;

type List = Vec<(ReplicaId, String)>;

/// A machine and the replica on it.
#[derive(Clone, Debug, Default)]
struct Machine {
    folder: Option<Meta>,
    /// The newest epoch it knows, by its place in the chain.
    knows: usize,
    /// The latest incarnations it has seen.
    later: BTreeMap<ReplicaId, Incarnation>,
    asking: Option<(Inquiry, Answers)>,
}

struct Walk {
    machines: BTreeMap<u16, Machine>,
    /// All epochs there were.
    chain: Vec<Epoch>,
    /// Replicas that were added and are no members yet.
    added: BTreeSet<u16>,
    /// Every list of addresses that an operator was given.
    lists: Vec<List>,
    /// All incarnations that were drawn.
    incarnations: BTreeSet<Incarnation>,
    rng: fastrand::Rng,
    now: u64,
    rejoin: Rejoin,
    returned: u32,
    refused: u32,
}

fn id(machine: u16) -> ReplicaId {
    ReplicaId(machine)
}

fn at(machine: u16) -> String {
    format!("h{machine}:2380")
}

fn runs(machine: &Machine) -> bool {
    let begun = |meta: &Meta| meta.state.may_begin();
    machine.folder.as_ref().is_some_and(begun) && machine.asking.is_none()
}

impl Walk {
    fn new(seed: u64) -> Walk {
        let first = Epoch {
            params: BTreeMap::new(),
            ..meta(1).epoch
        };
        let mut walk = Walk {
            machines: (1..=MACHINES).map(|at| (at, Machine::default())).collect(),
            incarnations: first
                .members
                .iter()
                .map(|member| member.incarnation)
                .collect(),
            chain: vec![first.clone()],
            added: BTreeSet::new(),
            lists: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            now: 0,
            rejoin: match seed % 4 {
                0 => Rejoin::Protocol,
                _ => Rejoin::NewMember,
            },
            returned: 0,
            refused: 0,
        };
        for machine in 1..=3 {
            walk.machine(machine).folder = Some(Meta {
                cluster: CLUSTER,
                state: ReplicaState::Started,
                epoch: first.clone(),
                ..meta(machine)
            });
        }
        walk.print_list();
        walk
    }

    fn machine(&mut self, machine: u16) -> &mut Machine {
        self.machines.get_mut(&machine).unwrap()
    }

    fn newest(&self) -> &Epoch {
        self.chain.last().unwrap()
    }

    /// Members of an epoch that have their data.
    fn intact(&self, epoch: &Epoch) -> Vec<u16> {
        let is_intact = |member: &&Member| {
            let machine = &self.machines[&member.id.0];
            let own = machine.folder.as_ref().filter(|_| runs(machine));
            own.is_some_and(|meta| {
                let of_first = self.chain[0].index_of(meta.replica);
                let of_first = of_first.map(|index| self.chain[0].members[index].incarnation);
                let listed_as = meta.listed_as.or(of_first);
                meta.state != ReplicaState::Lost && listed_as == Some(member.incarnation)
            })
        };
        let members = epoch.members.iter().filter(is_intact);
        members.map(|member| member.id.0).collect()
    }

    /// Whether enough members have their data for the group to decide without this one.
    fn bears_the_loss_of(&self, machine: u16) -> bool {
        let others = self
            .intact(self.newest())
            .into_iter()
            .filter(|one| *one != machine);
        others.count() >= majority(self.newest().n())
    }

    /// What `quorate cluster add` would print now.
    fn print_list(&mut self) {
        let members = self.newest().members.iter().map(|member| member.id.0);
        let all: BTreeSet<u16> = members.chain(self.added.iter().copied()).collect();
        self.lists
            .push(all.into_iter().map(|one| (id(one), at(one))).collect());
    }

    fn step(&mut self) {
        self.now += 1;
        let machine = self.rng.u16(1..=MACHINES);
        match self.rng.u8(..22) {
            0 => self.wipe(machine),
            1..4 => self.change(),
            4..7 => self.start(machine),
            7..14 => self.ask(machine, 4),
            14..18 => {
                let waits = self.act(machine);
                self.refused += u32::from(matches!(waits, Some(JoinWait::Elsewhere { .. })));
            }
            _ => self.catch_up(machine),
        }
    }

    /// A replica learns what was decided; one that comes back as itself has asked the others what it had promised.
    fn catch_up(&mut self, machine: u16) {
        let newest = self.chain.len() - 1;
        let machine = self.machine(machine);
        machine.knows = newest;
        if let Some(meta) = machine
            .folder
            .as_mut()
            .filter(|meta| meta.state == ReplicaState::Lost)
        {
            meta.state = ReplicaState::Started;
        }
    }

    fn wipe(&mut self, machine: u16) {
        if self.bears_the_loss_of(machine) {
            *self.machine(machine) = Machine::default();
        }
    }

    /// The group decides something, or an operator adds a replica.
    fn change(&mut self) {
        let newest = self.newest().clone();
        let intact = self.intact(&newest);
        if intact.len() < majority(newest.n()) {
            return;
        }
        let machine = self.rng.u16(1..=MACHINES);
        let listed = newest.index_of(id(machine));
        let follows = self.machines[&machine].folder.clone();
        let follows = follows
            .filter(|meta| meta.state == ReplicaState::Bootstrapped && meta.replica == id(machine));
        let mut next = newest.clone();
        match (listed, follows) {
            (None, Some(meta)) if self.added.remove(&machine) => next.members.push(Member {
                id: id(machine),
                incarnation: meta.incarnation,
            }),
            (Some(index), Some(meta)) if next.members[index].incarnation != meta.incarnation => {
                next.members[index].incarnation = meta.incarnation;
            }
            (Some(index), _) if newest.n() > 2 => {
                next.members.remove(index);
            }
            (None, _) => {
                self.added.insert(machine);
            }
            _ => return,
        }
        next.members.sort_by_key(|member| member.id);
        if next.members != newest.members {
            next.number += 1;
            if self.intact(&next).len() < majority(next.n()) {
                return;
            }
            self.chain.push(next);
            let knows = self.chain.len() - 1;
            for one in intact.iter().take(majority(newest.n())) {
                self.machine(*one).knows = knows;
            }
        }
        self.print_list();
    }

    /// A replica without data starts, with one of the lists that its operator was given.
    fn start(&mut self, machine: u16) {
        if self.machines[&machine].folder.is_some() || self.machines[&machine].asking.is_some() {
            return;
        }
        let mut number = machine;
        if self.rng.u8(..8) == 0 {
            number = self.rng.u16(1..=MACHINES);
        }
        let list = self.rng.choice(&self.lists).unwrap().clone();
        self.start_with(machine, number, list);
    }

    fn start_with(&mut self, machine: u16, number: u16, list: List) {
        // What a cluster is called follows from the list, this replica's own entry included.
        let is_first = list == self.lists[0] && list.contains(&(id(number), at(machine)));
        let is_new = self.rng.bool();
        let knows_cluster = !is_new && number == machine && self.rng.u8(..6) == 0;
        let others = list
            .into_iter()
            .filter(|(one, address)| *one != id(number) && *address != at(machine));
        let inquiry = Inquiry {
            me: id(number),
            address: at(machine),
            scheme: "https",
            cluster: match is_first || knows_cluster {
                true => CLUSTER,
                false => ClusterId(self.rng.u128(1..1 << 80)),
            },
            is_guess: !knows_cluster,
            is_new,
            rejoin: self.rejoin,
            list: others.collect(),
            catalogue: &quorate_protocols::Registered,
            followed: BTreeSet::new(),
        };
        let first = &self.chain[0];
        let mut epoch = first.clone();
        for member in &mut epoch.members {
            member.incarnation = Incarnation(0);
        }
        let joining = Meta {
            cluster: inquiry.cluster,
            replica: id(number),
            incarnation: Incarnation(self.rng.u128(..)),
            listed_as: None,
            state: ReplicaState::Joining,
            group: meta(1).group,
            epoch,
        };
        let machine = self.machine(machine);
        machine.folder = is_new.then_some(joining);
        machine.asking = Some((inquiry, Answers::new()));
    }

    /// A replica that starts asks everybody; of ten as many answer as are lost.
    fn ask(&mut self, machine: u16, lost_of_ten: u8) {
        let Some((inquiry, _)) = &self.machines[&machine].asking else {
            return;
        };
        let asker = inquiry.me;
        let mut answers = Answers::new();
        for (_, address) in inquiry.targets() {
            let asked = (1..=MACHINES).find(|one| at(*one) == *address).unwrap();
            let is_lost = self.rng.u8(..10) < lost_of_ten;
            if let Some(answer) = self
                .answer(asked, asker)
                .filter(|_| !is_lost && asked != machine)
            {
                let address = address.clone();
                answers.insert(answer.from, Answered { address, answer });
            }
        }
        if let Some((_, heard)) = &mut self.machine(machine).asking {
            *heard = answers;
        }
    }

    fn answer(&self, asked: u16, asker: ReplicaId) -> Option<JoinAnswer> {
        let machine = &self.machines[&asked];
        if let Some((inquiry, _)) = &machine.asking {
            return Some(JoinAnswer {
                cluster: inquiry.cluster,
                from: inquiry.me,
                stage: Stage::of(machine.folder.as_ref()),
                newest: None,
            });
        }
        let meta = machine.folder.as_ref()?;
        let knows = &self.chain[machine.knows];
        let dialled = self.chain[..=machine.knows]
            .iter()
            .flat_map(|epoch| &epoch.members);
        let mut dialled: BTreeSet<u16> = dialled.map(|member| member.id.0).collect();
        if machine.knows + 1 == self.chain.len() {
            dialled.extend(&self.added);
        }
        dialled.remove(&asked);
        let addresses = dialled.into_iter().map(|one| (id(one), at(one)));
        Some(JoinAnswer {
            cluster: meta.cluster,
            from: meta.replica,
            stage: Stage::Begun {
                epoch: meta.epoch.clone(),
                later: machine.later.get(&asker).copied(),
                addresses: Some(Addresses(addresses.collect())),
            },
            newest: (knows.number > 1).then(|| knows.clone()),
        })
    }

    /// A replica decides on what it heard, maybe long ago. Says what it waits for.
    fn act(&mut self, machine: u16) -> Option<JoinWait> {
        let (now, rng) = (self.now, self.rng.u64(..));
        let own = self.machines.get_mut(&machine).unwrap();
        let (inquiry, answers) = own.asking.as_mut()?;
        let step = inquiry.decide(own.folder.as_ref(), false, answers, now, rng);
        let inquiry = inquiry.clone();
        match step {
            Ok(InquiryStep::AskMore) => None,
            Ok(InquiryStep::Decided(JoinStep::Wait(why), _)) => Some(why),
            Ok(InquiryStep::Decided(JoinStep::Agree(meta), _)) => {
                panic!("a second cluster: {meta:?}")
            }
            Ok(InquiryStep::Decided(JoinStep::Begin(meta), found)) => {
                self.begins(machine, meta, &found);
                None
            }
            Err(why) => {
                // Its folder holds nothing then, and its operator starts it again.
                *own = Machine::default();
                self.refused += u32::from(matches!(why, JoinError::NumberInUse { .. }));
                assert!(
                    inquiry.is_guess || matches!(why, JoinError::TooManyLost { .. }),
                    "told which cluster it is of, {} ends: {why}",
                    inquiry.me
                );
                None
            }
        }
    }

    fn begins(&mut self, machine: u16, meta: Meta, found: &FoundCluster) {
        let listed = found.newest.as_ref().and_then(|newest| {
            let index = newest.index_of(meta.replica)?;
            Some(newest.members[index].incarnation)
        });
        let told = found.addresses.iter().any(|(one, _)| *one == meta.replica);
        assert_eq!(
            (meta.cluster, &meta.epoch),
            (CLUSTER, &self.chain[0]),
            "a second cluster"
        );
        assert!(
            self.incarnations.insert(meta.incarnation),
            "a life is lived twice"
        );
        if meta.replica != id(machine) {
            assert!(listed.is_none() && !told, "{} is taken over", meta.replica);
            // Its operator stops it.
            *self.machine(machine) = Machine::default();
            return;
        }
        match (self.rejoin, listed) {
            (Rejoin::Protocol, Some(listed)) => {
                assert_eq!(meta.state, ReplicaState::Lost);
                let is_first = found
                    .newest
                    .as_ref()
                    .is_some_and(|newest| newest.number == 1);
                assert_eq!(meta.listed_as, Some(listed).filter(|_| !is_first));
            }
            _ => assert_eq!(
                (meta.state, meta.listed_as),
                (ReplicaState::Bootstrapped, Some(meta.incarnation)),
                "a vote of a former life"
            ),
        }
        self.returned += 1;
        for other in self.machines.values_mut() {
            if self.rng.bool() {
                other.later.insert(meta.replica, meta.incarnation);
            }
        }
        let own = self.machine(machine);
        own.folder = Some(meta);
        own.asking = None;
    }

    /// Once all that run know the newest epoch and answer, every member without data is back at once, with whichever
    /// list leads to one of them.
    fn heals(&mut self, seed: u64) {
        let newest = self.chain.len() - 1;
        for machine in self.machines.values_mut() {
            machine.knows = newest;
            if machine.asking.take().is_some() {
                machine.folder = None;
            }
        }
        let members: Vec<u16> = self
            .newest()
            .members
            .iter()
            .map(|member| member.id.0)
            .collect();
        let known: Vec<u16> = members.iter().chain(&self.added).copied().collect();
        for machine in known {
            for list in self.lists.clone() {
                let running = |(one, _): &(ReplicaId, String)| {
                    one.0 != machine && members.contains(&one.0) && runs(&self.machines[&one.0])
                };
                if self.machines[&machine].folder.is_some() || !list.iter().any(running) {
                    continue;
                }
                self.start_with(machine, machine, list.clone());
                let mut waits = None;
                for _ in 0..ROUNDS_MAX {
                    self.ask(machine, 0);
                    waits = self.act(machine);
                }
                assert!(
                    runs(&self.machines[&machine]),
                    "seed {seed}: replica {machine} with {list:?} is not back: {waits:?}, newest {:?}",
                    self.newest()
                );
            }
        }
    }
}

/// Scenario: machines lose their folders while the cluster changes, as long as a majority of its members is left. None
/// begins a second cluster, votes as one that it was before, or takes the number of another; and all come back.
#[test]
fn the_lost_come_back_with_lists_of_any_time() {
    let (mut returned, mut epochs, mut refused) = (0, 0, 0);
    for seed in 0..800 {
        let mut walk = Walk::new(seed);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.heals(seed);
        returned += walk.returned;
        epochs += walk.chain.len();
        refused += walk.refused;
    }
    assert!(returned > 2_000, "only {returned} came back");
    assert!(epochs > 2_000, "only {epochs} epochs");
    assert!(refused > 50, "only {refused} were refused a number");
}
