//! What a service manager is told, as `sd_notify(3)` has it: for units of `Type=notify`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that names the service manager's socket.
pub(crate) const SOCKET: &str = "NOTIFY_SOCKET";

/// A state of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProcessState {
    /// The replica serves clients.
    Ready,
    /// The replica has begun to end.
    Stopping,
}

impl ProcessState {
    fn text(self) -> &'static str {
        match self {
            ProcessState::Ready => "READY=1\n",
            ProcessState::Stopping => "STOPPING=1\n",
        }
    }
}

/// Tells the service manager, where there is one. If that fails the process goes on: only its manager waits for it.
pub(crate) fn notify(state: ProcessState) {
    let Some(socket) = env::var_os(SOCKET) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(
            %error, socket = %socket.to_string_lossy(),
            "the service manager at {SOCKET} could not be told {:?}", state.text().trim_end()
        );
    }
}

fn send(socket: &OsStr, state: ProcessState) -> io::Result<()> {
    let address = match socket.as_bytes() {
        // An abstract name, which is in no file system.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up the replica.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.text().as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    #[test]
    fn a_manager_is_told_at_a_path_and_at_an_abstract_name() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("notify");
        let abstract_name = format!("quorate-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{abstract_name}").into(),
            ),
        ];
        for (socket, name) in sockets {
            send(&name, ProcessState::Ready).unwrap();
            send(&name, ProcessState::Stopping).unwrap();
            assert_eq!(received(&socket), "READY=1\n");
            assert_eq!(received(&socket), "STOPPING=1\n");
        }
    }

    #[test]
    fn a_manager_that_is_gone_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let nobody = home.path().join("notify");
        assert!(send(nobody.as_os_str(), ProcessState::Ready).is_err());
    }
}
