//! How requests are decoded.

use crate::face::refused;
use crate::reply::Reply;
use bytes::{Buf, Bytes};
use prost::Message;
use quorate_etcd_api::etcdserverpb::{TxnRequest, TxnResponse};
use quorate_etcd_api::has_too_many_parts;
use quorate_etcd_store::Refused;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// Decodes a message.
pub(crate) fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| Status::internal(format!("not the message expected: {error}")))
}

/// Decodes a transaction, unless that would take far more memory than its bytes.
pub(crate) fn decode_txn(bytes: Bytes) -> Result<TxnRequest, Status> {
    if has_too_many_parts(&bytes) {
        return Err(refused(Refused::TooManyOps));
    }
    decode(bytes)
}

/// The codec of the method `Txn`.
#[derive(Debug, Default)]
pub(crate) struct TxnCodec {
    decoder: TxnDecoder,
}

impl Codec for TxnCodec {
    type Encode = Reply<TxnResponse>;
    type Decode = TxnRequest;
    type Encoder = ProstEncoder<Reply<TxnResponse>>;
    type Decoder = TxnDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> TxnDecoder {
        self.decoder
    }
}

/// [`decode_txn`] for what comes by the routes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxnDecoder;

impl Decoder for TxnDecoder {
    type Item = TxnRequest;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<TxnRequest>, Status> {
        let bytes = buf.copy_to_bytes(buf.remaining());
        decode_txn(bytes).map(Some)
    }
}
