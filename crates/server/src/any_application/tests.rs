//! Everything that is asked of an application reaches it, through the box and through what measures its time.

use super::*;
use crate::timed_app::TimedApp;
use quorate_core::{Boot, EntryId, ReplicaId};
use std::sync::{Arc, Mutex};

/// Notes which methods were called, and answers with what no default says.
#[derive(Clone, Default)]
struct Witness {
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Witness {
    fn note<T>(&self, call: &'static str, answer: T) -> T {
        self.calls.lock().unwrap().push(call);
        answer
    }
}

const PAYLOAD: PayloadId = PayloadId {
    entry: EntryId {
        origin: ReplicaId(1),
        boot: Boot(2),
        seq: 3,
    },
    part: 4,
};

impl Application for Witness {
    type Query = u8;
    type Answer = u16;
    type Cut = u32;

    fn apply(&mut self, _: At, body: &Bytes, _: &[Payload]) -> Bytes {
        self.note("apply", body.clone())
    }

    fn command_properties(&self) -> CommandProperties {
        let properties = CommandProperties {
            touches: Some(|_| Some(vec![7])),
            ..CommandProperties::UNKNOWN
        };
        self.note("command_properties", properties)
    }

    fn is_retractable(&self, _: &Bytes) -> bool {
        self.note("is_retractable", true)
    }

    fn attempt(&mut self, _: At, body: &Bytes) -> Bytes {
        self.note("attempt", body.clone())
    }

    fn keep(&mut self) {
        self.note("keep", ());
    }

    fn retract(&mut self) {
        self.note("retract", ());
    }

    fn is_live(&self, _: PayloadId) -> bool {
        self.note("is_live", true)
    }

    fn take_dead(&mut self) -> Vec<PayloadId> {
        self.note("take_dead", vec![PAYLOAD])
    }

    fn live(&self, _: Option<PayloadId>, most: usize) -> Vec<(PayloadId, Payload)> {
        assert_eq!(most, 9);
        self.note("live", Vec::new())
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        self.note("take_countdowns", vec![Countdown::Stop { id: 1 }])
    }

    fn tidy(&mut self) -> bool {
        self.note("tidy", true)
    }

    fn query(&self, query: &u8) -> u16 {
        self.note("query", u16::from(*query) << 8)
    }

    fn cut(&mut self) -> u32 {
        self.note("cut", 5)
    }

    fn cut_digest(&self, cut: &u32) -> Option<u64> {
        self.note("cut_digest", Some(u64::from(*cut)))
    }

    fn has_cut_digests(&self) -> bool {
        self.note("has_cut_digests", true)
    }

    fn piece(&mut self, cut: &mut u32, bytes: usize) -> Option<Bytes> {
        *cut += bytes as u32;
        self.note("piece", None)
    }

    fn release(&mut self, cut: u32) {
        assert_eq!(cut, 15);
        self.note("release", ());
    }

    fn empty(&self) -> Self {
        self.note("empty", self.clone())
    }

    fn load(&mut self, _: Bytes) -> Result<(), String> {
        self.note("load", Err("load".to_owned()))
    }

    fn loaded(&mut self) -> Result<(), String> {
        self.note("loaded", Err("loaded".to_owned()))
    }

    fn installed(&mut self) {
        self.note("installed", ());
    }
}

#[test]
fn everything_that_is_asked_reaches_the_application() {
    let witness = Witness::default();
    let mut app = TimedApp::new(witness.clone()).empty();
    let body = Bytes::from_static(b"body");
    assert_eq!(app.apply(At::default(), &body, &[]), body);
    let touches = app.command_properties().touches.unwrap();
    assert_eq!(touches(&body), Some(vec![7]));
    assert!(app.is_retractable(&body));
    assert_eq!(app.attempt(At::default(), &body), body);
    app.keep();
    app.retract();
    assert!(app.is_live(PAYLOAD));
    assert_eq!(app.take_dead(), [PAYLOAD]);
    assert!(app.live(None, 9).is_empty());
    assert_eq!(app.take_countdowns(), [Countdown::Stop { id: 1 }]);
    assert!(app.tidy());
    let query: AnyValue = Box::new(3_u8);
    assert_eq!(answer_of::<Witness>(app.query(&query)), 3 << 8);
    let mut cut = app.cut();
    assert_eq!(app.cut_digest(&cut), Some(5));
    assert!(app.has_cut_digests());
    assert_eq!(app.piece(&mut cut, 10), None);
    app.release(cut);
    assert_eq!(app.load(Bytes::new()), Err("load".to_owned()));
    assert_eq!(app.loaded(), Err("loaded".to_owned()));
    app.installed();
    let expected = "empty apply command_properties is_retractable attempt keep retract is_live take_dead live \
        take_countdowns tidy query cut cut_digest has_cut_digests piece release load loaded installed";
    assert_eq!(witness.calls.lock().unwrap().join(" "), expected);
}
