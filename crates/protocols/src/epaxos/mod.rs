//! EPaxos\* (Ryabinin, Gotsman and Sutra, OPODIS'25), the corrected form of Egalitarian Paxos (Moraru, Andersen and
//! Kaminsky, SOSP'13).

mod acceptor;
mod answers;
mod check;
mod config;
mod describe;
mod footprint;
mod learner;
mod messages;
mod mutants;
mod order;
mod propose;
mod protocol;
mod recover;
mod recovery;
mod replica;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod waits;
mod wire;

pub use config::{Config, Thresholds, Waits};
pub use messages::{
    Accept, Commit, Conflict, Header, Kept, Message, PreAccept, Record, Said, Shown, Timer,
    Validate, Validated,
};
pub use mutants::Fault;
pub use protocol::EPaxos;
pub use replica::Replica;
pub use state::{Deps, Phase};
