//! The session: numbers without gaps in both directions, signs of life, and what was missed.

use super::client::{Client, FixOutput};
use super::codec::{Defect, Message};
use super::kept::{Change, SentMessage};
use super::{tag, time};
use crate::book::ParticipantId;
use crate::fair::Now;
use std::ops::RangeInclusive;

/// What the exchange calls itself in messages (tag 49 of what it sends).
pub const EXCHANGE: &str = "EXCHANGE";
/// How many seconds there may be between two signs of life (tag 108).
pub const HEARTBEAT_SECONDS: RangeInclusive<u64> = 1..=300;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Reasons of a reject (tag 373), as the protocol numbers them.
pub(super) mod reason {
    pub(crate) const NO_TAG: u32 = 0;
    pub(crate) const MISSING: u32 = 1;
    pub(crate) const NO_VALUE: u32 = 4;
    pub(crate) const VALUE: u32 = 5;
    pub(crate) const FORMAT: u32 = 6;
    pub(crate) const COMPANY: u32 = 9;
    pub(crate) const REPEATED: u32 = 13;
    pub(crate) const OTHER: u32 = 99;
}

/// The participant's end of a session that is on.
#[derive(Debug)]
pub(super) struct Connected {
    heartbeat_ns: u64,
    /// When something came last, by the steady clock.
    heard_ns: u64,
    /// When something was sent last, by the steady clock.
    said_ns: u64,
    is_tested: bool,
    /// The highest number that came while earlier ones were missing: these were asked for.
    gap_to: Option<u64>,
}

/// What somebody who logs on says of itself.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations, reason = "a password is in no log")]
pub struct LogonWish {
    /// The participant that it says it is (tag 49).
    pub participant: ParticipantId,
    /// The words that are to prove it (tag 554); empty where it says nothing.
    pub password: String,
}

impl LogonWish {
    /// Reads the first message of a connection.
    ///
    /// # Errors
    /// Why there is no session, for the other end.
    pub fn read(message: &Message) -> Result<LogonWish, String> {
        if message.kind != tag::LOGON {
            return Err("the first message is no Logon (A)".to_owned());
        }
        if let Some(defect) = message.defect {
            return Err(defect.to_string());
        }
        if message.get(tag::TARGET) != Some(EXCHANGE) {
            return Err(format!("TargetCompID (56) is {EXCHANGE} here"));
        }
        let sender = message.number(tag::SENDER);
        let participant = sender.and_then(|sender| u16::try_from(sender).ok());
        let participant =
            participant.filter(|number| message.get(tag::SENDER) == Some(&*number.to_string()));
        Ok(LogonWish {
            participant: participant
                .map(ParticipantId)
                .ok_or("SenderCompID (49) is the number of a participant")?,
            password: message.get(tag::PASSWORD).unwrap_or_default().to_owned(),
        })
    }
}

/// The one message to somebody who gets no session. It is no part of any session's numbers.
#[must_use]
pub fn refusal(now: Now, to: &Message, why: &str) -> Vec<u8> {
    let refused = Message::new(tag::LOGOUT)
        .with(tag::SENDER, EXCHANGE)
        .with(tag::TARGET, to.get(tag::SENDER).unwrap_or("UNKNOWN"))
        .with(tag::MSG_SEQ_NUM, 1)
        .with(tag::SENDING_TIME, time::text(now.clock_ns))
        .with(tag::TEXT, why);
    refused.to_bytes()
}

