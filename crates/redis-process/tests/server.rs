//! Real servers as child processes: `REDIS_SERVER` names one, or `PATH` has one; without, nothing is tested.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

use quorate_redis_process::{
    Launcher, LauncherOptions, ProcessError, Replication, ServerBinary, ServerProcess, ServerUsers,
    UserSettings,
};
use quorate_resp::Reply;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A folder for servers, and what starts them there.
struct Stage {
    dir: TempDir,
    folder: PathBuf,
    launcher: Launcher,
}

/// The server to test with, if there is one.
fn binary() -> Option<ServerBinary> {
    let given = std::env::var_os("REDIS_SERVER").map(PathBuf::from);
    match ServerBinary::find(given.as_deref()) {
        Ok(binary) => Some(binary),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

impl Stage {
    /// A stage with settings from a text, if there is a server to test with.
    fn new(settings: &str) -> Option<Stage> {
        let binary = binary()?;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("redis.conf");
        std::fs::write(&file, settings).unwrap();
        // The path of a socket in there would be too long for the kernel.
        let folder = dir.path().join("long".repeat(30)).join("servers");
        let launcher = Launcher::new(LauncherOptions {
            checks_files: true,
            binary,
            folder: folder.clone(),
            settings: UserSettings::open(&file).unwrap(),
            users: ServerUsers::open(None, None).unwrap(),
            clients_max: 100,
        });
        Some(Stage {
            dir,
            folder,
            launcher: launcher.unwrap(),
        })
    }

    async fn start(&mut self, rdb: Option<&Path>) -> ServerProcess {
        let mut server = self.launcher.start(rdb, None).unwrap();
        server.ready().await.unwrap();
        server
    }
}

/// What a client in the name of the default user is told.
async fn say(server: &ServerProcess, request: &str) -> String {
    let mut stream = server.connect().await.unwrap();
    stream
        .write_all(format!("{request}\r\n").as_bytes())
        .await
        .unwrap();
    let mut text = vec![0; 4096];
    let read = stream.read(&mut text).await.unwrap();
    String::from_utf8_lossy(&text[..read]).into_owned()
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_server_serves_from_its_folder_and_ends_with_it() {
    let Some(mut stage) = Stage::new("maxmemory 100mb\nhash-max-listpack-entries 7\n") else {
        return;
    };
    let server = stage.start(None).await;
    assert_eq!(say(&server, "set a 1").await, "+OK\r\n");
    assert!(
        say(&server, "config get maxmemory")
            .await
            .contains("104857600")
    );
    assert!(
        say(&server, "config get hash-max-listpack-entries")
            .await
            .contains("\r\n7\r\n")
    );
    let mut control = server.control().await.unwrap();
    assert_eq!(
        control.ask(&["GET", "a"]).await.unwrap(),
        Reply::Bulk("1".into())
    );
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "500");
    assert!(folder.join("server.conf").exists());
    server.kill().await;
    assert!(!exists(pid) && !folder.exists());
    assert_eq!(std::fs::read_dir(&stage.folder).unwrap().count(), 0);
}

#[tokio::test]
async fn clients_may_not_touch_replication() {
    let Some(mut stage) = Stage::new("") else {
        return;
    };
    let server = stage.start(None).await;
    for request in [
        "replicaof no one",
        "slaveof no one",
        "psync ? -1",
        "sync",
        "replconf ack 1",
        "failover",
        "shutdown nosave",
        "config set port 1",
        "config rewrite",
        "config resetstat",
        "debug sleep 0",
        "save",
        "bgsave",
        "bgrewriteaof",
        "migrate 127.0.0.1 1 a 0 1",
        "monitor",
        "module list",
        "acl setuser default on",
        "acl deluser quorate",
        "acl load",
        "acl save",
        "script debug yes",
    ] {
        let told = say(&server, request).await;
        // DEBUG is off before anybody's rights are looked at.
        let is_refused = told.starts_with("-NOPERM ") || told.starts_with("-ERR DEBUG command not");
        assert!(is_refused, "{request}: {told}");
    }
    let told = say(
        &server,
        "eval \"return redis.call('replicaof','no','one')\" 0",
    )
    .await;
    assert!(told.starts_with('-'), "{told}");
    assert!(
        say(&server, "auth quorate guess")
            .await
            .starts_with("-WRONGPASS")
    );
    for request in [
        "acl whoami",
        "config get maxmemory",
        "info server",
        "command count",
    ] {
        let told = say(&server, request).await;
        assert!(!told.starts_with('-'), "{request}: {told}");
    }
    server.kill().await;
}

#[tokio::test]
async fn a_server_starts_from_the_file_of_another() {
    let Some(mut stage) = Stage::new("") else {
        return;
    };
    let first = stage.start(None).await;
    assert_eq!(say(&first, "mset a 1 b 2").await, "+OK\r\n");
    let mut control = first.control().await.unwrap();
    assert_eq!(
        control.ask(&["SAVE"]).await.unwrap(),
        Reply::Simple("OK".to_owned())
    );
    let kept = stage.folder.join("kept.rdb");
    std::fs::rename(first.rdb(), &kept).unwrap();
    drop(control);
    first.kill().await;
    let second = stage.start(Some(&kept)).await;
    assert!(
        say(&second, "mget a b")
            .await
            .contains("$1\r\n1\r\n$1\r\n2\r\n")
    );
    // The one who runs may write another file: the one that was given stays as it is.
    let before = std::fs::read(&kept).unwrap();
    assert_eq!(say(&second, "set a 5").await, "+OK\r\n");
    let mut control = second.control().await.unwrap();
    assert_eq!(
        control.ask(&["SAVE"]).await.unwrap(),
        Reply::Simple("OK".to_owned())
    );
    assert_eq!(std::fs::read(&kept).unwrap(), before);
    second.kill().await;
    let mut damaged = before;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    std::fs::write(&kept, damaged).unwrap();
    let mut third = stage.launcher.start(Some(&kept), None).unwrap();
    let refused = third.ready().await.unwrap_err();
    assert!(matches!(refused, ProcessError::Ended { .. }), "{refused}");
}

#[tokio::test]
async fn a_value_that_the_server_refuses_is_told() {
    let Some(mut stage) = Stage::new("maxmemory-policy nonsense\n") else {
        return;
    };
    let mut server = stage.launcher.start(None, None).unwrap();
    let refused = server.ready().await.unwrap_err().to_string();
    assert!(
        refused
            .starts_with("the server ended before it served: exit status: 1; its last line was: "),
        "{refused}"
    );
}

/// A program is replaced by one of another version between the moment it is asked and the moment it is run.
#[tokio::test]
async fn a_server_of_another_version_than_it_said_is_not_taken() {
    let Some(mut stage) = Stage::new("") else {
        return;
    };
    let ServerBinary {
        path,
        flavour,
        mut version,
    } = stage.launcher.binary().clone();
    // One that has the same settings.
    version.patch = 250;
    let program = stage.dir.path().join("server");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo '{} server v={version} sha=0'\nexec '{}' \"$@\"\n",
        flavour.name(),
        path.display()
    );
    // Another process writes it: a file that is open for writing here may be so in what another test starts as well,
    // and is not run as long as it is.
    let text = stage.dir.path().join("text");
    std::fs::write(&text, script).unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o700)).unwrap();
    let copied = std::process::Command::new("cp")
        .arg(&text)
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    let mut launcher = Launcher::new(LauncherOptions {
        checks_files: true,
        binary: ServerBinary::find(Some(&program)).unwrap(),
        folder: stage.folder.clone(),
        settings: UserSettings::default(),
        users: ServerUsers::open(None, None).unwrap(),
        clients_max: 100,
    });
    let mut server = launcher.as_mut().unwrap().start(None, None).unwrap();
    let refused = server.ready().await.unwrap_err().to_string();
    let says = format!("it was {version} when it was asked, and says it is ");
    assert!(refused.contains(&says), "{refused}");
    stage.start(None).await.kill().await;
}

