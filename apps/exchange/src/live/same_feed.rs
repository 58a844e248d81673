//! The bytes of the feed as every gateway shows and every replica keeps them, compared message by message.
//!
//! A gateway shows what the replica that leads sends. Here every replica is asked itself, over a link as gateways have
//! them, so that the feeds of replicas which never led are compared too.

use super::place::Places;
use crate::exchange::{GatewayId, SymbolId};
use crate::feed::MarketMessage;
use crate::link::{FromReplica, ToReplica};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The gateway that a link of this kind says it is; no request ever comes over it.
const OBSERVER: GatewayId = GatewayId(u16::MAX);
/// How many messages a replica's feed may be behind a gateway's before it is asked for them. It keeps
/// four times as many.
const BEHIND_MAX: usize = 256;
/// How often it is looked how far replicas' feeds are behind.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a replica has for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How many bytes are read at once.
const READ_BYTES: usize = 16 << 10;

/// How much of the feed was compared byte for byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Different messages that anybody told.
    pub messages: u64,
    /// Messages of gateways that were those that another one had shown before.
    pub of_gateways: u64,
    /// Messages of replicas that were those that a gateway or another replica had shown before.
    pub of_replicas: u64,
    /// Messages that a replica had forgotten before it was asked for them.
    pub forgotten: u64,
}

/// The feed of all symbols, as whoever was first told it.
#[derive(Debug, Default)]
struct Told {
    symbols: BTreeMap<SymbolId, Vec<Vec<u8>>>,
    compared: Compared,
}

/// The feed that all are compared with.
#[derive(Clone, Debug, Default)]
pub(super) struct SameFeed(Arc<Mutex<Told>>);

impl Told {
    /// Says whether somebody told this message before.
    fn note(&mut self, who: &str, message: &MarketMessage) -> Result<bool, String> {
        let told = self.symbols.entry(message.symbol).or_default();
        let at = usize::try_from(message.sequence - 1).unwrap_or(usize::MAX);
        let bytes = message.to_bytes();
        match told.get(at) {
            Some(before) if *before == bytes => Ok(true),
            Some(before) => Err(format!(
                "{who} tells of symbol {} as message {} {bytes:?}, and another one told {before:?}",
                message.symbol.0, message.sequence
            )),
            None if at == told.len() => {
                told.push(bytes);
                self.compared.messages += 1;
                Ok(false)
            }
            None => Err(format!(
                "{who} tells of symbol {} message {} after message {}",
                message.symbol.0,
                message.sequence,
                told.len()
            )),
        }
    }
}

impl SameFeed {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn compared(&self) -> Compared {
        self.lock().compared
    }

    /// Compares what a gateway shows with what others told before.
    pub(super) fn note_gateway(
        &self,
        gateway: usize,
        shown: &[MarketMessage],
    ) -> Result<(), String> {
        let mut told = self.lock();
        for message in shown {
            let is_known = told.note(&format!("gateway {}", gateway + 1), message)?;
            told.compared.of_gateways += u64::from(is_known);
        }
        Ok(())
    }

    /// How many messages of each symbol were told by anybody.
    fn lengths(&self) -> Vec<(SymbolId, usize)> {
        let told = self.lock();
        let lengths = told.symbols.iter();
        lengths.map(|(symbol, all)| (*symbol, all.len())).collect()
    }

