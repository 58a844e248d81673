//! The encoding of messages.

use super::{
    BODY_BYTES_MIN, ID_BYTES_MIN, counted, counts, list, listed, slot, view, wide, widened,
};
use crate::nezha::messages::{Body, FastReply, LogMod, Message, StartView, Vc};
use crate::shared::question::QuestionName;
use quorate_core::{Decoder, Encoder, EntryId, Wire, WireError};

impl Message {
    /// The first byte of its encoding.
    fn tag(&self) -> u8 {
        match self {
            Message::Request { .. } => 0,
            Message::FastReply(_) => 1,
            Message::Synced { .. } => 2,
            Message::LogMod(_) => 3,
            Message::Fetch { wants_sums, .. } => 4 + u8::from(*wants_sums),
            Message::FetchBodies { .. } => 6,
            Message::Bodies { .. } => 7,
            Message::VcReq { .. } => 8,
            Message::Vc(_) => 9,
            Message::StartView(_) => 10,
            Message::ReadQ { .. } => 11,
            Message::ReadA { .. } => 12,
            Message::CvReq { .. } => 13,
            Message::CvRep { .. } => 14,
            Message::RecReq { .. } => 15,
            Message::RecRep { .. } => 16,
            Message::StateReq { .. } => 17,
        }
    }

    /// Decodes a message of a replica that comes back.
    fn decode_recovery(tag: u8, input: &mut Decoder) -> Result<Self, WireError> {
        let nonce = input.u64()?;
        Ok(match tag {
            13 => Message::CvReq { nonce },
            14 => Message::CvRep {
                nonce,
                cv: counted(input)?,
            },
            15 => Message::RecReq {
                nonce,
                cv: counted(input)?,
            },
            16 => Message::RecRep {
                nonce,
                view: view(input)?,
                cv: counted(input)?,
            },
            _ => Message::StateReq {
                nonce,
                view: view(input)?,
                cv: counted(input)?,
            },
        })
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        out.u8(self.tag());
        match self {
            Message::Request {
                body,
                sent,
                deadline,
            } => {
                body.encode(out);
                out.u64(*sent);
                out.u64(*deadline);
            }
            Message::FastReply(reply) => {
                out.varint(reply.view);
                reply.id.encode(out);
                wide(reply.digest, out);
                out.varint(reply.owd);
                reply.outcome.encode(out);
            }
            Message::Synced { view, upto, owd } => {
                out.varint(*view);
                upto.encode(out);
                out.varint(*owd);
            }
            Message::LogMod(log_mod) => log_mod.encode(out),
            Message::Fetch { view, from, .. } => {
                out.varint(*view);
                from.encode(out);
            }
            Message::FetchBodies { ids } => list(ids, out),
            Message::Bodies { bodies } => list(bodies, out),
            Message::VcReq { view, cv } => {
                out.varint(*view);
                counts(cv, out);
            }
            Message::Vc(vc) => vc.encode(out),
            Message::StartView(start) => start.encode(out),
            Message::ReadQ(query) => query.encode(out),
            Message::ReadA { query, view, end } => {
                query.encode(out);
                out.varint(*view);
                end.encode(out);
            }
            Message::CvReq { nonce } => out.u64(*nonce),
            Message::CvRep { nonce, cv } | Message::RecReq { nonce, cv } => {
                out.u64(*nonce);
                counts(cv, out);
            }
            Message::RecRep { nonce, view, cv } | Message::StateReq { nonce, view, cv } => {
                out.u64(*nonce);
                out.varint(*view);
                counts(cv, out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Request {
                body: Body::decode(input)?,
                sent: input.u64()?,
                deadline: input.u64()?,
            },
            1 => Message::FastReply(FastReply {
                view: view(input)?,
                id: EntryId::decode(input)?,
                digest: widened(input)?,
                owd: input.varint()?,
                outcome: Option::decode(input)?,
            }),
            2 => Message::Synced {
                view: view(input)?,
                upto: slot(input)?,
                owd: input.varint()?,
            },
            3 => Message::LogMod(LogMod::decode(input)?),
            tag @ (4 | 5) => Message::Fetch {
                view: view(input)?,
                from: slot(input)?,
                wants_sums: tag == 5,
            },
            6 => Message::FetchBodies {
                ids: listed(input, ID_BYTES_MIN)?,
            },
            7 => Message::Bodies {
                bodies: listed(input, BODY_BYTES_MIN)?,
            },
            8 => Message::VcReq {
                view: view(input)?,
                cv: counted(input)?,
            },
            9 => Message::Vc(Vc::decode(input)?),
            10 => Message::StartView(StartView::decode(input)?),
            11 => Message::ReadQ(QuestionName::decode(input)?),
            12 => Message::ReadA {
                query: QuestionName::decode(input)?,
                view: view(input)?,
                end: Option::decode(input)?,
            },
            tag @ 13..=17 => Message::decode_recovery(tag, input)?,
            tag => return Err(WireError::Tag("nezha message", tag)),
        })
    }
}
