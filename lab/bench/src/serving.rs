//! Replicas that run under `quorate serve`, each as a process of its own: their folders and arguments.

use std::path::Path;
use std::process::Command;

use quorate_tooling::launch::without_options;

/// What one replica is told by the arguments of `quorate serve`.
#[derive(Debug)]
pub(crate) struct Serve<'a> {
    /// The replica's id, from 1.
    pub(crate) id: usize,
    /// The replica's data folder.
    pub(crate) folder: &'a Path,
    /// The URL at which it serves clients.
    pub(crate) client_url: &'a str,
    /// The URL at which it listens to other replicas.
    pub(crate) peer_url: &'a str,
    /// The id of each member, and the URL at which this replica finds it.
    pub(crate) members: Vec<(usize, String)>,
}

impl Serve<'_> {
    /// The arguments, `serve` first.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let members = self.members.iter().map(|(id, url)| format!("{id}={url}"));
        let members: Vec<String> = members.collect();
        vec![
            "serve".to_owned(),
            format!("--id={}", self.id),
            format!("--data-dir={}", self.folder.display()),
            format!("--listen-client-urls={}", self.client_url),
            format!("--listen-peer-urls={}", self.peer_url),
            format!("--initial-cluster={}", members.join(",")),
        ]
    }
}

/// Begins the folders of a cluster below `data` with these options of `quorate up`. No replica runs after.
pub(crate) fn begin_folders(
    binary: &Path,
    data: &Path,
    replicas: u8,
    options: &[String],
) -> Result<(), String> {
    let mut command = Command::new(binary);
    without_options(&mut command);
    command.args(["up", "--begin-only"]).args(options);
    command.arg(format!("--replicas={replicas}"));
    command.arg(format!("--data-dir={}", data.display()));
    let output = command.output();
    let output = output.map_err(|error| format!("cannot run quorate up: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "quorate up did not begin the cluster: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
