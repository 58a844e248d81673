//! `quorate redis cutover`: the other server takes no more writes, and clients are served by the cluster.
//!
//! What is safe: the other server refuses writes first; then it tells the offset of its stream, behind which nothing
//! can come but signs of life; then the cluster has to be that far; then it takes over. Whatever ends this before that
//! leaves the other server in charge.

use super::Common;
use super::cluster::{Cluster, Ordered, Standing};
use super::source::{Source, SourceOptions, Trouble};
use crate::Failure;
use clap::Args;
use quorate_redis_effects::{Command, Follows, Import};
use quorate_tooling::units::show_bytes;
use std::time::{Duration, Instant};

/// How long the cluster may take to be as far as the other server.
const REACHED_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take until a replica serves clients.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// What the cluster may be behind before writes are refused: so much comes within a moment.
const BEHIND_BYTES_MAX: u64 = 1 << 20;
/// The length of a sign of life in a stream, in bytes.
const PING_BYTES: u64 = 14;

/// The options of `quorate redis cutover`.
#[derive(Args, Debug)]
#[command(
    after_help = "The other server refuses writes by CLIENT PAUSE WRITE (Redis 6.2 and later, and Valkey) for \
                  --pause-seconds: shut it down, or see to it that no client speaks to it any more, before they are \
                  over. Where it has no such command, or its user may not give it, stop whoever writes and say so with \
                  --writers-stopped."
)]
pub(crate) struct CutoverOptions {
    #[command(flatten)]
    source: SourceOptions,

    /// How long the other server refuses writes, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600,
        value_parser = clap::value_parser!(u64).range(60..=86_400)
    )]
    pause_seconds: u64,

    /// Nobody writes to the other server any more: it is not asked to refuse writes
    #[arg(long)]
    writers_stopped: bool,

    /// Take over what is here, though the other server cannot be asked whether it is all
    #[arg(long, conflicts_with = "writers_stopped")]
    without_source: bool,

    #[command(flatten)]
    common: Common,
}

/// Has the cluster take over.
pub(super) fn run(options: &CutoverOptions) -> Result<(), Failure> {
    let address = options.source.open()?;
    let mut cluster = Cluster::open(&options.common)?;
    let follows = follows(&cluster.standing()?)?;
    if options.without_source {
        let standing = cluster.standing()?;
        let began = Instant::now();
        cluster.turn_to_nearest();
        take_over(&mut cluster, standing.epoch, standing.len)?;
        serve(&cluster, standing.epoch, began)?;
        let offset = follows.source_at(standing.len);
        println!(
            "everything up to offset {offset} is here; what {} wrote behind it is lost",
            address.place
        );
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::Failed(error.to_string()))?;
    let mut source = runtime.block_on(address.connect())?;
    let mut cutover = Cutover {
        ask: &mut |asked| runtime.block_on(asked.of(&mut source)),
        cluster: &mut cluster,
        place: &address.place,
        pause: (!options.writers_stopped).then(|| Duration::from_secs(options.pause_seconds)),
    };
    cutover.run(follows)
}

/// The place that both streams have in common.
fn follows(standing: &Standing) -> Result<Follows, Failure> {
    match standing.import {
        Some(Import::Following(follows)) => Ok(follows),
        Some(Import::Loading) => Err(Failure::Failed(match &standing.failure {
            Some(why) => why.clone(),
            None => "the data of the other server is not all here yet: wait until quorate redis import says so"
                .to_owned(),
        })),
        None => Err(Failure::Failed(
            "this cluster follows no other server: begin with quorate redis import".to_owned(),
        )),
    }
}

/// What the other server is asked.
#[derive(Clone, Copy)]
enum Asked {
    /// The replication id, and the offset of its stream.
    Offset,
    /// To refuse writes for a time.
    Pause(Duration),
    /// To take writes again.
    Resume,
}

/// An answer of the other server.
enum Told {
    Offset(String, u64),
    Done,
}

impl Asked {
    async fn of(self, source: &mut Source) -> Result<Told, Trouble> {
        match self {
            Asked::Offset => {
                let info = source.info().await?;
                Ok(Told::Offset(info.id, info.offset))
            }
            Asked::Pause(pause) => {
                let ms = pause.as_millis().to_string();
                let paused = source.ask_well(&["CLIENT", "PAUSE", &ms, "WRITE"]).await;
                paused.map(|_| Told::Done)
            }
            Asked::Resume => source
                .ask_well(&["CLIENT", "UNPAUSE"])
                .await
                .map(|_| Told::Done),
        }
    }
}

/// A cutover under way.
struct Cutover<'a> {
    ask: &'a mut dyn FnMut(Asked) -> Result<Told, Trouble>,
    cluster: &'a mut Cluster,
    place: &'a str,
    /// How long writes are refused; `None` if nobody writes.
    pause: Option<Duration>,
}

