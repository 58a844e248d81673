//! The exchange in the simulator: crashes, lost disks, snapshots, other protocols, and clocks that are wrong.

use super::{Draw, rules};
use crate::book::{ParticipantId, Phase, Side};
use crate::exchange::{Answer, Command, Exchange, Query, Reply, SymbolId};
use quorate::{Applied, Protocol, StateMachine};
use quorate_testing::{Rng, Simulation, Testable};

/// One exchange that nothing happens to is what those that crash are compared with.
impl Testable for Exchange {
    type Model = Exchange;

    fn draw_command(rng: &mut Rng, unique: u64) -> Command {
        match rng.u32(0..12) {
            0 => Command::AddSymbol {
                symbol: SymbolId(rng.u16(0..super::SYMBOLS)),
                rules: rules(),
            },
            1 => Command::SetParticipant {
                participant: ParticipantId(rng.u16(0..super::PARTICIPANTS)),
                cancels_on_disconnect: rng.bool(),
            },
            _ => {
                let mut draw = Draw::new(rng.u64(..));
                match draw.command() {
                    // Some numbers come again, and most are new.
                    Command::Request(mut request) => {
                        request.number = unique.saturating_sub(rng.u64(0..3));
                        Command::Request(request)
                    }
                    Command::Order(stamp, mut request) => {
                        request.number = unique.saturating_sub(rng.u64(0..3));
                        Command::Order(stamp, request)
                    }
                    other => other,
                }
            }
        }
    }

    fn draw_query(rng: &mut Rng) -> Query {
        let symbol = SymbolId(rng.u16(0..super::SYMBOLS));
        match rng.u32(0..3) {
            0 => Query::Symbols,
            1 => Query::Depth { symbol, levels: 9 },
            _ => Query::Events {
                symbol,
                from: rng.u64(0..40),
                most: 20,
            },
        }
    }

    fn expected_reply(model: &mut Exchange, at: &Applied, command: &Command) -> Reply {
        model.apply(at, *command)
    }

    fn expected_answer(model: &Exchange, query: &Query) -> Answer {
        model.query(query)
    }

    fn check(&self) -> Result<(), String> {
        for (symbol, market) in &self.markets {
            let book = &market.book;
            let best = book.best(Side::Buy).zip(book.best(Side::Sell));
            let is_crossed = best.is_some_and(|(bid, ask)| bid >= ask);
            if is_crossed && book.phase() == Phase::Continuous {
                return Err(format!("the book of symbol {} is crossed", symbol.0));
            }
        }
        Ok(())
    }
}

#[test]
fn replicas_hold_one_exchange_under_all_faults() {
    for protocol in [Protocol::MultiPaxos, Protocol::Nezha] {
        let simulation = Simulation::default().protocol(protocol).seeds(0..10);
        assert_eq!(simulation.run::<Exchange>(), Ok(()), "{protocol:?}");
    }
}
