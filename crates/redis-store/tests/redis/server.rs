//! A Redis to compare with.

use bytes::{Bytes, BytesMut};
use quorate_resp::{encode_request, reply_bytes};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A server of its own, on a socket in a folder of its own, that ends with this.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    pub(crate) stream: UnixStream,
}

/// Servers that were started by this process.
static STARTED: AtomicU32 = AtomicU32::new(0);

impl Server {
    /// Starts the program that `REDIS_SERVER` names, if it names one.
    pub(crate) fn start() -> Option<Server> {
        let program = std::env::var_os("REDIS_SERVER")?;
        Some(Server::start_program(Path::new(&program), &[]))
    }

    /// Starts a program, with some more settings.
    pub(crate) fn start_program(program: &Path, settings: &[&str]) -> Server {
        let number = STARTED.fetch_add(1, Relaxed);
        let folder = format!("quorate-redis-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("there is a place for temporary folders");
        let socket = folder.join("redis.sock");
        let mut child = Command::new(program)
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket)
            .args(settings)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let stream = loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                break stream;
            }
            let ended = child.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{} ended: {ended:?}", program.display());
            std::thread::yield_now();
        };
        Server {
            child,
            folder,
            stream,
        }
    }

    /// The reply to one call, as it comes.
    pub(crate) fn call(&mut self, args: &[Bytes]) -> Bytes {
        let mut request = Vec::new();
        encode_request(args, &mut request);
        self.stream.write_all(&request).expect("it reads");
        let mut input = BytesMut::new();
        loop {
            if let Some(bytes) = reply_bytes(&input).expect("it speaks RESP") {
                assert_eq!(bytes, input.len(), "one reply");
                return input.freeze();
            }
            let mut piece = [0; 16 << 10];
            let read = self.stream.read(&mut piece).expect("it answers");
            assert!(read > 0, "the server hung up");
            input.extend_from_slice(&piece[..read]);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
