//! An exchange of processes: nothing is lost or doubled while replicas that lead are killed.

use quorate::Durability;
use quorate_exchange::live::{BenchOptions, ExchangeOptions, Load, bench};

#[tokio::test]
async fn nothing_is_lost_or_doubled_while_leaders_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = ExchangeOptions {
        folder: folder.path().to_owned(),
        durability: Durability::Disk,
        ..ExchangeOptions::default()
    };
    let options = BenchOptions {
        program: env!("CARGO_BIN_EXE_quorate-exchange").into(),
        load: Load {
            participants: exchange.participants,
            symbols: exchange.symbols,
            rate: 400,
            time_ns: 6_000_000_000,
            seed: 1,
        },
        exchange,
        way_ns: 50_000,
        jitter_ns: 50_000,
        kills: 2,
    };
    let seen = bench(options).await.unwrap();
    assert_eq!(seen.kills, 2);
    assert!(seen.load.answered > 500 && seen.trades > 100, "{seen:?}");
    assert!(seen.relayed.total() > seen.load.answered, "{seen:?}");
}
