//! What a protocol registers, and the line that registers it.

pub(crate) mod any;
pub(crate) mod catalogue;
pub(crate) mod flags;
pub(crate) mod paper;
pub(crate) mod protocol_set;
pub(crate) mod remote_gateways;
pub(crate) mod sabotage;

use crate::registry::remote_gateways::RemoteGatewayConfig;
use crate::shared::decided::DecidedSet;
use flags::Flag;
use paper::Paper;
use quorate_core::{EntryId, Epoch, Machine, Output, Plain, Seat, Touches};
use std::ops::Range;

/// What a protocol is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grade {
    /// Clusters keep data with it.
    Product,
    /// A yardstick, to compare with: safe, and neither tuned nor whole. Whoever wants a cluster of it says so.
    Measurement,
}

/// A protocol. The registration line of one of this crate gives it to the server, the simulator, the bench and
/// every generic test; a program may bring one of its own ([`crate::Only`]).
pub trait Protocol: 'static {
    /// The name operators use.
    const NAME: &'static str;
    /// Whether clusters keep data with this protocol.
    const GRADE: Grade = Grade::Product;
    /// The feature level from which on a group may go on with it ([`quorate_core::Catalogue::level_of`]).
    const LEVEL: u32 = 1;
    /// The state machine of one replica.
    type Machine: Plain<Config: Send, Message: Send, Record: Send, Timer: Send, Base = DecidedSet>
        + Send
        + 'static;

    /// Whether an answer that is given before its slot is decided names the slot that the command comes to be in.
    const ANSWERS_NAME_SLOTS: bool = true;

    /// Checks an epoch's parameters and gives the configuration of one seat in it. The error
    /// says which parameter is wrong and what would be right.
    fn config(seat: &Seat) -> Result<<Self::Machine as Machine>::Config, String>;

    /// Changes a configuration for an application whose commands commute where they touch nothing in
    /// common. A protocol that orders everything has no use for that.
    fn commute(config: &mut <Self::Machine as Machine>::Config, touches: Touches) {
        let _ = (config, touches);
    }

    /// How many replicas may fail at once while the cluster keeps serving: fewer than half, unless the protocol says
    /// otherwise.
    fn failures_survived(epoch: &Epoch) -> usize {
        epoch.n().saturating_sub(1) / 2
    }

    /// The names of all rare branches its machine reports ([`quorate_core::Event::Branch`]), so
    /// that a run of many seeds can say which of them it never took.
    fn branches() -> &'static [&'static str] {
        &[]
    }

    /// Parameters, each with values that seeds of the simulator try besides the usual one. A value that does
    /// not fit the size of a cluster is left out.
    fn variations() -> &'static [(&'static str, &'static [&'static str])] {
        &[]
    }

    /// Parameters with command-line flags of their own.
    fn flags() -> &'static [Flag] {
        &[]
    }

    /// Deliberate faults that a checker of this protocol must find.
    fn mutants() -> Vec<Mutant<Self::Machine>> {
        Vec::new()
    }

    /// What its paper says of runs without faults.
    fn paper() -> Option<&'static Paper> {
        None
    }

    /// The configuration of a remote gateway (the paper's proxy) that has the number and the boot of `seat`;
    /// `None` if the protocol has no such gateways, and requests go to members.
    fn remote_gateway(seat: &Seat, touches: Option<Touches>) -> Option<RemoteGatewayConfig> {
        let _ = (seat, touches);
        None
    }

    /// A message on one line, in the words of the protocol's paper.
    fn describe_message(message: &<Self::Machine as Machine>::Message) -> String {
        format!("{message:?}")
    }

    /// A record on one line.
    fn describe_record(record: &<Self::Machine as Machine>::Record) -> String {
        format!("{record:?}")
    }

    /// What a replica knows and has not delivered, a line per slot or so.
    fn describe_state(machine: &Self::Machine) -> Vec<String> {
        let _ = machine;
        Vec::new()
    }

    /// How the model checker searches one instance layer by layer, if the protocol works in layers:
    /// what a replica says in one depends on what it hears of the layer before, and on nothing
    /// older except a decision that may have been taken already.
    fn layers() -> Option<Layers<Self::Machine>> {
        None
    }
}

