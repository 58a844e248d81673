//! The queue of jobs, and the locks over HTTP, with a replica that is lost; and all ways into a cluster.

use super::{PATIENCE, program};
use quorate_tooling::ports::free_ports;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn every_job_is_finished_once_without_a_worker_and_a_replica() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program("jobs"))
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let finished = said
        .lines()
        .find_map(|line| line.strip_prefix("finished: "));
    let mut jobs: Vec<_> = finished.unwrap_or_default().split(", ").collect();
    jobs.sort_unstable();
    let expected: Vec<_> = (1..=6).map(|number| format!("job {number}")).collect();
    assert_eq!(jobs, expected, "{said}");
}

#[test]
fn a_protocol_of_ones_own_goes_on_without_a_member_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program("protocol"))
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{wrong}");
    let expected = "fixed-sequencer runs\nwith three: 1\nwith two: 2\nthe third has caught up: 2\n\
                    after a restart of all: 2\n";
    assert_eq!(said, expected);
}

/// A process of the service of locks.
struct Locks {
    process: Child,
    port: u16,
}

impl Locks {
    fn begin(folder: &Path, id: u16, port: u16) -> Locks {
        let process = Command::new(program("locks"))
            .args([id.to_string(), port.to_string()])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let port = port + 10 + id;
        Locks { process, port }
    }

    /// Waits until it serves.
    fn serves(&mut self) {
        let mut line = String::new();
        let output = self.process.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, format!("http://127.0.0.1:{}\n", self.port));
    }

    /// The status and the body of an answer.
    fn asked(&self, method: &str, path: &str) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: locks\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let _ = stream.shutdown(Shutdown::Both);
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        Ok((status.unwrap_or(0), body.trim().to_owned()))
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        // SIGKILL, on Unix.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_lock_goes_to_the_next_with_a_higher_token_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(14).unwrap();
    let mut nodes: Vec<_> = (1..=3)
        .map(|id| Locks::begin(folder.path(), id, port))
        .collect();
    nodes.iter_mut().for_each(Locks::serves);
    let (status, first) = nodes[0].asked("POST", "/locks/printer/alice/1500").unwrap();
    assert_eq!(status, 200, "{first}");
    drop(nodes.remove(0));
    let began = Instant::now();
    let second = loop {
        // No answer, or an error, is that of a cluster that lost its leader.
        match nodes[0].asked("POST", "/locks/printer/bob/60000") {
            Ok((200, token)) => break token,
            Ok((409, who)) => assert_eq!(who, "alice has it"),
            Ok((503, _)) => {}
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed() < PATIENCE, "alice has it for ever");
        std::thread::sleep(Duration::from_millis(20));
    };
    let tokens = [&first, &second].map(|token| token.parse::<u64>().unwrap());
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    let late = format!("/locks/printer/{first}");
    assert_eq!(nodes[1].asked("DELETE", &late).unwrap().0, 404);
    let held = format!("/locks/printer/{second}");
    assert_eq!(nodes[1].asked("DELETE", &held).unwrap().0, 200);
}

/// Each way goes on with the sum of the one before it.
#[test]
fn a_node_a_gateway_and_a_linked_one_write_to_the_same_counter() {
    let port = free_ports(21).unwrap().to_string();
    let output = Command::new(program("gateways"))
        .args(["measure", &port, "50"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    let rows: Vec<_> = said.lines().skip(2).collect();
    let ways = [
        ("a node", 50),
        ("a gateway", 100),
        ("a gateway of its own", 150),
    ];
    assert_eq!(rows.len(), ways.len(), "{said}");
    for (row, (way, sum)) in rows.iter().zip(ways) {
        let is_row = row.starts_with(&format!("| {way} |")) && row.ends_with(&format!("| {sum} |"));
        assert!(is_row, "{row}");
    }
}
