//! What every face has over HTTP, whatever it speaks besides.
//!
//! [`add_routes`] answers operators: is a replica well, what does it say of itself, what does it count.
//! [`serve`] takes connections, within bounds, and serves HTTP on them until the face is told to stop. The face of a
//! remote gateway has [`Members`] to pass requests on to.

mod connections;
mod console;
mod dial;
mod forward;
mod member_routes;
mod metered;
mod page;
mod probe_counts;
mod probes;
mod routes;
mod side_ports;
mod web_console;
pub mod websocket;

pub use connections::{
    Backpressure, CommonName, ConnectionLimits, Encrypted, Face, Heads, TakenOver, Takeover,
    is_call, serve,
};
pub use console::{
    Console, Guard, Guarding, Metrics, MoreMetrics, Paging, Probe, Probing, RouteRight, alarm_name,
    json,
};
pub use dial::Dialer;
pub use forward::{Members, Unanswered};
pub use metered::{Metered, REQUEST_BYTES, ROOM_PATIENCE, admit, exhausted, metered, overloaded};
pub use page::Page;
pub use probe_counts::ProbeCounts;
pub use routes::{add_routes, metrics_page};
pub use side_ports::{observer_limits, observing, serve_beside, serve_routes, share_out};
pub use web_console::is_of_console;
