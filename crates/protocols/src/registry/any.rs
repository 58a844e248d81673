//! A machine of whichever registered protocol an epoch names: what a server runs, so that a cluster
//! may go from one protocol to another and everything around the machines exists once.
//!
//! Nothing on the wire or in the log says which protocol a message or a record is of: the epoch does,
//! and the bytes are those of the protocol alone.

#[cfg(feature = "broken")]
use crate::registry::sabotage::{Sabotaged, SabotagedConfig};
use crate::registry::{Protocol, of_its_epoch, registered, unknown_protocol};
use crate::shared::decided::DecidedSet;
use quorate_core::{
    Attachment, Carry, Decoder, Encoder, Entry, EntryId, Epoch, Input, Introspect, Machine, Now,
    Out, Past, Record, Seat, Slot, Touches, Wire, WireError, Written,
};
#[cfg(feature = "broken")]
use std::any::Any;
use std::hash::Hasher;

type Of<P> = <P as Protocol>::Machine;

/// A machine of one protocol, and where it says what it wants done, in its own words.
#[derive(Clone)]
pub struct Inside<M: Machine> {
    machine: M,
    out: Out<M>,
}

/// A machine of any protocol, and its configuration: how each input finds the machine inside.
macro_rules! any_machine {
    (
        $(#[$of_machine:meta])* $machine:ident,
        $(#[$of_config:meta])* $config:ident,
        $($name:ident: $protocol:ty, $inner:ty);*
    ) => {
        $(#[$of_machine])*
        #[derive(Clone)]
        #[allow(missing_docs, reason = "the variants are the protocols")]
        pub enum $machine {
            $($name(Box<Inside<$inner>>)),*
        }

        $(#[$of_config])*
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the variants are the protocols")]
        pub enum $config {
            $($name(<$inner as Machine>::Config)),*
        }

        impl Machine for $machine {
            type Message = AnyMessage;
            type Record = AnyRecord;
            type Timer = AnyTimer;
            type Base = DecidedSet;
            type Config = $config;

            fn message(protocol: &str, input: &mut Decoder) -> Result<AnyMessage, WireError> {
                match protocol {
                    $(<$protocol as Protocol>::NAME => Wire::decode(input).map(AnyMessage::$name),)*
                    _ => Err(UNKNOWN),
                }
            }

            fn record(protocol: &str, input: &mut Decoder) -> Result<AnyRecord, WireError> {
                match protocol {
                    $(<$protocol as Protocol>::NAME => Wire::decode(input).map(AnyRecord::$name),)*
                    _ => Err(UNKNOWN),
                }
            }

            fn recover(
                config: &$config,
                past: Past<Self>,
                now: Now,
                out: &mut Out<Self>,
            ) -> Self {
                match config {
                    $($config::$name(config) => {
                        let past = past.map(|record| match record {
                            AnyRecord::$name(record) => record,
                            _ => panic!("a record that is not of the epoch's protocol"),
                        });
                        let mut inner = out.inner();
                        let machine = Machine::recover(config, past, now, &mut inner);
                        out.absorb(&mut inner, AnyMessage::$name, AnyRecord::$name, AnyTimer::$name);
                        $machine::$name(Box::new(Inside { machine, out: inner }))
                    })*
                }
            }

            fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
                match self {
                    $($machine::$name(inside) => {
                        let Inside { machine, out: inner } = &mut **inside;
                        let input = input.try_map(
                            |message| match message {
                                AnyMessage::$name(message) => Some(message),
                                _ => None,
                            },
                            |timer| match timer {
                                AnyTimer::$name(timer) => Some(timer),
                                _ => None,
                            },
                        );
                        let Some(input) = input else { return };
                        machine.step(now, input, inner);
                        out.absorb(inner, AnyMessage::$name, AnyRecord::$name, AnyTimer::$name);
                    })*
                }
            }

            quorate_core::delegate!(
                Machine: $(
                    $inner,
                    $config::$name(config) => config,
                    $machine::$name(inside) => inside.machine
                );*
            );

            fn rests_on(config: &$config, record: &AnyRecord) -> Option<EntryId> {
                match (config, record) {
                    $(($config::$name(config), AnyRecord::$name(record)) => {
                        <$inner>::rests_on(config, record)
                    })*
                    _ => None,
                }
            }
        }

        impl Introspect for $machine {
            fn fingerprint(&self, to: &mut impl Hasher) {
                match self {
                    $($machine::$name(inside) => inside.machine.fingerprint(to)),*
                }
            }

            quorate_core::delegate!(
                Introspect: $($machine::$name(inside) => inside.machine);*
            );
        }
    };
}

macro_rules! machines {
    ($($name:ident: $protocol:ty),* $(,)?) => {
        /// A message of any registered protocol.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the variants are the protocols")]
        pub enum AnyMessage {
            $($name(<Of<$protocol> as Machine>::Message)),*
        }

        /// A record of any registered protocol.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the variants are the protocols")]
        pub enum AnyRecord {
            $($name(<Of<$protocol> as Machine>::Record)),*
        }

        /// A timer of any registered protocol.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[allow(missing_docs, reason = "the variants are the protocols")]
        pub enum AnyTimer {
            $($name(<Of<$protocol> as Machine>::Timer)),*
        }

        impl AnyConfig {
            /// Checks an epoch's parameters and gives the configuration of one seat in it.
            ///
            /// # Errors
            /// Says which parameter is wrong, or that there is no such protocol.
            pub fn of(seat: &Seat) -> Result<AnyConfig, String> {
                let seat = &of_its_epoch(seat);
                match seat.epoch.protocol.as_str() {
                    $(<$protocol as Protocol>::NAME => {
                        <$protocol as Protocol>::config(seat).map(AnyConfig::$name)
                    })*
                    unknown => Err(unknown_protocol(unknown)),
                }
            }

            /// The configuration for an application whose commands touch this; `None` if all of them depend on
            /// all others.
            #[must_use]
            pub fn touching(mut self, touches: Option<Touches>) -> AnyConfig {
                if let Some(touches) = touches {
                    match &mut self {
                        $(AnyConfig::$name(config) => {
                            <$protocol as Protocol>::commute(config, touches);
                        })*
                    }
                }
                self
            }
        }

        /// How many members of an epoch may fail at once while it keeps serving.
        #[must_use]
        pub fn failures_survived(epoch: &Epoch) -> usize {
            match epoch.protocol.as_str() {
                $(<$protocol as Protocol>::NAME => {
                    <$protocol as Protocol>::failures_survived(epoch)
                })*
                _ => 0,
            }
        }

        impl AnyMessage {
            /// On one line, in the words of the protocol's paper.
            #[must_use]
            pub fn describe(&self) -> String {
                match self {
                    $(AnyMessage::$name(message) => <$protocol as Protocol>::describe_message(message)),*
                }
            }
        }

        impl Written for AnyMessage {
            fn write(&self, out: &mut Encoder) {
                match self {
                    $(AnyMessage::$name(message) => message.encode(out)),*
                }
            }
        }

        impl Carry for AnyMessage {
            fn attachment(&self) -> Option<Attachment<'_>> {
                match self {
                    $(AnyMessage::$name(message) => message.attachment()),*
                }
            }

            fn is_to_keep(&self) -> bool {
                match self {
                    $(AnyMessage::$name(message) => message.is_to_keep()),*
                }
            }

            fn entry_mut(&mut self) -> Option<&mut Entry> {
                match self {
                    $(AnyMessage::$name(message) => message.entry_mut()),*
                }
            }
        }

        impl Written for AnyRecord {
            fn write(&self, out: &mut Encoder) {
                match self {
                    $(AnyRecord::$name(record) => record.encode(out)),*
                }
            }
        }

        impl Carry for AnyRecord {
            fn attachment(&self) -> Option<Attachment<'_>> {
                match self {
                    $(AnyRecord::$name(record) => record.attachment()),*
                }
            }

            fn is_to_keep(&self) -> bool {
                match self {
                    $(AnyRecord::$name(record) => record.is_to_keep()),*
                }
            }

            fn entry_mut(&mut self) -> Option<&mut Entry> {
                match self {
                    $(AnyRecord::$name(record) => record.entry_mut()),*
                }
            }
        }

        impl Record for AnyRecord {
            fn slot(&self) -> Option<Slot> {
                match self {
                    $(AnyRecord::$name(record) => record.slot()),*
                }
            }

            fn scalar(&self) -> Option<u8> {
                match self {
                    $(AnyRecord::$name(record) => record.scalar()),*
                }
            }

            fn drop_attachment(&mut self) {
                match self {
                    $(AnyRecord::$name(record) => record.drop_attachment()),*
                }
            }

            fn entry(&self) -> Option<&Entry> {
                match self {
                    $(AnyRecord::$name(record) => record.entry()),*
                }
            }
        }

        any_machine! {
            /// A machine of any registered protocol. What was meant for another than it runs is lost.
            AnyMachine,
            /// The configuration of a seat, whatever its epoch's protocol.
            AnyConfig,
            $($name: $protocol, Of<$protocol>);*
        }

        #[cfg(feature = "broken")]
        any_machine! {
            /// As [`AnyMachine`], and it may be broken on purpose: a checker that drives it is compiled once for all
            /// protocols.
            AnySabotaged,
            /// The configuration of a seat, and what to break.
            AnySabotagedConfig,
            $($name: $protocol, Sabotaged<Of<$protocol>>);*
        }

        #[cfg(feature = "broken")]
        impl AnySabotagedConfig {
            /// From the configuration of one protocol.
            ///
            /// # Panics
            /// If that protocol is not registered.
            #[must_use]
            pub fn of<P: Protocol>(config: &SabotagedConfig<P::Machine>) -> AnySabotagedConfig {
                let config: &dyn Any = config;
                $(if let Some(config) = config.downcast_ref::<SabotagedConfig<Of<$protocol>>>() {
                    return AnySabotagedConfig::$name(config.clone());
                })*
                panic!("{} is registered", P::NAME);
            }
        }
    };
}

registered!(machines);

/// The epoch names a protocol that this program does not have.
const UNKNOWN: WireError = WireError::Range("name of a protocol");
