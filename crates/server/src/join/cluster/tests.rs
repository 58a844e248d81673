//! Tests of the cluster that is found, and of whether a replica is the one that it knows: by addresses, tokens and
//! numbers.

use super::*;
use crate::join::inquiry::Answered;
use crate::meta::tests::meta;
use crate::peer::addresses::Addresses;

const GUESS: ClusterId = ClusterId(5);
const REAL: ClusterId = ClusterId(6);
const OTHER: ClusterId = ClusterId(7);

fn claim(me: u16) -> Claim {
    Claim {
        me: ReplicaId(me),
        address: at(me),
        url: format!("https://{}", at(me)),
        hears_itself: false,
        cluster: GUESS,
        is_guess: true,
        is_new: false,
    }
}

fn at(id: u16) -> String {
    format!("h{id}:2380")
}

/// A replica that runs and knows where these are; `None` stands for a program that does not say.
fn begun(known: Option<&[u16]>) -> Stage {
    let told = |id: &u16| (ReplicaId(*id), at(*id));
    Stage::Begun {
        epoch: meta(1).epoch,
        later: None,
        addresses: known.map(|known| Addresses(known.iter().map(told).collect())),
    }
}

fn answers<const N: usize>(said: [(u16, ClusterId, Stage); N]) -> Answers {
    let answered = said.map(|(from, cluster, stage)| {
        let answer = JoinAnswer {
            cluster,
            from: ReplicaId(from),
            stage,
            newest: None,
        };
        let address = at(from);
        (ReplicaId(from), Answered { address, answer })
    });
    answered.into()
}

/// Members 1 and 2 of three, who know where these are.
fn running(known: Option<&[u16]>) -> Answers {
    answers([(1, REAL, begun(known)), (2, REAL, begun(known))])
}

fn found(claim: &Claim, answers: &Answers) -> (ClusterId, bool) {
    let found = claim.judge(answers).unwrap();
    (found.cluster, found.doubt.is_none())
}

/// Scenario: members, lost, added or to be added, whose list is of another time than the cluster's beginning.
#[test]
fn what_runs_at_its_addresses_says_which_cluster_it_is() {
    let all = running(Some(&[1, 2, 3]));
    assert_eq!(found(&claim(3), &all), (REAL, true));
    assert_eq!(found(&claim(4), &all), (REAL, true));
    // Told that the cluster is new, it comes back all the same, where it is known.
    let new = |me| Claim {
        is_new: true,
        ..claim(me)
    };
    assert_eq!(found(&new(3), &all), (REAL, true));
    let with_fourth = running(Some(&[1, 2, 3, 4]));
    assert_eq!(found(&new(4), &with_fourth), (REAL, true));
    // One that nobody knows was to begin another cluster.
    let unknown = JoinError::OtherCluster {
        peer: ReplicaId(1),
        found: REAL,
        expected: GUESS,
    };
    assert_eq!(new(4).judge(&all), Err(unknown));
}

