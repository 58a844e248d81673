//! From the words of a call to its reply.

use crate::body::{Call, Request, Watched};
use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::reply::Reply;
use crate::table::{Command, Run, find, is_of_redis};
use crate::text::Sought;
use crate::users::{Asker, User, UserTable};
use bytes::Bytes;
use quorate_core::Admission;

/// Replies of a query reach so many bytes at most, but for the last one: the calls behind it are to be asked again.
pub const REPLIES_BYTES_MAX: usize = 1 << 20;

/// Once the replies of one body have reached so many bytes, calls that read are refused: results stay in memory for a
/// while on all replicas.
const BODY_REPLIES_BYTES_MAX: usize = 32 << 20;

/// Bytes of a name or of arguments that an error quotes, at most.
const QUOTED_BYTES_MAX: usize = 128;

/// Why a call is refused that names no command of the store, or has the wrong number of arguments: the text of the
/// error, without what surrounds it on the wire. `None` if it is not refused.
#[must_use]
pub fn refused(args: &[Bytes]) -> Option<String> {
    command(args).err().map(|fault| fault.0.into_owned())
}

/// The command that a call names.
fn command(args: &[Bytes]) -> Result<&'static Command, Fault> {
    let Some((name, rest)) = args.split_first() else {
        return Err(Fault::of("ERR a call without a name"));
    };
    let Some(command) = find(name) else {
        return Err(unknown(name, rest));
    };
    match command.check_arity(args.len()) {
        true => Ok(command),
        false => Err(Fault::arity(command.name)),
    }
}

fn unknown(name: &[u8], args: &[Bytes]) -> Fault {
    let quoted = |bytes: &[u8], most: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
    };
    let name_text = quoted(name, QUOTED_BYTES_MAX);
    if is_of_redis(name) {
        let name = name_text.to_lowercase();
        let text = format!(
            "ERR the embedded store has no command '{name}'; a real Redis or Valkey server has it \
             (--redis-server)"
        );
        return Fault(text.into());
    }
    let mut begin = String::new();
    for arg in args {
        if begin.len() >= QUOTED_BYTES_MAX {
            break;
        }
        begin += &format!("'{}' ", quoted(arg, QUOTED_BYTES_MAX - begin.len()));
    }
    let text = format!("ERR unknown command '{name_text}', with args beginning with: {begin}");
    Fault(text.into())
}

/// Carries out the calls of a body.
pub(crate) fn carry_out(
    exec: &mut Exec<'_>,
    request: &Request,
    users: Option<&UserTable>,
    admission: Admission,
    out: &mut Reply,
) {
    let asking = asking(users, request.asker.as_ref());
    if let Err(fault) = &asking
        && request.atomic
    {
        out.fault(fault);
        return;
    }
    if request.atomic {
        if request
            .watched
            .iter()
            .any(|watched| version(exec, watched) != watched.version)
        {
            out.null_array();
            return;
        }
        out.array(request.calls.len());
    }
    for call in &request.calls {
        let run = |out: &mut Reply| {
            let command = command(&call.args)?;
            permit(&asking, command, &call.args)?;
            admit(command, admission)?;
            match command.run {
                Run::Read(_) if out.len() >= BODY_REPLIES_BYTES_MAX => {
                    let most = BODY_REPLIES_BYTES_MAX;
                    let text =
                        format!("ERR the replies to this transaction are longer than {most} bytes");
                    Err(Fault(text.into()))
                }
                Run::Read(read) => exec.look(|view| read(view, &call.args, out)),
                Run::Write(write) => write(exec, &call.args, out),
            }
        };
        reply_with(out, run);
    }
}

/// Carries out one call of another server's stream: whoever asked for it asked there.
pub(crate) fn carry_out_call(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    match command(args)?.run {
        Run::Read(read) => exec.look(|view| read(view, args, out)),
        Run::Write(write) => write(exec, args, out),
    }
}

/// Refuses the calls of a body, all for one reason.
pub(crate) fn refuse(request: &Request, fault: &Fault, out: &mut Reply) {
    let replies = if request.atomic {
        1
    } else {
        request.calls.len()
    };
    (0..replies).for_each(|_| out.fault(fault));
}

/// Answers calls that read, up to [`REPLIES_BYTES_MAX`].
pub(crate) fn answer<'a>(
    view: impl Fn() -> View<'a>,
    calls: &[Call],
    asking: &Asking<'_>,
    out: &mut Reply,
) {
    for call in calls {
        if out.len() >= REPLIES_BYTES_MAX {
            break;
        }
        reply_with(out, |out| {
            let command = command(&call.args)?;
            permit(asking, command, &call.args)?;
            match command.run {
                Run::Read(read) => read(&view(), &call.args, out),
                Run::Write(_) => {
                    let text = format!("ERR '{}' changes what it finds: order it", command.name);
                    Err(Fault(text.into()))
                }
            }
        });
    }
}

/// The user whose rights count, if there are users; or why nobody is.
pub(crate) type Asking<'a> = Result<Option<&'a User>, Fault>;

/// The user in whose name calls are asked.
pub(crate) fn asking<'a>(users: Option<&'a UserTable>, asker: Option<&Asker>) -> Asking<'a> {
    match (users, asker) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Fault::of("NOAUTH Authentication required.")),
        (Some(users), asker) => users.asking(asker).map(Some),
    }
}

/// Refuses what whoever asks may not ask for.
fn permit(asking: &Asking<'_>, command: &'static Command, args: &[Bytes]) -> Result<(), Fault> {
    let user = asking.clone()?;
    match user.and_then(|user| user.denies(command, args)) {
        None => Ok(()),
        Some(denied) => Err(Fault(denied.to_string().into())),
    }
}

/// Writes a reply, or the error that takes its place.
fn reply_with(out: &mut Reply, run: impl FnOnce(&mut Reply) -> Result<(), Fault>) {
    let begin = out.len();
    if let Err(fault) = run(out) {
        out.truncate(begin);
        out.fault(&fault);
    }
}

fn version(exec: &Exec<'_>, watched: &Watched) -> u64 {
    let item = exec.item_of(watched.db, Sought::new(&watched.key));
    item.map_or(0, |item| item.version)
}

/// Refuses a change of users where the group's alarms do not allow any.
pub(crate) fn admit_change(admission: Admission) -> Result<(), Fault> {
    match admission {
        Admission::Nothing => Err(MISCONF),
        _ => Ok(()),
    }
}

const MISCONF: Fault = Fault::of(
    "MISCONF replicas hold different states, and nobody knows which one is right: \
     nothing is changed until the alarm CORRUPT is lifted",
);

/// Refuses what the group's alarms do not allow.
fn admit(command: &Command, admission: Admission) -> Result<(), Fault> {
    match admission {
        Admission::NoGrowth if command.is_denyoom() => Err(Fault::of(
            "OOM command not allowed when used memory > 'maxmemory'.",
        )),
        Admission::Nothing if command.is_write() => Err(MISCONF),
        _ => Ok(()),
    }
}
