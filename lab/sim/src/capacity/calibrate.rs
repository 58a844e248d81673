//! Measures what this machine's disk, sockets and cores take, and writes it down.
//!
//! Times are the least of several, for whatever else the machine does only makes them longer. A
//! link cannot be measured on one machine: the file gets the paper's.

use super::costs::{Costs, Disk, Link, PerMessage, mb_per_second};
use super::steps::{self, Hosts};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

/// What is written and flushed at a time: little, and much.
const LITTLE_BYTES: usize = 4 << 10;
const MUCH_BYTES: usize = 4 << 20;
/// How often.
const FLUSHES: usize = 100;
const LONG_FLUSHES: usize = 16;
/// Messages over a socket: short ones, and those that its buffers hold.
const SHORT_BYTES: usize = 64;
const LONG_BYTES: usize = 64 << 10;
const MESSAGES: usize = 2_000;
/// Of so many repetitions the fastest counts.
const REPEATS: usize = 7;

/// Measures, with a file beside the one that is written.
///
/// # Errors
/// Says what could not be done.
pub(super) fn write(path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let costs = Costs {
        link: Link {
            from: "the paper's network; not measured".into(),
            ..Link::of_the_paper()
        },
        disk: disk(&path.with_extension("probe")).map_err(failed)?,
        step: calibrate_steps(&steps::RACOS)?,
        socket: sockets().map_err(failed)?,
    };
    let text = toml::to_string(&costs).map_err(|error| error.to_string())?;
    std::fs::write(path, &text).map_err(failed)?;
    print!("{text}");
    Ok(())
}

/// What hosts of a protocol take for a message.
///
/// # Errors
/// If they cannot be started.
pub(crate) fn calibrate_steps(of: &Hosts) -> Result<PerMessage, String> {
    steps::measure(REPEATS, of)
}

/// What either end of a socket takes for a message.
///
/// # Errors
/// If there is no loopback.
pub(crate) fn calibrate_sockets() -> Result<PerMessage, String> {
    sockets().map_err(|error| format!("sockets of the loopback: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "it measures the machine")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The least of some times, ns.
pub(super) fn least<E>(
    times: usize,
    mut measure: impl FnMut() -> Result<f64, E>,
) -> Result<f64, E> {
    (0..times).try_fold(f64::INFINITY, |least, _| Ok(least.min(measure()?)))
}

fn rounded(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}

/// The median time of `fdatasync` after little, and the rate of what is written and synced at once.
fn disk(path: &Path) -> std::io::Result<Disk> {
    let mut file = File::create(path)?;
    let measured = flushes(&mut file, LITTLE_BYTES, FLUSHES)
        .and_then(|little_ns| Ok((little_ns, flushes(&mut file, MUCH_BYTES, LONG_FLUSHES)?)));
    std::fs::remove_file(path)?;
    let (little_ns, much_ns) = measured?;
    let more = (MUCH_BYTES - LITTLE_BYTES) as u64;
    let rate = mb_per_second(more, much_ns.saturating_sub(little_ns));
    Ok(Disk {
        mb_per_second: rounded(rate, 1.0),
        flush_us: rounded(little_ns as f64 / 1e3, 1.0),
        from:
            "measured: medians of write and fdatasync in place, of 4 KiB, and of 4 MiB beyond that"
                .into(),
    })
}

/// The median of writes and syncs of so many bytes, ns, of bytes that the file has already, as in a log.
fn flushes(file: &mut File, bytes: usize, times: usize) -> std::io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&vec![1; bytes * times])?;
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    let piece = vec![2; bytes];
    let mut took_ns = Vec::new();
    for _ in 0..times {
        let began = now();
        file.write_all(&piece)?;
        file.sync_data()?;
        took_ns.push(began.elapsed().as_nanos() as u64);
    }
    took_ns.sort_unstable();
    Ok(took_ns[times / 2])
}

/// A connection of this machine to itself, both ends in turns on one thread.
fn sockets() -> std::io::Result<PerMessage> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    let mut pass = |bytes: usize| -> std::io::Result<f64> {
        let mut piece = vec![1; bytes];
        let began = now();
        for _ in 0..MESSAGES {
            near.write_all(&piece)?;
            far.read_exact(&mut piece)?;
        }
        Ok(began.elapsed().as_nanos() as f64 / MESSAGES as f64)
    };
    let short_ns = least(REPEATS, || pass(SHORT_BYTES))?;
    let long_ns = least(REPEATS, || pass(LONG_BYTES))?;
    let byte_ns = (long_ns - short_ns) / (LONG_BYTES - SHORT_BYTES) as f64;
    // Two ends.
    Ok(PerMessage {
        message_ns: rounded(short_ns / 2.0, 1.0),
        byte_ns: rounded(byte_ns.max(0.0) / 2.0, 1000.0),
        from:
            "measured: half of write and read of 64 B, and of 64 KiB beyond that, over the loopback"
                .into(),
    })
}
