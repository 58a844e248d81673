//! Replicas in network namespaces of their own, on one bridge.
//!
//! Namespaces belong to the processes in them: whatever ends those, nothing has to be taken down.
//! So this program starts itself again in fresh namespaces ([`again`]), in which it may do what takes
//! an administrator's rights elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use quorate_tooling::children::{Tether, Tethered};

/// This program once more, with more arguments, in mount and network namespaces of its own.
/// `as_user` makes it an administrator there who is nobody special outside.
pub(crate) fn again(
    more: impl IntoIterator<Item = OsString>,
    as_user: bool,
) -> std::io::Result<Tethered> {
    let mut arguments: Vec<OsString> = Vec::new();
    if as_user {
        arguments.extend(["--user".into(), "--map-root-user".into()]);
    }
    arguments.extend(["--mount".into(), "--net".into(), "--".into()]);
    arguments.push(std::env::current_exe()?.into());
    arguments.extend(std::env::args_os().skip(1));
    arguments.extend(more);
    arguments.push(format!("--outside={}", std::process::id()).into());
    Tethered::program(
        "unshare".as_ref(),
        arguments,
        &Tether::default(),
        |command| {
            command.stdin(Stdio::null());
        },
    )
}

/// Makes a bridge, and for each replica a namespace with an address on it. Only in namespaces that
/// are this program's own.
pub(crate) fn lay_out(replicas: usize) -> Result<(), String> {
    // `ip` keeps the names of namespaces there.
    run("mount", &["-t", "tmpfs", "bench", "/run"])?;
    ip("link set lo up")?;
    ip("link add peers type bridge")?;
    ip(&format!("addr add {}/24 dev peers", hub()))?;
    ip("link set peers up")?;
    for replica in 0..replicas {
        let (name, outer) = (name(replica), cable(replica));
        let address = address(replica);
        ip(&format!("netns add {name}"))?;
        ip(&format!(
            "link add {outer} type veth peer name eth0 netns {name}"
        ))?;
        ip(&format!("link set {outer} master peers up"))?;
        ip(&format!("-n {name} addr add {address}/24 dev eth0"))?;
        ip(&format!("-n {name} link set eth0 up"))?;
        ip(&format!("-n {name} link set lo up"))?;
    }
    Ok(())
}

/// The name of a replica's namespace.
pub(crate) fn name(replica: usize) -> String {
    format!("r{}", replica + 1)
}

/// That namespace as a file.
pub(crate) fn file(replica: usize) -> PathBuf {
    format!("/run/netns/{}", name(replica)).into()
}

/// A replica's address on the bridge.
pub(crate) fn address(replica: usize) -> String {
    format!("{SUBNET}.{}", replica + 1)
}

/// This program's own address on the bridge.
pub(crate) fn hub() -> String {
    format!("{SUBNET}.{HUB}")
}

/// The bridge's end of a replica's cable; the other is `eth0`.
pub(crate) fn cable(replica: usize) -> String {
    format!("v{}", replica + 1)
}

/// Runs `ip` with arguments that are separated by spaces.
pub(crate) fn ip(arguments: &str) -> Result<(), String> {
    run("ip", &arguments.split(' ').collect::<Vec<_>>())
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
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

const SUBNET: &str = "10.77.0";
const HUB: u8 = 254;
