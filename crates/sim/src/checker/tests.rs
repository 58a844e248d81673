//! Histories written by hand: good ones pass, and each kind of lie is found.

use super::*;

/// Builds a history; every operation is on key 0.
#[derive(Default)]
struct Story(Vec<Op>);

impl Story {
    fn answered(mut self, span: [u64; 2], call: Call, outcome: Outcome) -> Self {
        let returned = Some((span[1], outcome));
        self.0.push(Op {
            client: self.0.len(),
            key: 0,
            call,
            invoked: span[0],
            returned,
            hint: None,
        });
        self
    }

    fn put(self, span: [u64; 2], value: u64, revision: u64) -> Self {
        self.answered(span, Call::Put(value), Outcome::Put { revision })
    }

    fn get(self, span: [u64; 2], revision: u64, seen: Option<Seen>) -> Self {
        self.answered(span, Call::Get, Outcome::Got { revision, seen })
    }

    fn delete(self, span: [u64; 2], revision: u64, existed: bool) -> Self {
        self.answered(span, Call::Delete, Outcome::Deleted { revision, existed })
    }

    fn unknown(mut self, invoked: u64, call: Call) -> Self {
        self.0.push(Op {
            client: self.0.len(),
            key: 0,
            call,
            invoked,
            returned: None,
            hint: None,
        });
        self
    }

    fn verdict(&self) -> Result<(), String> {
        check(&self.0)
    }
}

fn seen(value: u64, version: u64, created: u64, modified: u64) -> Option<Seen> {
    Some(Seen {
        value,
        version,
        created,
        modified,
    })
}

#[test]
fn overlapping_operations_may_take_effect_in_either_order() {
    let story = Story::default()
        .put([1, 10], 100, 3)
        .put([2, 9], 200, 2)
        .get([3, 4], 1, None)
        .get([5, 8], 2, seen(200, 1, 2, 2))
        .get([11, 12], 3, seen(100, 2, 2, 3));
    assert_eq!(story.verdict(), Ok(()));
}

#[test]
fn a_stale_read_is_found() {
    let story = Story::default()
        .put([1, 2], 100, 2)
        .put([3, 4], 200, 3)
        .get([5, 6], 2, seen(100, 1, 2, 2));
    assert!(story.verdict().unwrap_err().contains("nothing explains"));
}

#[test]
fn a_read_that_goes_back_behind_another_read_is_found() {
    let story = Story::default()
        .put([1, 20], 100, 2)
        .get([2, 3], 2, seen(100, 1, 2, 2))
        .get([4, 5], 1, None);
    assert!(story.verdict().is_err());
}

#[test]
fn a_lost_acknowledged_write_is_found() {
    let story = Story::default().put([1, 2], 100, 2).get([3, 4], 2, None);
    assert!(story.verdict().is_err());
}

#[test]
fn a_write_applied_twice_is_found_by_the_version() {
    let story = Story::default()
        .put([1, 2], 100, 3)
        .get([3, 4], 3, seen(100, 2, 2, 3));
    assert!(story.verdict().is_err());
}

#[test]
fn a_write_of_unknown_fate_may_take_effect_late_or_never() {
    let never = Story::default()
        .unknown(1, Call::Put(100))
        .get([2, 3], 1, None);
    assert_eq!(never.verdict(), Ok(()));
    let late = never.get([8, 9], 2, seen(100, 1, 2, 2));
    assert_eq!(late.verdict(), Ok(()));
    let and_not_back = late.get([10, 11], 2, None);
    assert!(and_not_back.verdict().is_err());
}

#[test]
fn a_write_of_unknown_fate_that_only_the_version_betrays_is_allowed_once() {
    let story = Story::default()
        .put([1, 2], 100, 2)
        .unknown(3, Call::Put(200))
        .put([4, 5], 300, 4)
        .get([6, 7], 4, seen(300, 3, 2, 4));
    assert_eq!(story.verdict(), Ok(()));
    let twice = Story::default()
        .put([1, 2], 100, 2)
        .unknown(3, Call::Put(200))
        .put([4, 5], 300, 5)
        .get([6, 7], 5, seen(300, 4, 2, 5));
    assert!(twice.verdict().is_err());
}

#[test]
fn a_value_nobody_wrote_is_found() {
    let story = Story::default()
        .put([1, 2], 100, 2)
        .get([3, 4], 3, seen(999, 2, 2, 3));
    assert!(story.verdict().is_err());
}

#[test]
fn a_compare_and_swap_is_judged_by_the_revision_it_expects() {
    let swap = |expected| Call::Cas {
        expected,
        value: 200,
    };
    let story = Story::default().put([1, 2], 100, 2);
    let good = story.answered([3, 4], swap(2), Outcome::Swapped { revision: 3 });
    assert_eq!(good.verdict(), Ok(()));
    let missed = good.answered(
        [5, 6],
        Call::Cas {
            expected: 2,
            value: 300,
        },
        Outcome::Kept {
            revision: 3,
            seen: seen(200, 2, 2, 3),
        },
    );
    assert_eq!(missed.verdict(), Ok(()));
    let both = missed.answered(
        [5, 7],
        Call::Cas {
            expected: 2,
            value: 400,
        },
        Outcome::Swapped { revision: 4 },
    );
    assert!(both.verdict().is_err());
}

#[test]
fn a_delete_says_truly_whether_something_was_there() {
    let story = Story::default().put([1, 2], 100, 2).delete([3, 4], 3, true);
    assert_eq!(story.verdict(), Ok(()));
    assert_eq!(story.delete([5, 6], 3, false).verdict(), Ok(()));
    assert!(Story::default().delete([1, 2], 2, true).verdict().is_err());
}

#[test]
fn revisions_of_different_keys_keep_to_real_time() {
    let mut story = Story::default().put([1, 2], 100, 3).put([3, 4], 200, 2);
    story.0[1].key = 1;
    assert!(story.verdict().unwrap_err().contains("higher revision"));
    let mut twins = Story::default().put([1, 2], 100, 2).put([3, 4], 200, 2);
    twins.0[1].key = 1;
    assert!(twins.verdict().unwrap_err().contains("one revision"));
}

#[test]
fn a_long_history_with_many_unknown_writes_is_checked_in_linear_steps() {
    let mut story = Story::default();
    let mut now = 0;
    for round in 0..500 {
        story = story.unknown(now, Call::Put(10_000 + round));
        story = story.put([now + 1, now + 3], round, 2 * round + 2);
        let revision = 2 * round + 2;
        story = story.get(
            [now + 4, now + 5],
            revision,
            seen(round, round + 1, 2, revision),
        );
        now += 10;
    }
    assert_eq!(story.verdict(), Ok(()));
}
