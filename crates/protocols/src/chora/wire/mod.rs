//! The encoding of messages and records.

mod parts;

use super::log::Position;
use super::messages::{Logged, Message, PreVc, Pulse, Reason, Record};
use crate::shared::lives::{Life, Lives};
use crate::shared::question::QuestionName;
use crate::shared::rejoin::RejoinAnswer;
use parts::{flag, slot, view};
use quorate_core::{Boot, Decoder, Encoder, Entry, MemberIndex, Wire, WireError};

impl Wire for Reason {
    fn encode(&self, out: &mut Encoder) {
        out.u8(match self {
            Reason::Stalled => 0,
            Reason::Restarted => 1,
            Reason::Planned => 2,
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(Reason::Stalled),
            1 => Ok(Reason::Restarted),
            2 => Ok(Reason::Planned),
            tag => Err(WireError::Tag("reason", tag)),
        }
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Pulse(pulse) => {
                out.u8(0);
                pulse.encode(out);
            }
            Message::Forward { entry } => {
                out.u8(1);
                entry.encode(out);
            }
            Message::PreVc(question) => {
                out.u8(2);
                out.u64(question.boot.0);
                out.varint(question.campaign);
                question.position.encode(out);
                question.next.encode(out);
                question.reason.encode(out);
            }
            Message::PreVcOk {
                boot,
                campaign,
                view,
            } => {
                out.u8(3);
                out.u64(boot.0);
                out.varint(*campaign);
                out.varint(*view);
            }
            Message::Vcr {
                view,
                position,
                only,
            } => {
                out.u8(4);
                out.varint(*view);
                position.encode(out);
                out.u8(u8::from(only.is_some()));
                if let Some(only) = only {
                    only.encode(out);
                }
            }
            Message::Vote { view, lives } => {
                out.u8(5);
                out.varint(*view);
                lives.encode(out);
            }
            Message::ReadQ(query) => {
                out.u8(6);
                query.encode(out);
            }
            Message::ReadA { query, end } => {
                out.u8(7);
                query.encode(out);
                end.encode(out);
            }
            Message::Rejoin { life, next } => {
                out.u8(8);
                life.encode(out);
                next.encode(out);
            }
            Message::RejoinA(answer) => {
                out.u8(9);
                out.u64(answer.boot.0);
                out.varint(answer.floor);
                answer.end.encode(out);
                answer.lives.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Pulse(Box::new(Pulse::decode(input)?)),
            1 => Message::Forward {
                entry: Entry::decode(input)?,
            },
            2 => Message::PreVc(PreVc {
                boot: Boot(input.u64()?),
                campaign: input.varint()?,
                position: Position::decode(input)?,
                next: slot(input)?,
                reason: Reason::decode(input)?,
            }),
            3 => Message::PreVcOk {
                boot: Boot(input.u64()?),
                campaign: input.varint()?,
                view: view(input)?,
            },
            4 => Message::Vcr {
                view: view(input)?,
                position: Position::decode(input)?,
                only: match flag(input)? {
                    true => Some(MemberIndex::decode(input)?),
                    false => None,
                },
            },
            5 => Message::Vote {
                view: view(input)?,
                lives: Lives::decode(input)?,
            },
            6 => Message::ReadQ(QuestionName::decode(input)?),
            7 => Message::ReadA {
                query: QuestionName::decode(input)?,
                end: slot(input)?,
            },
            8 => Message::Rejoin {
                life: Life::decode(input)?,
                next: slot(input)?,
            },
            9 => Message::RejoinA(RejoinAnswer {
                boot: Boot(input.u64()?),
                floor: view(input)?,
                end: slot(input)?,
                lives: Lives::decode(input)?,
            }),
            tag => return Err(WireError::Tag("chora message", tag)),
        })
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::View { view, voted: None } => {
                out.u8(0);
                out.varint(*view);
            }
            Record::View {
                view,
                voted: Some(member),
            } => {
                out.u8(1);
                out.varint(*view);
                member.encode(out);
            }
            Record::Append(logged) => {
                out.u8(2);
                logged.encode(out);
            }
            Record::Lives {
                lives,
                is_member,
                mute,
            } => {
                out.u8(if *is_member { 3 } else { 4 });
                lives.encode(out);
                out.u8(u8::from(mute.is_some()));
                if let Some(view) = mute {
                    out.varint(*view);
                }
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Record::View {
                view: view(input)?,
                voted: None,
            },
            1 => Record::View {
                view: view(input)?,
                voted: Some(MemberIndex::decode(input)?),
            },
            2 => Record::Append(Logged::decode(input)?),
            tag @ (3 | 4) => Record::Lives {
                lives: Lives::decode(input)?,
                is_member: tag == 3,
                mute: match flag(input)? {
                    true => Some(view(input)?),
                    false => None,
                },
            },
            tag => return Err(WireError::Tag("chora record", tag)),
        })
    }
}
