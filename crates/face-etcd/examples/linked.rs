//! A program that writes to a cluster as its own gateway: it stamps its requests, sends them to all members
//! and counts their replies, with no server in between.
//!
//! ```text
//! quorate up --protocol nezha
//! cargo run -p quorate-face-etcd --example linked -- 127.0.0.1:2380
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "a program outside the rings, which measures real time"
)]

use quorate_core::{Epoch, Principal};
use quorate_etcd_api::etcdserverpb::PutRequest;
use quorate_etcd_store::{Store, decode_result};
use quorate_server::{GatewayOptions, reach};
use std::error::Error;
use std::time::Instant;

const WRITES: u32 = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let members: Vec<String> = std::env::args().skip(1).collect();
    if members.is_empty() {
        return Err("give the peer address of a member, as in 127.0.0.1:2380".into());
    }
    let cluster = reach(GatewayOptions::to(members)).await?;
    if cluster.epoch().params.contains_key(Epoch::FACE) {
        return Err("the cluster does not keep what etcd's clients write".into());
    }
    let gateway = cluster.link::<Store>(Store::COMMAND_PROPERTIES);
    if !gateway.upstream.borrow().orders {
        return Err(
            "the cluster's protocol has no gateways: begin one with --protocol nezha".into(),
        );
    }
    let mut took = Vec::new();
    for number in 0..WRITES {
        let put = Store::encode_put(&PutRequest {
            key: format!("linked/{number}").into(),
            value: "written by its own gateway".into(),
            ..PutRequest::default()
        });
        let began = Instant::now();
        let written = gateway.handle.write(put, Principal::default()).await;
        let result = written.map_err(|failure| failure.to_string())?;
        took.push(began.elapsed());
        decode_result(&result).map_err(|refused| refused.error().text)?;
    }
    took.sort_unstable();
    let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{WRITES} puts, one after the other: median {median:?}, at most {most:?}");
    gateway.unlink().await?;
    Ok(())
}
