//! The Redis face over what keeps its data.

use crate::{render, stop};
use quorate_face_redis::{FaceOptions, RedisApplication};
use quorate_redis_commands::Commands;
use quorate_redis_relay::{Prepared, PreparedFeed};
use quorate_server::{FaceContext, Serving};
use std::sync::Arc;

/// What runs a replica's real server.
pub enum RealServer {
    /// A server that executes for all, or follows who does.
    Effects(Box<Prepared>),
    /// A server that carries out every command of the log.
    Commands(Box<PreparedFeed>),
}

impl RealServer {
    /// The server's family and version, and its program, for people.
    #[must_use]
    pub fn program(&self) -> String {
        match self {
            RealServer::Effects(relay) => relay.server(),
            RealServer::Commands(feed) => feed.server(),
        }
    }
}

type Face = Box<dyn FnOnce(FaceContext<RedisApplication>) -> Serving>;

/// The application, and the face over it.
pub(crate) fn application(
    options: FaceOptions,
    server: Option<RealServer>,
    stopping: fn(),
) -> (RedisApplication, Face) {
    match server {
        None => {
            let store = quorate_redis_store::Store::with_subscribers(options.subscribers());
            let face = move |context| embedded(context, options, stopping);
            (RedisApplication::Embedded(store), Box::new(face))
        }
        Some(RealServer::Commands(feed)) => {
            let commands = Commands::new(Arc::clone(&feed.shared));
            let face = move |context| commands_of_log(context, *feed, options, stopping);
            (RedisApplication::Commands(commands), Box::new(face))
        }
        Some(RealServer::Effects(relay)) => {
            let stream = quorate_redis_effects::Stream::new(Arc::clone(&relay.shared));
            let face = move |context| effects(context, *relay, stopping);
            (RedisApplication::Effects(stream), Box::new(face))
        }
    }
}

/// The face over the embedded store.
fn embedded(
    context: FaceContext<RedisApplication>,
    options: FaceOptions,
    stopping: fn(),
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping, stopping));
    Box::pin(async move {
        let ports = context.listeners;
        quorate_face_redis::serve(ports, context.handle, options, Some(render), stop).await;
        Ok(())
    })
}

/// The face over a real server whose effects are ordered.
fn effects(context: FaceContext<RedisApplication>, relay: Prepared, stopping: fn()) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping, stopping));
    let (ports, tunnels) = (context.listeners, context.tunnels);
    Box::pin(async move {
        let render = Some(render);
        quorate_face_redis::serve_effects(ports, context.handle, relay, tunnels, render, stop).await
    })
}

/// The face over a server that carries out every command of the log.
fn commands_of_log(
    context: FaceContext<RedisApplication>,
    feed: PreparedFeed,
    options: FaceOptions,
    stopping: fn(),
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping, stopping));
    Box::pin(async move {
        let (ports, render) = (context.listeners, Some(render));
        quorate_face_redis::serve_fed(ports, context.handle, feed, options, render, stop).await
    })
}
