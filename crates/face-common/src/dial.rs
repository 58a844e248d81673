//! Connections to members' ports for clients, encrypted where the URL says so.

use hyper_util::rt::TokioIo;
use quorate_server::Connection;
use quorate_tls::Connector;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

/// Connects channels of gRPC: to `http://` in plain text, to `https://` over TLS.
#[derive(Clone, Debug, Default)]
pub struct Dialer(Option<Arc<Connector>>);

impl Dialer {
    /// A dialer that speaks TLS by these certificates; without them it knows only `http://`.
    #[must_use]
    pub fn new(tls: Option<Arc<Connector>>) -> Dialer {
        Dialer(tls)
    }
}

type Dialling = Pin<Box<dyn Future<Output = io::Result<TokioIo<Connection>>> + Send>>;

impl Service<Uri> for Dialer {
    type Response = TokioIo<Connection>;
    type Error = io::Error;
    type Future = Dialling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Dialling {
        let tls = self.0.clone();
        Box::pin(async move { Ok(TokioIo::new(dial(&url, tls.as_deref()).await?)) })
    }
}

async fn dial(url: &Uri, tls: Option<&Connector>) -> io::Result<Connection> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{url}: {why}"));
    let host = url.host().ok_or_else(|| wrong("it names no host"))?;
    let port = url.port_u16().ok_or_else(|| wrong("it names no port"))?;
    // An address of IPv6 has brackets in a URL.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((bare, port)).await?;
    tcp.set_nodelay(true)?;
    match (url.scheme_str(), tls) {
        (Some("https"), Some(tls)) => Ok(tls.connect(tcp, host).await?),
        (Some("https"), None) => Err(wrong("it wants TLS, and no certificates are given")),
        _ => Ok(tcp.into()),
    }
}
