//! The latest known incarnation of each peer: whoever has seen a later one takes nothing from an earlier one.
//!
//! A replica that lost its promises comes back as a new incarnation. The epoch still names the first
//! one, so the later ones are kept here, and in the file `lives` of the data folder, so that a
//! restart forgets none: a copy of a data folder from before the loss must not vote again.
//!
//! What is noted here is never forgotten, so it is noted only of whoever answers at the peer's own address: when it
//! is dialled, or called back (`call_back.rs`). Incarnations are numbered by the wall clock, upwards; one that is far
//! ahead of the clock here is none, so that after every incarnation there is room for a later one.

use super::handshake::{RejectCode, Rejection};
use crate::folder::FolderError;
use crate::join::now_ms;
use crate::meta::{seal, verify};
use crate::mirrored_file;
use quorate_core::{Epoch, Incarnation, ReplicaId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const FILE: &str = "lives";
/// How far the number of an incarnation may be ahead of the clock here, in ms: 100 years. No clock is off by more,
/// and a replica whose clock begins at 1970 takes the incarnations of others.
const AHEAD_MS_MAX: u64 = 100 * 365 * 24 * 3600 * 1000;
const HEAD: &str = "# Peers that came back in a later life. Written by the program: do not edit.\n";

/// The latest known incarnation of every peer.
#[derive(Debug)]
pub(crate) struct Incarnations {
    /// The data folder to remember in; `None` in tests.
    dir: Option<PathBuf>,
    /// The incarnation of each member that the first epoch names.
    first: BTreeMap<ReplicaId, Incarnation>,
    later: Mutex<BTreeMap<ReplicaId, Incarnation>>,
}

impl Incarnations {
    /// What the data folder remembers.
    pub(crate) fn open(dir: &Path, epoch: &Epoch) -> Result<Incarnations, FolderError> {
        let damaged = |why| FolderError::Corrupt {
            path: dir.join(FILE),
            why,
        };
        let found = mirrored_file::read_copies(dir, FILE, |bytes| parse(bytes).map_err(damaged))?;
        let mut later = found.content.unwrap_or_default();
        let now_ms = now_ms();
        let none: Vec<_> = later
            .extract_if(.., |_, life| !is_possible(*life, now_ms))
            .collect();
        for (peer, life) in &none {
            tracing::warn!(
                %peer, %life,
                "the data folder had noted, on a stranger's word, an incarnation that no replica can be \
                in; it is forgotten"
            );
        }
        if !found.copies_agree || !none.is_empty() {
            write(dir, &later)?;
        }
        Ok(Incarnations {
            dir: Some(dir.to_owned()),
            later: Mutex::new(later),
            ..Incarnations::of(epoch)
        })
    }

    /// Everybody in the incarnation the epoch names; later ones are not remembered.
    pub(crate) fn of(epoch: &Epoch) -> Incarnations {
        let members = epoch.members.iter();
        Incarnations {
            dir: None,
            first: members
                .map(|member| (member.id, member.incarnation))
                .collect(),
            later: Mutex::default(),
        }
    }

    /// The latest incarnation of a member other than the one the epoch names, if there was any.
    pub(crate) fn later(&self, peer: ReplicaId) -> Option<Incarnation> {
        let later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        later.get(&peer).copied()
    }

    /// The latest incarnation of a peer, if it is known at all.
    pub(crate) fn present(&self, peer: ReplicaId) -> Option<Incarnation> {
        self.later(peer).or_else(|| self.first.get(&peer).copied())
    }

    /// Whether a peer may be in this incarnation: its latest one, or one later than any known before. Notes nothing.
    pub(crate) fn judge(&self, peer: ReplicaId, incarnation: Incarnation) -> Result<(), Rejection> {
        self.is_new(peer, incarnation, self.later(peer)).map(drop)
    }

    /// Whether the incarnation is later than any known before, of which `later` is the last if there was one after the
    /// epoch's.
    fn is_new(
        &self,
        peer: ReplicaId,
        incarnation: Incarnation,
        later: Option<Incarnation>,
    ) -> Result<bool, Rejection> {
        let is_first = self.first.get(&peer) == Some(&incarnation);
        let text = match later {
            Some(known) if known == incarnation => return Ok(false),
            None if is_first => return Ok(false),
            // Later incarnations are numbered upwards; the first one comes before them all.
            Some(known) if is_first || incarnation.0 < known.0 => format!(
                "replica {peer} is in incarnation {incarnation}, and has been here in the \
                 later {known}: its data folder is an old copy; delete it, and the replica \
                 comes back by itself"
            ),
            _ if is_possible(incarnation, now_ms()) => return Ok(true),
            _ => format!(
                "replica {peer} is in incarnation {incarnation}, which by the clock here begins in over \
                 100 years: set the clocks of both machines right; if that of replica {peer} was wrong, \
                 delete its data folder, and the replica comes back by itself"
            ),
        };
        let code = RejectCode::Incarnation;
        Err(Rejection { code, text })
    }

    /// Takes a peer that answered at its own address in its latest incarnation, or in one later than any known
    /// before, which is noted.
    pub(crate) fn admit(&self, peer: ReplicaId, incarnation: Incarnation) -> Result<(), Rejection> {
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        let known = later.get(&peer).copied();
        if !self.is_new(peer, incarnation, known)? {
            return Ok(());
        }
        match self.first.get(&peer) {
            Some(_) => tracing::warn!(%peer, %incarnation, "the peer is back in a new incarnation"),
            None => tracing::info!(%peer, %incarnation, "a new replica"),
        }
        later.insert(peer, incarnation);
        match self.dir.as_deref().map(|dir| write(dir, &later)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                // Unnoted it is not taken: the next attempt may find the disk in better order.
                match known {
                    Some(known) => later.insert(peer, known),
                    None => later.remove(&peer),
                };
                Err(Rejection {
                    code: RejectCode::Incarnation,
                    text: format!("the peer's new incarnation could not be written down: {error}"),
                })
            }
        }
    }
}

