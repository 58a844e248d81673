//! Snapshots for clients: the state of this member as a file that etcd and its tools read.
//!
//! The store is read in slices, between which others have their turn; the file is put together and read again on a
//! thread behind all others, in the data folder, under no name: nothing is left of it once nobody has it open, whatever
//! ends the process. One is made at a time.

mod file;

use crate::face::{Face, VERSION, failed, mismatch, refused};
use crate::gather::ValueMissing;
use crate::maintenance::member_of;
use bytes::Bytes;
use file::SnapshotFile;
use quorate_etcd_api::etcdserverpb::SnapshotResponse;
use quorate_etcd_snapshot::{
    FileError, LeaseRecord, MemberRecord, PermissionRecord, RoleRecord, Sha256, StateRest,
    UserOptions, UserRecord,
};
use quorate_etcd_store::{ExportHead, ExportPart, ExportedRole, ExportedUser, Query, QueryAnswer};
use quorate_server::in_background;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Code, Status};

/// Bytes in one message, as in etcd.
const BLOB_BYTES: usize = 32 << 10;
/// Bytes that are read from the file at a time.
const READ_BYTES: usize = 32 * BLOB_BYTES;
/// Messages that wait for the client.
const AHEAD: usize = 4;
/// Pieces of the file that wait to be sent.
const PIECES_AHEAD: usize = 2;
/// Parts of an export that wait to be written.
const PARTS_AHEAD: usize = 2;
/// How long a client may take nothing before its snapshot is given up.
const STALL: Duration = Duration::from_secs(60);
/// Between parts the replica has as long for everything else as the last one took, with what it waited for: the busier
/// the replica is, the slower snapshots are. These are the bounds of that.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// The file, and what of it is sorted before, take less than so many times what the store has.
const ROOM_FACTOR: u64 = 3;

/// A piece of the file, and how many bytes of it follow.
struct Piece {
    bytes: Bytes,
    remaining: u64,
}

type Messages = mpsc::Sender<Result<SnapshotResponse, Status>>;

