//! Taking office, and leaving it.

use super::api::{Conn, Gate, Note, Output};
use super::control::Ask;
use super::link::DEMOTION_NS;
use super::resp::{RoleReply, request};
use super::rounds::Executing;
use super::{Driver, MS};
use crate::mutant::Mutant;
use crate::shared::{Claimed, STREAM_ID};
use bytes::{Bytes, BytesMut};

/// How long a deposed server may take to say what it has.
const LEAVING_NS: u64 = 3_000 * MS;
/// Replies before the stream: to the login, and to two things that replicas tell.
const TAP_GREETINGS: usize = 3;
/// The longest line before the stream, in bytes.
const TAP_LINE_BYTES_MAX: usize = 1024;

/// Whether this replica executes, or is about to, or has ceased to.
#[derive(Debug, Default)]
pub(super) enum Office {
    /// The server follows, or is being started.
    #[default]
    None,
    /// An own claim was accepted.
    Taking(Taking),
    /// Clients are served here.
    Executing(Box<Executing>),
    /// The own epoch is over.
    Leaving(Leaving),
}

/// A claim that was accepted.
#[derive(Debug)]
pub(super) struct Taking {
    epoch: u64,
    /// The length of the stream, at which the server has to stand.
    len: u64,
    since_ns: u64,
    step: Step,
    greeting: BytesMut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Until the server stands at the length.
    CatchingUp,
    /// Until it is a master.
    Promoting,
    /// Until the tap has the stream: so many greetings are answered.
    Attaching(usize),
}

/// An epoch that is over.
#[derive(Debug)]
pub(super) struct Leaving {
    epoch: u64,
    /// The length of the stream at which the epoch ended, once that is known.
    end: Option<u64>,
    are_clients_closed: bool,
    is_asked: bool,
    since_ns: u64,
}

impl Office {
    pub(super) fn tapped_and_held(&self) -> (u64, u64) {
        match self {
            Office::Executing(office) => (office.received(), office.held()),
            _ => (0, 0),
        }
    }

    /// Whether it serves in this epoch, or is about to.
    pub(super) fn is_of(&self, epoch: u64) -> bool {
        match self {
            Office::Taking(office) => office.epoch == epoch,
            Office::Executing(office) => office.epoch == epoch,
            Office::None | Office::Leaving(_) => false,
        }
    }
}

impl Driver {
    /// An epoch began: whoever executed does so no more.
    pub(super) fn saw_claim(&mut self, claim: Claimed) {
        let ended = claim.epoch - 1;
        let end = claim.len;
        self.judge_candidate(end);
        match &mut self.office {
            Office::Executing(office) => {
                let end = end.filter(|_| office.epoch == ended);
                self.begin_leaving(end);
            }
            Office::Taking(office) if office.step == Step::CatchingUp => self.office = Office::None,
            Office::Taking(office) => {
                let end = end.filter(|_| office.epoch == ended);
                self.office = Office::Leaving(Leaving {
                    epoch: office.epoch,
                    end,
                    // The gate was never open.
                    are_clients_closed: true,
                    is_asked: false,
                    since_ns: self.now_ns,
                });
            }
            Office::Leaving(office) if office.epoch == ended => office.end = end,
            Office::Leaving(_) | Office::None => {}
        }
        // V4: a claim of the process before this one is no office to take.
        let is_own = claim.by == Some(self.config.me) && claim.boot == Some(self.config.boot);
        self.demand.won = match (is_own, end) {
            (true, Some(len)) => Some((claim.epoch, len)),
            _ => None,
        };
    }

    /// The epoch is over, or will be seen to be: no answer leaves any more.
    pub(super) fn begin_leaving(&mut self, end: Option<u64>) {
        let Office::Executing(office) = &self.office else {
            return;
        };
        let epoch = office.epoch;
        self.out.push_back(Output::Gate(Gate::Closed));
        self.office = Office::Leaving(Leaving {
            epoch,
            end,
            are_clients_closed: false,
            is_asked: false,
            since_ns: self.now_ns,
        });
    }

