//! Which cluster the peers belong to, and who may say so.

use super::Answers;
use super::rule::JoinError;
use crate::peer::question::{Answer, Stage};
use quorate_core::{ClusterId, ReplicaId};

/// The cluster of those that answered. Where `expected` was only a guess, as it is for a replica that is
/// to be added, it gives way to what all say that have data and do not know `me` as one of theirs: that
/// may be another replica. Who has no data has only a guess of its own.
///
/// # Errors
/// [`JoinError::OtherCluster`] if an address leads elsewhere.
pub(super) fn of_peers(
    (expected, is_guess): (ClusterId, bool),
    me: ReplicaId,
    answers: &Answers,
) -> Result<ClusterId, JoinError> {
    let knowing = || {
        let said = answers.iter();
        said.filter_map(|(peer, answer)| Some((*peer, answer.as_ref()?)))
            .filter(|(_, answer)| answer.stage != Stage::Empty)
    };
    let Some((peer, found)) = knowing()
        .map(|(peer, answer)| (peer, answer.cluster))
        .find(|(_, cluster)| *cluster != expected)
    else {
        return Ok(expected);
    };
    let is_agreed = knowing().all(|(_, answer)| answer.cluster == found);
    if is_guess && is_agreed && !knowing().any(|(_, answer)| lists(answer, me)) {
        return Ok(found);
    }
    Err(JoinError::OtherCluster {
        peer,
        found,
        expected,
    })
}

fn lists(answer: &Answer, me: ReplicaId) -> bool {
    match (&answer.newest, &answer.stage) {
        (Some(epoch), _) | (None, Stage::Begun { epoch, .. }) => epoch.index_of(me).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::tests::meta;

    const GUESS: ClusterId = ClusterId(5);
    const FOURTH: ReplicaId = ReplicaId(4);

    fn answer(from: u16, cluster: ClusterId, stage: Stage) -> (ReplicaId, Option<Answer>) {
        let from = ReplicaId(from);
        let answer = Answer {
            cluster,
            from,
            stage,
            newest: None,
        };
        (from, Some(answer))
    }

    fn begun() -> Stage {
        let epoch = meta(1).epoch;
        Stage::Begun { epoch, later: None }
    }

    #[test]
    fn a_guess_gives_way_to_what_those_with_data_say() {
        let real = ClusterId(6);
        let other_guess = answer(5, ClusterId(7), Stage::Empty);
        let answers = [
            answer(1, real, begun()),
            answer(2, real, begun()),
            (ReplicaId(3), None),
            other_guess.clone(),
        ];
        let answers = Answers::from(answers);
        assert_eq!(of_peers((GUESS, true), FOURTH, &answers), Ok(real));
        assert!(of_peers((GUESS, false), FOURTH, &answers).is_err());
        // Its number is another's there.
        assert!(of_peers((GUESS, true), ReplicaId(2), &answers).is_err());
        // Guesses alone say nothing.
        let answers = Answers::from([other_guess]);
        assert_eq!(of_peers((GUESS, true), FOURTH, &answers), Ok(GUESS));
    }

    #[test]
    fn two_clusters_are_none() {
        let answers = [
            answer(1, ClusterId(6), begun()),
            answer(2, ClusterId(7), begun()),
        ];
        let error = JoinError::OtherCluster {
            peer: ReplicaId(1),
            found: ClusterId(6),
            expected: GUESS,
        };
        let answers = Answers::from(answers);
        assert_eq!(of_peers((GUESS, true), FOURTH, &answers), Err(error));
    }
}
