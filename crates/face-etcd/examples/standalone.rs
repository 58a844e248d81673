//! The face in front of a store without replicas or a log, to drive by hand:
//! `cargo run -p quorate-face-etcd --example standalone -- 127.0.0.1:2379`

#[path = "../tests/face/backend/mod.rs"]
mod backend;

use quorate_face_etcd::{Limits, serve};
use quorate_server::{Door, Listener};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let address = address.unwrap_or_else(|| "127.0.0.1:2379".to_owned());
    let listener = Listener::new(quorate_server::bind(&address)?, Door::Client)?;
    println!(
        "ready to serve client requests on {}",
        listener.local_addr()?
    );
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(listener, backend::start(), Limits::default(), None, stop).await;
    Ok(())
}
