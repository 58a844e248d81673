//! What a protocol registers, and the line that registers it.

use quorate_core::{Epoch, Machine, Seat};

/// A registered protocol. Its registration line gives it to the server, the simulator, the
/// bench and every generic test.
pub trait Protocol: 'static {
    /// The name operators use.
    const NAME: &'static str;
    /// The state machine of one replica.
    type Machine: Machine<Config: Send, Message: Send, Record: Send, Timer: Send, Base: Send>
        + Send
        + 'static;

    /// Checks an epoch's parameters and gives the configuration of one seat in it. The error
    /// says which parameter is wrong and what would be right.
    fn config(seat: &Seat) -> Result<<Self::Machine as Machine>::Config, String>;

    /// How many replicas may fail at once while the cluster keeps serving.
    fn failures_survived(epoch: &Epoch) -> usize;

    /// Deliberate faults that a checker of this protocol must find.
    fn mutants() -> Vec<Mutant<Self::Machine>>;
}

/// A named, deliberate fault: only tests and the simulator ever apply one.
pub struct Mutant<M: Machine> {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is broken.
    pub what: &'static str,
    /// How.
    pub sabotage: Sabotage<M>,
}

/// How a mutant breaks its protocol.
pub enum Sabotage<M: Machine> {
    /// Changes the configuration, such as a threshold.
    Config(fn(&mut M::Config)),
    /// Claims to have persisted the records for which this holds, and does not.
    Forget(fn(&M::Record) -> bool),
    /// Starts a replica that lost its promises as if it had made none.
    Amnesia,
}

/// Something to do with a protocol whose type is known only at run time.
pub trait Visitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<P: Protocol>(self) -> Self::Output;
}

macro_rules! register {
    ($($protocol:ty),* $(,)?) => {
        /// The names of all protocols, in the order they are listed to people.
        #[must_use]
        pub fn names() -> Vec<&'static str> {
            vec![$(<$protocol as Protocol>::NAME),*]
        }

        /// Calls `visitor` with the protocol called `name`; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$protocol as Protocol>::NAME {
                return Some(visitor.visit::<$protocol>());
            })*
            let _ = visitor;
            None
        }
    };
}

register! { crate::rabia::Rabia }
