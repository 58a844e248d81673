//! The middle ring: what every protocol needs and none should repeat.
//!
//! A [`Host`] wraps one protocol's machine and one application, and does sessions, the log,
//! holding messages back until what they depend on is durable, catch-up from peers, reads and the
//! apply loop. It is sans-IO: log bytes, frames and clock readings go in and out as values, so
//! that the simulator and production drive the very same code.
//!
//! # Driving a host
//!
//! ```text
//! submit · frame · link · read_done · …      any number of inputs, then
//! turn(now)                                  fires due timers, submits what waits
//! next_seat    -> configure the protocol, then begin_epoch  (its parameters and members may be new)
//! loop {
//!     take_frames  -> peers                  first: what leaves early overlaps the flush
//!     take_answers -> clients
//!     take_reads   -> read, then read_done
//!     take_flush   -> write, sync if asked, then flushed    (at most one in flight)
//!     take_bulk_step -> write and sync elsewhere, then bulk_stored    (at most one in flight)
//!     take_coding  -> perform elsewhere, then coding_done
//! } until nothing is left
//! tidy(), at least once a turn               a piece of a snapshot, or other work put off
//! take_snapshot_writes -> perform, then snapshot_written and snapshot_stored
//! take_snapshot_reads  -> read, then snapshot_read_done
//! take_release         -> delete or recycle
//! take_bulk_release    -> delete or recycle segments of the bulk store
//! take_countdowns      -> start or stop, and order_due what is due  (see Countdowns)
//! then sleep until an input or next_wake(), unless tidy() said that there is more
//! ```

mod answering;
mod api;
mod apply;
mod attachment_check;
mod catch_up;
mod compare;
mod context;
mod countdowns;
mod decided;
mod describe;
mod divergence;
mod effects;
mod engine;
pub mod epochs;
mod export;
mod fetch_pacing;
mod flaw;
pub mod force;
mod fragments;
mod frame;
#[cfg(test)]
mod fuzz;
mod gateway;
mod gateway_results;
mod host;
mod log;
mod open;
mod opened;
mod outbox;
mod payloads;
mod read_repair;
mod records;
mod repair;
mod replay;
mod requests;
mod retained_records;
mod rollback;
mod serve_pacing;
mod sessions;
mod snapshot;
mod speculation;
mod stall;
mod storage;
mod timers;
mod transfer;
mod version;

pub use api::{
    Answer, Counters, Flush, Frame, HostConfig, HostEvent, Limits, LogRead, PayloadGone, Place,
    Request, Start, Store, Token, Write,
};
pub use countdowns::Countdowns;
pub use describe::describe_frame;
pub use divergence::{Comparison, Verdict, is_in_doubt};
pub use export::{Export, Exported, Outcome};
pub use flaw::Flaw;
pub use fragments::{Fragment, FragmentsOpened};
pub use gateway::{Gateway, GatewayConfig};
pub use host::Host;
pub use host::Queue;
pub use log::{LogSource, Position};
pub use opened::{OpenError, Opened};
pub use payloads::{Coding, Fragments, Recoded};
pub use requests::Join;
pub use snapshot::{
    Release, SNAPSHOT_UNWRITTEN_BYTES_MAX, SnapshotId, SnapshotRead, SnapshotWrite,
};
pub use version::{ALARM_LEVEL, FIRST_LEVEL, SupportedVersions, WireVersion};
