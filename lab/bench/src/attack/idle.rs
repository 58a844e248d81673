//! Connections that are opened and do nothing.

use tokio::time::Instant;

use super::{Target, wire};

/// Opens connections to each replica, all that were asked for, and keeps them to the end. Every other one has said
/// that it speaks HTTP/2, as a client does that waits for work; the others say nothing at all.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let mut connections = Vec::new();
    let mut refused = 0;
    for number in 0..target.connections {
        for authority in &target.clients {
            if Instant::now() >= target.over {
                break;
            }
            let bytes = if number % 2 == 0 { wire::PREFACE } else { &[] };
            match wire::connect(authority, bytes).await {
                Ok(connection) => connections.push(connection),
                Err(_) => refused += 1,
            }
        }
    }
    target.until_over().await;
    let opened = connections.len();
    let closed = connections
        .iter()
        .filter(|one| wire::is_closed(one))
        .count();
    Ok(format!(
        "{opened} opened, {refused} not, {closed} closed by replicas"
    ))
}
