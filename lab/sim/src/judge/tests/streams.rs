//! What watches are told.

use super::*;
use crate::judge::Stream;
use quorate_etcd_api::etcdserverpb::{ResponseHeader, WatchResponse};

/// Revisions 2 to 5 of keys a, b and c: a; b and c at once; b; a.
fn watched() -> Journal {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("b", Some("2")), ("c", Some("3"))]);
    story.told(&[("b", None)]).told(&[("a", Some("4"))]).journal
}

fn told(journal: &Journal, revisions: &[i64], at: i64) -> WatchResponse {
    WatchResponse {
        header: Some(ResponseHeader {
            revision: at,
            ..ResponseHeader::default()
        }),
        events: revisions
            .iter()
            .flat_map(|r| journal.of(*r))
            .cloned()
            .collect(),
        ..WatchResponse::default()
    }
}

fn everything(start: i64) -> Stream {
    Stream::new(bytes("\0"), bytes("\0"), start)
}

/// What comes of these responses in turn.
fn play(mut stream: Stream, responses: &[WatchResponse]) -> Result<(), String> {
    let journal = watched();
    for response in responses {
        stream.respond(response, &journal)?;
    }
    stream.finish(journal.end(), &journal)
}

#[test]
fn a_stream_is_told_everything_once_and_in_order() {
    let journal = watched();
    let told = |revisions: &[i64]| told(&journal, revisions, 5);
    assert_eq!(play(everything(2), &[told(&[2, 3]), told(&[4, 5])]), Ok(()));
    assert!(
        play(everything(2), &[told(&[2, 3]), told(&[5])])
            .unwrap_err()
            .contains("should be told")
    );
    assert!(play(everything(2), &[told(&[2, 3]), told(&[3, 4])]).is_err());
    assert!(play(everything(2), &[told(&[3, 2])]).is_err());
    assert!(
        play(everything(2), &[told(&[2, 3, 4])])
            .unwrap_err()
            .contains("never told")
    );
    let of_b = || Stream::new(bytes("b"), Bytes::new(), 2);
    let mut mine = told(&[3, 4]);
    mine.events.remove(1);
    assert_eq!(play(of_b(), &[mine]), Ok(()));
    assert!(play(of_b(), &[told(&[3, 4])]).is_err(), "keys of others");
}

#[test]
fn a_stream_is_told_revisions_as_a_whole() {
    let journal = watched();
    let mut half = told(&journal, &[2, 3], 5);
    half.events.pop();
    let mut rest = told(&journal, &[3, 4, 5], 5);
    rest.events.remove(0);
    assert!(play(everything(2), &[half.clone(), rest.clone()]).is_err());
    half.fragment = true;
    assert_eq!(play(everything(2), &[half.clone(), rest]), Ok(()));
    assert!(play(everything(2), &[half, told(&journal, &[4, 5], 5)]).is_err());
}

#[test]
fn a_stream_of_the_future_begins_where_it_was_told_it_would() {
    let journal = watched();
    let created = |revision| WatchResponse {
        created: true,
        ..told(&journal, &[], revision)
    };
    assert_eq!(
        play(everything(0), &[created(3), told(&journal, &[4, 5], 5)]),
        Ok(())
    );
    assert!(play(everything(0), &[created(3), told(&journal, &[5], 5)]).is_err());
    assert!(play(everything(0), &[created(3), told(&journal, &[3, 4, 5], 5)]).is_err());
    // One that waits for a revision that is still to come is told nothing older.
    assert!(play(everything(5), &[created(3), told(&journal, &[4, 5], 5)]).is_err());
}

#[test]
fn progress_is_not_ahead_of_what_was_told() {
    let journal = watched();
    let notice = |revision| told(&journal, &[], revision);
    let rest = told(&journal, &[4, 5], 5);
    assert_eq!(
        play(
            everything(2),
            &[told(&journal, &[2, 3], 3), notice(3), rest.clone()]
        ),
        Ok(())
    );
    assert!(
        play(
            everything(2),
            &[told(&journal, &[2, 3], 3), notice(4), rest]
        )
        .is_err()
    );
}

#[test]
fn a_stream_ends_for_what_is_compacted_and_for_nothing_else() {
    let journal = watched();
    let canceled = |compact_revision| WatchResponse {
        canceled: true,
        compact_revision,
        ..told(&journal, &[], 5)
    };
    assert_eq!(play(everything(2), &[canceled(4)]), Ok(()));
    assert!(play(everything(2), &[told(&journal, &[2, 3], 3), canceled(4)]).is_err());
    assert!(play(everything(2), &[canceled(4), told(&journal, &[4], 5)]).is_err());
}
