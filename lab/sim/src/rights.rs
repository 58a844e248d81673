//! For whom clients ask, and how the face of a replica takes that.
//!
//! One client is the administrator, who changes users and roles all the time ([`crate::subject`]); everybody else asks
//! for one user after the other. Whether rights explain the answers, the judge says ([`crate::judge`]).

use crate::judge::{ROOT, Sight};
use crate::mix::generator;
use crate::subject::{ADMINISTRATOR, USERS};
use fastrand::Rng;
use quorate_etcd_store::{Asker, AuthBoard, Identity};

/// For whom something is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behalf {
    /// For whoever asks: there are no users in this run.
    Anybody,
    /// For somebody who shows no credentials.
    Stranger,
    /// For the server itself, which has every right.
    Server,
    /// For the user of this name, if there is one now.
    User(&'static str),
}

/// Who asks, and what was seen of it.
pub(crate) struct Rights {
    /// Draws apart from all else; `None` where there are no users.
    rng: Option<Rng>,
    /// What watches were told, and why they ended.
    pub(crate) sights: Vec<Sight>,
}

impl Rights {
    pub(crate) fn new(has_users: bool, seed: u64) -> Self {
        Rights {
            rng: has_users.then(|| generator(seed, "rights")),
            sights: Vec::new(),
        }
    }

    /// Whether there are users in this run.
    pub(crate) fn are_there(&self) -> bool {
        self.rng.is_some()
    }

    /// For whom a client asks next.
    pub(crate) fn draw(&mut self, client: usize) -> Behalf {
        match &self.rng {
            Some(_) if client == ADMINISTRATOR => Behalf::User(ROOT),
            _ => self.draw_user(),
        }
    }

    /// Somebody: mostly a user that comes and goes.
    pub(crate) fn draw_user(&mut self) -> Behalf {
        let Some(rng) = &mut self.rng else {
            return Behalf::Anybody;
        };
        match rng.u8(..24) {
            0..=2 => Behalf::User(ROOT),
            3 => Behalf::Stranger,
            _ => Behalf::User(USERS[rng.usize(..USERS.len())]),
        }
    }

    /// For whom history is compacted: mostly for somebody who may.
    pub(crate) fn draw_compactor(&mut self) -> Behalf {
        match self.draw_user() {
            Behalf::User(_) if self.rng.as_mut().is_some_and(|rng| rng.u8(..4) > 0) => {
                Behalf::User(ROOT)
            }
            drawn => drawn,
        }
    }

    /// What a face makes of it that sees this board, if it sees one. Half of the users have a token that is good under
    /// any auth revision, so that their rights alone decide.
    pub(crate) fn asker(&mut self, behalf: Behalf, board: Option<&AuthBoard>) -> Asker {
        let is_on = board.is_some_and(AuthBoard::is_enabled);
        let revision = board.map_or(0, AuthBoard::revision);
        match behalf {
            Behalf::Server => Asker::Server,
            Behalf::User(name) => {
                let rng = self.rng.as_mut();
                match rng.is_some_and(Rng::bool) {
                    true => user(name, u64::MAX),
                    false if is_on => user(name, revision),
                    false => Asker::Anybody,
                }
            }
            Behalf::Stranger if is_on => Asker::Nobody,
            Behalf::Stranger | Behalf::Anybody => Asker::Anybody,
        }
    }
}

/// A user who has shown credentials.
fn user(name: &str, revision: u64) -> Asker {
    Asker::User(Identity {
        name: name.into(),
        revision,
    })
}
