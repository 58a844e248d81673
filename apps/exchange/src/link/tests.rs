use super::*;
use crate::book::{Event, EventKind, ParticipantId, Phase, Price, Side};
use crate::exchange::{Action, GatewayId, Outcome, Request, Stamp, SymbolEvent, SymbolId};
use crate::fair::{InboundUnfairness, StampedRequest};
use crate::feed::{BookSnapshot, Packet};

fn requests() -> RequestStatus {
    RequestStatus {
        inbound: InboundUnfairness {
            requests: 1,
            before_previous: 2,
            before_any: 3,
            before_previous_of_symbol: 4,
            before_any_of_symbol: 5,
        },
        late: 6,
        quarantined: 7,
    }
}

fn snapshot() -> BookSnapshot {
    BookSnapshot {
        symbol: SymbolId(1),
        sequence: 9,
        phase: Phase::Auction,
        orders: Vec::new(),
    }
}

pub(crate) fn to_replica() -> Vec<ToReplica> {
    let stamp = Stamp {
        time_ns: 1 << 60,
        gateway: GatewayId(3),
    };
    let request = Request {
        symbol: SymbolId(2),
        participant: ParticipantId(5),
        number: 6,
        action: Action::Cancel(4),
    };
    vec![
        ToReplica::Hello(GatewayId(3)),
        ToReplica::Order(StampedRequest { stamp, request }),
        ToReplica::Clock {
            asked_ns: 1,
            received_ns: 2,
            answered_ns: 3,
        },
        ToReplica::Fetch {
            symbol: SymbolId(2),
            from: 8,
        },
        ToReplica::Own(SymbolId(2), ParticipantId(5)),
        ToReplica::Lost(ParticipantId(5)),
    ]
}

pub(crate) fn from_replica() -> Vec<FromReplica> {
    let event = SymbolEvent {
        symbol: SymbolId(1),
        time_ns: 5,
        event: Event {
            sequence: 9,
            kind: EventKind::Phase(Phase::Halted),
        },
    };
    vec![
        FromReplica::Leads(true),
        FromReplica::Answer(AnsweredRequest {
            symbol: SymbolId(1),
            participant: ParticipantId(2),
            number: 3,
            outcome: Outcome::Open(4),
            is_repeated: true,
        }),
        FromReplica::Events {
            release_ns: 7,
            events: vec![event, event],
        },
        FromReplica::Status {
            latest: vec![(SymbolId(1), 9)],
            requests: requests(),
        },
        FromReplica::Book {
            from: 2,
            snapshot: snapshot(),
        },
        FromReplica::Cancelled(ParticipantId(2)),
        FromReplica::Own {
            symbol: SymbolId(2),
            participant: ParticipantId(5),
            orders: vec![OwnOrder {
                number: 6,
                side: Side::Sell,
                price: Price(7),
                open: 8,
            }],
        },
        FromReplica::Clock(11),
    ]
}

pub(crate) fn feed_frames() -> Vec<FeedFrame> {
    let packet = Packet {
        release_ns: 5,
        messages: Vec::new(),
        latest: vec![(SymbolId(1), 9)],
    };
    let status = GatewayStatus {
        leader: 2,
        shown: 3,
        late: 4,
        pending: 5,
        requests: requests(),
    };
    vec![
        FeedFrame::Packet(packet),
        FeedFrame::Book(snapshot()),
        FeedFrame::Status(status),
    ]
}

/// Frames that come one after the other, in pieces of any length, are read as they were written.
fn pass<T: PartialEq + std::fmt::Debug>(
    frames: &[T],
    to_bytes: impl Fn(&T) -> Vec<u8>,
    take: impl Fn(&mut Vec<u8>) -> Result<Option<T>, crate::WireError>,
) {
    let bytes: Vec<u8> = frames.iter().flat_map(to_bytes).collect();
    for piece in [1, 7, bytes.len()] {
        let (mut received, mut read) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            received.extend_from_slice(piece);
            while let Some(frame) = take(&mut received).unwrap() {
                read.push(frame);
            }
        }
        assert_eq!((read.as_slice(), received.len()), (frames, 0));
    }
    let mut too_long = vec![0xff; 8];
    assert!(take(&mut too_long).is_err());
    let mut unknown = vec![0, 0, 0, 1, b'?'];
    assert!(take(&mut unknown).is_err());
}

#[test]
fn frames_are_read_as_they_were_written() {
    pass(&to_replica(), ToReplica::to_bytes, ToReplica::take);
    pass(&from_replica(), FromReplica::to_bytes, FromReplica::take);
    pass(&feed_frames(), FeedFrame::to_bytes, FeedFrame::take);
    let requests = [
        FeedRequest::Status,
        FeedRequest::Subscribe {
            symbol: SymbolId(3),
            from: 1,
        },
    ];
    pass(&requests, FeedRequest::to_bytes, FeedRequest::take);
}

/// Whoever sends requests cannot have a replica or a gateway wait for megabytes.
#[test]
fn a_request_that_announces_more_than_any_has_is_refused() {
    for (length, is_refused) in [(frame::REQUEST_MAX, false), (frame::REQUEST_MAX + 1, true)] {
        let announced = (length as u32).to_be_bytes().to_vec();
        let taken = ToReplica::take(&mut announced.clone());
        assert_eq!(taken.is_err(), is_refused, "{length}");
        let taken = FeedRequest::take(&mut announced.clone());
        assert_eq!(taken.is_err(), is_refused, "{length}");
    }
    let longest = u32::try_from(FRAME_MAX).unwrap();
    let announced = (longest + 1).to_be_bytes().to_vec();
    assert!(FromReplica::take(&mut announced.clone()).is_err());
    assert!(FeedFrame::take(&mut announced.clone()).is_err());
}
