//! What observers tell must follow from what they told before.

use super::*;

#[test]
fn a_journal_does_not_contradict_itself() {
    let story = Story::default().told(&[("a", Some("1"))]);
    let journal = story.journal;
    let mut twice = events(&journal, 3, &[("a", Some("2"))], 0);
    twice[0].kv.as_mut().unwrap().version = 3;
    assert!(
        journal
            .clone()
            .add(&twice, 4)
            .unwrap_err()
            .contains("does not follow")
    );
    let nothing = events(&journal, 3, &[("z", None)], 0);
    assert!(
        journal
            .clone()
            .add(&nothing, 4)
            .unwrap_err()
            .contains("does not follow")
    );
    let old = events(&journal, 2, &[("z", Some("1"))], 0);
    assert!(
        journal
            .clone()
            .add(&old, 4)
            .unwrap_err()
            .contains("out of order")
    );
}
