//! The user whose process is at the other end of a connection on the loopback interface.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;

/// Whether a connection to this loopback port comes from a process of the same user: nobody else's may take the place
/// of the server's.
pub(crate) fn is_own(from: SocketAddr, to: SocketAddr) -> io::Result<bool> {
    let own = fs::metadata("/proc/self")?.uid();
    let table = fs::read_to_string("/proc/net/tcp")?;
    Ok(owner(&table, from.port(), to.port()) == Some(own))
}

/// The user of the socket that has these ports, as the kernel's table tells it.
fn owner(table: &str, local: u16, remote: u16) -> Option<u32> {
    let (local, remote) = (format!(":{local:04X}"), format!(":{remote:04X}"));
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_it = words.next()?.ends_with(&local) && words.next()?.ends_with(&remote);
        // State, queues, timer, retransmissions; then the user.
        is_it.then(|| words.nth(4)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_user_of_a_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert!(is_own(from, listener.local_addr().unwrap()).unwrap());
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
                     0: 0100007F:9C40 0100007F:18EB 01 00000000:00000000 00:00000000 00000000  1000 0 1\n";
        assert_eq!(owner(table, 0x9c40, 0x18eb), Some(1000));
        assert_eq!(owner(table, 0x18eb, 0x9c40), None);
    }
}