    /// The process is gone, or not to be used any more. Before it was a master, it can be replaced within the epoch: as
    /// nothing was submitted in it, the stream is as long as it was.
    pub(super) fn leave_office_without_process(&mut self) {
        match &mut self.office {
            Office::Taking(office) => office.step = Step::CatchingUp,
            Office::Executing(office) => {
                let (epoch, tail) = (office.epoch, None);
                self.out.push_back(Output::Gate(Gate::Closed));
                self.note(Note::Deposed { epoch, tail });
                self.office = Office::None;
            }
            Office::Leaving(_) => self.office = Office::None,
            Office::None => {}
        }
    }

    pub(super) fn clients_closed(&mut self) {
        if let Office::Leaving(office) = &mut self.office {
            office.are_clients_closed = true;
        }
    }

    pub(super) fn advance_office(&mut self) {
        if matches!(self.office, Office::None)
            && let Some((epoch, len)) = self.demand.won.take()
            && epoch == self.stream.epoch
        {
            self.office = Office::Taking(Taking {
                epoch,
                len,
                since_ns: self.now_ns,
                step: Step::CatchingUp,
                greeting: BytesMut::new(),
            });
        }
        match &self.office {
            Office::None => {}
            Office::Taking(_) => self.advance_taking(),
            Office::Executing(_) => self.advance_executing(),
            Office::Leaving(_) => self.advance_leaving(),
        }
    }

    fn advance_taking(&mut self) {
        let Office::Taking(office) = &self.office else {
            return;
        };
        if self.now_ns - office.since_ns > self.config.hang_max_ns {
            // Others may claim; what is here is not trusted.
            let is_master = office.step != Step::CatchingUp;
            self.office = Office::None;
            if is_master {
                self.reload("it did not become a master in time");
            }
            return;
        }
        let is_ready = self.link.is_streaming() && self.link.fed() == Some(office.len);
        if office.step == Step::CatchingUp && is_ready && !self.control.is_asked(Ask::Progress) {
            self.ask(Ask::Progress, &["ROLE"]);
        }
    }

    /// V4: it stands exactly where the epoch began, and becomes a master.
    pub(super) fn told_progress(&mut self, role: RoleReply) {
        let Office::Taking(office) = &mut self.office else {
            return;
        };
        let has = match role {
            RoleReply::Replica { offset, .. } => offset,
            RoleReply::Busy => return,
            RoleReply::Master { .. } => return self.give_up("it became a master by itself"),
        };
        let is_ready = self.link.is_streaming() && office.step == Step::CatchingUp;
        if is_ready && has == office.len && self.stream.epoch == office.epoch {
            office.step = Step::Promoting;
            // From here on it may write, be it the end of a key's time.
            self.link.expect_nothing();
            self.ask(Ask::Promote, &["REPLICAOF", "NO", "ONE"]);
        }
    }

    pub(super) fn promoted(&mut self) {
        if let Office::Taking(office) = &mut self.office
            && office.step == Step::Promoting
        {
            office.step = Step::Attaching(0);
            office.greeting.clear();
            let (life, conn) = (self.server.life, Conn::Tap);
            self.out.push_back(Output::Connect { life, conn });
        }
    }

    pub(super) fn tap_opened(&mut self) {
        if !matches!(self.office, Office::Taking(_)) {
            return;
        }
        let (user, password) = (self.config.user.clone(), self.config.password.clone());
        let greetings = [
            request(&["AUTH", &user, &password]),
            request(&["REPLCONF", "listening-port", "1"]),
            request(&["REPLCONF", "capa", "psync2"]),
        ];
        for greeting in greetings {
            self.write(Conn::Tap, greeting);
        }
    }

    pub(super) fn tap_received(&mut self, bytes: &[u8]) {
        match &mut self.office {
            Office::Executing(_) => self.tapped(bytes),
            Office::Taking(office) => {
                office.greeting.extend_from_slice(bytes);
                self.greeted();
            }
            Office::Leaving(_) | Office::None => {}
        }
    }

