//! The rule alone: conversations, and random wipes at any moment.

use super::*;
use crate::meta::tests::meta;
use quorate_core::Member;

const NOW_MS: u64 = 1_000;

fn id(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

/// What a replica told that the cluster is new writes first.
fn joining(index: usize, incarnation: u128) -> Meta {
    let mut meta = meta(1);
    for member in &mut meta.epoch.members {
        member.incarnation = Incarnation(0);
    }
    Meta {
        replica: id(index),
        incarnation: Incarnation(incarnation),
        state: ReplicaState::Joining,
        ..meta
    }
}

fn joiner(index: usize, mine: Option<Meta>, heard: [Option<Stage>; 2]) -> Joiner {
    let others = (0..3).filter(|other| *other != index).map(id);
    Joiner {
        me: id(index),
        cluster: meta(1).cluster,
        rejoin: Rejoin::NewMember,
        mine,
        heard: others.zip(heard).collect(),
        newest: None,
        catalogue: &quorate_protocols::Registered,
    }
}

fn empty() -> Option<Stage> {
    Some(Stage::Empty)
}

fn begun(members: [u128; 3], later: Option<u128>) -> Option<Stage> {
    let mut epoch = joining(0, 0).epoch;
    for (member, incarnation) in epoch.members.iter_mut().zip(members) {
        member.incarnation = Incarnation(incarnation);
    }
    Some(Stage::Begun {
        epoch,
        later: later.map(Incarnation),
        addresses: None,
    })
}

#[test]
fn a_lost_replica_returns_in_a_life_later_than_any_known() {
    let known = 2_000 << 64 | 77;
    for (later, number) in [(None, NOW_MS), (Some(known), 2_001)] {
        let heard = [begun([1, 2, 3], None), begun([1, 2, 3], later)];
        // With leave to begin a new cluster or without: others have begun.
        for mine in [None, Some(joining(1, 9))] {
            for rejoin in [Rejoin::NewMember, Rejoin::Protocol] {
                let mut joiner = joiner(1, mine.clone(), heard.clone());
                joiner.rejoin = rejoin;
                let next = joiner.next(NOW_MS, 5).unwrap();
                let JoinStep::Begin(meta) = next else {
                    panic!("{next:?}")
                };
                let (state, listed_as) = match rejoin {
                    Rejoin::NewMember => (ReplicaState::Bootstrapped, Some(meta.incarnation)),
                    Rejoin::Protocol => (ReplicaState::Lost, None),
                };
                assert_eq!((meta.state, meta.listed_as), (state, listed_as));
                assert_eq!(meta.incarnation.0, u128::from(number) << 64 | 5);
                assert_eq!(meta.epoch.members[1].incarnation, Incarnation(2));
            }
        }
    }
}

#[test]
fn it_waits_for_a_quorum_of_others_and_gives_up_when_there_can_be_none() {
    let one_up = [begun([1, 2, 3], None), None];
    let next = joiner(1, None, one_up).next(NOW_MS, 5).unwrap();
    assert!(
        matches!(
            next,
            JoinStep::Wait(JoinWait::Return {
                begun: 1,
                needed: 2,
                ..
            })
        ),
        "{next:?}"
    );
    let one_left = [begun([1, 2, 3], None), empty()];
    let lost = JoinError::TooManyLost {
        empty: vec![id(1), id(2)],
        n: 3,
        quorum: 2,
    };
    assert_eq!(joiner(1, None, one_left).next(NOW_MS, 5), Err(lost.clone()));
    let all_gone = [empty(), empty()];
    let error = joiner(1, None, all_gone).next(NOW_MS, 5).unwrap_err();
    assert!(
        error.to_string().contains("replicas 1, 2 and 3 of 3"),
        "{error}"
    );
    let texts = [lost.to_string()];
    assert!(
        texts[0].contains("none was told to begin a new cluster"),
        "{}",
        texts[0]
    );
}

/// Scenario: a replica that the group does not list: one to be added, or one that was removed. Then one
/// that a later epoch lists in an incarnation that is gone.
#[test]
fn who_is_not_listed_begins_anew_and_who_is_comes_back_as_what_is_listed() {
    let runs = || begun([5, 6, 7], None);
    let mut stranger = joiner(0, None, [runs(), None]);
    stranger.me = ReplicaId(4);
    let next = stranger.next(NOW_MS, 9).unwrap();
    assert!(matches!(
        next,
        JoinStep::Wait(JoinWait::Return {
            begun: 1,
            needed: 2,
            ..
        })
    ));
    stranger.heard.insert(id(2), runs());
    let JoinStep::Begin(meta) = stranger.next(NOW_MS, 9).unwrap() else {
        panic!("nothing is in its way");
    };
    assert_eq!(
        (meta.state, meta.replica),
        (ReplicaState::Bootstrapped, ReplicaId(4))
    );
    assert_eq!(meta.listed_as, Some(meta.incarnation));

    let Some(Stage::Begun { epoch, .. }) = runs() else {
        unreachable!("it runs")
    };
    let mut removed = joiner(0, None, [runs(), runs()]);
    let mut newest = epoch.clone();
    newest.number = 2;
    newest.members.remove(0);
    removed.newest = Some(newest.clone());
    let JoinStep::Begin(meta) = removed.next(NOW_MS, 9).unwrap() else {
        panic!("nothing is in its way");
    };
    assert_eq!(meta.state, ReplicaState::Bootstrapped);
    assert_eq!(
        (meta.epoch, meta.listed_as),
        (epoch.clone(), Some(meta.incarnation))
    );

    let listed = Incarnation(77);
    let member = Member {
        id: id(0),
        incarnation: listed,
    };
    newest.members.insert(0, member);
    removed.newest = Some(newest);
    removed.rejoin = Rejoin::Protocol;
    let JoinStep::Begin(meta) = removed.next(NOW_MS, 9).unwrap() else {
        panic!("a quorum of others runs");
    };
    assert_eq!(
        (meta.state, meta.listed_as),
        (ReplicaState::Lost, Some(listed))
    );
    assert_ne!(meta.incarnation, listed);
}

#[test]
fn replicas_of_a_new_cluster_must_be_told_the_same() {
    let mut other = joining(2, 3);
    other.epoch.protocol = "chora".into();
    let heard = [
        Some(Stage::of(Some(&joining(0, 1)))),
        Some(Stage::of(Some(&other))),
    ];
    let error = joiner(1, Some(joining(1, 2)), heard).next(NOW_MS, 5);
    assert_eq!(error, Err(JoinError::Differs { peer: id(2) }));
}

/// A replica of the walk: what its folder says, and what its last questions brought.
#[derive(Clone, Default)]
struct Node {
    folder: Option<Meta>,
    heard: BTreeMap<ReplicaId, Option<Stage>>,
    wiped: bool,
}

struct Walk {
    nodes: Vec<Node>,
    rng: fastrand::Rng,
    /// Every first boot of a new cluster: who, in which incarnation, in which epoch.
    first_boots: Vec<(ReplicaId, Incarnation, Vec<Member>)>,
    /// Incarnations that returned.
    returns: Vec<Incarnation>,
}

impl Walk {
    fn new(seed: u64) -> Walk {
        Walk {
            nodes: vec![Node::default(); 3],
            rng: fastrand::Rng::with_seed(seed),
            first_boots: Vec::new(),
            returns: Vec::new(),
        }
    }

    /// One node is wiped, asks one other, or acts on what it has heard, maybe long ago.
    fn step(&mut self, wipes: &mut u32) {
        let index = self.rng.usize(..3);
        match self.rng.u8(..20) {
            0 if *wipes > 0 => {
                *wipes -= 1;
                self.nodes[index] = Node {
                    wiped: true,
                    ..Node::default()
                };
            }
            0..10 => self.ask(index),
            _ => self.act(index),
        }
    }

    fn ask(&mut self, index: usize) {
        let other = (index + 1 + self.rng.usize(..2)) % 3;
        let mut stage = Stage::of(self.nodes[other].folder.as_ref());
        if let Stage::Begun { later, .. } = &mut stage {
            *later = self.returns.iter().max().copied();
        }
        // Before its first start it has no process to answer.
        if stage != Stage::Empty {
            self.nodes[index].heard.insert(id(other), Some(stage));
        }
    }

    fn act(&mut self, index: usize) {
        let Some(mine) = self.nodes[index].folder.clone() else {
            self.nodes[index].folder = Some(joining(index, self.rng.u128(..) | 1));
            return;
        };
        if !matches!(mine.state, ReplicaState::Joining | ReplicaState::Confirmed) {
            return;
        }
        let others = (0..3).filter(|other| *other != index).map(id);
        let heard = &self.nodes[index].heard;
        let joiner = Joiner {
            me: id(index),
            cluster: mine.cluster,
            rejoin: Rejoin::NewMember,
            heard: others
                .map(|id| (id, heard.get(&id).cloned().flatten()))
                .collect(),
            mine: Some(mine),
            newest: None,
            catalogue: &quorate_protocols::Registered,
        };
        match joiner.next(NOW_MS, self.rng.u64(..)) {
            Ok(JoinStep::Wait(_)) | Err(_) => {}
            Ok(JoinStep::Agree(meta)) => self.nodes[index].folder = Some(meta),
            Ok(JoinStep::Begin(meta)) => {
                match meta.state {
                    ReplicaState::Bootstrapped if meta.listed_as.is_none() => {
                        let members = meta.epoch.members.clone();
                        self.first_boots
                            .push((meta.replica, meta.incarnation, members));
                    }
                    _ => self.returns.push(meta.incarnation),
                }
                self.nodes[index].folder = Some(meta);
            }
        }
    }

    fn check(&self, seed: u64) {
        for (who, life, members) in &self.first_boots {
            let index = usize::from(who.0) - 1;
            assert_eq!(members[index].incarnation, *life, "seed {seed}");
            let again = self.first_boots.iter().filter(|boot| boot.0 == *who);
            let incarnations: Vec<_> = again.filter(|boot| boot.2 == *members).collect();
            assert_eq!(
                incarnations.len(),
                1,
                "seed {seed}: replica {who} was new twice"
            );
        }
        let agree = |boot: &(_, _, Vec<Member>)| boot.2 == self.first_boots[0].2;
        if !self.nodes.iter().all(|node| node.wiped) {
            let one = self.first_boots.iter().all(agree);
            assert!(one, "seed {seed}: two beginnings");
        }
        let mut returns = self.returns.clone();
        returns.sort();
        returns.dedup();
        assert_eq!(returns.len(), self.returns.len(), "seed {seed}");
    }
}

/// Scenario: three replicas with leave to begin a new cluster; folders are deleted at any moment,
/// also while they agree. None is ever new twice, and there is one beginning unless all are wiped.
#[test]
fn no_wipe_makes_a_replica_new_twice() {
    let (mut began, mut returned) = (0, 0);
    for seed in 0..3_000 {
        let mut walk = Walk::new(seed);
        let mut wipes = (seed % 4) as u32;
        for _ in 0..250 {
            walk.step(&mut wipes);
            walk.check(seed);
        }
        began += u32::from(walk.first_boots.len() == 3);
        returned += walk.returns.len();
    }
    assert!(began > 1_000, "only {began} walks got anywhere");
    assert!(returned > 100, "only {returned} returns");
}

/// Scenario: five replicas of which a code bears the loss of one; two folders are gone at once.
#[test]
fn more_losses_than_the_protocol_bears_are_refused() {
    let member = |index: u16| Member {
        id: ReplicaId(index),
        incarnation: Incarnation(index.into()),
    };
    let mut epoch = joining(0, 0).epoch;
    epoch.protocol = "rs-paxos".to_owned();
    epoch.params = [("k".to_owned(), "3".to_owned())].into();
    epoch.members = (1..=5).map(member).collect();
    let runs = Some(Stage::Begun {
        epoch,
        later: None,
        addresses: None,
    });
    let heard = |third: Option<Stage>| {
        let said = [runs.clone(), runs.clone(), third, runs.clone()];
        (1..=4).map(ReplicaId).zip(said).collect()
    };
    let mut joiner = joiner(0, None, [None, None]);
    (joiner.me, joiner.heard) = (ReplicaId(5), heard(empty()));
    let lost = JoinError::TooManyLost {
        empty: vec![ReplicaId(3), ReplicaId(5)],
        n: 5,
        quorum: 4,
    };
    assert_eq!(joiner.next(NOW_MS, 5), Err(lost));
    joiner.heard = heard(runs.clone());
    assert!(matches!(joiner.next(NOW_MS, 5), Ok(JoinStep::Begin(_))));
}

/// Scenario: a peer was told by a stranger, before it called back, that this replica is in the last incarnation there
/// is.
#[test]
fn a_life_after_which_there_is_none_is_not_followed() {
    let epoch = crate::meta::tests::meta(1).epoch;
    let known = Incarnation(9_000 << 64 | 5);
    let begun = [
        (&epoch, Some(Incarnation(u128::MAX))),
        (&epoch, Some(known)),
    ];
    let life = later_incarnation(&begun, None, 7_000, 3);
    assert_eq!(life, Incarnation(9_001 << 64 | 3));
}
