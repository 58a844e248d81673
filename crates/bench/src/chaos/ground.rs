//! Where replicas live: each in a network namespace and on a disk of its own, or all on loopback.
//!
//! Namespaces belong to the processes in them: whatever ends those, nothing has to be taken down.
//! So this program starts itself again in fresh user, mount and network namespaces, in which it may
//! do what takes an administrator's rights elsewhere, and falls back to loopback where the machine
//! does not allow that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::args::ChaosArgs;
use crate::children::Tethered;
use crate::cluster::free_ports;

/// Where replicas live.
#[derive(Debug)]
pub(super) enum Ground {
    /// Replica `i` has the address 10.77.0.`i + 1`, and a small disk in memory.
    Namespaces,
    /// Replicas have ports from here on.
    Loopback {
        /// The first.
        base: u16,
        /// How many replicas.
        replicas: usize,
    },
}

impl Ground {
    /// A free range of ports.
    pub(super) fn loopback(replicas: usize) -> Result<Ground, String> {
        let ports = replicas * (replicas + 2);
        let base = free_ports(ports as u16)?;
        Ok(Ground::Loopback { base, replicas })
    }

    /// Prepares the namespaces this process was started in: a bridge, and per replica a namespace
    /// with an address and a disk at `disk(i)`.
    pub(super) fn namespaces(
        replicas: usize,
        disk: impl Fn(usize) -> PathBuf,
        disk_bytes: usize,
    ) -> Result<Ground, String> {
        // `ip` keeps the names of namespaces there.
        run("mount", &["-t", "tmpfs", "chaos", "/run"])?;
        ip("link set lo up")?;
        ip("link add peers type bridge")?;
        ip(&format!("addr add {SUBNET}.{HUB}/24 dev peers"))?;
        ip("link set peers up")?;
        for replica in 0..replicas {
            let number = replica + 1;
            ip(&format!("netns add r{number}"))?;
            ip(&format!(
                "link add v{number} type veth peer name eth0 netns r{number}"
            ))?;
            ip(&format!("link set v{number} master peers up"))?;
            ip(&format!(
                "-n r{number} addr add {SUBNET}.{number}/24 dev eth0"
            ))?;
            ip(&format!("-n r{number} link set eth0 up"))?;
            ip(&format!("-n r{number} link set lo up"))?;
            let disk = disk(replica);
            let size = format!("size={disk_bytes}");
            let disk = disk.display().to_string();
            run("mount", &["-t", "tmpfs", "-o", &size, "chaos", &disk])?;
        }
        Ok(Ground::Namespaces)
    }

    /// Whether each replica has a disk of its own.
    pub(super) fn has_disks(&self) -> bool {
        matches!(self, Ground::Namespaces)
    }

    /// Where a replica serves clients: `host:port`.
    pub(super) fn client(&self, replica: usize) -> String {
        match self {
            Ground::Namespaces => format!("{SUBNET}.{}:2379", replica + 1),
            Ground::Loopback { base, .. } => local(base + 2 * replica as u16),
        }
    }

    /// Where a replica listens for its peers.
    pub(super) fn peer(&self, replica: usize) -> String {
        match self {
            Ground::Namespaces => format!("{SUBNET}.{}:2380", replica + 1),
            Ground::Loopback { base, .. } => local(base + 2 * replica as u16 + 1),
        }
    }

    /// Where one replica finds another.
    pub(super) fn proxy(&self, from: usize, to: usize) -> String {
        match self {
            Ground::Namespaces => format!("{SUBNET}.{HUB}:{}", 4000 + 16 * from + to),
            Ground::Loopback { base, replicas } => {
                local(base + (2 * replicas + from * replicas + to) as u16)
            }
        }
    }

    /// The network namespace of a replica, as a file.
    pub(super) fn namespace(&self, replica: usize) -> Option<PathBuf> {
        match self {
            Ground::Namespaces => Some(format!("/run/netns/r{}", replica + 1).into()),
            Ground::Loopback { .. } => None,
        }
    }

    /// Pulls out a replica's cable, or puts it back; whether there is one.
    pub(super) fn cable(&self, replica: usize, is_in: bool) -> Result<bool, String> {
        let Ground::Namespaces = self else {
            return Ok(false);
        };
        let state = if is_in { "up" } else { "down" };
        ip(&format!("link set v{} {state}", replica + 1))?;
        Ok(true)
    }

    /// Makes the disk at `path` one that cannot be written, or can again. Nobody may have a file of
    /// it open for writing.
    pub(super) fn lock_disk(&self, path: &Path, is_locked: bool) -> Result<(), String> {
        let mode = if is_locked {
            "remount,ro"
        } else {
            "remount,rw"
        };
        run("mount", &["-o", mode, &path.display().to_string()])
    }
}

/// This program once more, in namespaces of its own. `as_user` makes it an administrator there who
/// is nobody special outside.
pub(super) fn inside(
    args: &ChaosArgs,
    directory: &Path,
    as_user: bool,
) -> std::io::Result<Tethered> {
    let mut arguments: Vec<OsString> = Vec::new();
    if as_user {
        arguments.extend(["--user".into(), "--map-root-user".into()]);
    }
    arguments.extend(["--mount".into(), "--net".into(), "--".into()]);
    arguments.push(std::env::current_exe()?.into());
    arguments.extend(std::env::args_os().skip(1));
    if args.seed.is_none() {
        arguments.push(format!("--seed={}", fastrand::u64(..1 << 40)).into());
    }
    arguments.push("--inside".into());
    arguments.push(directory.into());
    arguments.push(format!("--outside={}", std::process::id()).into());
    Tethered::program("unshare".as_ref(), arguments, |command| {
        command.stdin(Stdio::null());
    })
}

fn ip(arguments: &str) -> Result<(), String> {
    run("ip", &arguments.split(' ').collect::<Vec<_>>())
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{program} {}: {}",
        arguments.join(" "),
        said.trim()
    ))
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

const SUBNET: &str = "10.77.0";
/// The last part of this program's own address, where the proxies are.
const HUB: u8 = 254;
