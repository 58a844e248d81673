//! Somebody who follows the feed of a gateway and minds every message.

use crate::exchange::SymbolId;
use crate::feed::{BookSnapshot, FollowedBook, MarketKind, MarketMessage, Packet};
use crate::link::{FeedFrame, FeedRequest, GatewayStatus};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The pause before a gateway that is not ready is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection to a gateway's feed, and the books that follow from it.
#[derive(Debug)]
pub struct Subscriber {
    stream: TcpStream,
    received: Vec<u8>,
    books: BTreeMap<SymbolId, FollowedBook>,
    /// The number of the last trade of each symbol.
    trades: BTreeMap<SymbolId, u64>,
    status: GatewayStatus,
}

impl Subscriber {
    /// Follows so many symbols from their first message, once the gateway knows them all.
    ///
    /// # Errors
    /// Why the connection ended.
    pub async fn connect(address: &str, symbols: u16) -> io::Result<Subscriber> {
        let mut subscriber = Subscriber::asking(address, symbols).await?;
        for symbol in subscriber.books.keys().copied().collect::<Vec<_>>() {
            let wanted = FeedRequest::Subscribe { symbol, from: 1 };
            subscriber.ask(&wanted).await?;
        }
        Ok(subscriber)
    }

    /// Connects to a gateway once it knows so many symbols, and follows none of them.
    ///
    /// # Errors
    /// Why the connection ended.
    pub async fn asking(address: &str, symbols: u16) -> io::Result<Subscriber> {
        loop {
            if let Ok(stream) = TcpStream::connect(address).await {
                let mut subscriber = Subscriber {
                    stream,
                    received: Vec::new(),
                    books: BTreeMap::new(),
                    trades: BTreeMap::new(),
                    status: GatewayStatus::default(),
                };
                let first = subscriber.next().await;
                if let Ok(FeedFrame::Packet(packet)) = first
                    && packet.latest.len() >= usize::from(symbols)
                {
                    for (symbol, _) in packet.latest {
                        let book = FollowedBook::new(symbol);
                        subscriber.books.insert(symbol, book);
                    }
                    return Ok(subscriber);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks the gateway for something.
    ///
    /// # Errors
    /// Why the connection ended.
    pub async fn ask(&mut self, request: &FeedRequest) -> io::Result<()> {
        self.stream.write_all(&request.to_bytes()).await
    }

    /// Waits for a frame and takes it in; returns the messages that came with it.
    ///
    /// # Errors
    /// What is wrong: a message that is missing, that comes again, or that is impossible; or why the connection ended.
    pub async fn follow(&mut self) -> Result<Packet, String> {
        match self.next().await.map_err(|error| error.to_string())? {
            FeedFrame::Packet(packet) => {
                for message in &packet.messages {
                    self.take(message)?;
                }
                Ok(packet)
            }
            FeedFrame::Status(status) => {
                self.status = status;
                Ok(Packet::default())
            }
            FeedFrame::Book(snapshot) => Err(format!(
                "messages of symbol {} up to {} are not told",
                snapshot.symbol.0, snapshot.sequence
            )),
        }
    }

    /// What the gateway said of itself when it was asked last.
    #[must_use]
    pub fn status(&self) -> GatewayStatus {
        self.status
    }

    /// The books that follow from what was told.
    #[must_use]
    pub fn books(&self) -> Vec<BookSnapshot> {
        self.books.values().map(FollowedBook::snapshot).collect()
    }

    /// How many trades were told.
    #[must_use]
    pub fn trades(&self) -> u64 {
        self.trades.values().sum()
    }

    fn take(&mut self, message: &MarketMessage) -> Result<(), String> {
        let symbol = message.symbol;
        let book = self.books.get_mut(&symbol);
        let book = book.ok_or_else(|| format!("{message:?} is of no symbol"))?;
        if message.sequence != book.sequence() + 1 {
            return Err(format!("{message:?} comes after {}", book.sequence()));
        }
        book.apply(message)
            .map_err(|error| format!("{message:?}: {error}"))?;
        if let MarketKind::Traded { trade, .. } = message.kind {
            let last = self.trades.entry(symbol).or_default();
            if trade != *last + 1 {
                return Err(format!("{message:?} comes after trade {last}"));
            }
            *last = trade;
        }
        Ok(())
    }

    /// Waits for the next frame. Nothing is lost where this is dropped.
    async fn next(&mut self) -> io::Result<FeedFrame> {
        loop {
            if let Some(frame) = FeedFrame::take(&mut self.received).map_err(io::Error::other)? {
                return Ok(frame);
            }
            self.received.reserve(1 << 14);
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::Error::other("the gateway ended the connection"));
            }
        }
    }
}
