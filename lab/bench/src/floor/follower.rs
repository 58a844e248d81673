//! A follower: reads a batch, makes it durable, acknowledges.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use clap::Args;

use super::disk::Log;
use super::{Counts, ReplicaArgs, wire};

/// What the hidden follower role is told.
#[derive(Debug, Clone, Args)]
pub struct FollowerArgs {
    #[command(flatten)]
    pub(crate) replica: ReplicaArgs,
}

/// Serves one leader until it hangs up.
pub(super) fn follow(args: &FollowerArgs) -> io::Result<Counts> {
    let mut log = Log::create(&args.replica)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    let (mut leader, _) = listener.accept()?;
    leader.set_nodelay(true)?;
    let mut batch = Vec::new();
    while read_batch(&mut leader, &mut batch)? {
        log.append(&mut batch)?;
        if leader.write_all(&[0; wire::ACK_BYTES]).is_err() {
            break;
        }
    }
    Ok(Counts {
        commands: 0,
        syncs: log.syncs,
    })
}

/// Reads a batch into `batch`, its length not included; false when the leader has hung up.
fn read_batch(leader: &mut TcpStream, batch: &mut Vec<u8>) -> io::Result<bool> {
    let mut header = [0; wire::HEADER_BYTES];
    match leader.read_exact(&mut header) {
        Ok(()) => {}
        // A leader that ends with acknowledgements unread resets instead of closing.
        Err(error) if hung_up(error.kind()) => return Ok(false),
        Err(error) => return Err(error),
    }
    batch.resize(u32::from_le_bytes(header) as usize, 0);
    leader.read_exact(batch)?;
    Ok(true)
}

fn hung_up(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}