impl Cutover<'_> {
    fn run(&mut self, follows: Follows) -> Result<(), Failure> {
        let near = self.offset(&follows)?.saturating_sub(BEHIND_BYTES_MAX);
        self.reach(near)?;
        self.be_ready()?;
        if let Some(pause) = self.pause {
            (self.ask)(Asked::Pause(pause)).map_err(|trouble| {
                let Failure::Failed(why) = Failure::from(trouble) else {
                    return Failure::Failed(String::new());
                };
                Failure::Failed(format!(
                    "{why}: stop whoever writes to it, and say so with --writers-stopped"
                ))
            })?;
        }
        let began = Instant::now();
        let (epoch, len) = match self.everything(&follows) {
            Ok(place) => place,
            Err(failure) => {
                // Nothing was asked of the cluster: the other server goes on.
                self.resume();
                return Err(failure);
            }
        };
        if let Some(pause) = self.pause
            && began.elapsed() > pause / 2
        {
            self.resume();
            return Err(Failure::Failed("it took too long: try again".to_owned()));
        }
        let taken = take_over(self.cluster, epoch, len);
        if let Err(failure) = taken {
            let is_open = self
                .cluster
                .standing()
                .is_ok_and(|standing| standing.import.is_some() && standing.epoch > epoch);
            // Otherwise the cluster may have taken over, and two would take writes.
            if is_open {
                self.resume();
            }
            return Err(failure);
        }
        serve(self.cluster, epoch, began)?;
        match self.pause {
            Some(pause) => println!(
                "{} refuses writes for {} s more: shut it down before, or let no client speak to it",
                self.place,
                pause.saturating_sub(began.elapsed()).as_secs()
            ),
            None => println!(
                "{} takes writes, if anybody sends some: shut it down",
                self.place
            ),
        }
        Ok(())
    }

    /// The offset of the other server's stream, if it is the one that is followed.
    fn offset(&mut self, follows: &Follows) -> Result<u64, Failure> {
        match (self.ask)(Asked::Offset)? {
            Told::Offset(id, offset) if id.as_bytes() == follows.id => Ok(offset),
            _ => Err(Failure::Failed(format!(
                "{} is not the server that is followed, or was started anew: quorate redis import has to follow it \
                 first",
                self.place
            ))),
        }
    }

    /// Waits until the cluster has everything before an offset: the epoch, and the length of its stream then.
    fn reach(&mut self, offset: u64) -> Result<(u64, u64), Failure> {
        let began = Instant::now();
        loop {
            let standing = self.cluster.standing();
            if let Ok(standing) = &standing {
                let follows = follows(standing)?;
                if follows.source_at(standing.len) >= offset {
                    return Ok((standing.epoch, follows.len_at(offset)));
                }
            }
            if began.elapsed() > REACHED_WITHIN {
                return Err(Failure::Failed(format!(
                    "the cluster is not at offset {offset} of {} after {} s: does quorate redis import run?",
                    self.place,
                    REACHED_WITHIN.as_secs()
                )));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until a replica's server has nearly all of the stream. Before that nobody could serve clients soon.
    fn be_ready(&mut self) -> Result<(), Failure> {
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let lag = self.cluster.turn_to_nearest().unwrap_or(u64::MAX);
            if lag <= BEHIND_BYTES_MAX {
                return Ok(());
            }
            let lacks = show_bytes(lag);
            if lag < least {
                if least == u64::MAX {
                    eprintln!(
                        "the servers of all replicas are behind what is ordered, by {lacks} at least: waiting"
                    );
                }
                (least, since) = (lag, Instant::now());
            }
            if since.elapsed() > REACHED_WITHIN {
                return Err(Failure::Failed(format!(
                    "the servers of all replicas are behind what is ordered, by {lacks} at least, and got no nearer \
                     for {} s: see quorate redis status; {} takes writes as before",
                    REACHED_WITHIN.as_secs(),
                    self.place
                )));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until the cluster has everything, where nobody writes any more.
    fn everything(&mut self, follows: &Follows) -> Result<(u64, u64), Failure> {
        let began = Instant::now();
        let offset = self.offset(follows)?;
        let place = self.reach(offset)?;
        let bytes = self.offset(follows)?.saturating_sub(offset);
        match may_be_silence(bytes, began.elapsed()) {
            true => Ok(place),
            false => Err(Failure::Failed(format!(
                "{} still takes writes: {bytes} bytes of them came meanwhile",
                self.place
            ))),
        }
    }

    fn resume(&mut self) {
        if self.pause.is_some() && (self.ask)(Asked::Resume).is_err() {
            eprintln!(
                "{} refuses writes until its pause is over: CLIENT UNPAUSE ends that",
                self.place
            );
        }
    }
}

/// Whether a server to which nobody writes may have sent so many bytes: signs of life, at most one in a second.
fn may_be_silence(bytes: u64, within: Duration) -> bool {
    bytes.is_multiple_of(PING_BYTES) && bytes / PING_BYTES <= within.as_secs() + 1
}

/// Has the cluster serve clients from a length of the stream on.
fn take_over(cluster: &mut Cluster, epoch: u64, len_min: u64) -> Result<(), Failure> {
    match cluster.order(&Command::Cutover { epoch, len_min })? {
        Ordered::Begun { .. } => Ok(()),
        _ => match cluster.standing()?.import {
            // This one, whose answer was lost.
            None => Ok(()),
            Some(_) => Err(Failure::Failed(
                "quorate redis import began to follow anew meanwhile: try again".to_owned(),
            )),
        },
    }
}

/// Waits until clients are served, and says how long there was nobody to write to.
fn serve(cluster: &Cluster, epoch: u64, began: Instant) -> Result<(), Failure> {
    let since = Instant::now();
    while !cluster.is_served(epoch + 1) {
        if since.elapsed() > SERVED_WITHIN {
            return Err(Failure::Failed(format!(
                "the cluster has taken over, and no replica serves clients after {} s: see quorate redis status",
                SERVED_WITHIN.as_secs()
            )));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    println!(
        "cut over: clients are served by the cluster; nobody took writes for {} ms",
        began.elapsed().as_millis()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_not_taken_for_signs_of_life() {
        let ms = Duration::from_millis;
        assert!(may_be_silence(0, ms(1)) && may_be_silence(PING_BYTES, ms(1)));
        assert!(!may_be_silence(21, ms(1)), "INCR of one key");
        assert!(
            !may_be_silence(3 * PING_BYTES, ms(100)),
            "too many within that time"
        );
        assert!(may_be_silence(3 * PING_BYTES, ms(2000)));
    }
}
