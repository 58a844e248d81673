//! A stream of watches whose client decides when it reads.

use std::future::poll_fn;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use prost::Message;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};

use super::session::{Session, Told, framed, told};

/// The client's side that asks.
pub(super) struct Asking(SendStream<Bytes>);

/// The client's side that reads.
pub(super) struct Reading {
    answer: Option<ResponseFuture>,
    body: Option<RecvStream>,
    received: BytesMut,
}

/// Opens a stream without watches.
pub(super) async fn open(session: &mut Session) -> Result<(Asking, Reading), String> {
    let (answer, body) = session.call("Watch/Watch").await?;
    let reading = Reading {
        answer: Some(answer),
        body: None,
        received: BytesMut::new(),
    };
    Ok((Asking(body), reading))
}

impl Asking {
    /// Sends a request for a watch in a frame of its own, as soon as the server allows so many bytes.
    pub(super) async fn create(&mut self, key: Vec<u8>, range_end: Vec<u8>) -> Result<(), String> {
        let create = WatchCreateRequest {
            key: key.into(),
            range_end: range_end.into(),
            ..WatchCreateRequest::default()
        };
        let request = framed(&WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        });
        self.0.reserve_capacity(request.len());
        while self.0.capacity() < request.len() {
            let capacity = poll_fn(|context| self.0.poll_capacity(context)).await;
            capacity.ok_or("the stream has ended")?.map_err(text)?;
        }
        self.0.send_data(request, false).map_err(text)
    }
}

impl Reading {
    /// The next response.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, String> {
        loop {
            if let Some(message) = self.take()? {
                return WatchResponse::decode(message).map_err(|error| error.to_string());
            }
            if let Some(answer) = self.answer.take() {
                self.body = match told(answer).await? {
                    Told::Answer { body } => Some(body),
                    Told::Exhausted => return Err("the server has no memory for it".to_owned()),
                };
            }
            let body = self.body.as_mut().ok_or("the stream was refused")?;
            let data = match body.data().await {
                Some(data) => data.map_err(text)?,
                None => return Err(ended(body.trailers().await.map_err(text)?)),
            };
            // A stream that has ended needs no window.
            let _ = body.flow_control().release_capacity(data.len());
            self.received.extend_from_slice(&data);
        }
    }

    /// A message that came whole.
    fn take(&mut self) -> Result<Option<Bytes>, String> {
        let Some((&[compressed, a, b, c, d], _)) = self.received.split_first_chunk() else {
            return Ok(None);
        };
        if compressed != 0 {
            return Err("a compressed message".to_owned());
        }
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if self.received.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.received.advance(PREFIX_BYTES);
        Ok(Some(self.received.split_to(length).freeze()))
    }
}

fn ended(trailers: Option<http::HeaderMap>) -> String {
    let trailers = trailers.unwrap_or_default();
    let [code, text] = ["grpc-status", "grpc-message"].map(|name| {
        trailers
            .get(name)
            .map_or("none", |value| value.to_str().unwrap_or("unreadable"))
    });
    format!("a stream of watches ended: status {code}, {text}")
}

fn text(error: h2::Error) -> String {
    format!("HTTP/2: {error}")
}

/// In front of every message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