/// What a replica's record of an instance comes to, for a search layer by layer.
pub struct Layers<M: Machine> {
    /// All that the layers to come depend on besides the values of the last layer; `None` if the
    /// record is not about an instance. Records with equal gists and different pasts are taken for
    /// the same.
    pub gist: fn(&M::Record) -> Option<Gist>,
    /// The value taken in a layer.
    pub value: ValueOf<M>,
}

/// What a replica took in a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayerValue {
    /// The value, in the protocol's own code.
    pub value: u8,
    /// Whether the coin had a say in it: then some coin must lead everybody to the same value, whatever
    /// they hear.
    pub is_tossed: bool,
}

/// The value that a record holds for a layer, if it holds one.
pub type ValueOf<M> = fn(&<M as Machine>::Record, usize) -> Option<LayerValue>;

/// What the rest of an instance depends on, of one replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Gist {
    /// The entry that the replica proposed; `None` is a no-op.
    pub prop: Option<EntryId>,
    /// The request that it knows to be the only one that can be decided.
    pub request: Option<EntryId>,
    /// How many values it has taken.
    pub layer: usize,
}

/// A named, deliberate fault: only tests, the simulator and the model checker ever apply one.
pub struct Mutant<M: Machine> {
    /// The name of the mutant on the command line.
    pub name: &'static str,
    /// What is broken.
    pub what: &'static str,
    /// How it is broken.
    pub sabotage: Sabotage<M>,
    /// What finds it.
    pub catcher: Catcher,
}

impl<M: Machine> Mutant<M> {
    /// One whose configuration is wrong, found by a test: the path of its file and its name.
    pub(crate) fn by_test(
        name: &'static str,
        what: &'static str,
        edit: fn(&mut M::Config),
        test: &'static str,
    ) -> Self {
        Mutant::new(name, what, Sabotage::Config(edit), Catcher::Test(test))
    }

    pub(crate) fn new(
        name: &'static str,
        what: &'static str,
        sabotage: Sabotage<M>,
        catcher: Catcher,
    ) -> Self {
        Mutant {
            name,
            what,
            sabotage,
            catcher,
        }
    }
}

/// How a mutant breaks its protocol; [`crate::Sabotaged`] does it.
pub enum Sabotage<M: Machine> {
    /// Changes the configuration, such as a threshold.
    Config(fn(&mut M::Config)),
    /// Claims to have persisted the records for which this holds, and does not.
    Forget(fn(&M::Record) -> bool),
    /// Starts a replica that lost its promises as if it had made none.
    Amnesia,
    /// Forgets what the decided prefix implies whenever it is started or has caught up.
    ForgetBase,
    /// Changes what a replica wants done, or (where this is false) leaves it out.
    Output(fn(&mut Output<M>) -> bool),
    /// Changes what a replica wants done, by what the machine knows.
    Knowing(fn(&M, &mut Output<M>)),
    /// Takes every record for durable as soon as it is written; messages still wait.
    Hasty,
    /// Counts messages instead of senders: one that comes twice counts for another peer, too.
    CountMessages,
}

impl<M: Machine> Clone for Sabotage<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Sabotage<M> {}

