//! `redis://host:port` among endpoints: the address for operators, as the replica there tells it.

use bytes::BytesMut;
use quorate_resp::{Reply, encode_request};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// What such an endpoint begins with.
pub(crate) const REDIS: &str = "redis://";

/// The longest time that a replica may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The line of the answer that is looked for.
const ADMIN: &str = "quorate_admin:";

/// The address for operators, of the replica that serves clients of Redis at `host:port`.
pub(crate) fn admin_of(address: &str) -> Result<String, String> {
    // What relays to a real server answers this, and nothing else, by itself; other replicas do not know it.
    let known = ask(address, &["QUORATE", "ADMIN"]);
    // One that says nothing would not do so to another question, either.
    if let Reply::Bulk(admin) = known.map_err(|why| format!("{REDIS}{address}: {why}"))? {
        return Ok(String::from_utf8_lossy(&admin).into_owned());
    }
    let said = match ask(address, &["INFO", "server"]) {
        Ok(Reply::Bulk(text)) => String::from_utf8_lossy(&text).into_owned(),
        Ok(Reply::Error(why)) => {
            return Err(format!(
                "{REDIS}{address}: {why}: give its address for operators (--listen-admin-urls) in the place"
            ));
        }
        Ok(_) => String::new(),
        Err(why) => return Err(format!("{REDIS}{address}: {why}")),
    };
    let admin = said.lines().find_map(|line| line.strip_prefix(ADMIN));
    admin.map(str::to_owned).ok_or_else(|| {
        format!("{REDIS}{address} is no Quorate replica, or has no address for operators (--listen-admin-urls)")
    })
}

/// What the server there says of itself.
fn ask(address: &str, request: &[&str]) -> Result<Reply, String> {
    let mut addresses = address
        .to_socket_addrs()
        .map_err(|error| error.to_string())?;
    let address = addresses.next().ok_or("the name resolves to no address")?;
    let exchange = || {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = Vec::new();
        encode_request(request, &mut text);
        stream.write_all(&text)?;
        let mut answer = BytesMut::new();
        while answer.len() < ANSWER_BYTES_MAX {
            match Reply::take(&mut answer) {
                Ok(None) => {}
                Ok(Some(reply)) => return Ok(Some(reply)),
                Err(_) => break,
            }
            let mut space = [0; 4096];
            match stream.read(&mut space)? {
                0 => break,
                read => answer.extend_from_slice(&space[..read]),
            }
        }
        Ok(None)
    };
    let reply = exchange().map_err(|error: std::io::Error| error.to_string())?;
    reply.ok_or_else(|| "not an answer of Redis".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What is found where somebody answers with this.
    fn found(answer: &'static str) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for answer in ["-ERR unknown command 'QUORATE'\r\n", answer] {
                    let (mut stream, _) = listener.accept().unwrap();
                    assert_ne!(stream.read(&mut [0; 64]).unwrap(), 0);
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
            admin_of(&address)
        })
    }

    #[test]
    fn a_replica_tells_where_operators_are_served() {
        let answer = "$45\r\n# Server\r\nquorate_admin:127.0.0.1:6385\r\nx:1\r\n\r\n";
        assert_eq!(found(answer).as_deref(), Ok("127.0.0.1:6385"));
        for (answer, why) in [
            ("$5\r\nx:1\r\n\r\n", "is no Quorate replica"),
            (
                "-NOAUTH Authentication required.\r\n",
                "--listen-admin-urls",
            ),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", "not an answer of Redis"),
        ] {
            let told = found(answer).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
