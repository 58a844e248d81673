//! Responses that are already encoded.

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, message, skip_field};
use prost::{DecodeError, Message};
use quorate_etcd_api::etcdserverpb::ResponseHeader;

/// The response `M` on its way out.
///
/// The store encodes the response of a write once, when it is applied, and without the header: that
/// one names the answering member, and results are the same on every replica. In protobuf a
/// message's fields may be encoded one after the other, and the header is field 1 of every
/// response, so putting it in front makes the whole.
#[derive(Debug)]
pub(crate) enum Reply<M> {
    /// A header, and the rest of the message in encoded form.
    Encoded(ResponseHeader, Bytes),
    /// A response message of the service.
    Message(M),
}

const HEADER: u32 = 1;

impl<M: Message> Message for Reply<M> {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        match self {
            Reply::Encoded(header, rest) => {
                message::encode(HEADER, header, buf);
                buf.put_slice(rest);
            }
            Reply::Message(message) => message.encode_raw(buf),
        }
    }

    fn encoded_len(&self) -> usize {
        match self {
            Reply::Encoded(header, rest) => message::encoded_len(HEADER, header) + rest.len(),
            Reply::Message(message) => message.encoded_len(),
        }
    }

    /// A reply is only ever sent, so nothing is kept of what would be received.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, buf, ctx)
    }

    fn clear(&mut self) {
        *self = Reply::Encoded(ResponseHeader::default(), Bytes::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_etcd_api::etcdserverpb::DeleteRangeResponse;

    #[test]
    fn header_and_encoded_rest_make_the_whole_message() {
        let header = ResponseHeader {
            cluster_id: 1,
            member_id: 2,
            revision: 3,
            raft_term: 1,
        };
        let mut whole = DeleteRangeResponse {
            deleted: 300,
            ..DeleteRangeResponse::default()
        };
        let rest = Bytes::from(whole.encode_to_vec());
        whole.header = Some(header);
        let reply = Reply::<DeleteRangeResponse>::Encoded(header, rest);
        assert_eq!(reply.encode_to_vec(), whole.encode_to_vec());
        assert_eq!(reply.encoded_len(), whole.encoded_len());
    }
}
