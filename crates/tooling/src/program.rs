//! Where the program `quorate` is, and where its data go.

use std::path::{Path, PathBuf};

use clap::Args;

/// The program that a bench starts, and the directory for its data.
#[derive(Debug, Clone, Default, Args)]
pub struct Place {
    /// The quorate executable [default: the one beside this program]
    #[arg(long)]
    pub quorate: Option<PathBuf>,
    /// Directory for all data and logs, on the disk to be measured [default: TMPDIR or here]
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
}

impl Place {
    /// The path that was given, or else that of `quorate` in the folder of the program that runs: the programs of
    /// this project are built into one folder, and tests run from a folder in it.
    ///
    /// # Errors
    ///
    /// A message for people when none was given and it is not there.
    pub fn binary(&self) -> Result<PathBuf, String> {
        if let Some(path) = &self.quorate {
            return Ok(path.clone());
        }
        let this = std::env::current_exe()
            .map_err(|error| format!("cannot tell where this program is: {error}"))?;
        let folders = this.ancestors().skip(1).take(2);
        let found = folders
            .map(|folder| folder.join(NAME))
            .find(|path| path.is_file());
        found.ok_or_else(|| {
            format!(
                "there is no {NAME} beside {}: build it (cargo build -p quorate-cli, with the same profile), or \
                 name it with --quorate",
                this.display()
            )
        })
    }

    /// The directory that was given for data.
    pub fn parent(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }
}

const NAME: &str = "quorate";
