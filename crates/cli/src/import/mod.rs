//! `quorate import`: a cluster that begins with the state of an etcd, from a snapshot or a data folder.

mod member;
mod state;

use crate::Failure;
use crate::face::{FaceName, RedisStore};
use crate::progress::Progress;
use crate::serve::create_files_for_owner_only;
use crate::up::{Beginning, ClusterOptions, OwnCertificates};
use clap::Args;
use member::{MemberBeginning, MemberOptions};
use quorate_etcd_snapshot::{FileError, FileSource, StateReader, wal};
use quorate_etcd_store::Store;
use quorate_face_common::alarm_name;
use quorate_server::{AlarmKind, Meta, found_cluster};
use state::{Imported, read_state};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What is brought over, and what becomes of it.
#[derive(Args, Debug)]
#[command(
    after_help = "Keys keep their revisions, their history and their leases, so that watches go on from where they \
                  were. The folders DIR/1, DIR/2, ... are those of the replicas, as quorate up has them; to run the \
                  replicas on several machines, move each to its own and start it there with quorate serve; or begin \
                  each member on its machine, from a copy of the file, with --name and --initial-cluster, as etcdutl \
                  snapshot restore does.\n\n\
                  Example:\n  etcdctl snapshot save etcd.db\n  quorate import --etcd-snapshot etcd.db --data-dir \
                  quorate-data\n  quorate up --data-dir quorate-data\n\nExample of one member:\n  quorate import \
                  --etcd-snapshot etcd.db --data-dir m1.etcd --name m1 --initial-cluster \
                  m1=http://host1:2380,m2=http://host2:2380,m3=http://host3:2380"
)]
pub(crate) struct ImportOptions {
    /// Snapshot that `etcdctl snapshot save` wrote
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "etcd_data_dir",
        conflicts_with = "etcd_data_dir"
    )]
    etcd_snapshot: Option<PathBuf>,

    /// Data folder of an etcd that has stopped (it holds `member/`). The folder stays as it is
    #[arg(long, value_name = "DIR")]
    etcd_data_dir: Option<PathBuf>,

    /// Empty folder for the cluster
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// Take a snapshot without a digest, as a copy of `member/snap/db` is, or with a wrong one
    #[arg(long, conflicts_with = "etcd_data_dir")]
    skip_hash_check: bool,

    /// Go so many revisions ahead, so that no client takes what comes for what it may have seen of the etcd, if that
    /// took writes after the snapshot
    #[arg(long, value_name = "COUNT", requires = "mark_compacted")]
    bump_revision: Option<u64>,

    /// Forget all history, so that watches from before are told so [needed with --bump-revision]
    #[arg(long, requires = "bump_revision")]
    mark_compacted: bool,

    #[command(flatten)]
    member: MemberOptions,

    #[command(flatten)]
    cluster: ClusterOptions,
}

/// What begins: a cluster on this machine, or one member of a cluster.
enum Begun {
    Cluster(Beginning),
    Member(MemberBeginning),
}

impl Begun {
    fn of(options: &ImportOptions) -> Result<Begun, Failure> {
        if let Some(member) = options.member.beginning(&options.cluster)? {
            return Ok(Begun::Member(member));
        }
        let own_certificates = OwnCertificates::default();
        let into = &options.data_dir;
        let kind = (FaceName::Etcd, RedisStore::default());
        Beginning::of(&options.cluster, kind, own_certificates, into).map(Begun::Cluster)
    }

    /// The folder of each replica that begins here, and who it is.
    fn replicas(&self, imported: &Imported, into: &Path) -> Result<Vec<(PathBuf, Meta)>, Failure> {
        match self {
            Begun::Cluster(cluster) => Ok(cluster.replicas()),
            Begun::Member(member) => Ok(vec![(into.to_owned(), member.meta(imported)?)]),
        }
    }

    /// Writes what belongs beside the data, and says how to go on.
    fn remember(&self, into: &Path) -> Result<String, Failure> {
        match self {
            Begun::Cluster(cluster) => cluster
                .remember()
                .map(|()| format!("start it with: quorate up --data-dir {}\n", into.display())),
            Begun::Member(member) => member.remember(into).map(|()| member.start_line(into)),
        }
    }
}

