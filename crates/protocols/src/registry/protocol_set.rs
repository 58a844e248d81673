//! The protocols that a program has: the registered ones, or one of its own.

use crate::registry::any::{AnyConfig, AnyMachine};
use crate::registry::catalogue::{Judge, Read, Registered};
use crate::registry::{Protocol, Visitor, names, of_its_epoch, unknown_among, usable};
use crate::shared::decided::DecidedSet;
use bytes::Bytes;
use quorate_core::{Catalogue, Entry, Epoch, Machine, Numbers, Seat, Touches, Unfit, WireError};
use std::fmt;
use std::marker::PhantomData;

/// The protocols among which a program's clusters can choose, and a machine that runs any of them.
pub trait ProtocolSet: 'static {
    /// The machine of a replica, whichever of the protocols its epoch names.
    type Machine: Machine<Config: Send, Message: Send, Record: Send, Timer: Send, Base = DecidedSet>
        + Send
        + 'static;

    /// The protocols, as epochs know them.
    const CATALOGUE: &'static dyn Catalogue;

    /// The names of the protocols, in the order they are listed to people.
    fn names() -> Vec<&'static str>;

    /// Checks an epoch's parameters and gives the configuration of one seat in it, for an application whose
    /// commands touch this; `None` if all of them depend on all others.
    ///
    /// # Errors
    /// Says which parameter is wrong, or that the program does not have the protocol.
    fn config(
        seat: &Seat,
        touches: Option<Touches>,
    ) -> Result<<Self::Machine as Machine>::Config, String>;

    /// Whether a cluster may go on with the protocol called `name`, where yardsticks are allowed or are not.
    ///
    /// # Errors
    /// Says that there is none, or what allows it.
    fn usable(name: &str, may_measure: bool) -> Result<(), String> {
        let _ = may_measure;
        match Self::names().contains(&name) {
            true => Ok(()),
            false => Err(unknown_among(name, &Self::names())),
        }
    }
}

impl ProtocolSet for Registered {
    type Machine = AnyMachine;

    const CATALOGUE: &'static dyn Catalogue = &Registered;

    fn names() -> Vec<&'static str> {
        names()
    }

    fn usable(name: &str, may_measure: bool) -> Result<(), String> {
        usable(name, may_measure)
    }

    fn config(seat: &Seat, touches: Option<Touches>) -> Result<AnyConfig, String> {
        Ok(AnyConfig::of(seat)?.touching(touches))
    }
}

/// One protocol alone, which need not be registered: what a program runs that brings a protocol of its own.
pub struct Only<P>(PhantomData<fn() -> P>);

impl<P: Protocol> fmt::Debug for Only<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Only({})", P::NAME)
    }
}

impl<P: Protocol> ProtocolSet for Only<P> {
    type Machine = P::Machine;

    const CATALOGUE: &'static dyn Catalogue = &Only::<P>(PhantomData);

    fn names() -> Vec<&'static str> {
        vec![P::NAME]
    }

    fn config(
        seat: &Seat,
        touches: Option<Touches>,
    ) -> Result<<P::Machine as Machine>::Config, String> {
        if seat.epoch.protocol != P::NAME {
            return Err(unknown_among(&seat.epoch.protocol, &[P::NAME]));
        }
        let mut config = P::config(&of_its_epoch(seat))?;
        if let Some(touches) = touches {
            P::commute(&mut config, touches);
        }
        Ok(config)
    }
}

impl<P: Protocol> Catalogue for Only<P> {
    fn numbers(&self, _level: u32, epoch: &Epoch) -> Result<Numbers, Unfit> {
        match epoch.protocol == P::NAME {
            true => Judge(epoch).visit::<P>(),
            false => Err(Unfit::Protocol),
        }
    }

    fn level_of(&self, _protocol: &str) -> u32 {
        P::LEVEL
    }

    fn entry_of(&self, protocol: &str, record: Bytes) -> Result<Option<Entry>, WireError> {
        match protocol == P::NAME {
            true => Read(record).visit::<P>(),
            false => Err(WireError::Range("name of a protocol")),
        }
    }
}
