//! Who has to go where more connections are wanted than there may be.

use super::*;

/// Scenario: more connections than there may be. Those that have been idle for longest go, whoever has an open
/// request last of all.
#[tokio::test]
async fn the_longest_idle_has_to_go_and_nobody_else() {
    let registry = registry(4, Duration::ZERO);
    let mut open = Vec::new();
    for number in 0..4 {
        let place = registry.admit().await.expect("there is room");
        // The first two have an open request.
        if number < 2 {
            place.state().request_begins();
        }
        open.push(until_closed(place));
        sleep(Duration::from_millis(20)).await;
    }
    let is_closed = |open: &[JoinHandle<()>]| -> Vec<bool> {
        open.iter().map(JoinHandle::is_finished).collect()
    };
    for expected in [[false, false, true, false], [false, false, true, true]] {
        let place = registry.admit().await.expect("one has to go");
        tokio::task::yield_now().await;
        place.state().request_begins();
        assert_eq!(is_closed(&open[..4]), expected);
        open.push(until_closed(place));
    }
    // All have an open request; two have been idle for long.
    let place = registry.admit().await.expect("one has to go");
    tokio::task::yield_now().await;
    assert_eq!(is_closed(&open[..4]), [true, false, true, true]);
    drop(place);
}

#[tokio::test]
async fn where_none_is_idle_a_new_one_is_refused() {
    let registry = registry(2, Duration::from_secs(60));
    let _open = [registry.admit().await, registry.admit().await].map(|place| place.expect("room"));
    assert!(registry.admit().await.is_none());
}

fn until_closed(place: Place) -> JoinHandle<()> {
    tokio::spawn(async move { while place.state().order().await != Order::Close {} })
}
