//! `quorate redis import`: the data of a running Redis or Valkey is brought over, and its stream followed.
//!
//! The other server does not learn of it: this process is a replica of it, of which it has many. What it has comes as
//! an RDB; a server of the cluster's kind turns that into commands, and they become part of the cluster's stream, as
//! effects of nobody. What the other server does since then are effects as they are, and the place that both streams
//! have in common is part of the cluster's state: whoever follows next goes on from there.

use super::cluster::{Cluster, Keeper, Ordered, Standing};
use super::convert::commands_of;
use super::feed::{Feed, PIECE_BYTES, emptying};
use super::follower::{Begun, Follower, Wanted};
use super::own_commands::own_commands_of;
use super::source::{SourceAddress, SourceOptions, Trouble, follows};
use super::spool::Spool;
use super::{Common, OWN_STORE};
use crate::Failure;
use crate::face::RedisStore;
use crate::progress::Progress;
use crate::redis_options::RedisServerOptions;
use clap::Args;
use quorate_redis_effects::{Command, Follows, Import, REPLICATION_ID_BYTES};
use quorate_redis_process::{Flavour, ServerBinary, ServerVersion};
use quorate_redis_rdb::{Fault, Reader};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the cluster is looked at while nothing comes.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// The pause before the other server is followed again.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);
/// How long nothing may hold up a look at what was received.
const SHOW_AGAIN: Duration = Duration::from_millis(200);

/// The options of `quorate redis import`.
#[derive(Args, Debug)]
#[command(
    after_help = "The cluster has to be empty, and its data in Quorate's own store (quorate up --face redis) or in \
                  real servers (with --redis-server, which has to be given here, too). From the first moment it \
                  serves no client, until quorate redis cutover. If this process ends, the same command goes on from \
                  where it was.\n\n\
                  Example:\n  quorate redis import --from 10.0.0.7:6379 --endpoints redis://127.0.0.1:6379\n  quorate \
                  redis cutover --from 10.0.0.7:6379 --endpoints redis://127.0.0.1:6379"
)]
pub(crate) struct ImportOptions {
    #[command(flatten)]
    source: SourceOptions,

    /// A folder for everything that the other server has, three times: as a file, as commands, and what it writes
    /// meanwhile [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch_dir: Option<PathBuf>,

    #[command(flatten)]
    server: RedisServerOptions,

    #[command(flatten)]
    common: Common,
}

/// The options of `quorate redis abandon`.
#[derive(Args, Debug)]
pub(crate) struct AbandonOptions {
    #[command(flatten)]
    common: Common,
}

/// How a session of following ended.
enum Ended {
    /// Clients are served by the cluster: it was cut over, or the import was given up.
    Served,
}

/// What is brought over, and with what.
struct Importing {
    cluster: Cluster,
    source: Arc<SourceAddress>,
    /// What keeps the cluster's data.
    keeper: Keeper,
    /// What turns an RDB into commands for servers.
    binary: Option<ServerBinary>,
    scratch: Scratch,
    progress: Progress,
    /// Whether the other server has answered once: its address is right.
    has_reached: bool,
    /// Whether this process has begun an import, or has seen one that goes on.
    has_begun: bool,
    /// Whether it was said that everything is there, since it was last brought over.
    has_said: bool,
}

/// A folder that goes with this process.
struct Scratch(PathBuf);

impl Scratch {
    fn create(parent: Option<&Path>) -> Result<Scratch, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("quorate-import-{}", std::process::id()));
        // One that is left of an earlier process of this number.
        let _ = fs::remove_dir_all(&path);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The system removes what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Follows the other server until clients are served by the cluster.
