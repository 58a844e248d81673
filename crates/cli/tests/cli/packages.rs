//! Packages are made of the program that is tested; `packaging/test-deb.sh` installs one.

use crate::support;
use crate::support::{expect_failure, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quorate");

fn script(name: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut command = support::program::program(path.join(name));
    command.args(["--program", PROGRAM, "--version", "1.2.3"]);
    command
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

fn text(command: &mut Command) -> String {
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Scenario: a package is made and unpacked. It has what a service needs, and its unit is one.
#[test]
fn a_debian_package_has_what_a_service_needs() {
    if !is_there("dpkg-deb") {
        eprintln!("there is no dpkg-deb here: nothing is tested");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let made = text(script("deb.sh").args(["--fast", "--out"]).arg(home.path()));
    let package = PathBuf::from(made.trim());
    let field = |name: &str| text(Command::new("dpkg-deb").arg("-f").arg(&package).arg(name));
    assert_eq!(field("Version"), "1.2.3\n");
    assert!(field("Depends").contains("libc6 (>= 2."));
    let root = home.path().join("root");
    text(Command::new("dpkg-deb").arg("-x").args([&package, &root]));
    for path in [
        "etc/quorate/quorate.toml",
        "etc/default/quorate",
        "usr/lib/quorate/restart-in-turn",
        "usr/share/man/man1/quorate-cluster-switch.1.gz",
        "usr/share/bash-completion/completions/quorate",
        "usr/share/zsh/vendor-completions/_quorate",
        "usr/share/fish/vendor_completions.d/quorate.fish",
    ] {
        assert!(root.join(path).is_file(), "{path}");
    }
    // The default configuration is one that the program takes: it complains of nothing but missing data.
    let config = root.join("etc/quorate/quorate.toml");
    let written = fs::read_to_string(&config).unwrap();
    let nothing = home.path().join("nothing").display().to_string();
    fs::write(&config, written.replace("/var/lib/quorate/data", &nothing)).unwrap();
    let mut serve = support::quorate();
    serve.args(["serve", "--config-file"]).arg(&config);
    expect_failure(&mut serve, 1, "holds no replica");
    if is_there("systemd-analyze") {
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no", "--recursive-errors=no"]);
        verify.arg(format!("--root={}", root.display()));
        text(verify.arg("quorate.service"));
    }
}

/// Scenario: a program that needs libraries is to run where there are none.
#[test]
fn tarballs_and_images_are_made_of_static_programs_alone() {
    let home = tempfile::tempdir().unwrap();
    for name in ["tarball.sh", "image.sh"] {
        let mut command = script(name);
        command.arg("--out").arg(home.path());
        expect_failure(&mut command, 1, "needs libraries of the machine");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
