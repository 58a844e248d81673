//! What every face has over HTTP, whatever it speaks besides.
//!
//! [`add_routes`] answers operators: is a replica well, what does it say of itself, what does it count.
//! [`serve`] takes connections, within bounds, and serves HTTP on them until the face is told to stop. The face of a
//! remote gateway has [`Members`] to pass requests on to.

mod connections;
mod dial;
mod forward;
mod metered;
mod routes;
mod side_ports;
pub mod websocket;

pub use connections::{
    Backpressure, CommonName, ConnectionLimits, Encrypted, Face, Heads, TakenOver, Takeover,
    is_call, serve,
};
pub use dial::Dialer;
pub use forward::{Members, Unanswered};
pub use metered::{Metered, REQUEST_BYTES, ROOM_PATIENCE, admit, exhausted, metered, overloaded};
pub use routes::{
    Console, Guard, Guarding, Metrics, Probe, Probing, RouteRight, add_routes, alarm_name, json,
    metrics_page,
};
pub use side_ports::{observer_limits, observing, serve_beside, serve_routes, share_out};
