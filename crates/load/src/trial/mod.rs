//! What commands share that put a cluster of their own on trial: how it is begun, the values it is
//! given, how it is asked, and who leads it.

mod args;
mod asker;
mod leader;
mod load;
mod values;

pub use args::ClusterArgs;
pub use asker::Asker;
pub use leader::leader;
pub use load::{Load, Sample};
pub use values::Values;
