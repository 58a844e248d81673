//! A replica beside those of `quorate up`: added by `quorate cluster add`, and started by the command that this prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_load::replicas::wait_voting;
use quorate_tooling::launch::{Launch, Running};
use quorate_tooling::ports::free_ports;

use super::operators::operate;

/// A running replica that was added to the cluster.
#[derive(Debug)]
pub(super) struct Guest {
    id: u16,
    /// The URL at which it serves clients.
    pub(super) endpoint: String,
    /// The URL at which it serves operators.
    operators: String,
    binary: PathBuf,
    /// The directory in which its command is given, with its data below.
    home: PathBuf,
    /// The printed command, word by word, without the program.
    command: Vec<String>,
    process: Option<Running>,
    patience: Duration,
    face: GuestFace,
}

/// Where a replica serves whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuestFace {
    /// Clients and operators have one port.
    OnePort,
    /// The face of Redis: operators have a port of their own. Over real servers it has the program to run, which is
    /// empty for the first in `PATH`.
    Redis(Option<String>),
}

impl Guest {
    /// Has a replica added, starts it, and waits until it is a member that votes. Its files are in a folder below
    /// `directory`.
    pub(super) fn add(
        binary: &Path,
        endpoints: &[String],
        directory: &Path,
        patience: Duration,
        face: GuestFace,
    ) -> Result<Guest, String> {
        let ports = free_ports(3)?;
        let home = directory.join(format!("guest-{ports}"));
        fs::create_dir(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let binary = fs::canonicalize(binary);
        let binary = binary.map_err(|error| format!("no program to run: {error}"))?;
        let peer_url = format!("http://127.0.0.1:{}", ports + 1);
        let said = operate(
            &binary,
            &["cluster", "add", "--peer-url", &peer_url],
            endpoints,
        )?;
        let printed = printed(&said).ok_or_else(|| format!("no command in {said:?}"))?;
        let mut guest = Guest {
            id: printed.id,
            endpoint: format!("http://127.0.0.1:{ports}"),
            operators: match &face {
                GuestFace::OnePort => format!("http://127.0.0.1:{ports}"),
                GuestFace::Redis(_) => format!("http://127.0.0.1:{}", ports + 2),
            },
            binary,
            home,
            command: printed.command,
            process: None,
            patience,
            face,
        };
        guest.start()?;
        Ok(guest)
    }

    /// Starts it by its command, and waits until it votes.
    pub(super) fn start(&mut self) -> Result<(), String> {
        let launch = Launch::new(&self.binary, self.command.clone(), self.home.join("log"));
        let started = launch.start_with(|command| {
            command
                .current_dir(&self.home)
                .env("QUORATE_LISTEN_CLIENT_URLS", &self.endpoint);
            if self.operators != self.endpoint {
                command.env("QUORATE_LISTEN_ADMIN_URLS", &self.operators);
            }
            if let GuestFace::Redis(Some(server)) = &self.face {
                command.env("QUORATE_REDIS_SERVER", server);
            }
        });
        self.process = Some(started?);
        let name = format!(
            "replica {}, whose log is in {},",
            self.id,
            self.home.display()
        );
        wait_voting(&self.operators, &name, self.patience, || None)
    }

    /// Kills it (SIGKILL) and deletes its data.
    pub(super) fn kill_and_wipe(&mut self) -> Result<(), String> {
        self.process = None;
        let data = self.home.join("quorate-data");
        fs::remove_dir_all(&data)
            .map_err(|error| format!("cannot delete {}: {error}", data.display()))
    }

    /// Has it removed from the cluster, and waits until it has ended by itself.
    pub(super) fn remove(mut self, endpoints: &[String]) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        let id = self.id.to_string();
        // The change before may not be done.
        while let Err(why) = operate(&self.binary, &["cluster", "remove", &id], endpoints) {
            if Instant::now() > deadline {
                return Err(why);
            }
            std::thread::sleep(POLL);
        }
        while self
            .process
            .as_mut()
            .is_some_and(|process| process.ended().is_none())
        {
            if Instant::now() > deadline {
                return Err(format!("replica {id} was removed and does not end"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// What is printed for a replica that may follow.
#[derive(Debug, PartialEq, Eq)]
struct Invitation {
    /// The number of the replica.
    id: u16,
    /// The arguments that start it.
    command: Vec<String>,
}

/// Reads what was printed.
fn printed(text: &str) -> Option<Invitation> {
    let command = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("quorate "))?;
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    let id = words.iter().skip_while(|word| *word != "--id").nth(1)?;
    Some(Invitation {
        id: id.parse().ok()?,
        command: words,
    })
}

const POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_found_in_what_is_printed() {
        let said = "replica 4 may follow:\n  quorate serve --id 4 --initial-cluster 1=http://a:1\n";
        let Invitation { id, command } = printed(said).unwrap();
        assert_eq!((id, command[0].as_str(), command.len()), (4, "serve", 5));
        assert_eq!(printed("error: no\n"), None);
    }
}
