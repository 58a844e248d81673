//! The encoding of messages and records.

use super::life::Life;
use super::messages::{Manifest, Message, Record, SegAck, Spread, Undecided};
use crate::rabia::weak_mvc;
use crate::shared::decided::{decode_ids, encode_ids};
use crate::shared::lives::{self, Lives};
use quorate_core::{Decoder, Encoder, Entry, EntryId, MemberIndex, Slot, Wire, WireError};

impl Wire for Manifest {
    fn encode(&self, out: &mut Encoder) {
        self.entry.encode(out);
        out.u8(self.code);
        self.life.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let entry = Entry::decode(input)?;
        let code = input.u8()?;
        if code == 0 {
            return Err(WireError::Range("code"));
        }
        let life = Life::decode(input)?;
        Ok(Manifest { entry, code, life })
    }
}

fn decode_flag(input: &mut Decoder, what: &'static str) -> Result<bool, WireError> {
    match input.u8()? {
        flag @ 0..=1 => Ok(flag == 1),
        flag => Err(WireError::Tag(what, flag)),
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Mvc(message) => {
                out.u8(0);
                message.encode(out);
            }
            Message::Spread(Spread {
                manifest,
                round,
                is_attached,
            }) => {
                out.u8(if *is_attached { 1 } else { 2 });
                manifest.encode(out);
                out.varint(*round);
            }
            Message::SegAck(SegAck {
                id,
                code,
                life,
                round,
                is_here,
                losses,
            }) => {
                out.u8(if *is_here { 3 } else { 4 });
                id.encode(out);
                out.u8(*code);
                life.encode(out);
                out.varint(*round);
                losses.encode(out);
            }
            Message::Roster { life, next, open } => {
                out.u8(5);
                life.encode(out);
                next.encode(out);
                encode_ids(open, out);
            }
            Message::RosterAck { life } => {
                out.u8(6);
                life.encode(out);
            }
            Message::Lost { loss, number } => {
                out.u8(7);
                loss.encode(out);
                out.varint(*number);
            }
            Message::Undecided(Undecided {
                losses,
                number,
                count,
                next,
                manifest,
            }) => {
                out.u8(8);
                losses.encode(out);
                out.varint(*number);
                out.varint(*count);
                next.encode(out);
                manifest.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Mvc(weak_mvc::Message::decode(input)?),
            tag @ 1..=2 => Message::Spread(Spread {
                manifest: Manifest::decode(input)?,
                round: input.varint()?,
                is_attached: tag == 1,
            }),
            tag @ 3..=4 => Message::SegAck(SegAck {
                id: EntryId::decode(input)?,
                code: input.u8()?,
                life: Life::decode(input)?,
                round: input.varint()?,
                is_here: tag == 3,
                losses: Lives::decode(input)?,
            }),
            5 => Message::Roster {
                life: Life::decode(input)?,
                next: Slot::decode(input)?,
                open: decode_ids(input)?,
            },
            6 => Message::RosterAck {
                life: Life::decode(input)?,
            },
            7 => Message::Lost {
                loss: lives::Life::decode(input)?,
                number: input.varint()?,
            },
            8 => Message::Undecided(Undecided {
                losses: Lives::decode(input)?,
                number: input.varint()?,
                count: input.varint()?,
                next: Slot::decode(input)?,
                manifest: Option::decode(input)?,
            }),
            tag => return Err(WireError::Tag("racos message", tag)),
        })
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Mvc(record) => {
                out.u8(0);
                record.encode(out);
            }
            Record::Manifest {
                manifest,
                is_held,
                is_candidate,
            } => {
                out.u8(1);
                out.u8(u8::from(*is_held));
                out.u8(u8::from(*is_candidate));
                manifest.encode(out);
            }
            Record::Life { life } => {
                out.u8(2);
                life.encode(out);
            }
            Record::Roster {
                member,
                life,
                next,
                open,
            } => {
                out.u8(3);
                member.encode(out);
                life.encode(out);
                next.encode(out);
                encode_ids(open, out);
            }
            Record::Loss { member, loss } => {
                out.u8(4);
                member.encode(out);
                loss.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Record::Mvc(weak_mvc::Record::decode(input)?),
            1 => {
                let is_held = decode_flag(input, "whether a segment is held")?;
                let is_candidate = decode_flag(input, "candidate bit")?;
                Record::Manifest {
                    manifest: Manifest::decode(input)?,
                    is_held,
                    is_candidate,
                }
            }
            2 => Record::Life {
                life: Life::decode(input)?,
            },
            3 => Record::Roster {
                member: MemberIndex::decode(input)?,
                life: Life::decode(input)?,
                next: Slot::decode(input)?,
                open: decode_ids(input)?,
            },
            4 => Record::Loss {
                member: MemberIndex::decode(input)?,
                loss: lives::Life::decode(input)?,
            },
            tag => return Err(WireError::Tag("racos record", tag)),
        })
    }
}
