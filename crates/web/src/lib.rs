//! What every face has over HTTP, whatever it speaks besides.
//!
//! [`add_routes`] answers operators: is a replica well, what does it say of itself, what does it count.
//! [`connections`] takes connections through the door that all of a replica pass, and [`until_drained`]
//! serves them until the face is told to stop. The face of a gateway apart has [`Members`] to pass requests on to.

mod forward;
mod routes;
mod serving;

pub use forward::Members;
pub use routes::{Console, Metrics, Probe, Probing, add_routes, json, metrics_page};
pub use serving::{ShutDown, connections, until_drained};
