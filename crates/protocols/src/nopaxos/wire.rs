//! The encoding of messages and records.

use super::config::SLOTS_MAX;
use super::messages::{Message, Record, Reply, StartView, Sync, Value, View, ViewChange};
use crate::shared::question::QuestionName;
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Entry, EntryId, Slot, Wire, WireError};

/// No honest replica gets so far in leaders, sessions or stamps.
const NUMBER_MAX: u64 = 1 << 48;
/// Commands in one entry, at most, of which results are told.
const RESULTS_MAX: usize = 1 << 20;

fn number(input: &mut Decoder) -> Result<u64, WireError> {
    let number = input.varint()?;
    (number < NUMBER_MAX)
        .then_some(number)
        .ok_or(WireError::Range("number of a view or stamp"))
}

/// Writes how many there are, and each of them.
fn put_list<T>(list: &[T], put: impl Fn(&T, &mut Encoder), out: &mut Encoder) {
    out.varint(list.len() as u64);
    for item in list {
        put(item, out);
    }
}

/// Reads what [`put_list`] wrote, of so many items at most.
fn take_list<T>(
    input: &mut Decoder,
    most: usize,
    take: fn(&mut Decoder) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let len = input.count(1)?;
    if len > most {
        return Err(WireError::Range("length of a list"));
    }
    // It grows with what is read: a length alone takes no memory.
    let mut list = Vec::new();
    for _ in 0..len {
        list.push(take(input)?);
    }
    Ok(list)
}

fn put_bytes(bytes: &Bytes, out: &mut Encoder) {
    out.bytes(bytes);
}

impl Wire for View {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.lead);
        out.varint(self.session);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (lead, session) = (number(input)?, number(input)?);
        Ok(View { lead, session })
    }
}

