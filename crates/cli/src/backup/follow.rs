//! `quorate backup run`: from one replica to the next, for as long as it is to go on.

use super::full::Trouble;
use super::session::{Ended, Session};
use super::{RunOptions, now_ms};
use crate::Failure;
use crate::endpoints::{ANSWER_TIMEOUT, Asked};
use crate::etcd_client::{EtcdClient, Patience};
use quorate_backup::Folder;
use quorate_etcd_api::etcdserverpb::StatusRequest;
use quorate_face_etcd::client::MaintenanceClient;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long a replica may be silent before another one is asked.
const SILENCE: Duration = Duration::from_secs(5);
/// How long to wait before anything is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Goes on until it is told to stop.
pub(super) fn run(options: &RunOptions) -> Result<(), Failure> {
    let asked = options.endpoints.open()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| Failure::Failed(format!("cannot start the runtime: {error}")))?;
    runtime.block_on(async {
        let system = |error: std::io::Error| Failure::Failed(error.to_string());
        let mut terminate = signal(SignalKind::terminate()).map_err(system)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system)?;
        tokio::select! {
            ended = back_up(options, &asked) => ended,
            // What was synced is there; the rest is fetched again.
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

/// Backs up over one endpoint after the other.
async fn back_up(options: &RunOptions, asked: &Asked) -> Result<(), Failure> {
    let mut asked = asked.clone();
    let mut folder = None;
    let mut said = String::new();
    loop {
        let trouble = match one_session(options, &asked, &mut folder).await {
            Ok(Ended::Once) => return Ok(()),
            Ok(Ended::Compacted) => continue,
            Err(trouble) => trouble,
        };
        let why = match trouble {
            Trouble::Final(failure) => return Err(failure),
            Trouble::Replica(why) if options.once => return Err(Failure::Failed(why)),
            Trouble::Room(why) if options.once => return Err(Failure::Failed(why)),
            Trouble::Replica(why) => why,
            Trouble::Room(why) => format!("{why}: the backup stands still until there is room"),
        };
        // The same again and again is no news.
        if why != said {
            eprintln!("{}: {why}; trying again", crate::utc::format(now_ms()));
            said = why;
        }
        // The next time another one is asked first.
        asked.places.rotate_left(1);
        tokio::time::sleep(RETRY).await;
    }
}

/// Backs up for as long as a replica answers and there is room.
async fn one_session(
    options: &RunOptions,
    asked: &Asked,
    folder: &mut Option<(u64, Arc<Folder>)>,
) -> Result<Ended, Trouble> {
    let patience = Patience {
        answer: ANSWER_TIMEOUT,
        silence: Some(SILENCE),
    };
    let connected = EtcdClient::connect(asked, patience).await;
    let client = connected.map_err(|failure| match failure {
        Failure::Usage(why) | Failure::Failed(why) => Trouble::Replica(why),
    })?;
    let mut service = MaintenanceClient::new(client.channel.clone());
    let status = service.status(client.request(StatusRequest {})).await?;
    let header = status.into_inner().header.unwrap_or_default();
    let cluster = header.cluster_id;
    let opened = match folder {
        Some((known, opened)) if *known == cluster => Arc::clone(opened),
        Some((known, _)) => {
            return Err(Trouble::Final(Failure::Usage(format!(
                "{} is of the cluster {cluster:x}, and the other endpoints are of {known:x}",
                client.place
            ))));
        }
        None => {
            let begun = Folder::begin(&options.to, cluster);
            let begun = Arc::new(begun.map_err(|error| Trouble::Final(super::failed(error)))?);
            println!(
                "cluster {cluster:x}: backing up to {}",
                options.to.display()
            );
            *folder = Some((cluster, Arc::clone(&begun)));
            begun
        }
    };
    Session::new(options, client, opened).run().await
}
