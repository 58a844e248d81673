//! Requests and their answers, against what observers tell.

use super::*;
use crate::judge::Refusal;

const NEVER: &str = "nobody asked for, or which happened twice";
const BACK: &str = "had been answered before it was asked";
const STATE: &str = "the state gives";

#[test]
fn overlapping_requests_may_take_effect_in_either_order() {
    let story = Story::default()
        .told(&[("a", Some("2"))])
        .told(&[("a", Some("1"))]);
    let story = story
        .put([1, 10], "a", "1", 3)
        .put([2, 9], "a", "2", 2)
        .get([3, 4], "a", 1, 1)
        .get([5, 8], "a", 2, 2)
        .get([11, 12], "a", 3, 3);
    assert_eq!(story.good().answers, 5);
}

#[test]
fn a_stale_read_is_found() {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("a", Some("2"))]);
    let story = story.put([1, 2], "a", "1", 2).put([3, 4], "a", "2", 3);
    story.get([5, 6], "a", 2, 2).bad(BACK);
}

#[test]
fn a_read_that_says_a_revision_and_shows_another_is_found() {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("a", Some("2"))]);
    let story = story.put([1, 2], "a", "1", 2).put([3, 4], "a", "2", 3);
    story.get([5, 6], "a", 2, 3).bad(STATE);
}

#[test]
fn a_read_that_goes_back_behind_another_read_is_found() {
    let story = Story::default().told(&[("a", Some("1"))]);
    let story = story.put([1, 20], "a", "1", 2).get([2, 3], "a", 2, 2);
    story.get([4, 5], "a", 1, 1).bad(BACK);
}

#[test]
fn a_lost_acknowledged_write_is_found() {
    let story = Story::default().told(&[("b", Some("2"))]);
    let story = story.put([1, 2], "a", "1", 2).put([1, 4], "b", "2", 2);
    story.bad("revision 2 should be");
    // It has no revision at all.
    Story::default()
        .put([1, 2], "a", "1", 2)
        .bad("nobody was told of revisions from 2 on");
}

#[test]
fn revisions_go_with_real_time() {
    let story = Story::default()
        .told(&[("a", Some("2"))])
        .told(&[("b", Some("1"))]);
    story
        .put([1, 2], "b", "1", 3)
        .put([3, 4], "a", "2", 2)
        .bad(BACK);
}

#[test]
fn two_changes_do_not_share_a_revision() {
    let story = Story::default().told(&[("a", Some("1"))]);
    let story = story.put([1, 5], "a", "1", 2);
    story
        .put([2, 4], "a", "1", 2)
        .bad("two changes have one revision");
}

#[test]
fn a_write_applied_twice_is_found() {
    let twice = [("a", Some("1"))];
    let story = Story::default().told(&twice).told(&twice);
    story.put([1, 2], "a", "1", 2).bad(NEVER);
    // Even if nobody knows whether it was applied once.
    let story = Story::default().told(&twice).told(&twice);
    story.put_unknown(1, "a", "1").bad(NEVER);
}

#[test]
fn a_write_of_unknown_fate_may_take_effect_late_or_never_but_not_early() {
    let never = Story::default()
        .put_unknown(1, "a", "1")
        .get([2, 3], "a", 1, 1);
    assert_eq!(never.good().unknown_done, 0);
    let late = never.told(&[("a", Some("1"))]).get([8, 9], "a", 2, 2);
    assert_eq!(late.good().unknown_done, 1);
    let and_not_back = late.get([10, 11], "a", 1, 2);
    and_not_back.bad(STATE);
    let early = Story::default()
        .told(&[("a", Some("1"))])
        .get([1, 2], "a", 2, 2);
    early.put_unknown(3, "a", "1").bad(NEVER);
}

#[test]
fn deletions_of_unknown_fate_are_told_apart_as_far_as_they_can_be() {
    let both = [("a", None), ("b", None)];
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("b", Some("2"))])
        .told(&[("a", None)])
        .told(&[("a", Some("3"))])
        .told(&both)
        .put([1, 2], "a", "1", 2)
        .put([3, 4], "b", "2", 3)
        // The wide one fits both, the narrow one only the first: it must take that.
        .delete([5, 0], "a", "z", 0, 0)
        .put([7, 8], "a", "3", 5);
    story.bad(NEVER);
    let story = story.delete([6, 0], "a", "", 0, 0);
    assert_eq!(story.good().unknown_done, 2);
}

