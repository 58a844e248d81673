//! What hosts take for a message, and for a byte of it: a few of them in a ring, whose links and disks
//! take no time.

use super::calibrate::{least, now};
use super::costs::PerMessage;
use crate::disk::Disk;
use crate::simulator::{sample_epoch, seat};
use crate::subject::Subject;
use crate::world::replica;
use bytes::Bytes;
use quorate_core::{ClusterId, Durability, Incarnation, MICROS, Now, Peers, Principal, Seat};
use quorate_etcd_store::{QueryAnswer, Store};
use quorate_host::{
    Answer, Completed, Driver, Effects, Frame, Host, HostConfig, Limits, Pace, Request, Start,
    SupportedVersions, drive,
};
use quorate_protocols::{AnyConfig, AnyMachine, Registered};
use std::collections::BTreeMap;

/// Of which cluster.
pub(crate) struct Hosts {
    pub(crate) protocol: &'static str,
    pub(crate) replicas: usize,
    pub(crate) params: &'static [(&'static str, &'static str)],
    pub(crate) durability: Durability,
}

/// Values are cut, sent and put together in it.
pub(super) const RACOS: Hosts = Hosts {
    protocol: "racos",
    replicas: 5,
    params: &[("k", "3")],
    durability: Durability::Disk,
};
/// Puts under way at each host.
const UNDER_WAY: usize = 8;
/// Short values and long ones, and how many of them.
const SHORT: (usize, usize) = (64, 4_000);
const LONG: (usize, usize) = (64 << 10, 400);
/// What a turn comes after the last.
const TURN_NS: u64 = 50 * MICROS;

/// Hosts, and what is on its way to each.
struct Ring {
    hosts: Vec<Host<AnyMachine, Store>>,
    inboxes: Vec<Vec<(usize, Bytes)>>,
    under_way: Vec<usize>,
    now_ns: u64,
    done: usize,
    /// Messages taken in, bytes of them, and the time that hosts took, ns.
    messages: u64,
    bytes: u64,
    took_ns: u64,
}

/// Measures both; of several repetitions the fastest counts.
///
/// # Errors
/// If the hosts cannot be started.
pub(super) fn measure(repeats: usize, of: &Hosts) -> Result<PerMessage, String> {
    let (short, short_ns) = fastest(repeats, of, SHORT)?;
    let (long, long_ns) = fastest(repeats, of, LONG)?;
    // Two equations, for messages and bytes.
    let (a, b) = (short.messages as f64, short.bytes as f64);
    let (c, d) = (long.messages as f64, long.bytes as f64);
    let byte_ns = (long_ns * a - short_ns * c) / (d * a - b * c);
    let message_ns = (short_ns - byte_ns * b) / a;
    let params = of.params.iter();
    let params: String = params
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    Ok(PerMessage {
        message_ns: message_ns.max(0.0).round(),
        byte_ns: (byte_ns.max(0.0) * 1000.0).round() / 1000.0,
        from: format!(
            "measured: {} hosts of {}{params} on one core, values of {} B and of {} KiB",
            of.replicas,
            of.protocol,
            SHORT.0,
            LONG.0 >> 10
        ),
    })
}

/// Puts so many values of so many bytes into such hosts.
///
/// # Errors
/// If the hosts cannot be started, or do not get through.
pub(crate) fn put_all(of: &Hosts, value_bytes: usize, count: usize) -> Result<(), String> {
    Ring::start(of)?.put_all((value_bytes, count))
}

fn fastest(repeats: usize, of: &Hosts, load: (usize, usize)) -> Result<(Ring, f64), String> {
    let mut last = Ring::start(of)?;
    let took_ns = least(repeats, || {
        last = Ring::start(of)?;
        last.put_all(load).map(|()| last.took_ns as f64)
    });
    took_ns.map(|took_ns| (last, took_ns))
}