impl Client {
    /// Begins a session with somebody who proved to be this participant. One that is on ends.
    ///
    /// # Errors
    /// Why there is no session, for the other end.
    pub fn handle_logon(&mut self, now: Now, logon: &Message) -> Result<(), String> {
        let number = logon.number(tag::MSG_SEQ_NUM).filter(|number| *number > 0);
        let number = number.ok_or("MsgSeqNum (34) is missing")?;
        if logon
            .get(tag::ENCRYPT_METHOD)
            .is_some_and(|method| method != "0")
        {
            return Err("EncryptMethod (98) is 0 here".to_owned());
        }
        let seconds = logon.number(tag::HEART_BT_INT);
        let seconds = seconds.filter(|seconds| HEARTBEAT_SECONDS.contains(seconds));
        let (least, most) = (HEARTBEAT_SECONDS.start(), HEARTBEAT_SECONDS.end());
        let seconds =
            seconds.ok_or_else(|| format!("HeartBtInt (108) is {least} to {most} here"))?;
        let resets = logon.is_set(tag::RESET_SEQ_NUM);
        if resets && number != 1 {
            return Err("a Logon with ResetSeqNumFlag (141) has MsgSeqNum (34) 1".to_owned());
        }
        self.connected = Some(Connected {
            heartbeat_ns: seconds * NS_PER_SECOND,
            heard_ns: now.steady_ns,
            said_ns: now.steady_ns,
            is_tested: false,
            gap_to: None,
        });
        if resets {
            self.change(Change::Reset);
        }
        if number < self.kept.next_in && !logon.is_set(tag::POSS_DUP) {
            self.refuse_number(now, number);
            return Ok(());
        }
        self.change(Change::Online(true));
        let mut answer = Message::new(tag::LOGON)
            .with(tag::ENCRYPT_METHOD, 0)
            .with(tag::HEART_BT_INT, seconds);
        if resets {
            answer.push(tag::RESET_SEQ_NUM, "Y");
        }
        self.say(now, answer);
        match number > self.kept.next_in {
            true => self.ask_for_missing(now, number),
            false => self.expect(number.saturating_add(1)),
        }
        Ok(())
    }

    /// Takes a message of the participant.
    pub fn handle_message(&mut self, now: Now, message: &Message) {
        let Some(connected) = &mut self.connected else {
            return;
        };
        connected.heard_ns = now.steady_ns;
        connected.is_tested = false;
        let Some(number) = message.number(tag::MSG_SEQ_NUM) else {
            return self.log_out(now, "MsgSeqNum (34) is missing");
        };
        let own = self.participant.0.to_string();
        if message.get(tag::SENDER) != Some(&own) || message.get(tag::TARGET) != Some(EXCHANGE) {
            let why = format!(
                "SenderCompID (49) is {own} and TargetCompID (56) is {EXCHANGE} in this session"
            );
            self.reject(now, message, reason::COMPANY, None, &why);
            return self.log_out(now, &why);
        }
        let fills = message.is_set(tag::GAP_FILL);
        if message.kind == tag::SEQUENCE_RESET && !fills {
            self.reset_expected(now, message);
        } else if number > self.kept.next_in {
            self.handle_early(now, message, number);
        } else if number < self.kept.next_in {
            // What comes again was done when it came first.
            if !message.is_set(tag::POSS_DUP) {
                self.refuse_number(now, number);
            }
        } else {
            // The other end may have reset it to the last there is.
            self.expect(number.saturating_add(1));
            if let Err((reason, tag, why)) = check_header(message) {
                self.reject(now, message, reason, tag, &why);
            } else {
                self.handle_in_turn(now, message);
            }
        }
    }

    /// Learns that the connection is gone; says whether a session was on.
    pub fn handle_connection_lost(&mut self) -> bool {
        let was_on = self.connected.take().is_some();
        if was_on {
            self.change(Change::Online(false));
        }
        was_on
    }

    /// Learns that the process which had the connection is gone; says whether a session was on.
    pub fn handle_restart(&mut self) -> bool {
        let was_on = self.kept.is_online;
        if was_on {
            self.change(Change::Online(false));
        }
        was_on
    }

    /// Sees to signs of life, and to requests that wait.
    pub fn handle_tick(&mut self, now: Now) {
        self.submit_waiting();
        self.tell_repeated(now);
        let Some(connected) = &self.connected else {
            return;
        };
        let interval_ns = connected.heartbeat_ns;
        let (silent_ns, is_tested) = (
            now.steady_ns.saturating_sub(connected.heard_ns),
            connected.is_tested,
        );
        if silent_ns >= interval_ns * 12 / 5 {
            return self.disconnect(true);
        }
        let is_due = now.steady_ns.saturating_sub(connected.said_ns) >= interval_ns;
        if silent_ns >= interval_ns * 6 / 5 && !is_tested {
            if let Some(connected) = &mut self.connected {
                connected.is_tested = true;
            }
            let question = Message::new(tag::TEST_REQUEST).with(tag::TEST_REQ_ID, now.clock_ns);
            self.say(now, question);
        } else if is_due {
            self.say(now, Message::new(tag::HEARTBEAT));
        }
    }

