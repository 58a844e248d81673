mod simulated;

use super::*;
use crate::book::{EventKind, Price, Pricing, SelfTrade, TimeInForce};
use fastrand::Rng;
use quorate::Message;

pub(crate) const SYMBOLS: u16 = 4;
pub(crate) const PARTICIPANTS: u16 = 5;

pub(crate) fn at(time_ns: u64) -> Applied {
    Applied {
        slot: 0,
        index: 0,
        time_ns,
        who: 0,
        request: None,
        token: 1,
    }
}

fn rules() -> BookRules {
    BookRules {
        lowest: Price(1),
        levels: 200,
        orders_max: 100,
        reference: Price(100),
    }
}

/// An exchange with symbols and participants, half of whom lose their orders when they are cut off.
pub(crate) fn exchange() -> Exchange {
    let mut exchange = Exchange::default();
    for symbol in (0..SYMBOLS).map(SymbolId) {
        let rules = rules();
        exchange.apply(&at(1), Command::AddSymbol { symbol, rules });
    }
    for participant in (0..PARTICIPANTS).map(ParticipantId) {
        let cancels_on_disconnect = participant.0 % 2 == 0;
        let admitted = Command::SetParticipant {
            participant,
            cancels_on_disconnect,
        };
        let reply = exchange.apply(&at(1), admitted);
        assert_eq!(reply.outcome, Outcome::Done);
    }
    exchange
}

fn request(number: u64, action: Action) -> Command {
    Command::Request(Request {
        symbol: SymbolId(1),
        participant: ParticipantId(0),
        number,
        action,
    })
}

pub(crate) fn limit(side: Side, quantity: u64, price: u32) -> Action {
    Action::Enter {
        side,
        quantity,
        pricing: Pricing::Limit(Price(price)),
        time_in_force: TimeInForce::GoodTillCancel,
        post_only: false,
        self_trade: SelfTrade::CancelOldest,
    }
}

/// Draws commands of all kinds; requests are numbered, and some come again.
pub(crate) struct Draw {
    pub(crate) rng: Rng,
    numbers: BTreeMap<(SymbolId, ParticipantId), u64>,
    pub(crate) now_ns: u64,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Draw {
            rng: Rng::with_seed(seed),
            numbers: BTreeMap::new(),
            now_ns: 10,
        }
    }

    pub(crate) fn command(&mut self) -> Command {
        self.now_ns += self.rng.u64(0..3);
        let symbol = SymbolId(self.rng.u16(0..SYMBOLS));
        let participant = ParticipantId(self.rng.u16(0..PARTICIPANTS));
        match self.rng.u32(0..60) {
            0 => Command::Disconnected(participant),
            1 => Command::EndDay(symbol),
            2 => Command::Expire(symbol),
            3 => Command::SetPhase(symbol, Phase::Auction),
            4..7 => Command::SetPhase(symbol, Phase::Continuous),
            7 => Command::Request(Request {
                symbol: SymbolId(SYMBOLS),
                participant,
                number: 1,
                action: Action::CancelAll,
            }),
            _ => self.request(symbol, participant),
        }
    }

    fn request(&mut self, symbol: SymbolId, participant: ParticipantId) -> Command {
        let next = self.numbers.entry((symbol, participant)).or_insert(1);
        let last = *next;
        let number = match self.rng.u32(0..10) {
            0 => self.rng.u64(0..last + 1),
            _ => last,
        };
        *next = last.max(number + 1);
        let order = self.rng.u64(0..last + 1);
        let side = [Side::Buy, Side::Sell][self.rng.usize(0..2)];
        let price = self.rng.u32(90..110);
        let quantity = self.rng.u64(1..20);
        let action = match self.rng.u32(0..20) {
            0 => Action::CancelAll,
            1 | 2 => Action::Cancel(order),
            3 => Action::Reduce { order, by: 2 },
            4..8 => Action::Replace {
                order,
                price: Price(price),
                quantity,
            },
            8 => Action::Enter {
                side,
                quantity,
                pricing: Pricing::Limit(Price(price)),
                time_in_force: TimeInForce::GoodTillTime(self.now_ns + 9),
                post_only: false,
                self_trade: SelfTrade::CancelBoth,
            },
            _ => limit(side, quantity, price),
        };
        let request = Request {
            symbol,
            participant,
            number,
            action,
        };
        let stamp = Stamp {
            time_ns: self.now_ns,
            gateway: GatewayId(1),
        };
        match self.rng.bool() {
            true => Command::Request(request),
            false => Command::Order(stamp, request),
        }
    }
}

/// What replicas send each other is read as it was written.
fn sent<M: Message>(message: &M) -> M {
    M::from_bytes(&message.to_bytes().unwrap()).unwrap()
}

