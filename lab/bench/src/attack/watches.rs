//! Watches on one stream, asked for as fast as they can be sent.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Target;
use super::session::Session;
use super::watch_stream::open;

/// Creates watches until there are as many as there are to be, and keeps them. Each must be acknowledged.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let mut session = Session::connect(&target.clients[0], WINDOW_BYTES).await?;
    let (mut asking, mut reading) = open(&mut session).await?;
    let began = Instant::now();
    let ask = async {
        for number in 0..WATCHES {
            asking
                .create(format!("watch/{number}").into(), Vec::new())
                .await?;
        }
        Ok::<_, String>(began.elapsed())
    };
    let read = async {
        for number in 0..WATCHES {
            let response = reading.next().await?;
            if !response.created || response.canceled {
                let why = response.cancel_reason;
                return Err(format!("watch {number} was refused: {why}"));
            }
        }
        Ok(began.elapsed())
    };
    let (sent, created) = timeout(PATIENCE, async { tokio::try_join!(ask, read) })
        .await
        .map_err(|_| format!("{WATCHES} watches were not created within {PATIENCE:?}"))??;
    target.until_over().await;
    match session.is_over() {
        true => Err("the server ended the connection".to_owned()),
        false => Ok(format!(
            "{WATCHES} watches sent in {:.1} s, created in {:.1} s",
            sent.as_secs_f64(),
            created.as_secs_f64()
        )),
    }
}

const WATCHES: usize = 100_000;
/// The client's own library is not to end the connection.
const WINDOW_BYTES: u32 = (1 << 31) - 1;
const PATIENCE: Duration = Duration::from_secs(120);
