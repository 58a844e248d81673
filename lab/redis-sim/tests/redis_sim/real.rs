//! A real server, to compare the simulation's with.

use crate::conversation::Server;
use bytes::Bytes;
use quorate_redis_effects::{STREAM_ID, genesis};
use quorate_redis_sim::Socket;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an answer may take on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a socket in a folder of its own, both of which end with this. Its master is here.
pub(crate) struct Real {
    child: Child,
    folder: PathBuf,
    master: TcpListener,
    link: Option<TcpStream>,
    connections: BTreeMap<Socket, UnixStream>,
}

impl Real {
    /// The program to compare with: `REDIS_SERVER` names it.
    pub(crate) fn program() -> Option<OsString> {
        std::env::var_os("REDIS_SERVER")
    }

    pub(crate) fn start(program: &OsString) -> Real {
        let master = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        master.set_nonblocking(true).expect("it does not wait");
        let port = master.local_addr().expect("it has an address").port();
        let folder = std::env::temp_dir().join(format!("quorate-fake-{port}"));
        std::fs::create_dir_all(&folder).expect("there is a place for temporary folders");
        std::fs::write(folder.join("dump.rdb"), &genesis(STREAM_ID).0).expect("a file");
        let settings = format!(
            "port 0\nunixsocket redis.sock\ndir {}\nsave \"\"\nappendonly no\nmasterauth secret\n\
             repl-timeout 3600\nrepl-ping-replica-period 3600\nreplicaof 127.0.0.1 {port}\n",
            folder.display()
        );
        std::fs::write(folder.join("redis.conf"), settings).expect("a file");
        let child = Command::new(program)
            .arg(folder.join("redis.conf"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Real {
            child,
            folder,
            master,
            link: None,
            connections: BTreeMap::new(),
        }
    }

    fn connect(&mut self) -> UnixStream {
        let socket = self.folder.join("redis.sock");
        let stream = loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                break stream;
            }
            let ended = self.child.try_wait().expect("it is a child");
            assert!(ended.is_none(), "the server ended: {ended:?}");
            std::thread::yield_now();
        };
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }
}

impl Server for Real {
    fn write(&mut self, socket: Socket, bytes: &[u8]) {
        if let (Socket::Link, Some(link)) = (socket, &mut self.link) {
            return link.write_all(bytes).expect("the link is open");
        }
        if !self.connections.contains_key(&socket) {
            let stream = self.connect();
            self.connections.insert(socket, stream);
        }
        let port = self.master.local_addr().expect("it has an address").port();
        let text = String::from_utf8_lossy(bytes).replace("$4\r\nPORT", &{
            let port = port.to_string();
            format!("${}\r\n{port}", port.len())
        });
        if let Some(stream) = self.connections.get_mut(&socket) {
            stream.write_all(text.as_bytes()).expect("it reads");
        }
    }

    fn read(&mut self, socket: Socket) -> Bytes {
        let mut piece = [0; 16 << 10];
        let read = match (socket, &mut self.link, self.connections.get_mut(&socket)) {
            (Socket::Link, Some(link), _) => link.read(&mut piece),
            (_, _, Some(stream)) => stream.read(&mut piece),
            _ => Err(ErrorKind::NotConnected.into()),
        };
        let read = read.unwrap_or_else(|error| panic!("nothing comes on {socket:?}: {error}"));
        assert!(read > 0, "the server closed {socket:?}");
        Bytes::copy_from_slice(&piece[..read])
    }

    fn accept(&mut self) {
        let began = Instant::now();
        let link = loop {
            match self.master.accept() {
                Ok((link, _)) => break link,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(began.elapsed() < PATIENCE, "it does not connect");
                    std::thread::yield_now();
                }
                Err(error) => panic!("it does not connect: {error}"),
            }
        };
        link.set_nonblocking(false).expect("it waits");
        link.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        self.link = Some(link);
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
