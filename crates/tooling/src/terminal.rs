//! What is printed while something goes on.

use std::io::Write;

/// Prints a line and flushes it, so that it is seen at once. An output that nobody reads is no failure.
pub fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
