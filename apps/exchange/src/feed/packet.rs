//! A packet of the feed: messages that are shown at one time.

use super::message::MarketMessage;
use crate::exchange::{SYMBOLS_MAX, SymbolId};
use crate::wire::{Reader, WireError, Writer};

/// The most messages of a packet.
pub const PACKET_MESSAGES_MAX: usize = 256;

/// What a publisher sends to gateways.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packet {
    /// When gateways may show the messages, in ns since the Unix epoch.
    pub release_ns: u64,
    /// At most [`PACKET_MESSAGES_MAX`] messages, in order.
    pub messages: Vec<MarketMessage>,
    /// The last sequence of symbols, so that nobody waits for news to learn that some are missing.
    pub latest: Vec<(SymbolId, u64)>,
}

impl Packet {
    /// The bytes of the packet.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.write(&mut out);
        out.bytes
    }

    /// The packet in some bytes.
    ///
    /// # Errors
    /// Why they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Packet, WireError> {
        Reader::whole(bytes, Packet::read)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.release_ns);
        out.length(self.messages.len());
        for message in &self.messages {
            message.write(out);
        }
        out.length(self.latest.len());
        for (symbol, sequence) in &self.latest {
            out.u16(symbol.0);
            out.u64(*sequence);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Packet, WireError> {
        let mut packet = Packet {
            release_ns: from.u64()?,
            ..Packet::default()
        };
        let count = from.length(MarketMessage::BYTES_MIN)?;
        if count > PACKET_MESSAGES_MAX {
            return Err(WireError::Value("messages"));
        }
        for _ in 0..count {
            packet.messages.push(MarketMessage::read(from)?);
        }
        let count = from.length(10)?;
        if count > SYMBOLS_MAX {
            return Err(WireError::Value("symbols"));
        }
        for _ in 0..count {
            let symbol = SymbolId(from.u16()?);
            packet.latest.push((symbol, from.u64()?));
        }
        Ok(packet)
    }
}
