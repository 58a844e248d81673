//! Another server that is followed: what it does is carried out here, and clients are served by it until the cutover.
//!
//! Its stream is accepted as real servers have it ([`Intake`]): whole units, each byte once. Keys stay beyond their
//! ends meanwhile. It is the other server that takes them out, by a command of its stream; whoever did so by a clock of
//! its own would lose a key whose end was moved in time, where the command that moves it is carried out a little later.

use crate::context::Exec;
use crate::dispatch;
use crate::fault::Fault;
use crate::reply::Reply;
use crate::strings::STRING_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use quorate_core::{Admission, Decoder, Encoder, Wire, WireError};
use quorate_redis_effects::{BODY_TAG, Command, Import, Intake, Outcome};
use quorate_resp::{Limits, RequestParser, Resp};
use std::fmt;

/// The first byte of a body of another server's stream. Other bodies begin with other ones.
pub(crate) const STREAM_TAG: u8 = BODY_TAG;

/// What every client is told while another server is followed.
pub(crate) const FOLLOWS: Fault = Fault::of(
    "LOADING Quorate follows another server and serves nobody until `quorate redis cutover`, \
     nothing was done, try again",
);

/// Commands of a stream that change nothing here: frames of transactions, which one body has as a whole, questions to
/// replicas, and scripts that are kept for later, of which the stream has what they do.
const SILENT: [&[u8]; 4] = [b"multi", b"exec", b"replconf", b"script"];
/// Subcommands of `FUNCTION` that change nothing where there are no functions.
const SILENT_OF_FUNCTION: [&[u8]; 2] = [b"flush", b"delete"];
/// Bytes of a command that are shown where it failed, at most.
const SHOWN_BYTES_MAX: usize = 128;
/// Bytes of a unit, at most: it is a part of snapshots while it is not complete.
const UNIT_BYTES_MAX: u64 = 96 << 20;
/// The bounds of a command. Those of the unit are tighter.
const LIMITS: Limits = Limits {
    arguments_max: UNIT_BYTES_MAX as usize,
    bulk_bytes_max: UNIT_BYTES_MAX as usize,
    request_bytes_max: UNIT_BYTES_MAX as usize,
};

/// Where the stream of another server stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The number of times that following began, went on elsewhere or ended.
    pub epoch: u64,
    /// The bytes of the stream that are carried out.
    pub len: u64,
    /// How far what the other server has is here; `None` if clients are served.
    pub import: Option<Import>,
    /// Why what came could not be carried out: everything has to be brought over anew.
    pub failure: Option<String>,
}

/// A server that is or was followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Followed {
    intake: Intake,
    /// The database in which the next command of the stream is carried out.
    db: u32,
    failure: Option<Failed>,
}

/// What the other server did and the store cannot.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Failed {
    /// The command and what it names first, for people.
    command: String,
    /// The error, where it was carried out by this program: another version may word it differently, and all replicas
    /// have to have the same state.
    error: Option<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the other server did {:?}, which fails here",
            self.command
        )?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// What a command of the log asks of the store.
#[derive(Debug)]
pub(crate) enum Transition {
    /// An import begins: the store is emptied, and keys stay beyond their ends.
    Begin,
    /// The import is over: clients are served, and keys end in time.
    End,
    /// These whole units are to be carried out, if any.
    Continue(Vec<Bytes>),
}

impl Followed {
    /// Where the stream stands, and why it failed if it did.
    pub(crate) fn standing(&self) -> Standing {
        let stream = self.intake.stream();
        Standing {
            epoch: stream.epoch,
            len: stream.len,
            import: stream.import,
            failure: self.failure.as_ref().map(Failed::to_string),
        }
    }

    /// Whether clients are served by the other server.
    pub(crate) fn is_active(&self) -> bool {
        self.intake.stream().import.is_some()
    }

    /// Whether only a part of what the other server has is here.
    pub(crate) fn is_loading(&self) -> bool {
        self.intake.stream().import == Some(Import::Loading)
    }

    /// Whether anything was ever followed.
    pub(crate) fn is_used(&self) -> bool {
        self.intake.stream().epoch > 0
    }

