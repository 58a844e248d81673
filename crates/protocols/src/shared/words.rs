//! What every protocol would write out alike of the traits it implements.

/// The part of an implementation of [`quorate_core::Machine`] that reads messages and records, for a machine
/// whose words say all that is needed ([`quorate_core::Plain`]).
macro_rules! plain_words {
    () => {
        fn message(
            _: &str,
            input: &mut quorate_core::Decoder,
        ) -> Result<Self::Message, quorate_core::WireError> {
            quorate_core::Wire::decode(input)
        }

        fn record(
            _: &str,
            input: &mut quorate_core::Decoder,
        ) -> Result<Self::Record, quorate_core::WireError> {
            quorate_core::Wire::decode(input)
        }
    };
}
pub(crate) use plain_words;

/// What implementations of [`quorate_core::Machine`] begin with whose types have their names where this stands
/// (`Message`, `Record`, `Timer`, `Config`) and whose `Replica::start` makes a replica of what it wrote.
macro_rules! plain_machine {
    () => {
        type Message = Message;
        type Record = Record;
        type Timer = Timer;
        type Base = $crate::shared::decided::DecidedSet;
        type Config = Config;

        $crate::shared::words::plain_words!();

        fn recover(
            config: &Config,
            past: quorate_core::Past<Self>,
            now: Now,
            out: &mut Out<Self>,
        ) -> Self {
            Replica::start(config, past, now, out)
        }
    };
}
pub(crate) use plain_machine;

/// The part of an implementation of [`quorate_core::Introspect`] that says what a replica is up to, by the function
/// `explain` of this module, and has it check itself.
macro_rules! plain_checks {
    ($describe:ident) => {
        fn explain(&self) -> String {
            $describe::explain(self)
        }

        fn check(&self) {
            self.check_all();
        }
    };
}
pub(crate) use plain_checks;

/// The part of an implementation of [`crate::Protocol`] that names what stands under the same names in most folders:
/// the machine `Replica`, its `Config` of a seat, its `BRANCHES`, the `VARIATIONS` of its parameters, and its
/// mutants.
macro_rules! plain_protocol {
    () => {
        type Machine = Replica;

        fn config(seat: &quorate_core::Seat) -> Result<Config, String> {
            Config::new(seat)
        }

        fn branches() -> &'static [&'static str] {
            BRANCHES
        }

        fn variations() -> &'static [(&'static str, &'static [&'static str])] {
            VARIATIONS
        }

        fn mutants() -> Vec<Mutant<Replica>> {
            mutants::all()
        }
    };
}
pub(crate) use plain_protocol;

/// The part of an implementation of [`crate::Protocol`] that says messages, records and states: by the functions
/// `message`, `record` and `state` of this module.
macro_rules! described_by {
    ($($describe:ident)::+) => {
        fn describe_message(message: &<Self::Machine as quorate_core::Machine>::Message) -> String {
            $($describe)::+::message(message)
        }

        fn describe_record(record: &<Self::Machine as quorate_core::Machine>::Record) -> String {
            $($describe)::+::record(record)
        }

        fn describe_state(machine: &Self::Machine) -> Vec<String> {
            $($describe)::+::state(machine)
        }
    };
}
pub(crate) use described_by;

/// The implementation of [`quorate_core::Machine`] of a yardstick that takes part or, having lost its promises,
/// `is_silent`: each input goes to the method that has its name, and then what became possible is done. Its records
/// reach as far as it keeps slots, unless an expression says otherwise.
#[cfg(feature = "yardsticks")]
macro_rules! yardstick_machine {
    () => {
        $crate::shared::words::yardstick_machine!(|config: &Config| Some(config.slots_max));
    };
    ($reach:expr) => {
        $crate::shared::words::plain_machine!();

        fn step(&mut self, now: Now, input: quorate_core::Input<Self>, out: &mut Out<Self>) {
            use quorate_core::Input;

            self.now_ns = now.mono_ns;
            match input {
                Input::Submit(commands) => self.on_submit(commands, out),
                Input::Withdraw(ids) => self.on_withdraw(&ids, out),
                Input::Message { from, message } => self.on_message(from, message, out),
                Input::Timer(timer) => self.on_timer(timer, out),
                Input::Durable(lsn) => self.disk.confirm(lsn),
                Input::Installed { next, base } => self.on_installed(next, base, out),
                Input::Link { peer, up } => self.on_link(peer, up, out),
                Input::Prefer(member) => self.on_prefer(member, out),
                // It has nothing gathered, and nothing executed ahead.
                Input::Held(_) | Input::Applied { .. } => {}
            }
            self.run_to_fixpoint(now, out);
        }

        fn room(&self) -> usize {
            self.queue_room()
        }

        fn is_serving(&self) -> bool {
            !self.is_silent
        }

        fn reach(config: &Config) -> Option<u64> {
            ($reach)(config)
        }
    };
}
#[cfg(feature = "yardsticks")]
pub(crate) use yardstick_machine;

/// Says of messages and records that entries are in them whole: there are no payloads beside them.
#[cfg(feature = "yardsticks")]
macro_rules! carried_whole {
    ($($word:ident),+) => {
        $(impl quorate_core::Carry for $word {})+
    };
}
#[cfg(feature = "yardsticks")]
pub(crate) use carried_whole;
