use super::super::GatewayOptions;
use super::super::fix::FixDesk;
use super::super::fix_journal::Journal;
use super::*;
use crate::fix::Message;
use crate::live::clock;
use crate::live::connection::{Outbox, Outgoing};
use std::fmt::Display;

const PARTICIPANT: ParticipantId = ParticipantId(3);
const CONNECTION: u64 = 1;
const NUMBER: u32 = 34;

/// A gateway with one engine, and what of its journal a power failure would leave.
struct Session {
    machine: GatewayMachine,
    folder: tempfile::TempDir,
    outgoing: Outgoing,
    /// The number of the engine's next message.
    number: u64,
    /// The highest number that the engine has heard.
    heard: u64,
    /// The length of the journal that is on the disk, and that which the present sync is about.
    synced: u64,
    syncing: u64,
}

/// A message of the engine.
fn message(kind: &str, number: u64) -> Message {
    Message::new(kind)
        .with(49, PARTICIPANT.0)
        .with(56, "EXCHANGE")
        .with(NUMBER, number)
        .with(52, "20260101-00:00:00.000")
}

fn logon(number: u64) -> Message {
    message("A", number).with(98, 0).with(108, 30)
}

impl Session {
    fn begin() -> Session {
        let folder = tempfile::tempdir().unwrap();
        let (desk, _) = FixDesk::open(folder.path()).unwrap();
        let mut machine = GatewayMachine::new(GatewayOptions::alone(), desk).unwrap();
        let (outbox, outgoing) = Outbox::new();
        machine.fix.begin(CONNECTION, outbox);
        let mut session = Session {
            machine,
            folder,
            outgoing,
            number: 1,
            heard: 0,
            synced: 0,
            syncing: 0,
        };
        session.machine.fix_says(CONNECTION, &logon(1));
        session.number += 1;
        session
    }

    fn says(&mut self, kind: &str, tag: u32, value: impl Display) {
        let said = message(kind, self.number).with(tag, value);
        self.machine.fix_says(CONNECTION, &said);
        self.number += 1;
    }

    fn journal(&self) -> PathBuf {
        self.folder
            .path()
            .join(format!("fix-{}.journal", PARTICIPANT.0))
    }

    /// Has a sync begin, as the gateway does after each of its turns.
    fn turn_ends(&mut self) {
        if self.machine.fix.sync.job.is_none() {
            self.syncing = fs::metadata(self.journal()).unwrap().len();
        }
        self.machine.fix_sync();
    }

    async fn sync_ends(&mut self) {
        if self.machine.fix.sync.job.is_some() {
            let synced = self.machine.fix.sync.done().await;
            self.synced = self.syncing;
            self.machine.fix_synced(synced);
        }
    }

    /// The types of what the engine has heard since it was last asked.
    fn hears(&mut self) -> Vec<String> {
        let mut kinds = Vec::new();
        while let Some(mut bytes) = self.outgoing.try_next() {
            let message = Message::take(&mut bytes).unwrap().unwrap();
            self.heard = self.heard.max(message.number(NUMBER).unwrap());
            kinds.push(message.kind);
        }
        kinds
    }

    /// The number of the first message after a power failure at this moment.
    fn number_after_a_power_failure(&self) -> u64 {
        let left = tempfile::tempdir().unwrap();
        let written = fs::read(self.journal()).unwrap();
        let on_disk = &written[..self.synced as usize];
        let journal = left.path().join(self.journal().file_name().unwrap());
        fs::write(journal, on_disk).unwrap();
        let (_journal, mut client) = Journal::open(left.path(), PARTICIPANT).unwrap();
        let logon = logon(self.number);
        client.handle_logon(clock::now(), &logon).unwrap();
        let Some(FixOutput::Send(mut bytes)) = client.poll_output() else {
            panic!("a Logon is not answered");
        };
        let answer = Message::take(&mut bytes).unwrap().unwrap();
        answer.number(NUMBER).unwrap()
    }

    fn survives_a_power_failure(&mut self) {
        self.hears();
        let (next, heard) = (self.number_after_a_power_failure(), self.heard);
        assert!(next > heard, "{next} comes after {heard}");
    }
}

#[tokio::test]
async fn numbers_do_not_go_back_wherever_power_fails() {
    let mut session = Session::begin();
    session.survives_a_power_failure();
    for round in 0..60 {
        session.says("1", 112, round);
        session.survives_a_power_failure();
        if round % 3 != 1 {
            session.turn_ends();
            session.survives_a_power_failure();
        }
        if round % 4 == 2 {
            session.sync_ends().await;
            session.survives_a_power_failure();
        }
    }
    session.sync_ends().await;
    session.turn_ends();
    session.sync_ends().await;
    session.hears();
    // The answers to the Logon and to each question.
    assert_eq!(session.heard, 61);
}

#[tokio::test]
async fn one_sync_serves_all_that_came_while_another_ran() {
    let mut session = Session::begin();
    session.turn_ends();
    for question in 0..100 {
        session.says("1", 112, question);
        session.turn_ends();
    }
    assert_eq!(session.hears(), [""; 0]);
    session.sync_ends().await;
    assert_eq!(session.hears(), ["A"]);
    session.turn_ends();
    session.sync_ends().await;
    assert_eq!(session.hears(), ["0"; 100]);
}

#[tokio::test]
async fn a_log_out_is_said_before_the_connection_ends_and_nothing_is_heard_after_it() {
    let mut session = Session::begin();
    session.turn_ends();
    session.sync_ends().await;
    assert_eq!(session.hears(), ["A"]);
    session.says("5", 58, "enough");
    session.says("1", 112, "still there?");
    session.turn_ends();
    session.sync_ends().await;
    assert_eq!(session.hears(), ["5"]);
    assert!(session.machine.fix.connections.is_empty());
}

#[tokio::test]
async fn a_disk_that_does_not_answer_ends_connections_before_all_memory_is_full() {
    let mut session = Session::begin();
    for question in 0..=HELD_MAX {
        session.says("1", 112, question);
    }
    assert!(session.machine.fix.connections.is_empty());
    let seat = &session.machine.fix.seats[&PARTICIPANT];
    assert!(seat.held.next.len() < HELD_MAX, "{}", seat.held.next.len());
    assert_eq!(session.hears(), [""; 0]);
}