#[test]
fn a_phantom_is_found() {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("c", Some("3"))]);
    let story = story.put([1, 2], "a", "1", 2).put([3, 4], "c", "3", 3);
    let good = story.range([5, 6], range("a", "z"), 3, 3);
    good.good();
    // A range that shows a key of a later revision, and one that misses a key in its middle.
    let mut torn = good;
    torn.ops.pop();
    let torn = torn.range([5, 6], range("a", "z"), 3, 2);
    torn.bad(BACK);
    let mut missing = torn;
    missing.ops.pop();
    missing.range([5, 6], range("a", "z"), 2, 3).bad(STATE);
}

#[test]
fn limits_counts_and_past_revisions_of_ranges_are_checked() {
    let story = Story::default()
        .told(&[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))])
        .told(&[("b", None)])
        .delete([5, 6], "b", "", 3, 1);
    let txn = TxnRequest {
        success: ["a", "b", "c"]
            .iter()
            .zip(["1", "2", "3"])
            .map(|(key, value)| part(Part::RequestPut(put(key, value))))
            .collect(),
        ..TxnRequest::default()
    };
    let done = TxnResponse {
        header: None,
        succeeded: true,
        responses: (0..3).map(|_| done_put(PutResponse::default())).collect(),
    };
    let mut story = story.op([1, 2], Request::Txn(txn), 2, Response::Txn(done));
    let limited = |revision, limit| RangeRequest {
        revision,
        limit,
        ..range("a", "z")
    };
    let kvs: Vec<KeyValue> = story
        .journal
        .range(b"a", b"z", 2)
        .take(1)
        .cloned()
        .collect();
    let answer = |more, count| {
        Response::Range(RangeResponse {
            kvs: kvs.clone(),
            more,
            count,
            ..RangeResponse::default()
        })
    };
    story = story.op([7, 8], Request::Range(limited(0, 1)), 3, answer(true, 2));
    story = story.op([9, 10], Request::Range(limited(2, 1)), 3, answer(true, 3));
    story.good();
    let mut wrong = story.op([11, 12], Request::Range(limited(2, 1)), 3, answer(true, 2));
    wrong.bad(STATE);
    wrong.ops.pop();
    wrong
        .op([11, 12], Request::Range(limited(0, 1)), 3, answer(false, 2))
        .bad(STATE);
}

#[test]
fn transactions_are_judged_by_their_comparisons() {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("a", Some("2")), ("b", Some("3"))]);
    let good = story
        .put([1, 2], "a", "1", 2)
        .txn([3, 4], 2, ["2", "3"], 3, true)
        .txn([5, 6], 2, ["4", "5"], 3, false);
    good.good();
    let told = good.told(&[("a", Some("6")), ("b", Some("7"))]);
    told.txn([7, 8], 2, ["6", "7"], 4, true).bad(STATE);
}

#[test]
fn a_torn_transaction_is_found() {
    let half = Story::default().told(&[("a", Some("1"))]);
    let half = half.txn([1, 2], 0, ["1", "2"], 2, true);
    half.bad("revision 2 should be");
    // In two revisions, without an answer.
    let torn = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("b", Some("2"))]);
    torn.op(
        [1, 0],
        Request::Txn(pair(0, ["1", "2"])),
        0,
        Response::Revoked,
    )
    .bad(NEVER);
    // A reader sees one half of it.
    let whole = Story::default().told(&[("a", Some("1")), ("b", Some("2"))]);
    let whole = whole.txn([1, 2], 0, ["1", "2"], 2, true);
    let mut seen = whole.range([3, 4], range("a", "c"), 2, 2);
    seen.good();
    if let Some(Response::Range(range)) = seen.ops[1].returned.as_mut().map(|r| &mut r.response) {
        range.kvs.pop();
        range.count = 1;
    }
    seen.bad(STATE);
}

#[test]
fn a_delete_says_truly_what_was_there() {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("a", None)]);
    let story = story.put([1, 2], "a", "1", 2).delete([3, 4], "a", "", 3, 1);
    story.good();
    story.delete([5, 6], "a", "", 3, 1).bad(BACK);
    let nothing = Story::default()
        .told(&[("a", Some("1"))])
        .put([1, 2], "a", "1", 2);
    nothing.delete([3, 4], "a", "", 2, 0).bad(STATE);
}