pub(super) fn run(options: &ImportOptions) -> Result<(), Failure> {
    let source = Arc::new(options.source.open()?);
    // A cluster that cannot follow says so, whatever this machine has installed.
    let mut cluster = Cluster::open(&options.common)?;
    let keeper = cluster.keeper()?;
    let binary = match keeper {
        Keeper::Own => {
            check_own(&options.server)?;
            None
        }
        Keeper::Servers(flavour, version) => {
            let binary = options.server.binary().map_err(Failure::Usage)?;
            check_servers(&binary, (flavour, version))?;
            Some(binary)
        }
    };
    cluster.check_level(keeper)?;
    let mut importing = Importing {
        cluster,
        source,
        keeper,
        binary,
        scratch: Scratch::create(options.scratch_dir.as_deref())?,
        progress: Progress::new(1),
        has_reached: false,
        has_begun: false,
        has_said: false,
    };
    let place = importing.source.place.clone();
    loop {
        let ended = importing.session();
        importing.progress.end();
        match ended {
            Ok(Ended::Served) => {
                println!(
                    "ended: clients are served by the cluster, and {place} is not followed any more"
                );
                return Ok(());
            }
            Err(Trouble::Fatal(why)) => return Err(Failure::Failed(why)),
            Err(Trouble::Broken(why)) => {
                eprintln!("{why}: trying again");
                std::thread::sleep(FOLLOW_AGAIN);
            }
        }
    }
}

/// Empties a cluster into which an import was begun, and has clients served.
pub(super) fn abandon(options: &AbandonOptions) -> Result<(), Failure> {
    let mut cluster = Cluster::open(&options.common)?;
    let standing = cluster.standing()?;
    if standing.import.is_none() {
        return Err(Failure::Failed(
            "no import goes on in this cluster: there is nothing to abandon".to_owned(),
        ));
    }
    let keeper = cluster.keeper()?;
    let epoch = cluster.begin(&standing, true, keeper)?;
    let mut feed = Feed::new(epoch, standing.len);
    feed.push(&mut cluster, &emptying(keeper))?;
    let follows = Follows {
        id: [b'0'; REPLICATION_ID_BYTES],
        source: 0,
        len: feed.units.received(),
    };
    cluster.order(&Command::Imported { epoch, follows })?;
    let len_min = follows.len;
    cluster.order(&Command::Cutover { epoch, len_min })?;
    println!("abandoned: the cluster is empty, and serves clients");
    Ok(())
}

/// Whether nothing is asked of real servers, where the data is in Quorate's own store.
fn check_own(options: &RedisServerOptions) -> Result<(), Failure> {
    let asked = options.other_store(RedisStore::Embedded);
    match asked.map_err(Failure::Usage)? {
        None => Ok(()),
        Some(_) => Err(Failure::Usage(format!(
            "{OWN_STORE}: leave --redis-server and --redis-mode out"
        ))),
    }
}

/// Whether the server here may write the commands for those of the cluster.
fn check_servers(binary: &ServerBinary, version: (Flavour, ServerVersion)) -> Result<(), Failure> {
    let here = two_numbers((binary.flavour, binary.version));
    match here.0 == version.0 && here.1 <= version.1 {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "the server here is {binary}, and one of the cluster {} {}: name one with --redis-server that is of the \
             same family and no newer",
            version.0.name(),
            version.1
        ))),
    }
}

/// A version without its patch, which changes no format.
fn two_numbers((flavour, version): (Flavour, ServerVersion)) -> (Flavour, ServerVersion) {
    (flavour, ServerVersion::new(version.major, version.minor, 0))
}