impl Ring {
    fn start(of: &Hosts) -> Result<Ring, String> {
        let replicas = of.replicas;
        let params = of.params.iter();
        let params = params.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let params: BTreeMap<String, String> = params.collect();
        let epoch = sample_epoch(of.protocol, replicas, of.durability, &params);
        let host = |index: usize| {
            let seat = seat(&epoch, index);
            let config = HostConfig {
                cluster: ClusterId(1),
                incarnation: Incarnation(index as u128),
                listed_as: Incarnation(index as u128),
                genesis: epoch.clone(),
                catalogue: &Registered,
                machine: AnyConfig::of(&seat)?,
                seat,
                supported: SupportedVersions::SHIPPED,
                limits: Limits::default(),
                jitter_seed: index as u64,
            };
            let (start, disk) = (Start::FirstBoot, Disk::default());
            let opened = Host::open(config, start, &mut &disk, Store::new(), Now::default());
            let (mut host, _) = opened.map_err(|error| error.to_string())?;
            for peer in (0..replicas).filter(|peer| *peer != index) {
                let version = Some(SupportedVersions::SHIPPED.newest);
                host.link(Now::default(), replica(peer), version);
            }
            Ok(host)
        };
        let hosts: Result<Vec<_>, String> = (0..replicas).map(host).collect();
        Ok(Ring {
            hosts: hosts?,
            inboxes: vec![Vec::new(); replicas],
            under_way: vec![0; replicas],
            now_ns: 0,
            done: 0,
            messages: 0,
            bytes: 0,
            took_ns: 0,
        })
    }

    /// Puts so many values of so many bytes.
    fn put_all(&mut self, (value_bytes, count): (usize, usize)) -> Result<(), String> {
        let turns_max = 100 * count;
        for _ in 0..turns_max {
            if self.done >= count {
                return Ok(());
            }
            self.now_ns += TURN_NS;
            for index in 0..self.hosts.len() {
                self.turn(index, value_bytes)?;
            }
        }
        Err(format!("{} of {count} puts are done", self.done))
    }

    fn turn(&mut self, index: usize, value_bytes: usize) -> Result<(), String> {
        let clock = Now {
            mono_ns: self.now_ns,
            clock_ns: self.now_ns,
            clock_error_ns: u64::MAX,
        };
        let inbox = std::mem::take(&mut self.inboxes[index]);
        let host = &mut self.hosts[index];
        let mut asked = Vec::new();
        while self.under_way[index] < UNDER_WAY {
            self.under_way[index] += 1;
            let put = <Store as Subject>::put(index as u8, self.bytes, value_bytes);
            let (body, payloads) = Store::command(&put, host.look().payload_min());
            self.bytes += value_bytes as u64;
            asked.push(Request::Write {
                body,
                payloads,
                principal: Principal::default(),
            });
        }
        self.messages += (inbox.len() + asked.len()) as u64;
        let lengths = inbox.iter().map(|(_, bytes)| bytes.len() as u64);
        self.bytes += lengths.sum::<u64>();
        let began = now();
        for (from, bytes) in inbox {
            host.frame(clock, replica(from), bytes);
        }
        asked
            .into_iter()
            .for_each(|request| host.submit(clock, 0, request));
        let mut member = Member {
            host,
            now: clock,
            frames: Vec::new(),
            answers: Vec::new(),
        };
        let driven = drive(&mut member);
        let Member {
            frames, answers, ..
        } = member;
        self.took_ns += began.elapsed().as_nanos() as u64;
        driven?;
        let is_done = |answer: &&Answer<_>| matches!(answer, Answer::Applied(..));
        self.done += answers.iter().filter(is_done).count();
        self.under_way[index] -= answers.len();
        for frame in frames {
            let bytes: Bytes = frame.chunks.concat().into();
            for to in (0..self.hosts.len()).filter(|to| *to != index) {
                if frame.to == Peers::All || frame.to == Peers::One(replica(to)) {
                    self.inboxes[to].push((index, bytes.clone()));
                }
            }
        }
        Ok(())
    }
}

/// A host that has a turn, and what came of it.
struct Member<'a> {
    host: &'a mut Host<AnyMachine, Store>,
    now: Now,
    frames: Vec<Frame>,
    answers: Vec<Answer<QueryAnswer>>,
}

impl Driver for Member<'_> {
    type Machine = AnyMachine;
    type App = Store;
    type Error = String;
    const PACE: Pace = Pace::AtOnce;

    fn host(&mut self) -> Option<&mut Host<AnyMachine, Store>> {
        Some(self.host)
    }

    fn now(&mut self) -> Now {
        self.now
    }

    fn configure(&mut self, _: &Seat) -> Result<AnyConfig, String> {
        Err("nobody asked for another epoch".to_owned())
    }

    /// Links and disks take no time.
    fn perform(&mut self, now: Now, effects: Effects<QueryAnswer>) -> Result<bool, String> {
        self.frames.extend(effects.frames);
        let answers = effects.answers.into_iter();
        self.answers.extend(answers.map(|(_, answer)| answer));
        let Some(flush) = effects.flush else {
            return Ok(false);
        };
        let done = Completed::Flush(flush.through);
        self.host.completed(now, done);
        Ok(true)
    }
}