/// Begins the cluster, and reports what it begins with.
pub(crate) fn run(options: &ImportOptions) -> Result<(), Failure> {
    create_files_for_owner_only();
    let into = &options.data_dir;
    let is_occupied = std::fs::read_dir(into).is_ok_and(|mut found| found.next().is_some());
    if is_occupied {
        return Err(Failure::Usage(format!(
            "--data-dir {}: the folder is not empty; a cluster is begun in an empty one",
            into.display()
        )));
    }
    let begun = Begun::of(options)?;
    let (path, reader) = open(options)?;
    let progress = Progress::new(reader.bytes());
    let mut imported = read_state(&reader, &progress).map_err(|why| unreadable(&path, &why))?;
    if let Some(by) = options.bump_revision
        && !imported.store.bump_revision(by)
    {
        return Err(Failure::Usage(format!(
            "--bump-revision {by}: it takes 2 at least, and there are not more than 2^63 in all"
        )));
    }
    progress.say("writing");
    let report = report(&imported);
    let replicas = begun.replicas(&imported, into)?;
    let Imported { store, alarms, .. } = imported;
    found_cluster::<Store>(&replicas, store, &alarms)
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let next = begun.remember(into)?;
    progress.end();
    print!("{report}{next}");
    Ok(())
}

/// Opens what is to be imported; says which file that is.
fn open(options: &ImportOptions) -> Result<(PathBuf, StateReader<FileSource>), Failure> {
    let (path, has_digest) = match (&options.etcd_snapshot, &options.etcd_data_dir) {
        (Some(path), _) => (path.clone(), !options.skip_hash_check),
        (None, Some(dir)) => (dir.join("member/snap/db"), false),
        (None, None) => {
            let why = "name what to import: --etcd-snapshot FILE or --etcd-data-dir DIR";
            return Err(Failure::Usage(why.to_owned()));
        }
    };
    let opened = File::open(&path).and_then(FileSource::new);
    let source = opened.map_err(|error| unreadable(&path, &error.into()))?;
    let reader = match has_digest {
        true => StateReader::open_snapshot(source),
        false => StateReader::open(source),
    };
    let reader = reader.map_err(|why| {
        let hint = match has_digest {
            true => " (--skip-hash-check takes a file without its digest)",
            false => "",
        };
        Failure::Failed(format!("cannot import {}: {why}{hint}", path.display()))
    })?;
    if let Some(dir) = &options.etcd_data_dir {
        check_log(dir, &path, &reader)?;
    }
    Ok((path, reader))
}

/// Checks that the log of an etcd holds nothing that its database does not.
fn check_log(dir: &Path, path: &Path, reader: &StateReader<FileSource>) -> Result<(), Failure> {
    let applied = reader.summary().map_err(|why| unreadable(path, &why))?;
    let log = dir.join("member/wal");
    let end = wal::read_end(&log).map_err(|why| unreadable(&log, &why))?;
    if end.last > applied.consistent_index {
        return Err(Failure::Failed(format!(
            "the log in {} goes on to entry {}, and the database has everything up to entry {} only: etcd was not \
             stopped in good order, or still runs. Start it once more and stop it with SIGTERM, or take a snapshot \
             of it (etcdctl snapshot save) and import that (--etcd-snapshot)",
            log.display(),
            end.last,
            applied.consistent_index
        )));
    }
    Ok(())
}

fn unreadable(path: &Path, why: &FileError) -> Failure {
    Failure::Failed(format!("cannot import {}: {why}", path.display()))
}

fn report(imported: &Imported) -> String {
    let status = imported.store.status();
    let mut text = format!(
        "imported: {} keys at revision {}, history since revision {}, {} leases, {} users\n",
        status.keys,
        status.revision,
        status.compacted.max(1),
        imported.leases,
        imported.users,
    );
    if let Some(revision) = imported.notes.forgotten_before {
        text += &format!(
            "revisions before {revision} are missing in what was imported (etcdutl --bump-revision leaves such a gap): \
             history before it is forgotten\n"
        );
    }
    match imported.notes.keys_without_lease {
        0 => {}
        count => text += &format!("{count} keys named leases that were gone: they have none now\n"),
    }
    for kind in [AlarmKind::NoSpace, AlarmKind::Corrupt] {
        if imported.alarms.iter().any(|alarm| alarm.kind == kind) {
            let name = alarm_name(kind);
            text += &format!(
                "alarm {name} is raised, as it was: what it forbids is refused until it is disarmed (etcdctl alarm \
                 disarm)\n"
            );
        }
    }
    text
}
