//! The faces of a replica, each over its store.

use super::real_server::RealServer;
use super::{render, stop};
use quorate_face_redis::RedisApplication;
use quorate_redis_commands::Commands;
use quorate_redis_relay::PreparedFeed;
use quorate_server::{ClientPorts, FaceContext, ServerConfig, ServerError, Serving, StopSignal};
use std::sync::Arc;

/// The etcd face.
pub(super) fn etcd(
    context: FaceContext<quorate_etcd_store::Store>,
    limits: quorate_face_etcd::Limits,
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping));
    Box::pin(async move {
        let ports = context.listeners;
        quorate_face_etcd::serve(ports, context.handle, limits, Some(render), stop).await;
        Ok(())
    })
}

/// The plain face.
pub(super) fn plain(
    context: FaceContext<quorate_plain_store::Store>,
    limits: quorate_face_plain::Limits,
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping));
    Box::pin(async move {
        let ports = context.listeners;
        quorate_face_plain::serve(ports, context.handle, limits, Some(render), stop).await;
        Ok(())
    })
}

/// The Redis face.
fn redis(
    context: FaceContext<quorate_face_redis::RedisApplication>,
    options: quorate_face_redis::FaceOptions,
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping));
    Box::pin(async move {
        let ports = context.listeners;
        quorate_face_redis::serve(ports, context.handle, options, Some(render), stop).await;
        Ok(())
    })
}

/// The Redis face over a real server.
fn redis_effects(
    context: FaceContext<quorate_face_redis::RedisApplication>,
    relay: quorate_redis_relay::Prepared,
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping));
    Box::pin(async move {
        quorate_face_redis::serve_effects(
            context.listeners,
            context.handle,
            relay,
            context.tunnels,
            Some(render),
            stop,
        )
        .await
    })
}

/// The Redis face over a server that carries out every command of the log.
fn redis_commands(
    context: FaceContext<quorate_face_redis::RedisApplication>,
    feed: PreparedFeed,
    options: quorate_face_redis::FaceOptions,
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping));
    Box::pin(async move {
        let ports = context.listeners;
        quorate_face_redis::serve_fed(ports, context.handle, feed, options, Some(render), stop)
            .await
    })
}

/// Runs a replica with the Redis face: over a real server if there is one, over the own store otherwise.
pub(super) fn run_redis(
    config: ServerConfig,
    ports: ClientPorts,
    (server, options): (Option<RealServer>, quorate_face_redis::FaceOptions),
    ready: impl FnOnce(),
) -> Result<Option<StopSignal>, ServerError> {
    type Face = Box<dyn FnOnce(FaceContext<RedisApplication>) -> Serving>;
    let (application, face): (RedisApplication, Face) = match server {
        None => {
            let store = quorate_redis_store::Store::with_subscribers(options.subscribers());
            let face = move |context| redis(context, options);
            (RedisApplication::Embedded(store), Box::new(face))
        }
        Some(RealServer::Commands(feed)) => {
            let commands = Commands::new(Arc::clone(&feed.shared));
            let face = move |context| redis_commands(context, *feed, options);
            (RedisApplication::Commands(commands), Box::new(face))
        }
        Some(RealServer::Effects(relay)) => {
            let stream = quorate_redis_effects::Stream::new(Arc::clone(&relay.shared));
            let face = move |context| redis_effects(context, *relay);
            (RedisApplication::Effects(stream), Box::new(face))
        }
    };
    quorate_server::run(config, ports, application, face, ready)
}
