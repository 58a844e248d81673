//! Numbers, signs of life, and ends of sessions.

use super::super::{Defect, FrameError, LogonWish};
use super::*;

#[test]
fn a_session_tests_who_is_silent_and_ends_with_who_stays_so() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.wait(30 * SECOND);
    desk.says(&["0 34=2"]);
    desk.wait(6 * SECOND);
    desk.says(&["1 34=3 112=37000000000"]);
    desk.tell("0", &[(112, "37000000000")]);
    desk.tell("1", &[(112, "mine")]);
    desk.says(&["0 34=4 112=mine"]);
    desk.wait(36 * SECOND);
    desk.said.clear();
    desk.wait(35 * SECOND);
    assert_eq!(desk.ended, [] as [bool; 0]);
    desk.wait(SECOND);
    assert_eq!(desk.ended, [true]);
    assert!(!desk.client.is_connected());
}

#[test]
fn a_log_out_is_answered_and_is_no_lost_connection() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.tell("5", &[]);
    desk.says(&["5 34=2"]);
    assert_eq!(desk.ended, [false]);
    // The numbers go on.
    desk.log_on(&[]);
    desk.says(&["A 34=3 98=0 108=30"]);
    desk.log_on(&[]);
    desk.says(&["A 34=4 98=0 108=30"]);
    desk.number = 1;
    desk.log_on(&[(141, "Y")]);
    desk.says(&["A 34=1 98=0 108=30 141=Y"]);
}

#[test]
fn messages_behind_a_gap_wait_until_it_is_filled() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.number = 5;
    desk.tell("1", &[(112, "early")]);
    desk.tell("1", &[(112, "early too")]);
    desk.says(&["2 34=2 7=2 16=0"]);
    desk.number = 2;
    desk.tell(
        "4",
        &[(43, "Y"), (122, "20260101-00:00:00"), (123, "Y"), (36, "5")],
    );
    desk.number = 5;
    let again = [(43, "Y"), (122, "20260101-00:00:00"), (112, "early")];
    desk.tell("1", &again);
    desk.says(&["0 34=3 112=early"]);
    // What comes a second time is done already.
    desk.number = 5;
    desk.tell("1", &again);
    desk.says(&[]);
    desk.number = 5;
    desk.tell("0", &[]);
    desk.says(&["5 34=4 58=MsgSeqNum (34) is 5, and 6 was expected"]);
    assert_eq!(desk.ended, [true]);
}

#[test]
fn a_request_to_send_again_is_answered_behind_a_gap_too() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.ask("q", &[]);
    desk.say();
    desk.number = 9;
    desk.tell("2", &[(7, "1"), (16, "0")]);
    desk.says(&[
        "4 34=1 43=Y 123=Y 36=2",
        "j 34=2 43=Y 45=2 372=q 380=3 58=messages of type q are not taken here",
        "2 34=3 7=3 16=0",
    ]);
    desk.number = 3;
    desk.tell("2", &[(7, "7"), (16, "0")]);
    assert!(desk.say().starts_with("3 34=4 45=3 371=7 372=2 373=5"));
    desk.tell("4", &[(36, "20")]);
    desk.number = 20;
    desk.tell("1", &[(112, "behind")]);
    desk.says(&["0 34=5 112=behind"]);
    desk.tell("4", &[(36, "2")]);
    assert!(desk.say().starts_with("3 34=6 45=21 371=36 372=4 373=5"));
}

#[test]
fn what_is_wrong_with_a_message_is_said_by_its_tag() {
    type Case = (&'static [(u32, &'static str)], Option<Defect>, &'static str);
    let cases: [Case; 4] = [
        (&[], Some(Defect::NoTag), "373=0 58=a field has no tag"),
        (
            &[],
            Some(Defect::NoValue(58)),
            "371=58 372=0 373=4 58=tag 58 has no value",
        ),
        (
            &[],
            Some(Defect::Repeated(58)),
            "373=13 58=tag 58 comes twice: groups are not known here",
        ),
        (
            &[(43, "Y")],
            None,
            "371=122 372=0 373=1 58=tag 122 is missing",
        ),
    ];
    let mut desk = Desk::logged_on(First::Answers);
    for (fields, defect, expected) in cases {
        let message = desk.message("0", fields);
        desk.take(&Message { defect, ..message });
        let said = desk.say();
        assert!(said.starts_with("3 ") && said.ends_with(expected), "{said}");
    }
    let mut other = desk.message("0", &[]);
    other.fields[0].1 = "2".to_owned();
    desk.take(&other);
    assert!(desk.say().contains("373=9"));
    assert_eq!(desk.ended, [true]);
}