/// Scenario: the cluster knows the number at another address.
#[test]
fn a_number_is_not_taken_over_at_another_address() {
    let all = running(Some(&[1, 2, 3, 4]));
    for me in [3, 4] {
        let moved = Claim {
            address: "elsewhere:1".to_owned(),
            ..claim(me)
        };
        let doubt = moved.judge(&all).unwrap().doubt.unwrap().to_string();
        assert!(
            doubt.contains(&format!("knows replica {me} at h{me}:2380")),
            "{doubt}"
        );
        assert!(doubt.contains("member update"), "{doubt}");
        // Another name of the same address, or one that says which cluster it is of.
        for accepted in [
            Claim {
                hears_itself: true,
                ..moved.clone()
            },
            Claim {
                cluster: REAL,
                ..moved.clone()
            },
        ] {
            assert_eq!(found(&accepted, &all), (REAL, true));
        }
    }
    let nowhere = running(Some(&[1, 2]));
    let doubt = claim(3).judge(&nowhere).unwrap().doubt.unwrap().to_string();
    assert!(
        doubt.contains("nobody that was asked knows its address"),
        "{doubt}"
    );
    assert!(doubt.contains("--peer-urls=https://h3:2380)"), "{doubt}");
    assert!(doubt.contains(&format!("--cluster-id {REAL}")), "{doubt}");
    // The one that lives there answers.
    let mut all = all;
    all.extend(answers([(3, REAL, begun(None))]));
    for claim in [
        claim(3),
        Claim {
            cluster: REAL,
            is_guess: false,
            ..claim(3)
        },
    ] {
        let error = claim.judge(&all).unwrap_err();
        assert!(matches!(error, JoinError::NumberInUse { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("runs at h3:2380: check --id"), "{said}");
    }
}

/// Scenario: programs that do not say where others are.
#[test]
fn older_programs_are_believed_as_before() {
    let all = running(None);
    assert_eq!(found(&claim(4), &all), (REAL, true));
    let error = claim(3).judge(&all).unwrap_err().to_string();
    assert!(
        error.contains(&format!("say so with --cluster-id {REAL}")),
        "{error}"
    );
    let told = Claim {
        cluster: REAL,
        is_guess: false,
        ..claim(3)
    };
    assert_eq!(found(&told, &all), (REAL, true));
}

#[test]
fn two_clusters_are_told_apart_by_whoever_knows_which() {
    let both = answers([(1, REAL, begun(Some(&[]))), (2, OTHER, begun(Some(&[])))]);
    let error = claim(4).judge(&both).unwrap_err();
    assert!(matches!(error, JoinError::TwoClusters { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("lead to two clusters"), "{said}");
    for cluster in [REAL, OTHER] {
        let told = Claim {
            cluster,
            is_guess: false,
            ..claim(4)
        };
        assert_eq!(found(&told, &both), (cluster, true));
        // A name made from the same token and list is no accident.
        let derived = Claim {
            cluster,
            ..claim(4)
        };
        assert_eq!(found(&derived, &both), (cluster, true));
    }
    let none_of_both = Claim {
        is_guess: false,
        ..claim(4)
    };
    let error = none_of_both.judge(&both).unwrap_err();
    assert!(matches!(error, JoinError::OtherCluster { .. }), "{error}");
}

/// Scenario: a cluster of one was begun twice with the same token, for its folder was lost in between.
#[test]
fn one_name_with_two_beginnings_is_two_clusters() {
    let mut twin = begun(Some(&[]));
    if let Stage::Begun { epoch, .. } = &mut twin {
        epoch.members[0].incarnation.0 += 1;
    }
    let both = answers([(1, GUESS, twin), (2, GUESS, begun(Some(&[])))]);
    let error = claim(4).judge(&both).unwrap_err().to_string();
    assert!(error.contains("were begun separately"), "{error}");
}

/// Scenario: nobody runs. Those that begin a cluster must be told the same; what others were told may be of any time.
#[test]
fn before_any_runs_those_that_begin_must_mean_the_same_cluster() {
    let joining = |cluster| {
        let stage = Stage::Joining {
            incarnation: meta(1).incarnation,
            config: 1,
        };
        answers([(1, cluster, stage), (5, OTHER, Stage::Empty)])
    };
    let new = Claim {
        is_new: true,
        ..claim(4)
    };
    assert_eq!(found(&new, &joining(GUESS)), (GUESS, true));
    assert!(new.judge(&joining(REAL)).is_err());
    assert_eq!(found(&claim(4), &joining(REAL)), (GUESS, true));
    assert_eq!(found(&new, &Answers::new()), (GUESS, true));
}

/// Scenario: only members and this replica are followed, wherever a replica says that others are.
#[test]
fn addresses_of_members_are_followed() {
    let found = claim(4).judge(&running(Some(&[1, 3, 4, 9]))).unwrap();
    let expected = [1, 3, 4].map(|id| (ReplicaId(id), at(id)));
    assert_eq!(found.addresses, expected.into());
    assert_eq!(found.newest, Some(meta(1).epoch));
}