#[test]
fn a_replica_that_was_loaded_replies_byte_for_byte_as_the_others() {
    for seed in 0..20 {
        let mut draw = Draw::new(seed);
        let (mut one, mut other) = (exchange(), exchange());
        let mut sequences = BTreeMap::new();
        let mut published = Vec::new();
        for _ in 0..800 {
            let command = draw.command();
            assert_eq!(sent(&command), command);
            let now = at(draw.now_ns);
            let reply = one.apply(&now, command);
            let again = other.apply(&now, command);
            assert_eq!(reply.to_bytes().unwrap(), again.to_bytes().unwrap());
            assert_eq!(sent(&reply), reply);
            assert!(!reply.is_repeated || reply.events.iter().all(is_expiry));
            for event in &reply.events {
                let last = sequences.entry(event.symbol).or_insert(0);
                *last += 1;
                assert_eq!(event.event.sequence, *last, "without gaps");
            }
            published.extend(reply.events);
            if draw.rng.u32(0..50) == 0 {
                let saved = other.save();
                other = Exchange::load(&saved).unwrap();
                assert_eq!(saved, other.save());
                assert_eq!(saved, one.save());
            }
        }
        check_gap_fill(&one, &published);
    }
}

fn is_expiry(one: &SymbolEvent) -> bool {
    let expired = |why| why == Ended::Expired;
    matches!(one.event.kind, EventKind::Deleted { why, .. } if expired(why))
}

/// Whoever missed events gets what was published, or is told that it is gone.
fn check_gap_fill(exchange: &Exchange, published: &[SymbolEvent]) {
    for symbol in (0..SYMBOLS).map(SymbolId) {
        let of_symbol: Vec<SymbolEvent> = published
            .iter()
            .filter(|one| one.symbol == symbol)
            .copied()
            .collect();
        let last = of_symbol.len() as u64;
        for from in 1..=last + 1 {
            let most = 7;
            let answer = exchange.query(&Query::Events { symbol, from, most });
            let is_kept = last - (from - 1) <= RECENT_EVENTS as u64;
            let expected = match is_kept {
                true => {
                    let events = of_symbol.iter().skip(from as usize - 1).take(most);
                    Answer::Events(events.copied().collect())
                }
                false => Answer::Forgotten,
            };
            assert_eq!(answer, expected, "from {from} of {last}");
        }
    }
}

#[test]
fn commands_of_different_symbols_commute() {
    for seed in 0..20 {
        let mut draw = Draw::new(seed);
        let mut exchange = exchange();
        for _ in 0..300 {
            let (first, second) = (draw.command(), draw.command());
            let now = at(draw.now_ns);
            let commute = match (first.footprint(), second.footprint()) {
                (Footprint::Symbol(one), Footprint::Symbol(other)) => one != other,
                _ => false,
            };
            let mut swapped = Exchange::load(&exchange.save()).unwrap();
            let replies = (exchange.apply(&now, first), exchange.apply(&now, second));
            if commute {
                let second = swapped.apply(&now, second);
                assert_eq!(replies, (swapped.apply(&now, first), second));
                assert_eq!(exchange.save(), swapped.save());
            }
        }
    }
}

#[test]
fn a_request_that_comes_again_is_done_once() {
    let mut exchange = exchange();
    let order = request(1, limit(Side::Buy, 5, 100));
    let first = exchange.apply(&at(2), order);
    let again = exchange.apply(&at(3), order);
    assert_eq!(again.outcome, first.outcome);
    assert!(again.is_repeated && again.events.is_empty());
    for number in 2..2 + REMEMBERED_REQUESTS as u64 {
        exchange.apply(&at(4), request(number, Action::Cancel(1)));
    }
    let old = exchange.apply(&at(5), order);
    assert_eq!(old.outcome, Outcome::Refused(Refused::OldRequest));
}

#[test]
fn a_cancel_that_comes_after_the_fill_is_refused() {
    let mut exchange = exchange();
    exchange.apply(&at(2), request(1, limit(Side::Buy, 5, 100)));
    let sell = Command::Request(Request {
        symbol: SymbolId(1),
        participant: ParticipantId(3),
        number: 1,
        action: limit(Side::Sell, 5, 100),
    });
    exchange.apply(&at(2), sell);
    let late = exchange.apply(&at(2), request(2, Action::Cancel(1)));
    let unknown = Outcome::Refused(Refused::Book(Refusal::Unknown));
    assert_eq!(late.outcome, unknown);
}

