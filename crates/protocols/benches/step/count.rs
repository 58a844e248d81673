//! Instructions, counted by callgrind: the program runs itself under it.

/// Instructions per unit, from two runs of which one has twice as many; `None` without valgrind. `arguments`
/// has the program do so many, `flags` are callgrind's.
pub(crate) fn instructions<const N: usize>(
    flags: &[&str],
    units: u64,
    arguments: impl Fn(u64) -> [String; N],
) -> Option<f64> {
    let short = collected(flags, &arguments(units))?;
    let long = collected(flags, &arguments(2 * units))?;
    Some((long - short) as f64 / units as f64)
}

fn collected(flags: &[&str], arguments: &[String]) -> Option<u64> {
    let output = std::process::Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(flags)
        .arg(std::env::current_exe().ok()?)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}