/// Whether an incarnation other than the first can have such a number, by the clock here.
pub(crate) fn is_possible(life: Incarnation, now_ms: u64) -> bool {
    number(life) <= now_ms.saturating_add(AHEAD_MS_MAX)
}

/// The number by which an incarnation comes after others: about when it began, in ms of the wall clock.
pub(crate) fn number(life: Incarnation) -> u64 {
    (life.0 >> 64) as u64
}

fn write(dir: &Path, later: &BTreeMap<ReplicaId, Incarnation>) -> Result<(), FolderError> {
    let lines = later
        .iter()
        .map(|(peer, life)| format!("{peer} = {life}\n"));
    let text = HEAD.to_owned() + &lines.collect::<String>();
    mirrored_file::write(dir, FILE, &seal(&text))
}

pub(crate) fn parse(bytes: &[u8]) -> Result<BTreeMap<ReplicaId, Incarnation>, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    verify(text)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (peer, life) = line.split_once(" = ")?;
            let life = u128::from_str_radix(life, 16).ok()?;
            Some((ReplicaId(peer.parse().ok()?), Incarnation(life)))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| "a line is not readable".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::fresh_incarnation;
    use crate::meta::tests::meta;
    use std::fs;

    /// Scenario: a peer comes back twice in new incarnations; its former selves come knocking, also after
    /// this replica was restarted.
    #[test]
    fn a_life_that_was_followed_by_another_is_never_taken_again() {
        let home = tempfile::tempdir().unwrap();
        let epoch = meta(1).epoch;
        let first = epoch.members[1].incarnation;
        let (second, third) = (Incarnation(5 << 64), Incarnation(6 << 64));
        let peer = ReplicaId(2);
        let incarnations = Incarnations::open(home.path(), &epoch).unwrap();
        assert_eq!(incarnations.admit(peer, first), Ok(()));
        assert_eq!(incarnations.later(peer), None);
        for life in [second, third, third] {
            assert_eq!(incarnations.admit(peer, life), Ok(()));
        }
        for incarnations in [
            incarnations,
            Incarnations::open(home.path(), &epoch).unwrap(),
        ] {
            assert_eq!(incarnations.later(peer), Some(third));
            for former in [first, second] {
                let refused = incarnations.admit(peer, former).unwrap_err();
                assert_eq!(refused.code, RejectCode::Incarnation);
                assert!(refused.text.contains("old copy"), "{}", refused.text);
            }
            assert_eq!(incarnations.admit(peer, third), Ok(()));
        }
    }

    /// Scenario: a stranger's word was noted by a program that believed it, and the true replica comes back.
    #[test]
    fn a_life_that_leaves_no_later_one_is_neither_taken_nor_remembered() {
        let home = tempfile::tempdir().unwrap();
        let epoch = meta(1).epoch;
        let (two, three) = (ReplicaId(2), ReplicaId(3));
        let last = Incarnation(u128::MAX);
        let later = Incarnation(u128::from(now_ms()) << 64);
        write(home.path(), &[(two, last), (three, later)].into()).unwrap();
        for _ in 0..2 {
            let incarnations = Incarnations::open(home.path(), &epoch).unwrap();
            assert_eq!(
                (incarnations.later(two), incarnations.later(three)),
                (None, Some(later))
            );
            assert_eq!(
                incarnations.admit(two, epoch.members[1].incarnation),
                Ok(())
            );
            let refused = incarnations.admit(two, last).unwrap_err();
            assert!(refused.text.contains("set the clocks"), "{}", refused.text);
        }
        let kept = fs::read(home.path().join(FILE)).unwrap();
        assert_eq!(parse(&kept).unwrap(), [(three, later)].into());
        // What the message advises: a folder that was deleted draws an incarnation by a clock set right.
        let incarnations = Incarnations::open(home.path(), &epoch).unwrap();
        assert_eq!(
            incarnations.admit(two, fresh_incarnation().unwrap()),
            Ok(())
        );
    }

    /// Each byte of the file and of its copy: made good from the other, and named where both are
    /// damaged.
    #[test]
    fn damage_to_any_byte_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let epoch = meta(1).epoch;
        let incarnations = Incarnations::open(home.path(), &epoch).unwrap();
        incarnations.admit(ReplicaId(2), Incarnation(9)).unwrap();
        let [path, copy] = ["lives", "lives.copy"].map(|name| home.path().join(name));
        let whole = fs::read(&path).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), whole);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            for damaged in [&path, &copy] {
                fs::write(damaged, &bytes).unwrap();
                let incarnations = Incarnations::open(home.path(), &epoch).unwrap();
                assert_eq!(
                    incarnations.later(ReplicaId(2)),
                    Some(Incarnation(9)),
                    "byte {at}"
                );
                assert_eq!(fs::read(damaged).unwrap(), whole, "byte {at} is put right");
            }
            fs::write(&path, &bytes).unwrap();
            fs::write(&copy, &bytes).unwrap();
            let error = Incarnations::open(home.path(), &epoch)
                .unwrap_err()
                .to_string();
            assert!(error.contains("lives is damaged"), "byte {at}: {error}");
            fs::write(&path, &whole).unwrap();
            fs::write(&copy, &whole).unwrap();
        }
    }
}
