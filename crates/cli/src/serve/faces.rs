//! The faces of a replica, each over its store.

use super::{render, stop};
use quorate_server::{FaceContext, Serving};

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
pub(super) fn redis(
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