impl Wire for Reply {
    fn encode(&self, out: &mut Encoder) {
        self.view.encode(out);
        self.slot.encode(out);
        self.id.encode(out);
        out.u8(u8::from(self.results.is_some()));
        if let Some(results) = &self.results {
            put_list(results, put_bytes, out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (view, slot, id) = (
            View::decode(input)?,
            Slot::decode(input)?,
            EntryId::decode(input)?,
        );
        let results = match input.u8()? {
            0 => None,
            1 => Some(take_list(input, RESULTS_MAX, Decoder::bytes)?),
            tag => return Err(WireError::Tag("results of a reply", tag)),
        };
        Ok(Reply {
            view,
            slot,
            id,
            results,
        })
    }
}

impl Wire for ViewChange {
    fn encode(&self, out: &mut Encoder) {
        [self.view, self.last_normal]
            .iter()
            .for_each(|view| view.encode(out));
        [self.stamps_from, self.first]
            .iter()
            .for_each(|slot| slot.encode(out));
        put_list(&self.log, Value::encode, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (view, last_normal) = (View::decode(input)?, View::decode(input)?);
        let (stamps_from, first) = (Slot::decode(input)?, Slot::decode(input)?);
        Ok(ViewChange {
            view,
            last_normal,
            stamps_from,
            first,
            log: take_list(input, SLOTS_MAX, Value::decode)?,
        })
    }
}

impl Wire for StartView {
    fn encode(&self, out: &mut Encoder) {
        self.view.encode(out);
        [self.stamps_from, self.first]
            .iter()
            .for_each(|slot| slot.encode(out));
        put_list(&self.log, Value::encode, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let view = View::decode(input)?;
        let (stamps_from, first) = (Slot::decode(input)?, Slot::decode(input)?);
        Ok(StartView {
            view,
            stamps_from,
            first,
            log: take_list(input, SLOTS_MAX, Value::decode)?,
        })
    }
}

impl Wire for Sync {
    fn encode(&self, out: &mut Encoder) {
        self.view.encode(out);
        [self.from, self.upto]
            .iter()
            .for_each(|slot| slot.encode(out));
        put_list(&self.noops, Slot::encode, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let view = View::decode(input)?;
        let (from, upto) = (Slot::decode(input)?, Slot::decode(input)?);
        Ok(Sync {
            view,
            from,
            upto,
            noops: take_list(input, SLOTS_MAX, Slot::decode)?,
        })
    }
}

/// Writes a tag, a view, and slots of it.
fn put_slots(tag: u8, view: View, slots: &[Slot], out: &mut Encoder) {
    out.u8(tag);
    view.encode(out);
    slots.iter().for_each(|slot| slot.encode(out));
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Stamp { session, entry } => {
                out.u8(0);
                out.varint(*session);
                entry.encode(out);
            }
            Message::Marked {
                session,
                number,
                entry,
            } => {
                out.u8(1);
                [session, number]
                    .iter()
                    .for_each(|number| out.varint(**number));
                entry.encode(out);
            }
            Message::Reply(reply) => {
                out.u8(2);
                reply.encode(out);
            }
            Message::ViewChange(change) => {
                out.u8(7);
                change.encode(out);
            }
            Message::StartView(start) => {
                out.u8(8);
                start.encode(out);
            }
            Message::Sync(sync) => {
                out.u8(9);
                sync.encode(out);
            }
            of_view => encode_slots(of_view, out),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Stamp {
                session: number(input)?,
                entry: Entry::decode(input)?,
            },
            1 => Message::Marked {
                session: number(input)?,
                number: number(input)?,
                entry: Entry::decode(input)?,
            },
            2 => Message::Reply(Reply::decode(input)?),
            7 => Message::ViewChange(ViewChange::decode(input)?),
            8 => Message::StartView(StartView::decode(input)?),
            9 => Message::Sync(Sync::decode(input)?),
            13 => Message::ReadQ(QuestionName::decode(input)?),
            tag => decode_slots(tag, input)?,
        })
    }
}

/// Writes a message that is about a view, and no more than slots of it.
fn encode_slots(message: &Message, out: &mut Encoder) {
    match message {
        Message::Lookup { view, from, until } => put_slots(3, *view, &[*from, *until], out),
        Message::Gap { view, from, until } => put_slots(4, *view, &[*from, *until], out),
        Message::GapA { view, until } => put_slots(5, *view, &[*until], out),
        Message::ViewChangeReq(view) => put_slots(6, *view, &[], out),
        Message::SyncA { view, upto } => put_slots(10, *view, &[*upto], out),
        Message::Synced { view, upto } => put_slots(11, *view, &[*upto], out),
        Message::Ask(view) => put_slots(12, *view, &[], out),
        Message::ReadQ(query) => {
            out.u8(13);
            query.encode(out);
        }
        Message::ReadA {
            query,
            view,
            delivered,
            end,
        } => {
            put_slots(14, *view, &[*delivered], out);
            query.encode(out);
            end.encode(out);
        }
        _ => unreachable!("a message with entries, or with a list"),
    }
}

fn decode_slots(tag: u8, input: &mut Decoder) -> Result<Message, WireError> {
    if !(3..=14).contains(&tag) {
        return Err(WireError::Tag("nopaxos message", tag));
    }
    let view = View::decode(input)?;
    let mut slot = || Slot::decode(input);
    Ok(match tag {
        3 => Message::Lookup {
            view,
            from: slot()?,
            until: slot()?,
        },
        4 => Message::Gap {
            view,
            from: slot()?,
            until: slot()?,
        },
        5 => Message::GapA {
            view,
            until: slot()?,
        },
        6 => Message::ViewChangeReq(view),
        10 => Message::SyncA {
            view,
            upto: slot()?,
        },
        11 => Message::Synced {
            view,
            upto: slot()?,
        },
        12 => Message::Ask(view),
        _ => {
            let delivered = slot()?;
            Message::ReadA {
                view,
                delivered,
                query: QuestionName::decode(input)?,
                end: Option::decode(input)?,
            }
        }
    })
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Place { view, slot, value } => {
                put_slots(0, *view, &[*slot], out);
                value.encode(out);
            }
            Record::Again { view, slot, entry } => {
                put_slots(1, *view, &[*slot], out);
                entry.encode(out);
            }
            Record::View {
                view,
                last_normal,
                stamps_from,
            } => {
                put_slots(2, *view, &[*stamps_from], out);
                last_normal.encode(out);
            }
            Record::Lost => out.u8(3),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let tag = input.u8()?;
        match tag {
            0..=2 => {}
            3 => return Ok(Record::Lost),
            _ => return Err(WireError::Tag("nopaxos record", tag)),
        }
        let (view, slot) = (View::decode(input)?, Slot::decode(input)?);
        Ok(match tag {
            0 => Record::Place {
                view,
                slot,
                value: Option::decode(input)?,
            },
            1 => Record::Again {
                view,
                slot,
                entry: Entry::decode(input)?,
            },
            _ => Record::View {
                view,
                last_normal: View::decode(input)?,
                stamps_from: slot,
            },
        })
    }
}