    /// Answers what came in its turn.
    fn handle_in_turn(&mut self, now: Now, message: &Message) {
        match message.kind.as_str() {
            tag::HEARTBEAT | tag::REJECT => {}
            tag::TEST_REQUEST => match message.get(tag::TEST_REQ_ID) {
                Some(id) => self.say(now, Message::new(tag::HEARTBEAT).with(tag::TEST_REQ_ID, id)),
                None => self.reject_missing(now, message, tag::TEST_REQ_ID),
            },
            tag::RESEND_REQUEST => self.send_again(now, message),
            tag::SEQUENCE_RESET => match message.number(tag::NEW_SEQ_NO) {
                Some(next) if next >= self.kept.next_in => self.expect(next),
                Some(_) => self.reject_back(now, message),
                None => self.reject_missing(now, message, tag::NEW_SEQ_NO),
            },
            tag::LOGOUT => self.answer_logout(now),
            tag::LOGON => self.reject(
                now,
                message,
                reason::OTHER,
                None,
                "the session is on already",
            ),
            _ => self.handle_request(now, message),
        }
    }

    /// Takes a message behind missing ones, which is sent again with them. What must not wait for them is answered.
    fn handle_early(&mut self, now: Now, message: &Message, number: u64) {
        match message.kind.as_str() {
            tag::LOGOUT => return self.answer_logout(now),
            tag::RESEND_REQUEST => self.send_again(now, message),
            _ => {}
        }
        self.ask_for_missing(now, number);
    }

    fn ask_for_missing(&mut self, now: Now, number: u64) {
        let next = self.kept.next_in;
        if let Some(connected) = &mut self.connected
            && connected.gap_to.is_none()
        {
            connected.gap_to = Some(number);
            let wanted = Message::new(tag::RESEND_REQUEST)
                .with(tag::BEGIN_SEQ_NO, next)
                .with(tag::END_SEQ_NO, 0);
            self.say(now, wanted);
        }
    }

    fn expect(&mut self, next: u64) {
        if let Some(connected) = &mut self.connected
            && connected.gap_to.is_some_and(|last| next > last)
        {
            connected.gap_to = None;
        }
        self.change(Change::Expected(next));
    }

    fn reset_expected(&mut self, now: Now, message: &Message) {
        match message.number(tag::NEW_SEQ_NO) {
            Some(next) if next >= self.kept.next_in => self.expect(next),
            Some(_) => self.reject_back(now, message),
            None => self.reject_missing(now, message, tag::NEW_SEQ_NO),
        }
    }

    fn reject_back(&mut self, now: Now, message: &Message) {
        let why = format!(
            "NewSeqNo (36) is below {}, which is expected",
            self.kept.next_in
        );
        self.reject(now, message, reason::VALUE, Some(tag::NEW_SEQ_NO), &why);
    }

    fn refuse_number(&mut self, now: Now, number: u64) {
        let expected = self.kept.next_in;
        self.log_out(
            now,
            &format!("MsgSeqNum (34) is {number}, and {expected} was expected"),
        );
    }

    fn answer_logout(&mut self, now: Now) {
        self.say(now, Message::new(tag::LOGOUT));
        self.disconnect(false);
    }

    fn log_out(&mut self, now: Now, why: &str) {
        self.say(now, Message::new(tag::LOGOUT).with(tag::TEXT, why));
        self.disconnect(true);
    }

    fn disconnect(&mut self, is_lost: bool) {
        if self.handle_connection_lost() {
            self.outputs.push_back(FixOutput::Disconnect { is_lost });
        }
    }

    /// Sends what was sent before: reports as they were, and one message for all between them that is not worth it.
    fn send_again(&mut self, now: Now, message: &Message) {
        let last = self.kept.next_out - 1;
        let (first, end) = (
            message.number(tag::BEGIN_SEQ_NO),
            message.number(tag::END_SEQ_NO),
        );
        let (Some(first), Some(end)) = (first.filter(|first| (1..=last).contains(first)), end)
        else {
            let why = format!("BeginSeqNo (7) is 1 to {last}, and EndSeqNo (16) is there");
            return self.reject(now, message, reason::VALUE, Some(tag::BEGIN_SEQ_NO), &why);
        };
        let end = if end == 0 { last } else { end.min(last) };
        let kept: Vec<(u64, SentMessage)> = match first <= end {
            true => self
                .kept
                .sent
                .range(first..=end)
                .map(|(number, sent)| (*number, sent.clone()))
                .collect(),
            false => Vec::new(),
        };
        let mut next = first;
        for (number, sent) in kept {
            self.fill_gap(now, next, number);
            let bytes = self.framed(now, number, Some(sent.time_ns), &sent.message);
            self.outputs.push_back(FixOutput::Send(bytes));
            next = number + 1;
        }
        self.fill_gap(now, next, end + 1);
    }