#[test]
fn stale_reads_show_some_past_and_never_go_back_at_one_replica() {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .told(&[("a", Some("2"))]);
    let story = story.put([1, 2], "a", "1", 2).put([3, 4], "a", "2", 3);
    let good = story
        .get_stale([5, 6], "a", 2, 7)
        .get_stale([7, 8], "a", 3, 7);
    let good = good.get_stale([9, 10], "a", 2, 8);
    good.good();
    good.get_stale([11, 12], "a", 2, 7).bad(BACK);
}

#[test]
fn compacted_revisions_are_refused_and_others_are_not() {
    let past = |revision| RangeRequest {
        revision,
        ..range("a", "")
    };
    let told = || {
        Story::default()
            .told(&[("a", Some("1"))])
            .told(&[("a", Some("2"))])
    };
    let story = told().put([1, 2], "a", "1", 2).put([3, 4], "a", "2", 3);
    let story = story.op([5, 6], Request::Compact(3), 3, Response::Compacted);
    let good = story.op(
        [7, 8],
        Request::Range(past(2)),
        0,
        Response::Refused(Refusal::Compacted),
    );
    good.good();
    let mut read = good.range([9, 10], past(2), 2, 3);
    read.ops
        .last_mut()
        .unwrap()
        .returned
        .as_mut()
        .unwrap()
        .revision = 3;
    read.bad("had been compacted");
    // Inside a transaction.
    let txn = TxnRequest {
        success: vec![part(Part::RequestRange(past(2)))],
        ..TxnRequest::default()
    };
    let kvs: Vec<KeyValue> = read.journal.range(b"a", b"", 2).cloned().collect();
    let found = RangeResponse {
        kvs,
        count: 1,
        ..RangeResponse::default()
    };
    let response = Response::Txn(TxnResponse {
        header: None,
        succeeded: true,
        responses: vec![
            quorate_etcd_api::etcdserverpb::response_op::Response::ResponseRange(found).into(),
        ],
    });
    read.ops.pop();
    read.op([9, 10], Request::Txn(txn), 3, response)
        .bad("had been compacted");
    let none = told().put([1, 2], "a", "1", 2).put([3, 4], "a", "2", 3);
    none.op(
        [5, 6],
        Request::Range(past(2)),
        0,
        Response::Refused(Refusal::Compacted),
    )
    .bad("no reason");
}

#[test]
fn a_revision_that_is_there_is_not_called_future() {
    let story = Story::default()
        .told(&[("a", Some("1"))])
        .put([1, 2], "a", "1", 2);
    let asks = |revision| {
        Request::Range(RangeRequest {
            revision,
            ..range("a", "")
        })
    };
    let future = || Response::Refused(Refusal::Future);
    let good = story.op([3, 4], asks(3), 0, future());
    good.good();
    good.op([5, 6], asks(2), 0, future()).bad("no reason");
}

#[test]
fn the_end_of_a_lease_takes_all_its_keys_and_no_others() {
    let leased = |key, value| {
        Request::Put(PutRequest {
            lease: 7,
            ..put(key, value)
        })
    };
    let begun = || {
        let done = || Response::Put(PutResponse::default());
        let story = Story::default().told_leased(&[("a", Some("1"))], 7);
        let story = story
            .told_leased(&[("b", Some("2"))], 7)
            .told(&[("c", Some("3"))]);
        let story =
            story
                .op([1, 2], leased("a", "1"), 2, done())
                .op([3, 4], leased("b", "2"), 3, done());
        story.put([5, 6], "c", "3", 4)
    };
    let ended = begun().told(&[("a", None), ("b", None)]);
    assert_eq!(ended.good().leases_ended, 1);
    begun().told(&[("a", None)]).bad(NEVER);
    begun()
        .told(&[("a", None), ("b", None), ("c", None)])
        .bad(NEVER);
    let revoked = begun().told(&[("a", None), ("b", None)]).op(
        [7, 8],
        Request::Revoke(7),
        5,
        Response::Revoked,
    );
    assert_eq!(revoked.good().leases_ended, 1);
    // Its keys were deleted before: the end of it has nothing to take along.
    let emptied = begun()
        .told(&[("a", None), ("b", None)])
        .delete([7, 8], "a", "c", 5, 2)
        .op([9, 10], Request::Revoke(7), 5, Response::Revoked);
    emptied.good();
    // Revoked, and its keys are still there.
    begun()
        .op([7, 8], Request::Revoke(7), 4, Response::Revoked)
        .bad("it should have changed");
}
