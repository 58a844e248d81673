//! What every face has over HTTP, whatever it speaks besides.
//!
//! [`add_routes`] answers operators: is a replica well, what does it say of itself, what does it count.
//! [`connections`] takes connections through the door that all of a replica pass, and [`until_drained`]
//! serves them until the face is told to stop.

mod routes;
mod serving;

pub use routes::{Console, Metrics, Probe, Probing, add_routes, json};
pub use serving::{ShutDown, connections, until_drained};