    /// Takes a command of the log: what it came to, and what follows from it. Nobody begins to follow where there are
    /// keys: clients have written them.
    pub(crate) fn take(
        &mut self,
        admission: Admission,
        body: &Bytes,
        has_keys: impl FnOnce() -> bool,
    ) -> (Outcome, Transition) {
        let before = *self.intake.stream();
        let command = Command::from_bytes(body.clone());
        let is_refused = match command {
            Ok(Command::Import { .. }) => before.import.is_none() && has_keys(),
            _ => self.failure.is_some(),
        };
        if is_refused {
            let (epoch, len) = (before.epoch, before.len);
            let nothing = Transition::Continue(Vec::new());
            return (Outcome::Elsewhere { epoch, len }, nothing);
        }
        let (outcome, accepted) = self.intake.carry_out(admission, command);
        let now = self.intake.stream();
        let transition = match (now.epoch > before.epoch, now.import) {
            (true, Some(Import::Loading)) => {
                (self.db, self.failure) = (0, None);
                Transition::Begin
            }
            (true, None) => Transition::End,
            _ => Transition::Continue(accepted),
        };
        if self.intake.unit_bytes() > UNIT_BYTES_MAX {
            let begin = self.intake.unit().first().map(|part| begin_of(part));
            let error = format!("ERR it is longer than {UNIT_BYTES_MAX} bytes");
            self.fail(begin.unwrap_or_default(), error);
        }
        (outcome, transition)
    }

    fn fail(&mut self, command: String, error: String) {
        let error = Some(error);
        self.failure = Some(Failed { command, error });
        self.intake.fail();
    }

    /// Carries out whole units of the stream. What fails ends the following: the other server did it.
    pub(crate) fn carry_out(&mut self, accepted: &[Bytes], exec: &mut Exec<'_>) {
        exec.db = self.db;
        let done = run(accepted, exec);
        self.db = exec.db;
        if let Err((command, error)) = done {
            self.fail(command, error);
        }
    }
}

/// Carries out commands one behind the other, up to the first that fails: which one that is, and why.
fn run(accepted: &[Bytes], exec: &mut Exec<'_>) -> Result<(), (String, String)> {
    let mut input = BytesMut::with_capacity(accepted.iter().map(Bytes::len).sum());
    accepted
        .iter()
        .for_each(|part| input.extend_from_slice(part));
    let mut parser = RequestParser::new(LIMITS);
    let mut out = Reply::new(Resp::Two);
    loop {
        let next = parser.next(&mut input);
        let next = next.map_err(|why| (begin_of(&input), format!("ERR {why}")))?;
        let Some(args) = next else {
            return match input.is_empty() {
                true => Ok(()),
                false => Err((begin_of(&input), "ERR it has no end".to_owned())),
            };
        };
        if is_silent(&args) {
            continue;
        }
        let done = match args.iter().all(|arg| arg.len() <= STRING_BYTES_MAX) {
            true => dispatch::carry_out_call(exec, &args, &mut out),
            false => Err(Fault::TOO_LONG),
        };
        done.map_err(|Fault(why)| (shown(&args), why.into_owned()))?;
        out.truncate(0);
    }
}

fn is_silent(args: &[Bytes]) -> bool {
    let is = |at: usize, names: &[&[u8]]| {
        let arg = args.get(at);
        arg.is_some_and(|arg| names.iter().any(|name| arg.eq_ignore_ascii_case(name)))
    };
    is(0, &SILENT) || is(0, &[b"function"]) && is(1, &SILENT_OF_FUNCTION)
}

/// The name of a command and what it names first, for people.
fn shown(args: &[Bytes]) -> String {
    let texts: Vec<_> = args.iter().take(2).map(|arg| begin_of(arg)).collect();
    texts.join(" ")
}

/// The first bytes of something, as text.
fn begin_of(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    String::from_utf8_lossy(part).into_owned()
}

impl Wire for Followed {
    fn encode(&self, out: &mut Encoder) {
        self.intake.encode(out);
        out.varint(u64::from(self.db));
        let command = self.failure.as_ref().map(|failed| &failed.command);
        out.u8(u8::from(command.is_some()));
        command
            .iter()
            .for_each(|command| out.bytes(&(*command).clone().into()));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let intake = Intake::decode(input)?;
        let db = u32::try_from(input.varint()?).ok();
        let db = db.filter(|db| *db < crate::keyspace::DATABASES);
        let failure = match input.u8()? {
            0 => None,
            1 => {
                let command = String::from_utf8(input.bytes()?.into());
                let command = command.map_err(|_| WireError::Range("text of a command"))?;
                let error = None;
                Some(Failed { command, error })
            }
            tag => return Err(WireError::Tag("failure in a snapshot", tag)),
        };
        Ok(Followed {
            intake,
            db: db.ok_or(WireError::Range("database"))?,
            failure,
        })
    }
}

#[cfg(test)]
mod fuzz;
