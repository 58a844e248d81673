//! The driver's own connection to the server: what was asked, and what came back.

use super::api::{Conn, Output};
use super::resp::{RoleReply, request};
use super::{Driver, MS};
use bytes::BytesMut;
use quorate_resp::Reply;
use std::collections::VecDeque;

/// Bytes of one reply on this connection, at most.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Connections in a row that may end before the server has said that it knows the driver.
const FAILURES_MAX: u64 = 5;
/// The pause before the next connection, for each of them.
const PAUSE_NS: u64 = 20 * MS;

/// Something that was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// Who the driver is.
    Login,
    /// The offset behind which answers rest on nothing.
    Barrier,
    /// How far the server is, for one that takes office.
    Progress,
    /// What a deposed server has.
    Tail,
    /// To be a master.
    Promote,
    /// To follow again.
    Demote,
    /// To save an RDB.
    Save,
    /// How far that is.
    Saving,
}

/// The connection for commands.
#[derive(Debug, Default)]
pub(super) struct Control {
    is_open: bool,
    input: BytesMut,
    asked: VecDeque<(Ask, u64)>,
    /// Whether the server said at last that it loads its RDB.
    loading: bool,
    /// Connections in a row that ended before the driver was known.
    failures: u64,
    /// When to open the connection again.
    open_ns: Option<u64>,
}

impl Control {
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn is_loading(&self) -> bool {
        self.loading
    }

    /// Whether nothing is asked that has no answer.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_open && self.asked.is_empty()
    }

    pub(super) fn is_asked(&self, ask: Ask) -> bool {
        self.asked.iter().any(|(asked, _)| *asked == ask)
    }
}

impl Driver {
    pub(super) fn control_opened(&mut self) {
        self.control = super::Control {
            is_open: true,
            failures: self.control.failures + 1,
            ..Control::default()
        };
        let (user, password) = (self.config.user.clone(), self.config.password.clone());
        self.ask(Ask::Login, &["AUTH", &user, &password]);
    }

    /// Clients may end any connection (`CLIENT KILL`), so this one is opened again. What was asked is asked again, but
    /// for changes of the role: nobody knows what became of them.
    pub(super) fn control_closed(&mut self) {
        let changes = [Ask::Tail, Ask::Promote, Ask::Demote];
        let is_unknown = changes.into_iter().any(|ask| self.control.is_asked(ask));
        // One that could not be opened has failed, too.
        let failures = match self.control.is_open {
            true => self.control.failures,
            false => self.control.failures + 1,
        };
        if is_unknown || failures > FAILURES_MAX {
            return self.give_up("the server closed the driver's connection");
        }
        if self.control.is_asked(Ask::Save) {
            self.saving.forget_process();
        }
        self.control = Control {
            failures,
            open_ns: Some(self.now_ns + failures * PAUSE_NS),
            ..Control::default()
        };
    }

    pub(super) fn advance_control(&mut self) {
        if (self.control.open_ns).is_some_and(|open_ns| open_ns <= self.now_ns) {
            self.control.open_ns = None;
            let (life, conn) = (self.server.life, Conn::Control);
            self.out.push_back(Output::Connect { life, conn });
        }
    }

    pub(super) fn ask(&mut self, ask: Ask, words: &[&str]) {
        if self.control.is_open {
            self.control.asked.push_back((ask, self.now_ns));
            self.write(Conn::Control, request(words));
        }
    }

    pub(super) fn control_received(&mut self, bytes: &[u8]) {
        self.control.input.extend_from_slice(bytes);
        let life = self.server.life;
        loop {
            let reply = match Reply::take(&mut self.control.input) {
                Ok(Some(reply)) => reply,
                Ok(None) if self.control.input.len() <= REPLY_BYTES_MAX => return,
                _ => return self.give_up("it replies what is no reply"),
            };
            let Some((ask, _)) = self.control.asked.pop_front() else {
                return self.give_up("it replies more than it was asked");
            };
            self.replied(ask, &reply);
            if life != self.server.life {
                return;
            }
        }
    }

    fn replied(&mut self, ask: Ask, reply: &Reply) {
        if let Reply::Error(text) = reply {
            self.control.loading = text.starts_with("LOADING");
        } else {
            self.control.loading = false;
        }
        let is_ok = matches!(reply, Reply::Simple(_));
        match ask {
            Ask::Login if is_ok => self.control.failures = 0,
            Ask::Login => self.give_up("it does not know the driver's user"),
            Ask::Barrier | Ask::Progress | Ask::Tail => match RoleReply::read(reply) {
                Some(role) => self.told_role(ask, role),
                None if self.control.loading => {}
                None => self.give_up("it replies to ROLE what is no role"),
            },
            Ask::Promote if is_ok => self.promoted(),
            Ask::Demote if is_ok => self.demoted(),
            Ask::Promote | Ask::Demote => self.give_up("it does not change its role"),
            Ask::Save => self.save_begun(is_ok),
            Ask::Saving => self.save_told(reply),
        }
    }

    fn told_role(&mut self, ask: Ask, role: RoleReply) {
        if let RoleReply::Master { offset } | RoleReply::Replica { offset, .. } = role {
            self.note_progress(offset);
        }
        match ask {
            Ask::Barrier => self.barrier(role),
            Ask::Tail => self.told_tail(role),
            _ => {
                self.told_progress(role);
                self.look_for_stall();
            }
        }
    }

    /// A server that says nothing for too long is replaced; a busy one answers.
    pub(super) fn look_for_hang(&mut self) {
        let asked_ns = self.control.asked.front().map(|(_, asked_ns)| *asked_ns);
        let hang_max_ns = self.config.hang_max_ns;
        if asked_ns.is_some_and(|asked_ns| self.now_ns - asked_ns > hang_max_ns) {
            self.give_up("it does not answer");
        }
    }
}