#[test]
fn nobody_logs_on_without_a_name_or_with_another_rhythm() {
    let mut desk = Desk::new(First::Answers);
    let logon = desk.message("A", &[(98, "0"), (108, "30"), (554, "secret")]);
    let wish = LogonWish::read(&logon).unwrap();
    assert_eq!((wish.participant, wish.password.as_str()), (OWN, "secret"));
    assert!(!format!("{logon:?}").contains("secret"));
    for (tag, value) in [(49, "x"), (49, "01"), (49, "70000"), (56, "OTHER")] {
        let mut other = logon.clone();
        other
            .fields
            .iter_mut()
            .find(|(found, _)| *found == tag)
            .unwrap()
            .1 = value.to_owned();
        assert!(LogonWish::read(&other).is_err(), "{tag}={value}");
    }
    assert!(LogonWish::read(&Message::new("D")).is_err());
    for fields in [
        [(98, "1"), (108, "30")],
        [(98, "0"), (108, "0")],
        [(98, "0"), (108, "301")],
        [(141, "Y"), (108, "30")],
    ] {
        let logon = desk.message("A", &fields);
        assert!(
            desk.client.handle_logon(desk.now(), &logon).is_err(),
            "{fields:?}"
        );
        assert!(!desk.client.is_connected() && desk.client.take_record().is_empty());
    }
}

#[test]
fn bytes_are_messages_where_length_and_checksum_say_so() {
    let message = Message::new("0").with(34, 7).with(112, "x");
    let bytes = message.to_bytes();
    assert_eq!(
        bytes,
        b"8=FIX.4.4\x019=16\x0135=0\x0134=7\x01112=x\x0110=251\x01"
    );
    for cut in 0..bytes.len() {
        assert_eq!(Message::take(&mut bytes[..cut].to_vec()), Ok(None), "{cut}");
    }
    // What was hurt on its way is left out; the next one is read.
    let mut hurt = bytes.clone();
    hurt[25] ^= 1;
    hurt.extend(&bytes);
    assert_eq!(Message::take(&mut hurt), Ok(Some(message)));
    assert!(hurt.is_empty());
    for (wrong, error) in [
        (&b"8=FIX.4.2\x019=5\x01"[..], FrameError::Begin),
        (b"GET / HTTP/1.1\r\n", FrameError::Begin),
        (b"8=FIX.4.4\x019=99999", FrameError::Length),
        (b"8=FIX.4.4\x019=5000\x01", FrameError::Length),
        (b"8=FIX.4.4\x019=-5\x01", FrameError::Length),
        (
            b"8=FIX.4.4\x019=5\x0135=0\x0111=056\x01",
            FrameError::Trailer,
        ),
        (
            b"8=FIX.4.4\x019=5\x0135=0\x0110=999\x01",
            FrameError::Trailer,
        ),
    ] {
        assert_eq!(Message::take(&mut wrong.to_vec()), Err(error), "{wrong:?}");
    }
}

#[test]
fn the_last_number_that_there_is_ends_nothing() {
    let mut desk = Desk::logged_on(First::Answers);
    let last = u64::MAX.to_string();
    desk.tell("4", &[(36, &last)]);
    let mut message = desk.message("1", &[(112, "last")]);
    for (tag, value) in &mut message.fields {
        if *tag == 34 {
            value.clone_from(&last);
        }
    }
    desk.take(&message);
    desk.says(&["0 34=2 112=last"]);
}
