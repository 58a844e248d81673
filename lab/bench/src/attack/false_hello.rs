//! Short connections that say to be a member, in lives that it is in, may be in and can never be in.

use std::time::{Duration, SystemTime};

use quorate_core::{Incarnation, ReplicaId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::peer_port::{Told, ask, hello, is_taken};
use super::{Target, wire};

/// Tells every replica again and again that each of the others is here. No such hello may be taken.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let mut attackers = JoinSet::new();
    for authority in target.peers()? {
        let told = ask(&authority).await?;
        let members = told.epoch.member_ids();
        let others: Vec<ReplicaId> = members.filter(|id| *id != told.from).collect();
        for from in others {
            let (authority, told, over) = (authority.clone(), told.clone(), target.over);
            attackers.spawn(async move { keep_saying(&authority, &told, from, over).await });
        }
    }
    let mut said = 0;
    while let Some(attacker) = attackers.join_next().await {
        said += attacker.map_err(|error| error.to_string())??;
    }
    Ok(format!("{said} false hellos, none taken"))
}

async fn keep_saying(
    authority: &str,
    told: &Told,
    from: ReplicaId,
    over: Instant,
) -> Result<u32, String> {
    let mut said = 0;
    while Instant::now() < over {
        for life in lives(told, from) {
            for is_bulk in [false, true] {
                let hello = hello(told, from, life, is_bulk);
                let Ok(mut stream) = wire::connect(authority, &hello).await else {
                    continue;
                };
                // Without an answer it was not taken either: the handshake had to give way to another.
                if is_taken(&mut stream).await.unwrap_or(false) {
                    return Err(format!(
                        "{authority} took a stranger in life {life} for replica {from}"
                    ));
                }
                said += 1;
            }
        }
        sleep(PAUSE).await;
    }
    Ok(said)
}

/// The member's own life, one that begins now, and the last there is.
fn lives(told: &Told, from: ReplicaId) -> [Incarnation; 3] {
    let mut members = told.epoch.members.iter();
    let own = members.find(|member| member.id == from);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ms = since.map_or(0, |since| since.as_millis());
    [
        own.map_or(Incarnation(0), |member| member.incarnation),
        Incarnation(now_ms << 64 | u128::from(fastrand::u64(..))),
        Incarnation(u128::MAX),
    ]
}

const PAUSE: Duration = Duration::from_millis(5);
