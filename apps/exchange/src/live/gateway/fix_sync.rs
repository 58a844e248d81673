//! What engines are told and what is asked for them waits until the journals say so on the disk: group commit.
//!
//! A journal is written at once, and synced beside everything else. While one sync runs, what comes is gathered for the
//! next one, so that the disk is asked as often as it can answer, however many messages there are.

use super::GatewayMachine;
use super::fix_journal;
use crate::book::ParticipantId;
use crate::exchange::SymbolId;
use crate::fix::FixOutput;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::pending;
use std::mem::take;
use std::path::PathBuf;
use std::{fs, io};
use tokio::task::{JoinHandle, spawn_blocking};

/// How many outputs of a participant wait for the disk before its connection ends.
const HELD_MAX: usize = 4096;

/// Outputs of a participant's client that wait for its journal, in order.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Outputs that rest on what the next sync is about.
    next: VecDeque<HeldOutput>,
    /// Outputs that rest on what the present sync is about.
    now: VecDeque<HeldOutput>,
    /// Whether a sync of the journal is under way.
    is_syncing: bool,
}

/// An output, and the connection that the participant had then.
#[derive(Debug)]
struct HeldOutput {
    connection: Option<u64>,
    output: FixOutput,
}

/// The sync that is under way, and whom the next one is for.
#[derive(Debug, Default)]
pub(super) struct GroupSync {
    next: BTreeSet<ParticipantId>,
    now: BTreeSet<ParticipantId>,
    /// How far symbols are, to be noted after the journals that rest on it.
    positions: Option<BTreeMap<SymbolId, u64>>,
    job: Option<JoinHandle<io::Result<()>>>,
}

impl GroupSync {
    /// Has it noted how far symbols are, once all that was written before is synced.
    pub(super) fn note(&mut self, positions: BTreeMap<SymbolId, u64>) {
        self.positions = Some(positions);
    }

    /// Waits for the end of the sync that is under way; for ever where none is. Nothing is lost if nobody waits for it
    /// any more.
    pub(super) async fn done(&mut self) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return pending().await;
        };
        let synced = job.await;
        self.job = None;
        synced.unwrap_or_else(|ended| Err(io::Error::other(ended)))
    }
}

impl GatewayMachine {
    /// Writes what has changed of a participant, and has what follows from it done when that is on the disk.
    pub(super) fn pump(&mut self, participant: ParticipantId) {
        let Some(seat) = self.fix.seats.get_mut(&participant) else {
            return;
        };
        if let Err(error) = seat.journal.append(&mut seat.client) {
            let path = seat.journal.path().display();
            self.fix.failed = Some(io::Error::other(format!("{path}: {error}")));
            return;
        }
        let (before, mut is_lost) = (seat.connection, false);
        while let Some(output) = seat.client.poll_output() {
            let connection = seat.connection;
            if let FixOutput::Disconnect { is_lost: lost } = output {
                seat.connection = None;
                is_lost |= lost;
            }
            seat.held.next.push_back(HeldOutput { connection, output });
        }
        let is_on_disk = !seat.journal.is_unsynced() && !seat.held.is_syncing;
        // The disk is too slow for what comes, or does not answer.
        let too_slow = before.filter(|_| !is_on_disk && seat.held.next.len() > HELD_MAX);
        if too_slow.is_some() {
            let is_kept = |held: &HeldOutput| !matches!(held.output, FixOutput::Send(_));
            seat.held.next.retain(is_kept);
        }
        if is_lost {
            self.connection_lost(participant);
        }
        match is_on_disk {
            true => self.carry_out(participant),
            false => drop(self.fix.sync.next.insert(participant)),
        }
        if let Some(connection) = too_slow {
            self.fix_ended(connection);
        }
    }

    /// Begins to sync what was written, unless a sync is under way.
    pub(super) fn fix_sync(&mut self) {
        let sync = &mut self.fix.sync;
        if sync.job.is_some() || sync.next.is_empty() && sync.positions.is_none() {
            return;
        }
        sync.now = take(&mut sync.next);
        let positions = sync.positions.take();
        let mut files = Vec::new();
        for participant in &sync.now {
            let Some(seat) = self.fix.seats.get_mut(participant) else {
                continue;
            };
            seat.held.is_syncing = true;
            seat.held.now.append(&mut seat.held.next);
            match seat.journal.take_unsynced() {
                Ok(file) => files.extend(file),
                Err(error) => self.fix.failed = Some(error),
            }
        }
        let folder = self.fix.folder.clone();
        let job = move || sync_all(&files, folder, positions);
        self.fix.sync.job = Some(spawn_blocking(job));
    }

    /// Carries out what waited for a sync. One that failed is final: nobody knows what is on the disk.
    pub(super) fn fix_synced(&mut self, synced: io::Result<()>) {
        if let Err(error) = synced {
            let folder = self.fix.folder.display();
            let what = format!("{folder}: the journals cannot be synced: {error}");
            self.fix.failed = Some(io::Error::other(what));
            return;
        }
        for participant in take(&mut self.fix.sync.now) {
            if let Some(seat) = self.fix.seats.get_mut(&participant) {
                seat.held.is_syncing = false;
            }
            self.carry_out(participant);
        }
    }

    /// Carries out what is on the disk, and what rests on nothing that is not.
    fn carry_out(&mut self, participant: ParticipantId) {
        let Some(seat) = self.fix.seats.get_mut(&participant) else {
            return;
        };
        let mut due = take(&mut seat.held.now);
        if !seat.journal.is_unsynced() {
            due.append(&mut seat.held.next);
        }
        let (mut too_slow, mut has_changed) = (None, false);
        for HeldOutput { connection, output } in due {
            let found = connection.and_then(|connection| self.fix.connections.get(&connection));
            match output {
                // One that is too slow ends, and hears what it missed when it is back.
                FixOutput::Send(bytes) => {
                    if found.is_some_and(|found| !found.outbox.send(bytes)) {
                        too_slow = connection;
                    }
                }
                FixOutput::Submit(request) => {
                    if !self.request(request.of(participant))
                        && let Some(seat) = self.fix.seats.get_mut(&participant)
                    {
                        seat.client.handle_not_taken(&request);
                        has_changed = true;
                    }
                }
                FixOutput::Disconnect { .. } => {
                    connection.map(|connection| self.fix.connections.remove(&connection));
                }
            }
        }
        if let Some(connection) = too_slow {
            self.fix_ended(connection);
        }
        if has_changed {
            self.pump(participant);
        }
    }
}

fn sync_all(
    files: &[fs::File],
    folder: PathBuf,
    positions: Option<BTreeMap<SymbolId, u64>>,
) -> io::Result<()> {
    for file in files {
        file.sync_data()?;
    }
    match positions {
        Some(positions) => fix_journal::write_positions(&folder, &positions),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