impl Importing {
    /// Follows until that ends.
    fn session(&mut self) -> Result<Ended, Trouble> {
        let standing = self.cluster.standing()?;
        if !self.has_begun {
            self.check_source().map_err(|trouble| match trouble {
                // The address may be wrong.
                Trouble::Broken(why) if standing.import.is_none() && !self.has_reached => {
                    Trouble::Fatal(why)
                }
                trouble => trouble,
            })?;
            self.has_reached = true;
        }
        let place = match standing.import {
            None if self.has_begun => return Ok(Ended::Served),
            None => {
                self.check_empty()?;
                None
            }
            Some(Import::Loading) => None,
            Some(Import::Following(follows)) => {
                let id = String::from_utf8_lossy(&follows.id).into_owned();
                Some((id, follows.source_at(standing.len)))
            }
        };
        self.has_begun |= standing.import.is_some();
        let spool = Spool::create(&self.scratch.0.join("stream"));
        let spool = spool.map_err(|error| Trouble::Fatal(error.to_string()))?;
        let spool = Arc::new(spool);
        let received = Arc::new(AtomicU64::new(0));
        let wanted = Wanted {
            source: Arc::clone(&self.source),
            place: place.clone(),
            rdb: self.scratch.0.join("source.rdb"),
            spool: Arc::clone(&spool),
            received: Arc::clone(&received),
        };
        let rdb = wanted.rdb.clone();
        let follower = Follower::start(wanted);
        let follower = follower.map_err(|error| Trouble::Fatal(error.to_string()))?;
        let begun = loop {
            if let Some(begun) = follower.begun(SHOW_AGAIN) {
                break begun?;
            }
            let mib = received.load(Ordering::Relaxed) >> 20;
            self.progress.say(&format!("received {mib} MiB"));
        };
        let feed = match begun {
            Begun::Continued { id } => {
                let source = place.map_or(0, |(_, offset)| offset);
                self.go_on(&standing, &id, source)?
            }
            Begun::Anew { id, offset } => {
                spool.note_safe(offset);
                self.bring_over(&standing, &rdb, &id, offset)?
            }
        };
        self.follow(feed, &spool)
    }

