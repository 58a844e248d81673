//! `quorate-lab sim capacity`: what protocols get through machines whose links, disks and cores do only so
//! much a second.
//!
//! Whole clusters without faults, hosts as they ship. Clients put values of one size, each the next as
//! soon as the last is answered: at the leader, or at all replicas alike where nobody leads. Where
//! other runs draw how long something takes, here each replica has a link ([`wires`]), a disk, a core and a
//! thread for bulk ([`rig`]) that are busy with one thing at a time, and throughput is what the busiest of them
//! lets through.

mod calibrate;
mod chart;
mod cores;
mod costs;
mod drive;
mod page;
mod points;
mod rig;
mod serial;
mod steps;
mod theory;
mod wires;

use clap::{Args, ValueEnum};
use points::{Failure, Points};
use quorate_protocols::Code;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use calibrate::{calibrate_sockets, calibrate_steps};
pub(crate) use cores::Cores;
pub(crate) use costs::PerMessage;
pub(crate) use drive::RigOf;
pub(crate) use rig::{Reading, Rig, RigPlan};
pub(crate) use serial::Serial;
pub(crate) use steps::{Hosts, put_all};
pub(crate) use wires::Tick;

/// What is measured, and on which machines.
#[derive(Args, Clone, Debug)]
pub struct CapacityOptions {
    /// Protocols: racos, rs-paxos, rabia, multi-paxos, raft
    #[arg(
        long,
        value_name = "NAME[,NAME]",
        value_delimiter = ',',
        default_value = "racos,rs-paxos,rabia,multi-paxos"
    )]
    pub systems: Vec<String>,

    /// Fragments of each value, one for each replica, and how many rebuild it
    #[arg(long, value_name = "N,K", default_value = "5,3")]
    pub code: Code,

    /// Replicas of those that keep values whole
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub whole_replicas: usize,

    /// Bytes of a value, also as in 64KiB
    #[arg(
        long,
        value_name = "SIZE[,SIZE]",
        value_delimiter = ',',
        value_parser = parse_size,
        default_value = "1.3KiB,16KiB,64KiB,256KiB,2MiB"
    )]
    pub sizes: Vec<usize>,

    /// Clients, each with one put under way
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u16).range(1..=255))]
    pub clients: u16,

    /// Each client's puts, at least; and values of so many MiB together, if these are fewer than 20000
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..))]
    pub rounds: u16,

    /// Values put at least in each run, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 192)]
    pub volume: u64,

    /// What the leader's disk is charged with of a value that is cut
    #[arg(long, value_enum, default_value_t = LeaderWrites::Fragment)]
    pub leader_writes: LeaderWrites,

    /// A leader does nothing else while its disk writes, as the loop of etcd's Raft does. Otherwise followers
    /// alone may decide, and a leader whose disk is slower falls behind with it
    #[arg(long)]
    pub leader_waits: bool,

    /// What links, disks and cores do, as --calibrate writes it; by default the paper's network, a disk of
    /// 500 MB/s with 100 us for a flush, and cores that cost nothing
    #[arg(long, value_name = "FILE.toml")]
    pub costs: Option<PathBuf>,

    /// Measure this machine instead, beside this file, and write it
    #[arg(long, value_name = "FILE.toml", exclusive = true)]
    pub calibrate: Option<PathBuf>,

    /// A link's rate in either direction; 0 for no limit
    #[arg(long, value_name = "GBIT/S")]
    pub link_gbit: Option<f64>,

    /// Both directions of a link share its rate
    #[arg(long)]
    pub shared_link: bool,

    /// The round trip between two replicas
    #[arg(long, value_name = "US")]
    pub rtt_us: Option<f64>,

    /// A disk's rate; 0 for no limit
    #[arg(long, value_name = "MB/S")]
    pub disk_mb: Option<f64>,

    /// What a flush takes beyond its bytes
    #[arg(long, value_name = "US")]
    pub flush_us: Option<f64>,

    /// Cores cost nothing, whatever the file says
    #[arg(long)]
    pub free_cores: bool,

    /// The seed of all runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Runs at once; by default one per core
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,

    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,

    /// Draw throughput by size
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// What a leader's disk is charged with.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaderWrites {
    /// Its fragment, as it is written.
    Fragment,
    /// The whole value, as the leaders of the paper write it.
    Whole,
}

/// Measures and prints: exit code 0, 1 if a run broke a promise or a file cannot be written, 2 if the options
/// make no sense.
pub(crate) fn run(options: &CapacityOptions) -> ExitCode {
    if let Some(path) = &options.calibrate {
        return match calibrate::write(path) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => failed(&why),
        };
    }
    let points = match Points::measure(options) {
        Ok(points) => points,
        Err(Failure::Usage(why)) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
        Err(Failure::Violated(why)) => return failed(&why),
    };
    if options.json {
        println!("{:#}", points.as_json());
    } else {
        print!("{}", page::text(&points));
    }
    if let Some(path) = &options.plot
        && let Err(error) = std::fs::write(path, chart::render(&points))
    {
        return failed(&format!("{}: {error}", path.display()));
    }
    ExitCode::SUCCESS
}

