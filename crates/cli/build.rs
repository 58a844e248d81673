//! Has the linker compress what backtraces need, which is half of the program otherwise; and notes which commit the
//! program is built from.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib,-O2");
    }
    println!("cargo::rustc-env=QUORATE_BUILT_FROM={}", commit());
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=QUORATE_BUILT_FOR={target}");
}

/// The commit: what `QUORATE_COMMIT` says, for sources without a repository, else what git says. Builds for development
/// do not note it, so that a commit is no reason to build anew.
fn commit() -> String {
    println!("cargo::rerun-if-env-changed=QUORATE_COMMIT");
    if let Ok(commit) = std::env::var("QUORATE_COMMIT") {
        return commit;
    }
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return String::new();
    }
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    let described = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output();
    let described = described.ok().filter(|output| output.status.success());
    let commit = described.and_then(|output| String::from_utf8(output.stdout).ok());
    commit.unwrap_or_default().trim().to_owned()
}