    fn greeted(&mut self) {
        loop {
            let Office::Taking(office) = &mut self.office else {
                return;
            };
            let Step::Attaching(answered) = office.step else {
                return;
            };
            let end = office.greeting.windows(2).position(|two| two == b"\r\n");
            let Some(end) = end else {
                if office.greeting.len() > TAP_LINE_BYTES_MAX {
                    self.give_up("it answers the tap without an end");
                }
                return;
            };
            let line = office.greeting.split_to(end + 2);
            if answered < TAP_GREETINGS && line.starts_with(b"+OK") {
                office.step = Step::Attaching(answered + 1);
                let from = (office.len + 1).to_string();
                // Servers refuse this one while they have other replies to send.
                if answered + 1 == TAP_GREETINGS {
                    self.write(Conn::Tap, request(&["PSYNC", STREAM_ID, &from]));
                }
            } else if answered == TAP_GREETINGS && line.starts_with(b"+CONTINUE") {
                let (epoch, len) = (office.epoch, office.len);
                let rest = office.greeting.split().freeze();
                return self.begin_executing(epoch, len, &rest);
            } else {
                return self.give_up("it does not give its stream to the tap");
            }
        }
    }

    fn begin_executing(&mut self, epoch: u64, len: u64, rest: &Bytes) {
        self.office = Office::Executing(Box::new(Executing::new(epoch, len)));
        self.out.push_back(Output::Gate(Gate::Open { epoch }));
        self.note(Note::Serving { epoch });
        // Without a first one, nothing is streamed.
        self.acknowledge(len);
        if !rest.is_empty() {
            self.tapped(rest);
        }
    }

    pub(super) fn tap_closed(&mut self) {
        match &self.office {
            Office::Executing(_) => self.give_up("it closed the tap"),
            Office::Taking(office) if matches!(office.step, Step::Attaching(_)) => {
                self.give_up("it closed the tap");
            }
            _ => {}
        }
    }

    fn advance_leaving(&mut self) {
        let Office::Leaving(office) = &mut self.office else {
            return;
        };
        let waited_ns = self.now_ns - office.since_ns;
        let waits_max_ns = match office.is_asked {
            true => DEMOTION_NS,
            false => LEAVING_NS,
        };
        let is_unknown = office.end.is_none() && self.stream.epoch > office.epoch;
        if is_unknown || waited_ns > waits_max_ns {
            let (epoch, tail) = (office.epoch, None);
            self.note(Note::Deposed { epoch, tail });
            return self.give_up("its epoch is over, and nobody knows what it has");
        }
        let may_ask = office.end.is_some() && office.are_clients_closed && self.control.is_open();
        if may_ask && !office.is_asked {
            office.is_asked = true;
            let (life, conn) = (self.server.life, Conn::Tap);
            self.out.push_back(Output::Disconnect { life, conn });
            self.ask(Ask::Tail, &["ROLE"]);
        }
    }

    /// V6: it follows again only if it has nothing that was never ordered. It may still write before it follows: then
    /// it asks for another offset, and is replaced.
    pub(super) fn told_tail(&mut self, role: RoleReply) {
        let Office::Leaving(office) = &self.office else {
            return;
        };
        let (epoch, end) = (office.epoch, office.end);
        let has = match role {
            RoleReply::Master { offset } => Some(offset),
            RoleReply::Replica { .. } | RoleReply::Busy => None,
        };
        let tail = has.zip(end).and_then(|(has, end)| has.checked_sub(end));
        self.note(Note::Deposed { epoch, tail });
        let is_trusted = tail == Some(0) || self.config.mutant == Some(Mutant::ContinueAlways);
        let Some(has) = has.filter(|_| is_trusted) else {
            return self.give_up("it has effects that were never ordered");
        };
        self.link.expect_exactly(has);
        let port = self.config.link_port.to_string();
        self.ask(Ask::Demote, &["REPLICAOF", "127.0.0.1", &port]);
    }

    pub(super) fn demoted(&mut self) {
        if let Office::Leaving(office) = &mut self.office {
            office.since_ns = self.now_ns;
        }
    }

    /// A server has begun to follow.
    pub(super) fn follows_again(&mut self) {
        if matches!(self.office, Office::Leaving(_)) {
            self.office = Office::None;
        }
    }
}
