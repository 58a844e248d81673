//! A gateway in a process of its own.

use crate::{Turns, render, stop};
use quorate_core::Epoch;
use quorate_server::{GatewayContext, GatewayOptions, ReadyGateway, ServerError, Serving};
use std::net::TcpListener;
use std::sync::Arc;

/// A face that has gateways, with its options.
pub enum GatewayFace {
    /// The etcd v3 services.
    Etcd(Box<quorate_face_etcd::Limits>),
    /// The plain store over HTTP.
    Plain(quorate_face_plain::Limits),
}

/// Says which face a cluster has, by its epoch.
pub type FaceOf = Box<dyn FnOnce(&Epoch) -> Result<GatewayFace, ServerError>>;

/// Runs a gateway until it is told to stop. Which face it has is asked once the cluster has answered.
///
/// # Errors
///
/// What [`quorate_server::run_gateway`] or `face_of` fails with.
pub fn run_gateway(
    options: GatewayOptions,
    port: TcpListener,
    face_of: FaceOf,
    turns: Turns,
) -> Result<(), ServerError> {
    let stopping = turns.stopping;
    let serve = async move |gateway: ReadyGateway| match face_of(gateway.epoch())? {
        GatewayFace::Etcd(limits) => {
            let face = |it| etcd(it, *limits, stopping);
            gateway
                .serve(quorate_etcd_store::Store::COMMAND_PROPERTIES, face)
                .await
        }
        GatewayFace::Plain(limits) => {
            let face = |it| plain(it, limits, stopping);
            gateway
                .serve(quorate_plain_store::Store::COMMAND_PROPERTIES, face)
                .await
        }
    };
    quorate_server::run_gateway(options, port, serve, turns.ready)
}

/// The etcd face.
fn etcd(
    context: GatewayContext<quorate_etcd_store::Store>,
    limits: quorate_face_etcd::Limits,
    stopping: fn(),
) -> Serving {
    let page = render(Arc::clone(&context.metrics));
    let stop = stop(context.stopping.clone(), stopping);
    Box::pin(async move {
        quorate_face_etcd::serve_gateway(context, limits, page, stop).await;
        Ok(())
    })
}

/// The plain face.
fn plain(
    context: GatewayContext<quorate_plain_store::Store>,
    limits: quorate_face_plain::Limits,
    stopping: fn(),
) -> Serving {
    let page = render(Arc::clone(&context.metrics));
    let stop = stop(context.stopping.clone(), stopping);
    Box::pin(async move {
        quorate_face_plain::serve_gateway(context, limits, page, stop).await;
        Ok(())
    })
}