#[test]
fn orders_expire_by_the_time_of_the_log() {
    let mut exchange = exchange();
    let timed = |until_ns| Action::Enter {
        side: Side::Buy,
        quantity: 1,
        pricing: Pricing::Limit(Price(9)),
        time_in_force: TimeInForce::GoodTillTime(until_ns),
        post_only: false,
        self_trade: SelfTrade::Allow,
    };
    exchange.apply(&at(10), request(1, timed(40)));
    exchange.apply(&at(10), request(2, timed(30)));
    let start = |after| Timer::Start {
        id: 1,
        after: Duration::from_nanos(after),
        command: Command::Expire(SymbolId(1)),
    };
    assert_eq!(exchange.take_timers(), [start(30), start(20)]);
    let mut loaded = Exchange::load(&exchange.save()).unwrap();
    assert_eq!(loaded.take_timers(), [start(20)]);
    let early = exchange.apply(&at(29), Command::Expire(SymbolId(1)));
    assert!(early.events.is_empty() && exchange.take_timers().is_empty());
    let due = exchange.apply(&at(30), Command::Expire(SymbolId(1)));
    assert!(due.events.len() == 1 && due.events.iter().all(is_expiry));
    assert_eq!(exchange.take_timers(), [start(10)]);
    exchange.apply(&at(31), request(3, Action::CancelAll));
    assert_eq!(exchange.take_timers(), [Timer::Stop { id: 1 }]);
}

#[test]
fn who_is_cut_off_loses_orders_only_if_it_is_to_be_so() {
    for (participant, count) in [(0, 2), (1, 0)] {
        let mut exchange = exchange();
        let participant = ParticipantId(participant);
        for symbol in [SymbolId(0), SymbolId(2)] {
            let action = limit(Side::Buy, 1, 50);
            let order = Request {
                symbol,
                participant,
                number: 1,
                action,
            };
            exchange.apply(&at(2), Command::Request(order));
        }
        let reply = exchange.apply(&at(3), Command::Disconnected(participant));
        assert_eq!(reply.outcome, Outcome::Cancelled(count));
        assert_eq!(reply.events.len() as u32, count);
    }
}

#[test]
fn strangers_and_what_is_there_already_are_refused() {
    let mut exchange = exchange();
    let mut refused = |command| exchange.apply(&at(2), command).outcome;
    let stranger = Command::Request(Request {
        symbol: SymbolId(0),
        participant: ParticipantId(PARTICIPANTS),
        number: 1,
        action: Action::CancelAll,
    });
    let unknown = Outcome::Refused(Refused::UnknownParticipant);
    assert_eq!(refused(stranger), unknown);
    assert_eq!(
        refused(Command::EndDay(SymbolId(SYMBOLS))),
        Outcome::Refused(Refused::UnknownSymbol)
    );
    let (symbol, rules) = (SymbolId(0), rules());
    assert_eq!(
        refused(Command::AddSymbol { symbol, rules }),
        Outcome::Refused(Refused::KnownSymbol)
    );
    let symbol = SymbolId(SYMBOLS);
    let rules = BookRules { levels: 0, ..rules };
    assert_eq!(
        refused(Command::AddSymbol { symbol, rules }),
        Outcome::Refused(Refused::Rules)
    );
}

#[test]
fn bytes_that_are_cut_or_changed_are_refused_or_mean_something_else() {
    let mut draw = Draw::new(5);
    let mut exchange = exchange();
    for _ in 0..300 {
        let command = draw.command();
        let reply = exchange.apply(&at(draw.now_ns), command);
        hurt::<Command>(&mut draw.rng, &command.to_bytes().unwrap());
        hurt::<Reply>(&mut draw.rng, &reply.to_bytes().unwrap());
    }
    let saved = exchange.save();
    for _ in 0..2000 {
        let cut = draw.rng.usize(0..saved.len());
        assert!(Exchange::load(&saved[..cut]).is_err());
        let mut bytes = saved.clone();
        bytes[cut] = draw.rng.u8(..);
        if let Ok(mut exchange) = Exchange::load(&bytes) {
            for _ in 0..5 {
                exchange.apply(&at(draw.now_ns), draw.command());
            }
            exchange.save();
        }
    }
}

fn hurt<M: Message>(rng: &mut Rng, bytes: &quorate::Bytes) {
    for cut in 0..bytes.len() {
        assert!(M::from_bytes(&bytes.slice(..cut)).is_err());
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(M::from_bytes(&longer.into()).is_err());
    for _ in 0..20 {
        let mut changed = bytes.to_vec();
        let at = rng.usize(0..changed.len());
        changed[at] = rng.u8(..);
        let changed = quorate::Bytes::from(changed);
        // What is read is written as it was: there is one form of each message.
        if let Ok(message) = M::from_bytes(&changed) {
            assert_eq!(message.to_bytes().unwrap(), changed);
        }
    }
}