    /// Compares the feed of a replica, from the first message of each symbol on, until `ends` is true and all that
    /// anybody told was compared. A replica that is away is asked again.
    pub(super) async fn follow_replica(
        self,
        places: Places,
        at: usize,
        ends: impl Fn() -> bool,
    ) -> Result<(), String> {
        let mut tail = Tail {
            feed: self,
            name: format!("replica {}", at + 1),
            next: BTreeMap::new(),
            received: Vec::new(),
        };
        loop {
            let link = timeout(ANSWER_TIMEOUT, TcpStream::connect(&places.replicas[at])).await;
            if let Ok(Ok(link)) = link
                && tail.follow(link, &ends).await?
            {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What is known of the feed of one replica.
struct Tail {
    feed: SameFeed,
    name: String,
    /// The sequence that is compared next, of each symbol.
    next: BTreeMap<SymbolId, u64>,
    received: Vec<u8>,
}

impl Tail {
    /// Compares for as long as the link stands and nothing ends it; says whether all was compared.
    async fn follow(
        &mut self,
        mut link: TcpStream,
        ends: &impl Fn() -> bool,
    ) -> Result<bool, String> {
        self.received.clear();
        if link
            .write_all(&ToReplica::Hello(OBSERVER).to_bytes())
            .await
            .is_err()
        {
            return Ok(false);
        }
        loop {
            let is_last = ends();
            let mut is_behind = false;
            for (symbol, length) in self.feed.lengths() {
                let done = *self.next.entry(symbol).or_insert(1) - 1;
                let behind = (length as u64).saturating_sub(done);
                if behind > 0 && (is_last || behind > BEHIND_MAX as u64) {
                    is_behind = true;
                    if !self.ask(&mut link, symbol).await? {
                        return Ok(false);
                    }
                }
            }
            if is_last && !is_behind {
                return Ok(true);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Has the replica tell more of a symbol; false where the link is gone, or slow.
    async fn ask(&mut self, link: &mut TcpStream, symbol: SymbolId) -> Result<bool, String> {
        let from = self.next.get(&symbol).copied().unwrap_or(1);
        let wanted = ToReplica::Fetch { symbol, from };
        if link.write_all(&wanted.to_bytes()).await.is_err() {
            return Ok(false);
        }
        let answered = timeout(ANSWER_TIMEOUT, self.hear(link, symbol)).await;
        match answered {
            Ok(Ok(what)) => what.map(|()| true),
            // A replica that is behind sends nothing, for it has nothing yet.
            Ok(Err(_)) | Err(_) => Ok(false),
        }
    }

    /// Waits for an answer, among what a replica that leads tells every gateway.
    async fn hear(
        &mut self,
        link: &mut TcpStream,
        wanted: SymbolId,
    ) -> io::Result<Result<(), String>> {
        loop {
            while let Some(frame) =
                FromReplica::take(&mut self.received).map_err(io::Error::other)?
            {
                match frame {
                    FromReplica::Events { events, .. } => {
                        let told = events.iter().map(MarketMessage::of);
                        let told: Vec<MarketMessage> = told.collect();
                        if let Err(what) = self.compare(&told) {
                            return Ok(Err(what));
                        }
                        if told.iter().any(|message| message.symbol == wanted) {
                            return Ok(Ok(()));
                        }
                    }
                    FromReplica::Book { snapshot, .. } if snapshot.symbol == wanted => {
                        self.skip(wanted, snapshot.sequence);
                        return Ok(Ok(()));
                    }
                    _ => {}
                }
            }
            self.received.reserve(READ_BYTES);
            if link.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn compare(&mut self, told: &[MarketMessage]) -> Result<(), String> {
        let mut feed = self.feed.lock();
        for message in told {
            let next = self.next.entry(message.symbol).or_insert(1);
            // What a leader publishes comes before what was missed is fetched.
            if message.sequence == *next {
                *next += 1;
                let is_known = feed.note(&self.name, message)?;
                feed.compared.of_replicas += u64::from(is_known);
            }
        }
        Ok(())
    }

    fn skip(&mut self, symbol: SymbolId, last: u64) {
        let next = self.next.entry(symbol).or_insert(1);
        let skipped = (last + 1).saturating_sub(*next);
        *next += skipped;
        self.feed.lock().compared.forgotten += skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Phase;
    use crate::feed::MarketKind;

    fn message(sequence: u64, time_ns: u64) -> MarketMessage {
        MarketMessage {
            symbol: SymbolId(3),
            sequence,
            time_ns,
            kind: MarketKind::Phase(Phase::Halted),
        }
    }

    #[test]
    fn a_message_with_another_byte_and_one_after_a_gap_are_found() {
        let feed = SameFeed::default();
        let first = [message(1, 5), message(2, 6)];
        assert_eq!(feed.note_gateway(0, &first), Ok(()));
        assert_eq!(feed.note_gateway(1, &first[..1]), Ok(()));
        let compared = Compared {
            messages: 2,
            of_gateways: 1,
            ..Compared::default()
        };
        assert_eq!(feed.compared(), compared);
        let other = feed.note_gateway(1, &[message(2, 7)]).unwrap_err();
        assert!(
            other.starts_with("gateway 2 tells of symbol 3 as message 2"),
            "{other}"
        );
        let gap = feed.note_gateway(1, &[message(4, 8)]).unwrap_err();
        assert_eq!(gap, "gateway 2 tells of symbol 3 message 4 after message 2");
    }
}