    /// Whether the servers of the cluster can follow the other one.
    fn check_source(&self) -> Result<(), Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| Trouble::Fatal(error.to_string()))?;
        let asked = async { self.source.connect().await?.info().await };
        let theirs = runtime.block_on(asked)?.version;
        // What Quorate's own store does not have is named when it comes.
        let Some(binary) = &self.binary else {
            return Ok(());
        };
        let ours = two_numbers((binary.flavour, binary.version));
        if follows(ours, theirs) {
            return Ok(());
        }
        Err(Trouble::Fatal(format!(
            "{} is {} {}.{}, and {} cannot follow it: servers follow those of their family that are no newer, and \
             Valkey those of Redis up to 7.2",
            self.source.place,
            theirs.0.name(),
            theirs.1.major,
            theirs.1.minor,
            binary
        )))
    }

    /// Whether the cluster has no data that would be lost. What is written after this is seen where it is begun.
    fn check_empty(&self) -> Result<(), Trouble> {
        let mut rdb = Vec::new();
        let saved = self.cluster.download(&mut Bounded(&mut rdb));
        let bytes = rdb.len() as u64;
        let first = Reader::new(&rdb[..], bytes).and_then(|mut reader| reader.next_entry());
        match (saved, first) {
            (Ok(()), Ok(None)) => Ok(()),
            (Err(Failure::Failed(why) | Failure::Usage(why)), _) if bytes == 0 => {
                Err(Trouble::Fatal(why))
            }
            (Ok(()), Err(why)) if matches!(why.fault, Fault::Version(_)) => Err(Trouble::Fatal(
                format!("whether the cluster is empty cannot be told from what it saves: {why}"),
            )),
            _ => Err(Trouble::Fatal(
                "the cluster has data already: an import begins in an empty one".to_owned(),
            )),
        }
    }

    /// Goes on with a stream of which everything up to an offset is here.
    fn go_on(&mut self, standing: &Standing, id: &str, source: u64) -> Result<Feed, Trouble> {
        let epoch = self.cluster.begin(standing, false, self.keeper)?;
        self.has_begun = true;
        let len = standing.len;
        self.common_place(epoch, id, (source, len))?;
        Ok(Feed::new(epoch, len))
    }

    /// Brings over everything that the other server had at an offset.
    fn bring_over(
        &mut self,
        standing: &Standing,
        rdb: &Path,
        id: &str,
        offset: u64,
    ) -> Result<Feed, Trouble> {
        self.progress.say("turning it into commands");
        let place = &self.source.place;
        let commands = match &self.binary {
            Some(binary) => commands_of(rdb, binary, &self.scratch.0),
            None => own_commands_of(rdb, &self.scratch.0),
        };
        let commands = commands.map_err(|why| Trouble::Fatal(format!("{place}: {why}")))?;
        // The space is needed for what comes.
        let _ = fs::remove_file(rdb);
        let of_file = |error: io::Error| Trouble::Fatal(format!("{}: {error}", commands.display()));
        let mut file = File::open(&commands).map_err(of_file)?;
        let bytes = file.metadata().map_err(of_file)?.len();
        let epoch = self.cluster.begin(standing, true, self.keeper)?;
        (self.has_begun, self.has_said) = (true, false);
        let mut feed = Feed::new(epoch, standing.len);
        feed.push(&mut self.cluster, &emptying(self.keeper))?;
        let progress = Progress::new(bytes);
        let (mut buffer, mut read) = (vec![0; PIECE_BYTES as usize], 0);
        loop {
            let part = file.read(&mut buffer).map_err(of_file)?;
            if part == 0 {
                break;
            }
            feed.push(&mut self.cluster, &buffer[..part])?;
            read += part as u64;
            progress.read(read);
        }
        progress.end();
        let _ = fs::remove_file(&commands);
        if feed.units.complete() != feed.units.received() {
            return Err(Trouble::Fatal(
                "the commands of the other server's data have no end".to_owned(),
            ));
        }
        self.common_place(epoch, id, (offset, feed.units.received()))?;
        Ok(feed)
    }

    /// From here on, both streams are one.
    fn common_place(&mut self, epoch: u64, id: &str, place: (u64, u64)) -> Result<(), Trouble> {
        let (source, len) = place;
        let id: Result<[u8; REPLICATION_ID_BYTES], _> = id.as_bytes().try_into();
        let id = id.map_err(|_| Trouble::Fatal("a replication id of another length".to_owned()))?;
        let follows = Follows { id, source, len };
        match self.cluster.order(&Command::Imported { epoch, follows })? {
            Ordered::Accepted => Ok(()),
            _ => Err(self.cluster.why_not(epoch)),
        }
    }

    /// Has the stream ordered as it comes.
    fn follow(&mut self, mut feed: Feed, spool: &Spool) -> Result<Ended, Trouble> {
        let mut looked = Instant::now();
        loop {
            let bytes = spool.take(PIECE_BYTES as usize, LOOK_AGAIN);
            let bytes = bytes.map_err(Trouble::Broken)?;
            let is_idle = bytes.is_empty();
            feed.push(&mut self.cluster, &bytes)?;
            let has_all = spool.left() == 0;
            let is_news = has_all && !self.has_said;
            if !is_news && looked.elapsed() < LOOK_AGAIN {
                continue;
            }
            looked = Instant::now();
            let standing = self.cluster.standing();
            if let Ok(standing) = &standing {
                if standing.failure.is_some() && standing.epoch > feed.epoch {
                    return Err(self.cluster.why_not(feed.epoch));
                }
                match standing.import {
                    Some(Import::Following(follows)) => {
                        spool.note_safe(follows.source_at(standing.len));
                    }
                    None if standing.epoch > feed.epoch => return Ok(Ended::Served),
                    _ => {}
                }
            }
            if is_news {
                self.has_said = true;
                self.progress.end();
                println!(
                    "following {}: everything is here, and what it writes from now on follows",
                    self.source.place
                );
            }
            if is_idle || looked.elapsed() >= SHOW_AGAIN {
                self.progress
                    .say(&format!("following, {} bytes are to come", spool.left()));
            }
        }
    }
}

/// What is written, up to the length of an RDB without keys.
struct Bounded<'a>(&'a mut Vec<u8>);

/// An RDB without keys is shorter than this, in bytes.
const EMPTY_BYTES_MAX: usize = 4096;

impl io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > EMPTY_BYTES_MAX {
            self.0
                .extend_from_slice(&bytes[..EMPTY_BYTES_MAX.min(bytes.len())]);
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
