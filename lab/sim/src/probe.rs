//! A machine around a machine that writes down what it does, when a trace is asked for.

use quorate_core::{
    Decoder, EntryId, Input, Introspect, Machine, Now, Out, Output, Past, WireError,
};
use std::cell::RefCell;
use std::fmt;
use std::hash::Hasher;
use std::rc::Rc;

/// Lines of a trace, shared by all machines of a seed.
pub(crate) type Lines = Rc<RefCell<Vec<String>>>;

/// The machine inside.
#[derive(Clone)]
pub(crate) struct Probe<M: Machine> {
    inner: M,
    scratch: Out<M>,
    lines: Option<Lines>,
}

/// The inner configuration, and where to write.
#[derive(Clone)]
pub(crate) struct Config<M: Machine> {
    pub(crate) inner: M::Config,
    /// Where to write down inputs and outputs.
    pub(crate) lines: Option<Lines>,
}

impl<M: Machine> fmt::Debug for Config<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<M: Machine> Machine for Probe<M> {
    type Message = M::Message;
    type Record = M::Record;
    type Timer = M::Timer;
    type Base = M::Base;
    type Config = Config<M>;

    fn message(protocol: &str, input: &mut Decoder) -> Result<Self::Message, WireError> {
        M::message(protocol, input)
    }

    fn record(protocol: &str, input: &mut Decoder) -> Result<Self::Record, WireError> {
        M::record(protocol, input)
    }

    fn recover(config: &Self::Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let mut scratch = Out::default();
        let past = past.map(|record| record);
        note(&config.lines, || {
            format!("  recover {}", describe_past(&past))
        });
        let inner = M::recover(&config.inner, past, now, &mut scratch);
        let mut probe = Probe {
            inner,
            scratch,
            lines: config.lines.clone(),
        };
        probe.forward(out);
        probe
    }

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        note(&self.lines, || format!("  -> {}", describe_input(&input)));
        self.inner.step(now, input.pass_on(), &mut self.scratch);
        self.forward(out);
    }

    quorate_core::delegate!(Machine: M, config => &config.inner, Probe { inner, .. } => inner);

    fn rests_on(config: &Self::Config, record: &Self::Record) -> Option<EntryId> {
        M::rests_on(&config.inner, record)
    }
}

impl<M: Machine> Introspect for Probe<M> {
    fn fingerprint(&self, to: &mut impl Hasher) {
        self.inner.fingerprint(to);
    }

    quorate_core::delegate!(Introspect: Probe { inner, .. } => inner);
}

impl<M: Machine> Probe<M> {
    /// Hands on what the inner machine said; both number their records alike.
    fn forward(&mut self, out: &mut Out<Self>) {
        for output in self.scratch.drain() {
            note(&self.lines, || format!("  <- {}", describe_output(&output)));
            match output {
                Output::Persist { lsn, record } => {
                    let outer = out.persist(record);
                    assert_eq!(outer, lsn, "every record is handed on");
                }
                output => out.pass_on(output),
            }
        }
    }
}

fn note(lines: &Option<Lines>, line: impl FnOnce() -> String) {
    if let Some(lines) = lines {
        lines.borrow_mut().push(line());
    }
}

// These types derive `Debug` only for machines that have it, which nothing asks of a machine.

fn describe_past<M: Machine>(past: &Past<M>) -> String {
    match past {
        Past::Fresh => "Fresh".into(),
        Past::Intact {
            next,
            base,
            records,
        } => {
            format!("Intact at {next:?}, base {base:?}, records {records:?}")
        }
        Past::Lost { next, base } => format!("Lost at {next:?}, base {base:?}"),
    }
}

fn describe_input<M: Machine>(input: &Input<M>) -> String {
    match input {
        Input::Submit(commands) => {
            let ids: Vec<_> = commands
                .iter()
                .map(|command| (command.id, command.class))
                .collect();
            format!("Submit {ids:?}")
        }
        Input::Withdraw(ids) => format!("Withdraw {ids:?}"),
        Input::Message { from, message } => format!("Message from {from:?}: {message:?}"),
        Input::Timer(timer) => format!("Timer {timer:?}"),
        Input::Durable(lsn) => format!("Durable {lsn:?}"),
        Input::Held(entry) => format!("Held {entry:?}"),
        Input::Applied {
            slot,
            entry,
            results,
        } => format!("Applied {entry:?} in {slot:?}, {} results", results.len()),
        Input::Installed { next, base } => format!("Installed before {next:?}, base {base:?}"),
        Input::Prefer(member) => format!("Prefer {member:?}"),
        Input::Link { peer, up } => format!("Link to {peer:?}, up {up}"),
    }
}

fn describe_output<M: Machine>(output: &Output<M>) -> String {
    match output {
        Output::Send { to, message, after } => {
            format!("Send to {to:?} after {after:?}: {message:?}")
        }
        Output::Persist { lsn, record } => format!("Persist {lsn:?}: {record:?}"),
        Output::Note(record) => format!("Note {record:?}"),
        Output::Arm { timer, due } => format!("Arm {timer:?} {due:?}"),
        Output::Disarm(timer) => format!("Disarm {timer:?}"),
        Output::Gather(entry) => format!("Gather {entry:?}"),
        Output::Forget(entry) => format!("Forget {entry:?}"),
        Output::CatchUp { from, through } => format!("CatchUp from {from:?} through {through:?}"),
        Output::Inform { peer, from } => format!("Inform {peer:?} from {from:?}"),
        Output::Deliver { slot, entry } => format!("Deliver {slot:?}: {entry:?}"),
        Output::Execute { slot, entry } => format!("Execute {slot:?}: {entry:?}"),
        Output::Retract { from } => format!("Retract from {from:?}"),
        Output::Tell { gateway, entry, .. } => format!("has {entry:?} told to {gateway}"),
        Output::Reply { id, outcome } => format!("Reply {id:?}: {outcome:?}"),
        Output::Emit(event) => format!("Emit {event:?}"),
    }
}