/// What finds a mutant, and with how much effort at most.
#[derive(Clone, Debug)]
pub enum Catcher {
    /// Seeds of the simulator.
    Seeds {
        /// How the cluster is set up, as on its command line.
        options: &'static str,
        /// The seeds among which is one that finds it.
        seeds: Range<u64>,
    },
    /// A conversation with it, by its file among those of the protocol.
    Conversation(&'static str),
    /// A test, by the path of its file and its name.
    Test(&'static str),
}

impl Catcher {
    /// The simulator, with three replicas and disks unless the options say otherwise.
    #[must_use]
    pub fn seeds(options: &'static str, seeds: Range<u64>) -> Catcher {
        Catcher::Seeds { options, seeds }
    }
}

/// Something to do with a protocol whose type is known only at run time.
pub trait Visitor {
    /// What comes of it.
    type Output;
    /// Does something with a protocol.
    fn visit<P: Protocol>(self) -> Self::Output;
}

/// The registered protocols, a line each: calls another macro with them, in the order they are listed
/// to people.
macro_rules! registered {
    ($then:ident) => {
        $crate::registry::with_yardsticks! { $then
            Rabia: $crate::rabia::Rabia,
            MultiPaxos: $crate::multi_paxos::MultiPaxos,
            Raft: $crate::raft::Raft,
            RsPaxos: $crate::rs_paxos::RsPaxos,
            Chora: $crate::chora::Chora,
            Nezha: $crate::nezha::Nezha,
            Racos: $crate::racos::Racos,
        }
    };
}
pub(crate) use registered;

/// Calls a macro with the protocols it is given, and with the yardsticks of a program that has them, a line each.
#[cfg(feature = "yardsticks")]
macro_rules! with_yardsticks {
    ($then:ident $($products:tt)*) => {
        $then! {
            $($products)*
            Mencius: $crate::mencius::Mencius,
            FastPaxos: $crate::fast_paxos::FastPaxos,
            NoPaxos: $crate::nopaxos::NoPaxos,
            Domino: $crate::domino::Domino,
            EPaxos: $crate::epaxos::EPaxos,
        }
    };
}
#[cfg(not(feature = "yardsticks"))]
macro_rules! with_yardsticks {
    ($then:ident $($products:tt)*) => {
        $then! { $($products)* }
    };
}
pub(crate) use with_yardsticks;

macro_rules! visits {
    ($($name:ident: $protocol:ty),* $(,)?) => {
        /// The names of all protocols that clusters keep data with, in the order they are listed to people.
        #[must_use]
        pub fn names() -> Vec<&'static str> {
            of_grade(Grade::Product)
        }

        /// The names of the yardsticks that this program has, in the order they are listed to people.
        #[must_use]
        pub fn yardsticks() -> Vec<&'static str> {
            of_grade(Grade::Measurement)
        }

        /// The names of all registered protocols, yardsticks last.
        #[must_use]
        pub fn all_names() -> Vec<&'static str> {
            [names(), yardsticks()].concat()
        }

        fn of_grade(grade: Grade) -> Vec<&'static str> {
            let all = [$((<$protocol as Protocol>::NAME, <$protocol as Protocol>::GRADE)),*];
            all.into_iter().filter(|(_, its)| *its == grade).map(|(name, _)| name).collect()
        }

        /// The flags of all protocols, each with the name of its protocol.
        pub fn flags() -> impl Iterator<Item = (&'static str, &'static Flag)> {
            let all = [$((<$protocol as Protocol>::NAME, <$protocol as Protocol>::flags())),*];
            let with_name = |(name, flags): (_, &'static [Flag])| flags.iter().map(move |flag| (name, flag));
            all.into_iter().flat_map(with_name)
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

registered!(visits);

/// Whether clusters may use the protocol called `name`, where yardsticks are allowed or are not.
///
/// # Errors
/// Says that there is none, or that it is a yardstick and what allows it.
pub fn usable(name: &str, may_measure: bool) -> Result<(), String> {
    if names().contains(&name) || may_measure && yardsticks().contains(&name) {
        return Ok(());
    }
    Err(unknown_protocol(name))
}

/// What to say of a name that no protocol has that clusters keep data with.
pub(crate) fn unknown_protocol(name: &str) -> String {
    if yardsticks().contains(&name) {
        return format!(
            "{name} is a yardstick: it is there to be compared with, has no way back from lost data, and is not \
             for data that you want to keep; --allow-measurement-protocol runs it all the same"
        );
    }
    let unknown = unknown_among(name, &names());
    match cfg!(feature = "yardsticks") {
        true => unknown,
        false => format!(
            "{unknown} (this program was built without yardsticks: see --features yardsticks)"
        ),
    }
}

/// What to say of a name that none of these protocols has.
fn unknown_among(name: &str, known: &[&str]) -> String {
    let known = known.join(", ");
    format!("there is no protocol {name:?}; there is: {known}")
}

/// A seat as machines of its epoch are given it: their boots differ from those in any other epoch.
fn of_its_epoch(seat: &Seat) -> Seat {
    Seat {
        boot: seat.boot.of_epoch(seat.epoch.number),
        ..seat.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Breakable;

    impl Visitor for Breakable {
        type Output = bool;

        fn visit<P: Protocol>(self) -> bool {
            !P::mutants().is_empty()
        }
    }

    #[test]
    fn every_registered_protocol_has_faults_that_checkers_must_find() {
        for name in all_names() {
            assert_eq!(visit(name, Breakable), Some(true), "{name}");
        }
    }
}
