//! Connections to the ports for peers that begin something and do not go on.

use std::io;
use std::time::Duration;

use quorate_core::ReplicaId;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::peer_port::{ask, gateway_hello, hello};
use super::{Target, wire};

/// Opens connections that say nothing or a part of a hello, and some that say to be a gateway and send a part of a long
/// frame. Those that replicas close are made anew until the end.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let mut attackers = JoinSet::new();
    for authority in target.peers()? {
        let told = ask(&authority).await?;
        let hello = hello(
            &told,
            ReplicaId(1),
            told.epoch.members[0].incarnation,
            false,
        );
        for number in 0..target.connections {
            let is_gateway = number % GATEWAYS_EVERY == 0;
            let bytes = match is_gateway {
                true => gateway_hello(&told, number as u16),
                false => hello[..number as usize % 20].to_vec(),
            };
            let (authority, over) = (authority.clone(), target.over);
            let opening = async move { keep_opening(&authority, &bytes, is_gateway, over).await };
            attackers.spawn(opening);
        }
    }
    let mut opened = 0;
    while let Some(attacker) = attackers.join_next().await {
        opened += attacker.map_err(|error| error.to_string())?;
    }
    Ok(format!("{opened} connections opened"))
}

/// How many connections were made.
async fn keep_opening(authority: &str, bytes: &[u8], is_gateway: bool, over: Instant) -> u32 {
    let mut opened = 0;
    while Instant::now() < over {
        if let Ok(mut stream) = wire::connect(authority, bytes).await {
            opened += 1;
            let left = over.saturating_duration_since(Instant::now());
            let ends = async {
                if is_gateway {
                    // Until the replica takes no more of it.
                    let _ = send_part(&mut stream).await;
                }
                wire::is_closed_within(&mut stream, left).await;
            };
            let _ = timeout(left, ends).await;
        }
        sleep(PAUSE).await;
    }
    opened
}

/// A part of a long frame.
async fn send_part(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&FRAME_BYTES.to_le_bytes()).await?;
    for _ in 0..PART_BYTES / CHUNK.len() {
        stream.write_all(&CHUNK).await?;
    }
    Ok(())
}

/// One in so many connections is a gateway's.
const GATEWAYS_EVERY: u32 = 20;
/// What the head of a frame announces, and how much of it follows.
const FRAME_BYTES: u32 = 60 << 20;
const PART_BYTES: usize = 8 << 20;
static CHUNK: [u8; 64 << 10] = [7; 64 << 10];
const PAUSE: Duration = Duration::from_millis(500);
