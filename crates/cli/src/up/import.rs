//! `quorate up --import`: a cluster that begins with the state of an RDB file.

use super::begin::Beginning;
use crate::Failure;
use crate::face::RedisStore;
use crate::progress::Progress;
use crate::rdb_hint::hinted;
use crate::redis_options::RedisServerOptions;
use quorate_face_redis::RedisApplication;
use quorate_redis_effects::{Files, GENESIS_OFFSET, Rdb, RdbWriter, STREAM_ID, Shared, Stream};
use quorate_redis_process::{Launcher, LauncherOptions, ServerUsers};
use quorate_redis_rdb::copy_for_stream;
use quorate_redis_relay::RdbFiles;
use quorate_redis_store::Store;
use quorate_server::found_cluster;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a copy of the file is while it is being checked, in the folder of the cluster.
const SCRATCH: &str = "import";

/// The file, and what reads it.
struct Import<'a> {
    path: &'a Path,
    file: File,
    bytes: u64,
    progress: Progress,
}

/// Begins the replicas with what an RDB file holds; says what that was.
pub(super) fn found(
    path: &Path,
    beginning: &Beginning,
    store: RedisStore,
    server: &RedisServerOptions,
) -> Result<String, Failure> {
    let opened = File::open(path).and_then(|file| file.metadata().map(|found| (file, found.len())));
    let (file, bytes) = opened.map_err(|error| failed(path, &error))?;
    let import = Import {
        path,
        file,
        bytes,
        progress: Progress::new(bytes),
    };
    let imported = match store {
        // Times to live in a file would end by each server's own clock.
        RedisStore::Commands => return Err(failed(path, &"command mode begins empty")),
        RedisStore::Embedded => import.begin_embedded(beginning),
        RedisStore::Effects => {
            let scratch = beginning.plan.dir.join(SCRATCH);
            let imported = import.begin_servers(beginning, server, &scratch);
            // What is left of it is of no use.
            let _ = fs::remove_dir_all(&scratch);
            imported
        }
    };
    import.progress.end();
    imported
}

fn failed(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("--import {}: {why}", path.display()))
}

impl Import<'_> {
    fn failed(&self, why: &dyn std::fmt::Display) -> Failure {
        failed(self.path, why)
    }

    /// Begins replicas whose data is in the store of this program.
    fn begin_embedded(&self, beginning: &Beginning) -> Result<String, Failure> {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now_ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        let read = |at| self.progress.read(at);
        let loaded = Store::from_rdb(&self.file, self.bytes, now_ms, read);
        let (store, loaded) = loaded.map_err(|why| self.failed(&hinted(&why)))?;
        self.progress.say("writing");
        self.begin(beginning, RedisApplication::Embedded(store))?;
        Ok(format!(
            "imported: {} keys of {}, and {} whose time was over were left out",
            loaded.keys,
            self.path.display(),
            loaded.over
        ))
    }

    /// Begins replicas whose data is in real servers, once such a server has loaded the file.
    fn begin_servers(
        &self,
        beginning: &Beginning,
        server: &RedisServerOptions,
        scratch: &Path,
    ) -> Result<String, Failure> {
        let files = RdbFiles::open(&scratch.join("rdb")).map_err(|error| self.failed(&error))?;
        let writer = files.create().map_err(|why| self.failed(&why))?;
        let read = Counting {
            from: &self.file,
            at: 0,
            progress: &self.progress,
        };
        let place = (STREAM_ID, GENESIS_OFFSET);
        let written = copy_for_stream(read, self.bytes, RdbOut(writer), place);
        let written = written.map_err(|why| self.failed(&why))?;
        let rdb = written.0.finish().map_err(|why| self.failed(&why))?;
        self.progress.say("loading it into a server, as a test");
        let keys = self.keys_of(&*rdb, server, &scratch.join("servers"))?;
        self.progress.say("writing");
        let shared = Shared::beginning_with(rdb, files as Arc<dyn Files>, Box::new(|| ()));
        self.begin(beginning, RedisApplication::Effects(Stream::new(shared)))?;
        Ok(format!("imported: {keys} keys of {}", self.path.display()))
    }

    fn begin(&self, beginning: &Beginning, state: RedisApplication) -> Result<(), Failure> {
        let founded = found_cluster::<RedisApplication>(&beginning.replicas(), state, &[]);
        founded.map_err(|error| self.failed(&error))
    }

    /// How many keys a server finds in the file, of which it checks every byte.
    fn keys_of(
        &self,
        rdb: &dyn Rdb,
        server: &RedisServerOptions,
        folder: &Path,
    ) -> Result<u64, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| self.failed(&error))?;
        let options = LauncherOptions {
            binary: server.binary().map_err(Failure::Usage)?,
            folder: folder.to_owned(),
            settings: server.settings().map_err(Failure::Usage)?,
            users: ServerUsers::default(),
            clients_max: 0,
            checks_files: true,
        };
        let load = async {
            let place = rdb.place();
            let mut process = Launcher::new(options)?.start(place.as_deref(), None)?;
            process.ready().await?;
            let sections = process.control().await?.info("keyspace").await;
            process.kill().await;
            sections
        };
        let keyspace = runtime.block_on(load);
        let keyspace =
            keyspace.map_err(|why| self.failed(&format!("the server does not load it: {why}")))?;
        let counts = keyspace
            .lines()
            .filter_map(|line| line.split_once(":keys="));
        let counts = counts.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok());
        Ok(counts.sum())
    }
}

/// An RDB of a stream that is being written.
struct RdbOut(Box<dyn RdbWriter>);

impl Write for RdbOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file, of which it is shown how much was read.
struct Counting<'a> {
    from: &'a File,
    at: u64,
    progress: &'a Progress,
}

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.at += read as u64;
        self.progress.read(self.at);
        Ok(read)
    }
}
