//! The effects mode in virtual time.
//!
//! [`World`] runs drivers as they are against [`Fake`] servers, which speak what Redis speaks. A stand-in for the log
//! orders their commands, and does what protocols may: it lets commands change places, loses results, orders late,
//! attempts ahead and takes back. Servers die, hang and are slow, replicas crash, freeze and lag, snapshots go from
//! one to the other. Judges ask whether one server without faults could have answered as clients were answered, and
//! whether every server holds what follows from the stream before its offset.

mod beside;
mod client;
mod clients;
mod data;
mod fake;
mod faults;
mod history;
mod judging;
mod log;
mod node;
mod options;
mod ordering;
mod perform;
mod reference;
mod wanted;
mod world;

pub use beside::Beside;
pub use data::{Data, Done};
pub use fake::{Act, Fake, Socket, load};
pub use history::{Ask, FinalValues, Op, judge};
pub use log::{Log, Ordered, Read};
pub use options::{Options, Report};
pub use wanted::{Asker, Wanted};
pub use world::World;
