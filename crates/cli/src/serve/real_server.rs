//! The real server of a replica, if one keeps the data.

use super::random_u64;
use super::settings::Settings;
use crate::Failure;
use crate::face::{FaceName, RedisStore};
use quorate_redis_relay::{prepare, prepare_feed};
use quorate_replica::RealServer;
use quorate_server::Folder;

/// What keeps the data of a cluster, and what runs a real server if one does.
pub(super) fn store_of(
    settings: &Settings,
    folder: &Folder,
    face: FaceName,
    client_connections: usize,
) -> Result<(Option<RedisStore>, Option<RealServer>), Failure> {
    let store = face.store(&folder.meta().epoch.params);
    let store = store.map_err(Failure::Failed)?;
    let checked = settings.redis.check_store(store, folder.dir());
    checked.map_err(Failure::Usage)?;
    let server = store.filter(|store| store.has_servers());
    let server = server.map(|store| real_server(settings, store, client_connections));
    Ok((store, server.transpose()?))
}

/// What runs a real server.
fn real_server(
    settings: &Settings,
    store: RedisStore,
    client_connections: usize,
) -> Result<RealServer, Failure> {
    let unfit = |why: String| {
        let name = store.name();
        Failure::Failed(format!(
            "the data of this cluster is in real servers (redis = {name}): {why}"
        ))
    };
    let (redis, boot) = (settings.redis.clone(), random_u64()?);
    let folder = settings.data_dir.join("redis");
    let prepared = match store {
        RedisStore::Commands => {
            let options = redis.feed(boot, settings.client_memory).map_err(unfit)?;
            prepare_feed(options, &folder).map(|feed| RealServer::Commands(Box::new(feed)))
        }
        _ => {
            let options = redis.relay(settings.id, boot, client_connections);
            prepare(options.map_err(unfit)?, &folder)
                .map(|relay| RealServer::Effects(Box::new(relay)))
        }
    };
    prepared.map_err(|error| Failure::Failed(error.to_string()))
}