#[tokio::test]
async fn a_server_follows_the_master_it_is_started_with() {
    let Some(mut stage) = Stage::new("") else {
        return;
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = stage
        .launcher
        .start(None, Some(Replication { port }))
        .unwrap();
    server.ready().await.unwrap();
    let (mut link, _) = listener.accept().await.unwrap();
    let mut text = vec![0; 256];
    let mut said = String::new();
    while !said.contains("REPLCONF") {
        let read = link.read(&mut text).await.unwrap();
        assert_ne!(read, 0, "{said}");
        said.push_str(&String::from_utf8_lossy(&text[..read]));
        if said.contains("PING\r\n") {
            link.write_all(b"+PONG\r\n").await.unwrap();
        }
    }
    assert!(say(&server, "set a 1").await.starts_with("-READONLY"));
    server.kill().await;
}

#[test]
fn a_server_ends_with_the_thread_that_started_it() {
    let Some(mut stage) = Stage::new("") else {
        return;
    };
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(stage.start(None));
        tell.send(server.pid()).unwrap();
        // As a process does that is killed: nothing is dropped.
        std::mem::forget((server, runtime, stage));
    });
    let pid = told.recv().unwrap();
    thread.join().unwrap();
    // It stays as a zombie, for nobody waits for it.
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut looks = 0;
    while !(state().is_empty() || state().contains(") Z ")) {
        looks += 1;
        assert!(looks < 2_000, "{}", state());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