    fn fill_gap(&mut self, now: Now, from: u64, to: u64) {
        if from < to {
            let fill = Message::new(tag::SEQUENCE_RESET)
                .with(tag::GAP_FILL, "Y")
                .with(tag::NEW_SEQ_NO, to);
            let bytes = self.framed(now, from, Some(now.clock_ns), &fill);
            self.outputs.push_back(FixOutput::Send(bytes));
        }
    }

    fn reject_missing(&mut self, now: Now, message: &Message, tag: u32) {
        let why = format!("tag {tag} is missing");
        self.reject(now, message, reason::MISSING, Some(tag), &why);
    }

    pub(super) fn reject(
        &mut self,
        now: Now,
        message: &Message,
        reason: u32,
        tag: Option<u32>,
        why: &str,
    ) {
        let mut reject = Message::new(tag::REJECT);
        reject.push(
            tag::REF_SEQ_NUM,
            message.get(tag::MSG_SEQ_NUM).unwrap_or("0"),
        );
        if let Some(tag) = tag {
            reject.push(tag::REF_TAG, tag);
        }
        reject.push(
            tag::REF_MSG_TYPE,
            if message.kind.is_empty() {
                "0"
            } else {
                &message.kind
            },
        );
        reject.push(tag::REJECT_REASON, reason);
        reject.push(tag::TEXT, why);
        self.report(now, reject);
    }

    /// Sends a message of the session, which is never sent again.
    fn say(&mut self, now: Now, message: Message) {
        self.send(now, message, false);
    }

    /// Sends a message that is sent again where it is missed, be the participant there or not.
    pub(super) fn report(&mut self, now: Now, message: Message) {
        self.send(now, message, true);
    }

    fn send(&mut self, now: Now, message: Message, is_kept: bool) {
        if self.connected.is_some() {
            let bytes = self.framed(now, self.kept.next_out, None, &message);
            self.outputs.push_back(FixOutput::Send(bytes));
        }
        if let Some(connected) = &mut self.connected {
            connected.said_ns = now.steady_ns;
        }
        let time_ns = now.clock_ns;
        let sent = is_kept.then_some(SentMessage { time_ns, message });
        self.change(Change::Sent(sent));
    }

    /// The bytes of a message under a number; `first_ns` where it was sent before.
    fn framed(&self, now: Now, number: u64, first_ns: Option<u64>, message: &Message) -> Vec<u8> {
        let mut framed = Message::new(&message.kind)
            .with(tag::SENDER, EXCHANGE)
            .with(tag::TARGET, self.participant.0)
            .with(tag::MSG_SEQ_NUM, number);
        if first_ns.is_some() {
            framed.push(tag::POSS_DUP, "Y");
        }
        framed.push(tag::SENDING_TIME, time::text(now.clock_ns));
        if let Some(first_ns) = first_ns {
            framed.push(tag::ORIG_SENDING_TIME, time::text(first_ns));
        }
        framed.fields.extend(message.fields.iter().cloned());
        framed.to_bytes()
    }
}

/// Checks what every message has; returns a reason, a tag and words where something is wrong.
fn check_header(message: &Message) -> Result<(), (u32, Option<u32>, String)> {
    if let Some(defect) = message.defect {
        let (reason, tag) = match defect {
            Defect::NoTag => (reason::NO_TAG, None),
            Defect::NoValue(tag) => (reason::NO_VALUE, Some(tag)),
            Defect::Repeated(tag) => (reason::REPEATED, Some(tag)),
            Defect::TooMany => (reason::OTHER, None),
        };
        return Err((reason, tag, defect.to_string()));
    }
    let mut needed = vec![tag::SENDING_TIME];
    if message.is_set(tag::POSS_DUP) {
        needed.push(tag::ORIG_SENDING_TIME);
    }
    for tag in needed {
        let Some(value) = message.get(tag) else {
            return Err((reason::MISSING, Some(tag), format!("tag {tag} is missing")));
        };
        if time::parse(value).is_none() {
            let why = format!("tag {tag} is no time as YYYYMMDD-HH:MM:SS.sss");
            return Err((reason::FORMAT, Some(tag), why));
        }
    }
    Ok(())
}