impl Face {
    /// Begins a snapshot, and sends it.
    pub(crate) fn send_snapshot(&self) -> Result<BoxStream<SnapshotResponse>, Status> {
        let turn = Arc::clone(&self.snapshots).try_acquire_owned();
        let turn = turn.map_err(|_| {
            Status::resource_exhausted(
                "etcdserver: this member is making another snapshot: ask again when that is over, or another member",
            )
        })?;
        let (messages, stream) = mpsc::channel(AHEAD);
        let face = self.clone();
        tokio::spawn(async move {
            let sent = face.make_and_send(&messages).await;
            drop(turn);
            if let Err(why) = sent {
                tracing::warn!(
                    error = why.message(),
                    "a snapshot for a client came to nothing"
                );
                // A client that is gone need not be told.
                let _ = timeout(STALL, messages.send(Err(why))).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(stream)))
    }

    async fn make_and_send(&self, messages: &Messages) -> Result<(), Status> {
        let head = match self.slice(Query::Export).await? {
            QueryAnswer::ExportHead(head) => *head,
            _ => return Err(mismatch()),
        };
        let rest = self.rest_of_state(&head).await?;
        let (parts, taken) = mpsc::channel::<ExportPart>(PARTS_AHEAD);
        let (pieces, made) = mpsc::channel::<Piece>(PIECES_AHEAD);
        let (dir, compacted) = (self.limits.snapshot_dir.clone(), head.compacted);
        let written = in_background("etcd-snapshot", move || {
            write_and_read(&dir, compacted, taken, &rest, &pieces)
        });
        let written = written.map_err(|error| unwritten(&error.into()))?;
        let read = self.read_parts(head, &parts, messages).await;
        drop(parts);
        let sent = match &read {
            Ok(()) => send_pieces(made, messages).await,
            // What was written of it is of no use to anybody.
            Err(_) => {
                drop(made);
                Ok(())
            }
        };
        let written = written
            .await
            .map_err(|_| Status::internal("a snapshot was not made"));
        // Where writing failed, reading noticed only that nobody takes what it reads.
        written?.map_err(|error| unwritten(&error))?;
        read.and(sent)
    }

    /// Reads all versions, and gathers the values among them that are kept apart.
    async fn read_parts(
        &self,
        head: ExportHead,
        parts: &mpsc::Sender<ExportPart>,
        messages: &Messages,
    ) -> Result<(), Status> {
        let mut next = Some(head.rest);
        while let Some(rest) = next {
            if messages.is_closed() {
                return Err(Status::cancelled("its client is gone"));
            }
            let asked = Instant::now();
            let mut part = match self.slice(Query::ExportRest(Box::new(rest))).await? {
                QueryAnswer::ExportPart(part) => part,
                QueryAnswer::Refused(reason) => return Err(refused(reason)),
                _ => return Err(mismatch()),
            };
            next = part.next.take();
            let pause = asked.elapsed().clamp(PAUSE_MIN, PAUSE_MAX);
            let apart = part.value_refs().map_err(refused)?;
            if !apart.is_empty() {
                let values = self.gatherer.gather(apart).await;
                part.fill(values.map_err(|missing| match missing {
                    ValueMissing::Failed(status) => status,
                    ValueMissing::Dead => Status::unavailable(
                        "etcdserver: a value was compacted while it was read: ask again",
                    ),
                })?);
            }
            if parts.send(part).await.is_err() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// What a snapshot holds besides keys. Refused where its file may fill the disk.
    async fn rest_of_state(&self, head: &ExportHead) -> Result<StateRest, Status> {
        let replica = self.handle.status().await.map_err(failed)?;
        let figures = self
            .figures(quorate_server::Consistency::Serializable)
            .await?;
        let needed = figures.bytes.saturating_add(replica.fragment_bytes);
        let needed = needed.saturating_mul(ROOM_FACTOR);
        if let Some(free) = replica.free_bytes.filter(|free| *free < needed) {
            return Err(Status::resource_exhausted(format!(
                "etcdserver: a snapshot may take {needed} bytes of disk for a while, and {free} are free"
            )));
        }
        let leases = head.leases.iter().map(|(id, ttl_s)| LeaseRecord {
            id: *id,
            ttl_s: *ttl_s,
            remaining_ttl_s: 0,
        });
        // One that is about a member goes with its machine.
        let of_group = replica.raised.iter().filter(|alarm| alarm.is_of_group);
        let alarms = of_group.map(member_of).collect();
        let members = self.members().await?.into_iter();
        let auth = &head.auth;
        Ok(StateRest {
            consistent_index: replica.applied.0,
            term: replica.term,
            compacted: head.compacted,
            leases: leases.collect(),
            members: members
                .map(|member| MemberRecord {
                    id: member.id,
                    name: member.name,
                    peer_urls: member.peer_urls,
                    client_urls: member.client_urls,
                    is_learner: member.is_learner,
                })
                .collect(),
            alarms,
            auth_enabled: auth.enabled,
            auth_revision: auth.revision,
            users: auth.users.iter().map(user_record).collect(),
            roles: auth.roles.iter().map(role_record).collect(),
        })
    }
}

fn user_record(user: &ExportedUser) -> UserRecord {
    UserRecord {
        name: Bytes::copy_from_slice(user.name.as_bytes()),
        password: Bytes::copy_from_slice(user.password.as_bytes()),
        roles: user.roles.clone(),
        options: Some(UserOptions {
            no_password: user.no_password,
        }),
    }
}

fn role_record(role: &ExportedRole) -> RoleRecord {
    let permissions = role.permissions.iter().map(|one| PermissionRecord {
        kind: one.perm_type,
        key: one.key.clone(),
        range_end: one.range_end.clone(),
    });
    RoleRecord {
        name: Bytes::copy_from_slice(role.name.as_bytes()),
        permissions: permissions.collect(),
    }
}

/// Writes the file from parts of an export, and gives what is in it away again, with its digest at the end. It ends
/// early when nobody takes any more.
fn write_and_read(
    dir: &Path,
    compacted: i64,
    mut parts: mpsc::Receiver<ExportPart>,
    rest: &StateRest,
    pieces: &mpsc::Sender<Piece>,
) -> Result<(), FileError> {
    let mut file = SnapshotFile::begin(dir, compacted)?;
    while let Some(part) = parts.blocking_recv() {
        for version in part.versions {
            file.add(version)?;
        }
    }
    if pieces.is_closed() {
        return Ok(());
    }
    let (file, len) = file.finish(rest)?;
    let (mut digest, mut read) = (Sha256::default(), 0);
    while read < len {
        let mut bytes = vec![0; (len - read).min(READ_BYTES as u64) as usize];
        file.read_exact_at(&mut bytes, read)?;
        digest.update(&bytes);
        read += bytes.len() as u64;
        let piece = Piece {
            bytes: bytes.into(),
            remaining: len - read,
        };
        if pieces.blocking_send(piece).is_err() {
            return Ok(());
        }
    }
    let last = Piece {
        bytes: Bytes::copy_from_slice(&digest.finish()),
        remaining: 0,
    };
    // A client that is gone needs none.
    let _ = pieces.blocking_send(last);
    Ok(())
}

/// Sends what was made, in messages as long as etcd's.
async fn send_pieces(mut made: mpsc::Receiver<Piece>, messages: &Messages) -> Result<(), Status> {
    while let Some(Piece { bytes, remaining }) = made.recv().await {
        for at in (0..bytes.len()).step_by(BLOB_BYTES) {
            let end = bytes.len().min(at + BLOB_BYTES);
            let remaining = remaining + (bytes.len() - end) as u64;
            send(messages, remaining, bytes.slice(at..end)).await?;
        }
    }
    Ok(())
}

async fn send(messages: &Messages, remaining_bytes: u64, blob: Bytes) -> Result<(), Status> {
    let message = SnapshotResponse {
        header: None,
        remaining_bytes,
        blob,
        version: VERSION.to_owned(),
    };
    match timeout(STALL, messages.send(Ok(message))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Status::cancelled("its client is gone")),
        Err(_) => Err(Status::deadline_exceeded(format!(
            "etcdserver: the client took nothing of the snapshot for {} s",
            STALL.as_secs()
        ))),
    }
}

/// The file could not be written.
fn unwritten(error: &FileError) -> Status {
    let is_full =
        matches!(error, FileError::Io(error) if error.kind() == std::io::ErrorKind::StorageFull);
    let code = if is_full {
        Code::ResourceExhausted
    } else {
        Code::Internal
    };
    Status::new(
        code,
        format!("etcdserver: the file of a snapshot cannot be written: {error}"),
    )
}
