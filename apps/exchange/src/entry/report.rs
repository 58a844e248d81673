//! What a participant hears: what its requests came to, and what happens to its orders.

use crate::book::{Ended, EventKind, Owner, ParticipantId, Party, Price};
use crate::exchange::{Outcome, Reply, Request, SymbolEvent, SymbolId};
use crate::wire::{Reader, WireError, Writer};

/// A message from the exchange to one participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The symbol it is about.
    pub symbol: SymbolId,
    /// The participant's number: of the request that is answered, or of the order to which something happened.
    pub number: u64,
    /// The thing that is told.
    pub kind: ReportKind,
}

/// The kinds of reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportKind {
    /// A request came to this; `is_repeated` where it was done before.
    Answered {
        /// What became of the request.
        outcome: Outcome,
        /// Whether this is what it came to when it was done before.
        is_repeated: bool,
    },
    /// An order traded.
    Executed {
        /// The place of the trade among all events of the symbol.
        sequence: u64,
        /// The time of the log, in ns since the Unix epoch.
        time_ns: u64,
        /// The number of the trade in the symbol.
        trade: u64,
        /// The price of the trade.
        price: Price,
        /// The lots that changed hands.
        quantity: u64,
        /// Whether the order waited in the book.
        was_resting: bool,
    },
    /// An order has fewer lots, or none and is gone.
    Ended {
        /// The place among all events of the symbol.
        sequence: u64,
        /// The time of the log, in ns since the Unix epoch.
        time_ns: u64,
        /// The lots that wait from now on.
        open: u64,
        /// Why there are fewer.
        why: Ended,
    },
}

/// What a reply tells whom, in order: the owners of orders what happened to those, and who asked what it came to.
#[must_use]
pub fn reports(request: Option<&Request>, reply: &Reply) -> Vec<(ParticipantId, Report)> {
    let mut told = Vec::new();
    for event in &reply.events {
        of_event(event, &mut told);
    }
    if let Some(request) = request {
        let report = Report {
            symbol: request.symbol,
            number: request.number,
            kind: ReportKind::Answered {
                outcome: reply.outcome,
                is_repeated: reply.is_repeated,
            },
        };
        told.push((request.participant, report));
    }
    told
}

/// What an event tells the owners of the orders it happened to.
#[must_use]
pub fn event_reports(event: &SymbolEvent) -> Vec<(ParticipantId, Report)> {
    let mut told = Vec::new();
    of_event(event, &mut told);
    told
}

fn of_event(event: &SymbolEvent, told: &mut Vec<(ParticipantId, Report)>) {
    let (sequence, time_ns) = (event.event.sequence, event.time_ns);
    let mut tell = |owner: Owner, kind| {
        let report = Report {
            symbol: event.symbol,
            number: owner.client_order,
            kind,
        };
        told.push((owner.participant, report));
    };
    let ended = |order: Party, open, why| {
        let kind = ReportKind::Ended {
            sequence,
            time_ns,
            open,
            why,
        };
        (order.owner, kind)
    };
    match event.event.kind {
        EventKind::Traded {
            trade,
            resting,
            incoming,
            price,
            quantity,
            in_auction,
            ..
        } => {
            for (party, was_resting) in [(resting, true), (incoming, in_auction)] {
                let kind = ReportKind::Executed {
                    sequence,
                    time_ns,
                    trade,
                    price,
                    quantity,
                    was_resting,
                };
                tell(party.owner, kind);
            }
        }
        EventKind::Reduced { order, open, why } => {
            let (owner, kind) = ended(order, open, why);
            tell(owner, kind);
        }
        // What is left of a replaced order waits again, and its owner is told by the answer.
        EventKind::Deleted {
            why: Ended::Replaced,
            ..
        } => {}
        EventKind::Deleted { order, why, .. } => {
            let (owner, kind) = ended(order, 0, why);
            tell(owner, kind);
        }
        EventKind::Added { .. }
        | EventKind::Moved { .. }
        | EventKind::Phase(_)
        | EventKind::Uncrossed { .. } => {}
    }
}

impl Report {
    /// The bytes of the report.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(match self.kind {
            ReportKind::Answered { .. } => b'A',
            ReportKind::Executed { .. } => b'E',
            ReportKind::Ended { .. } => b'D',
        });
        out.u16(self.symbol.0);
        out.u64(self.number);
        match self.kind {
            ReportKind::Answered {
                outcome,
                is_repeated,
            } => {
                out.flag(is_repeated);
                outcome.write(&mut out);
            }
            ReportKind::Executed {
                sequence,
                time_ns,
                trade,
                price,
                quantity,
                was_resting,
            } => {
                out.u64(sequence);
                out.u64(time_ns);
                out.u64(trade);
                out.u32(price.0);
                out.u64(quantity);
                out.flag(was_resting);
            }
            ReportKind::Ended {
                sequence,
                time_ns,
                open,
                why,
            } => {
                out.u64(sequence);
                out.u64(time_ns);
                out.u64(open);
                out.u8(why.code());
            }
        }
        out.bytes
    }

    /// The report in some bytes.
    ///
    /// # Errors
    /// Why they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Report, WireError> {
        Reader::whole(bytes, Report::read)
    }

    /// Takes the first report out of what a connection has received; `None` where its end is still to come.
    ///
    /// # Errors
    /// Why no report can ever begin so; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<Report>, WireError> {
        Reader::take(received, Report::read)
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let letter = from.u8()?;
        let (symbol, number) = (SymbolId(from.u16()?), from.u64()?);
        let kind = match letter {
            b'A' => ReportKind::Answered {
                is_repeated: from.flag("repeated")?,
                outcome: Outcome::read(from)?,
            },
            b'E' => ReportKind::Executed {
                sequence: from.u64()?,
                time_ns: from.u64()?,
                trade: from.u64()?,
                price: Price(from.u32()?),
                quantity: from.u64()?,
                was_resting: from.flag("resting")?,
            },
            b'D' => ReportKind::Ended {
                sequence: from.u64()?,
                time_ns: from.u64()?,
                open: from.u64()?,
                why: Ended::of_code(from.u8()?)?,
            },
            _ => return Err(WireError::Value("kind of report")),
        };
        Ok(Report {
            symbol,
            number,
            kind,
        })
    }
}
