//! The process at the other end of a connection on the loopback interface.
//!
//! A server shows a password that it was given for its master to whoever may ask for settings (`CONFIG GET
//! masterauth`). So there is none: who begins a link is known by what the kernel says of the connection.

use std::fs;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};

/// Whether a connection to this loopback port was begun by this process, and by no other one of any user.
pub(crate) fn is_of(pid: u32, from: SocketAddr, to: SocketAddr) -> io::Result<bool> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        return Ok(false);
    };
    let table = fs::read_to_string("/proc/net/tcp")?;
    match inode(&table, from, to) {
        Some(inode) => has_socket(pid, inode),
        None => Ok(false),
    }
}

/// The number of the socket with these addresses, as the kernel's table tells it.
fn inode(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u64> {
    let [local, remote] = [local, remote].map(in_table);
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_it = words.next()? == local && words.next()? == remote;
        // State, queues, timer, retransmissions, user, timeout; then the number.
        is_it.then(|| words.nth(6)?.parse().ok())?
    })
}

/// An address as the kernel's table writes it.
fn in_table(address: SocketAddrV4) -> String {
    let number = u32::from_ne_bytes(address.ip().octets());
    format!("{number:08X}:{:04X}", address.port())
}

/// Whether a process has a socket of this number open.
fn has_socket(pid: u32, inode: u64) -> io::Result<bool> {
    let wanted = format!("socket:[{inode}]");
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?;
    // A descriptor may be closed while it is looked at.
    let mut links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    Ok(links.any(|link| link.as_os_str() == wanted.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_of_the_process_that_began_it_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let _client = TcpStream::connect(to).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert!(is_of(std::process::id(), from, to).unwrap());
        // The first process of the machine has no connection of this test's.
        assert!(!is_of(1, from, to).unwrap_or(false));
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], from.port()));
        assert!(!is_of(std::process::id(), elsewhere, to).unwrap());
    }

    #[test]
    fn sockets_are_found_by_both_addresses() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0200007F:9C40 0100007F:18EB 01 00000000:00000000 00:00000000 00000000  1000 0 76 1\n\
                     1: 0100007F:9C40 0100007F:18EB 01 00000000:00000000 00:00000000 00000000  1000 0 77 1\n";
        let of = |host: u8, port| SocketAddrV4::new([127, 0, 0, host].into(), port);
        assert_eq!(inode(table, of(1, 0x9c40), of(1, 0x18eb)), Some(77));
        assert_eq!(inode(table, of(2, 0x9c40), of(1, 0x18eb)), Some(76));
        assert_eq!(inode(table, of(1, 0x18eb), of(1, 0x9c40)), None);
    }
}
