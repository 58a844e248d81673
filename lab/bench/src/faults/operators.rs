//! What operators' commands say.

use std::path::Path;
use std::process::Command;

/// What a command of `quorate` prints that asks these endpoints; why it failed is what it says.
pub(super) fn operate(
    binary: &Path,
    words: &[&str],
    endpoints: &[String],
) -> Result<String, String> {
    let output = Command::new(binary)
        .args(words)
        .args(["--endpoints", &endpoints.join(",")])
        .output()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(format!("quorate {}: {}", words.join(" "), why.trim()))
        }
    }
}
