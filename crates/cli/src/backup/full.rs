//! A full snapshot, from a replica to a file.

use super::now_ms;
use crate::Failure;
use crate::etcd_client::{EtcdClient, failed};
use quorate_backup::{Folder, Full};
use quorate_etcd_api::etcdserverpb::SnapshotRequest;
use quorate_face_etcd::client::MaintenanceClient;
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// The longest piece of a snapshot that is taken, in bytes.
const PIECE_BYTES_MAX: usize = 64 << 20;

/// Why a step of a backup failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The replica, or the way there: another one may do.
    Replica(String),
    /// The folder has no room: there may be some later.
    Room(String),
    /// Nothing that time heals.
    Final(Failure),
}

impl From<quorate_backup::BackupError> for Trouble {
    fn from(error: quorate_backup::BackupError) -> Self {
        match error.is_full() {
            true => Trouble::Room(error.to_string()),
            false => Trouble::Final(super::failed(error)),
        }
    }
}

impl From<tonic::Status> for Trouble {
    fn from(status: tonic::Status) -> Self {
        let failure = failed(&status);
        match (status.code(), failure) {
            // Whoever is refused for what they are is refused everywhere.
            (tonic::Code::PermissionDenied, failure) => Trouble::Final(failure),
            (_, Failure::Failed(why) | Failure::Usage(why)) => Trouble::Replica(why),
        }
    }
}

/// Fetches everything that a replica has, and checks it.
pub(super) async fn take(client: EtcdClient, folder: Arc<Folder>) -> Result<(Full, u64), Trouble> {
    let service = MaintenanceClient::new(client.channel.clone());
    let mut service = service.max_decoding_message_size(PIECE_BYTES_MAX);
    let answer = service.snapshot(client.request(SnapshotRequest {})).await?;
    let mut pieces = answer.into_inner();
    let file = folder.begin_full()?;
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    let mut bytes = 0;
    while let Some(piece) = pieces.message().await? {
        let written = out.write_all(&piece.blob);
        written.map_err(|error| folder.partial_failed(error))?;
        bytes += piece.blob.len() as u64;
    }
    let written = out.flush();
    written.map_err(|error| folder.partial_failed(error))?;
    drop(out);
    // It reads everything: changes go on meanwhile.
    let added = tokio::task::spawn_blocking(move || folder.add_full(&file, now_ms())).await;
    let added = added.map_err(|gone| Trouble::Final(Failure::Failed(gone.to_string())))?;
    Ok((added?, bytes))
}
