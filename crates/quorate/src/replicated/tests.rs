use super::*;
use crate::envelope::Envelope;
use crate::state_machine::ClientId;
use quorate_core::Slot;
use std::time::Duration;

/// Adds numbers up, and starts a timer for each.
#[derive(Default)]
struct Sum {
    sum: u64,
    timers: Vec<Timer<u64>>,
}

impl StateMachine for Sum {
    type Command = u64;
    type Reply = (u64, u64);
    type Query = ();
    type Answer = u64;

    fn apply(&mut self, at: &Applied, add: u64) -> (u64, u64) {
        self.sum += add;
        self.timers.push(Timer::Start {
            id: add,
            after: Duration::from_secs(1),
            command: 0,
        });
        (self.sum, at.token)
    }

    fn query(&self, (): &()) -> u64 {
        self.sum
    }

    fn save(&self) -> Vec<u8> {
        vec![7; self.sum as usize]
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        match bytes.iter().all(|byte| *byte == 7) {
            true => Ok(Sum {
                sum: bytes.len() as u64,
                timers: Vec::new(),
            }),
            false => Err("a byte is not 7".to_owned()),
        }
    }

    fn take_timers(&mut self) -> Vec<Timer<u64>> {
        std::mem::take(&mut self.timers)
    }
}

type App = Replicated<Sum>;

fn at(slot: u64) -> At {
    At {
        slot: Slot(slot),
        ..At::default()
    }
}

fn sent(app: &mut App, slot: u64, envelope: &Envelope) -> Outcome {
    let result = app.apply(at(slot), &envelope.to_bytes(), &[]);
    Outcome::from_bytes(result).unwrap()
}

fn request(client: ClientId, number: u64, add: u64) -> Envelope {
    let id = RequestId { client, number };
    Envelope::Request(id, add.to_bytes().unwrap())
}

fn opened(app: &mut App) -> ClientId {
    match sent(app, 0, &Envelope::Open) {
        Outcome::Opened(client) => client,
        other => panic!("{other:?}"),
    }
}

fn through_a_snapshot(app: &mut App, bytes: usize) -> Result<App, String> {
    let (mut cut, mut next) = (app.cut(), app.empty());
    while let Some(piece) = app.piece(&mut cut, bytes) {
        assert!((1..=bytes).contains(&piece.len()));
        next.load(piece)?;
    }
    next.loaded()?;
    Ok(next)
}

#[test]
fn a_request_is_applied_once_also_by_who_was_given_a_snapshot() {
    let mut app = App::default();
    let client = opened(&mut app);
    let first = sent(&mut app, 1, &request(client, 1, 5));
    assert_eq!(first, Outcome::Reply((5_u64, 2_u64).to_bytes().unwrap()));
    assert_eq!(sent(&mut app, 2, &request(client, 1, 5)), first);
    let mut next = through_a_snapshot(&mut app, 3).unwrap();
    assert_eq!(sent(&mut next, 3, &request(client, 1, 5)), first);
    assert_eq!(next.state().sum, 5);
    let second = sent(&mut next, 4, &request(client, 2, 1));
    assert_eq!(second, Outcome::Reply((6_u64, 3_u64).to_bytes().unwrap()));
}

#[test]
fn what_cannot_be_read_is_refused_and_changes_nothing() {
    let mut app = App::default();
    let commands = [
        Bytes::new(),
        Bytes::from_static(&[9]),
        Envelope::Once(Bytes::from_static(&[0xff])).to_bytes(),
    ];
    for body in commands {
        let result = app.apply(at(0), &body, &[]);
        let outcome = Outcome::from_bytes(result).unwrap();
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }
    let no_room = At {
        admission: Admission::NoGrowth,
        ..at(1)
    };
    let body = App::body(&5).unwrap();
    let result = app.apply(no_room, &body, &[]);
    assert!(App::reply(&result).is_err());
    assert_eq!((app.state().sum, app.count), (0, 0));
    assert_eq!(App::reply(&app.apply(at(2), &body, &[])), Ok((5, 1)));
}

#[test]
fn damaged_snapshots_are_refused() {
    let mut app = App::default();
    opened(&mut app);
    app.apply(at(1), &App::body(&40).unwrap(), &[]);
    let mut cut = app.cut();
    let whole = app.piece(&mut cut, 1000).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.to_vec();
        damaged[at] ^= 0x80;
        let mut next = app.empty();
        next.load(damaged.into()).unwrap();
        let _ = next.loaded();
        let mut short = app.empty();
        short.load(whole.slice(..at)).unwrap();
        assert!(short.loaded().is_err(), "the first {at} bytes");
    }
}

#[test]
fn timers_order_the_command_of_the_state_machine() {
    let mut app = App::default();
    app.apply(at(0), &App::body(&3).unwrap(), &[]);
    let expected = Countdown::Start {
        id: 3,
        after_ns: 1_000_000_000,
        command: App::body(&0).unwrap(),
    };
    assert_eq!(app.take_countdowns(), [expected]);
}
