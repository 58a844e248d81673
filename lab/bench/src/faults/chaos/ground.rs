//! Where replicas live: each in a network namespace and on a disk of its own, or all on loopback.
//!
//! This program starts itself again in fresh user, mount and network namespaces, and falls back to
//! loopback where the machine does not allow that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::ChaosArgs;
use crate::namespaces::{self, ip, run};
use quorate_tooling::children::Tethered;
use quorate_tooling::ports::free_ports;

/// Where replicas live.
#[derive(Debug)]
pub(super) enum Ground {
    /// Each has an address of its own, and a small disk in memory.
    Namespaces,
    /// All replicas are on loopback, with ports of one range.
    Loopback {
        /// The first port of the range.
        base: u16,
        /// The number of replicas.
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

    /// Prepares the namespaces this process was started in: per replica a namespace with an
    /// address, and a disk at `disk(i)`.
    pub(super) fn namespaces(
        replicas: usize,
        disk: impl Fn(usize) -> PathBuf,
        disk_bytes: usize,
    ) -> Result<Ground, String> {
        namespaces::lay_out(replicas)?;
        for replica in 0..replicas {
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
            Ground::Namespaces => format!("{}:2379", namespaces::address(replica)),
            Ground::Loopback { base, .. } => local(base + 2 * replica as u16),
        }
    }

    /// Where a replica listens for its peers.
    pub(super) fn peer(&self, replica: usize) -> String {
        match self {
            Ground::Namespaces => format!("{}:2380", namespaces::address(replica)),
            Ground::Loopback { base, .. } => local(base + 2 * replica as u16 + 1),
        }
    }

    /// Where one replica finds another.
    pub(super) fn proxy(&self, from: usize, to: usize) -> String {
        match self {
            Ground::Namespaces => format!("{}:{}", namespaces::hub(), 4000 + 16 * from + to),
            Ground::Loopback { base, replicas } => {
                local(base + (2 * replicas + from * replicas + to) as u16)
            }
        }
    }

    /// The network namespace of a replica, as a file.
    pub(super) fn namespace(&self, replica: usize) -> Option<PathBuf> {
        match self {
            Ground::Namespaces => Some(namespaces::file(replica)),
            Ground::Loopback { .. } => None,
        }
    }

    /// Pulls out a replica's cable, or puts it back; whether there is one.
    pub(super) fn cable(&self, replica: usize, is_in: bool) -> Result<bool, String> {
        let Ground::Namespaces = self else {
            return Ok(false);
        };
        let state = if is_in { "up" } else { "down" };
        ip(&format!("link set {} {state}", namespaces::cable(replica)))?;
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
    let mut more: Vec<OsString> = Vec::new();
    if args.faults.seed.is_none() {
        more.push(format!("--seed={}", args.faults.seed()).into());
    }
    more.extend(["--inside".into(), directory.into()]);
    namespaces::again(more, as_user)
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}
