//! Order entry: what a participant sends, and what it hears, in fixed layouts.
//!
//! Each message begins with a letter, which says its length. Numbers have the most significant byte first. A
//! participant numbers its requests in each symbol, and names its orders by these numbers; a request that is sent
//! again, over whatever gateway, is done once. What happens to its orders later is told by [`Report`]s, of which each
//! has the symbol's sequence, so that one that comes over two gateways is known as one.

mod message;
mod report;
mod server;
mod token;

pub use message::{ClientMessage, OrderRequest};
pub use report::{Report, ReportKind, event_reports, reports};
pub use server::{ServerMessage, SessionEnd};
pub use token::Token;

#[cfg(test)]
mod tests;
