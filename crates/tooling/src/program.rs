//! Where the program `quorate` is.

use std::path::{Path, PathBuf};

/// The path that was given, or else that of `quorate` in the folder of the program that runs: the programs of this project are built
/// into one folder, and tests run from a folder in it.
///
/// # Errors
///
/// A message for people when none was given and it is not there.
pub fn quorate(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return Ok(path.to_owned());
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

const NAME: &str = "quorate";
