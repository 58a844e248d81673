//! The encoding of messages.

use super::{
    BODY_BYTES_MIN, ID_BYTES_MIN, counted, counts, list, listed, slot, view, wide, widened,
};
use crate::nezha::messages::{Body, FastReply, LogMod, Message, StartView, Vc};
use quorate_core::{Boot, Decoder, Encoder, EntryId, Wire, WireError};

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Request {
                body,
                sent,
                deadline,
            } => {
                out.u8(0);
                body.encode(out);
                out.u64(*sent);
                out.u64(*deadline);
            }
            Message::FastReply(reply) => {
                out.u8(1);
                out.varint(reply.view);
                reply.id.encode(out);
                wide(reply.digest, out);
                out.varint(reply.owd);
                reply.outcome.encode(out);
            }
            Message::Synced { view, upto, owd } => {
                out.u8(2);
                out.varint(*view);
                upto.encode(out);
                out.varint(*owd);
            }
            Message::LogMod(log_mod) => {
                out.u8(3);
                log_mod.encode(out);
            }
            Message::Fetch {
                view,
                from,
                wants_sums,
            } => {
                out.u8(if *wants_sums { 5 } else { 4 });
                out.varint(*view);
                from.encode(out);
            }
            Message::FetchBodies { ids } => {
                out.u8(6);
                list(ids, out);
            }
            Message::Bodies { bodies } => {
                out.u8(7);
                list(bodies, out);
            }
            Message::VcReq { view, cv } => {
                out.u8(8);
                out.varint(*view);
                counts(cv, out);
            }
            Message::Vc(vc) => {
                out.u8(9);
                vc.encode(out);
            }
            Message::StartView(start) => {
                out.u8(10);
                start.encode(out);
            }
            Message::ReadQ { boot, number } => {
                out.u8(11);
                out.u64(boot.0);
                out.varint(*number);
            }
            Message::ReadA {
                boot,
                number,
                view,
                end,
            } => {
                out.u8(12);
                out.u64(boot.0);
                out.varint(*number);
                out.varint(*view);
                end.encode(out);
            }
            Message::CvReq { nonce } => {
                out.u8(13);
                out.u64(*nonce);
            }
            Message::CvRep { nonce, cv } => {
                out.u8(14);
                out.u64(*nonce);
                counts(cv, out);
            }
            Message::RecReq { nonce, cv } => {
                out.u8(15);
                out.u64(*nonce);
                counts(cv, out);
            }
            Message::RecRep { nonce, view, cv } => {
                out.u8(16);
                out.u64(*nonce);
                out.varint(*view);
                counts(cv, out);
            }
            Message::StateReq { nonce, view, cv } => {
                out.u8(17);
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
            11 => Message::ReadQ {
                boot: Boot(input.u64()?),
                number: input.varint()?,
            },
            12 => Message::ReadA {
                boot: Boot(input.u64()?),
                number: input.varint()?,
                view: view(input)?,
                end: Option::decode(input)?,
            },
            13 => Message::CvReq {
                nonce: input.u64()?,
            },
            14 => Message::CvRep {
                nonce: input.u64()?,
                cv: counted(input)?,
            },
            15 => Message::RecReq {
                nonce: input.u64()?,
                cv: counted(input)?,
            },
            16 => Message::RecRep {
                nonce: input.u64()?,
                view: view(input)?,
                cv: counted(input)?,
            },
            17 => Message::StateReq {
                nonce: input.u64()?,
                view: view(input)?,
                cv: counted(input)?,
            },
            tag => return Err(WireError::Tag("nezha message", tag)),
        })
    }
}
