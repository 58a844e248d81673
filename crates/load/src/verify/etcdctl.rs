//! A client that is not ours, asked for some of the values.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use super::passes::Plan;
use quorate_tooling::terminal::say;

/// Asks etcdctl for so many values, each through another replica; what is wrong. Without an etcdctl
/// it says so.
pub(super) fn sample(
    etcdctl: Option<&Path>,
    samples: u16,
    plan: &Plan,
    endpoints: &[String],
) -> Vec<String> {
    let program = etcdctl.map_or(OsStr::new("etcdctl"), Path::as_os_str);
    let samples = u64::from(samples).min(plan.count);
    let mut wrong = Vec::new();
    for sample in 0..samples {
        let number = sample * plan.count / samples;
        let url = &endpoints[sample as usize % endpoints.len()];
        match get(program, url, &plan.values.key(number)) {
            Ok(output) => wrong.extend(judge(plan, number, &output)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                say(format_args!("etcdctl: not found, not asked"));
                return wrong;
            }
            Err(error) => wrong.push(format!("etcdctl: {error}")),
        }
    }
    say(format_args!(
        "etcdctl: {samples} values compared, {} violations",
        wrong.len()
    ));
    wrong
}

fn get(program: &OsStr, url: &str, key: &[u8]) -> std::io::Result<Output> {
    let key = String::from_utf8_lossy(key).into_owned();
    let mut command = Command::new(program);
    command.args([
        "--endpoints",
        url,
        "--dial-timeout=5s",
        "--command-timeout=30s",
    ]);
    command.args(["get", "--print-value-only", &key]);
    command.output()
}

fn judge(plan: &Plan, number: u64, output: &Output) -> Option<String> {
    let named = |what| format!("value {number} by etcdctl: {what}");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Some(named(said.trim().to_owned()));
    }
    // It ends the value with a newline of its own.
    let found = output.stdout.strip_suffix(b"\n");
    plan.values.difference(number, plan.size, found).map(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Values;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn output(status: i32, stdout: &[u8], stderr: &[u8]) -> Output {
        Output {
            status: ExitStatus::from_raw(status << 8),
            stdout: stdout.to_vec(),
            stderr: stderr.to_vec(),
        }
    }

    #[test]
    fn only_the_whole_value_passes() {
        let plan = Plan {
            seed: 1,
            values: Values::new(1),
            count: 2,
            size: 50,
            clients: 1,
        };
        let mut printed = plan.values.value(1, 50).to_vec();
        printed.push(b'\n');
        assert_eq!(judge(&plan, 1, &output(0, &printed, b"")), None);
        assert!(judge(&plan, 0, &output(0, &printed, b"")).is_some());
        let none = judge(&plan, 1, &output(0, b"", b"")).unwrap();
        assert_eq!(none, "value 1 by etcdctl: no value");
        let failed = judge(&plan, 1, &output(1, b"", b"no leader\n")).unwrap();
        assert_eq!(failed, "value 1 by etcdctl: no leader");
    }
}