fn failed(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::FAILURE
}

/// Bytes, with a unit or without.
fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 1024.0), ("MiB", 1048576.0), ("B", 1.0), ("", 1.0)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (unit, factor) = unit.expect("everything ends with nothing");
    let number = text[..text.len() - unit.len()].trim().parse::<f64>();
    match number {
        Ok(number) if (1.0..=4.0 * 1048576.0).contains(&(number * factor)) => {
            Ok((number * factor) as usize)
        }
        _ => Err(format!("{text:?} is no size from 1 byte to 4 MiB")),
    }
}

/// A size as people write it.
fn size(bytes: usize) -> String {
    match bytes {
        1048576.. if bytes.is_multiple_of(1048576) => format!("{} MiB", bytes >> 20),
        1024.. if bytes.is_multiple_of(1024) => format!("{} KiB", bytes >> 10),
        1024.. => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(line: &str) -> Points {
        let options = crate::parse(line).unwrap();
        Points::measure(&options).unwrap()
    }

    #[test]
    fn disks_that_bind_let_racos_through_three_times_what_a_leader_that_writes_everything_does() {
        let points = measure(
            "--systems racos,rs-paxos --sizes 64KiB --volume 8 --clients 24 --disk-mb 40 \
             --leader-writes whole --leader-waits --jobs 1",
        );
        let [racos, rs_paxos] = &points.all[..] else {
            panic!("two runs");
        };
        let ratio = points.ratio(racos).unwrap();
        assert!((2.5..4.0).contains(&ratio), "{ratio}");
        for point in [racos, rs_paxos] {
            let (what, percent) = point.binds();
            assert!(what == "disk" && percent > 80.0, "{what}: {percent} %");
            let share = point.mb_per_second() * 1e6 / point.allowed;
            assert!((0.8..1.05).contains(&share), "{share}");
            assert_eq!((point.reading.dropped, point.reading.failed), (0, 0));
        }
        // A fragment on each disk, or all of the value on one of them.
        let written = |point: &points::Point| point.each(point.reading.written);
        assert!((1.6..1.8).contains(&written(racos)), "{}", written(racos));
        assert!((2.2..2.5).contains(&written(rs_paxos)));
    }

    #[test]
    fn links_that_bind_carry_each_byte_once_and_the_page_says_the_same_for_the_same_seed() {
        let line = "--systems racos,rs-paxos --sizes 64KiB --volume 8 --clients 24 --link-gbit 0.2 \
                    --disk-mb 0 --jobs 1 --plot picture.svg";
        let points = measure(line);
        for point in &points.all {
            let sent = point.each(point.reading.sent);
            assert!((1.3..1.5).contains(&sent), "{sent}");
            assert_eq!(point.binds().0, "link");
        }
        let ratio = points.ratio(&points.all[0]).unwrap();
        assert!((2.0..3.2).contains(&ratio), "{ratio}");
        let page = page::text(&points);
        assert_eq!(page, page::text(&measure(line)));
        for part in ["0.2 Gbit/s in either direction", "(picture.svg)", "link, "] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(chart::render(&points).contains("racos 5,3"));
        assert_eq!(points.as_json()["points"][0]["binds"], "link");
    }

    /// Batches of short values that wait long for the link are not given to it again and again behind
    /// themselves, nor is who is behind given what is on its way to it.
    #[test]
    fn links_that_short_values_fill_carry_little_twice() {
        let points = measure(
            "--systems multi-paxos,rabia --whole-replicas 3 --sizes 1.3KiB --volume 8 --clients 250 \
             --link-gbit 0.2 --disk-mb 0 --jobs 1",
        );
        for point in &points.all {
            let sent = point.each(point.reading.sent);
            assert!((2.0..3.0).contains(&sent), "{sent}");
            assert_eq!((point.reading.dropped, point.reading.failed), (0, 0));
        }
    }

    /// A leader whose values wait for the link behind each other is not without reach of the others: once it gave
    /// up every few hundred ms, and the next one sent everything again.
    #[test]
    fn a_leader_behind_a_full_link_goes_on_leading() {
        let points = measure(
            "--systems multi-paxos --whole-replicas 3 --sizes 256KiB --volume 24 --clients 48 \
             --link-gbit 0.2 --disk-mb 0 --jobs 1",
        );
        let sent = points.all[0].each(points.all[0].reading.sent);
        // Above 4 when leaders gave up.
        assert!((1.9..3.0).contains(&sent), "{sent}");
    }

    #[test]
    fn sizes_have_units() {
        let sizes = ["1.3KiB", "16KiB", "2MiB", "100", "0", "5MiB", "x"].map(parse_size);
        let sizes: Vec<_> = sizes.into_iter().map(Result::ok).collect();
        let expected = [Some(1331), Some(16 << 10), Some(2 << 20), Some(100)];
        assert_eq!(sizes[..4], expected);
        assert_eq!(sizes[4..], [None; 3]);
        let back = [1331, 16 << 10, 2 << 20, 100].map(size);
        assert_eq!(back, ["1.3 KiB", "16 KiB", "2 MiB", "100 B"]);
    }
}
