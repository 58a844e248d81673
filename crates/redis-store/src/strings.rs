//! Commands of strings.

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::keyspace::NEVER;
use crate::number::{self, Extended, Parsed, to_integer};
use crate::range;
use crate::reply::Reply;
use crate::text::Sought;
use crate::value::{Kind, Str, Value};
use bytes::{Bytes, BytesMut};

/// Bytes of a string, at most. `SETRANGE` and `SETBIT` make long ones from a few bytes, and what is in the log is made
/// again by every replica that starts: Redis's own bound of 512 MiB is more than a machine may have left.
pub(crate) const STRING_BYTES_MAX: usize = 64 << 20;

pub(crate) fn get(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let value = view.get::<Str>(&args[1])?;
    out.bulk_or_null(value.map(|value| &value.bytes[..]));
    Ok(())
}

pub(crate) fn mget(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    out.array(args.len() - 1);
    for key in &args[1..] {
        let item = view.item(Sought::new(key));
        let value = item.and_then(|item| Str::of(&item.value));
        out.bulk_or_null(value.map(|value| &value.bytes[..]));
    }
    Ok(())
}

pub(crate) fn strlen(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let value = view.get::<Str>(&args[1])?;
    out.count(value.map_or(0, |value| value.bytes.len()));
    Ok(())
}

pub(crate) fn getrange(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (start, end) = (to_integer(&args[2])?, to_integer(&args[3])?);
    let value = view.get::<Str>(&args[1])?;
    let bytes = value.map_or(&[][..], |value| &value.bytes);
    if start < 0 && end < 0 && start > end {
        out.bulk(b"");
        return Ok(());
    }
    // An end before the first byte is the first byte, unlike in lists.
    let end = if end < 0 {
        end.saturating_add(bytes.len() as i64).max(0)
    } else {
        end
    };
    out.bulk(&bytes[range::of(start, end, bytes.len())]);
    Ok(())
}

/// What `SET` and `GETEX` are told beside key and value.
#[derive(Default)]
struct Options {
    only_new: bool,
    only_there: bool,
    get: bool,
    keep_end: bool,
    persist: bool,
    end: Option<End>,
}

/// When a key shall end, as the client says it.
#[derive(Clone, Copy)]
struct End {
    unit_ms: i64,
    is_absolute: bool,
    /// The place of the number among the arguments.
    at: usize,
}

impl Options {
    fn parse(args: &[Bytes], first: usize, is_set: bool) -> Result<Options, Fault> {
        let mut options = Options::default();
        let mut at = first;
        while let Some(word) = args.get(at) {
            let ends_otherwise = options.keep_end || options.persist;
            let end = |options: &Options, unit_ms, is_absolute| {
                let fits = options
                    .end
                    .is_none_or(|end| (end.unit_ms, end.is_absolute) == (unit_ms, is_absolute));
                let end = End {
                    unit_ms,
                    is_absolute,
                    at: at + 1,
                };
                (fits && !ends_otherwise && at + 1 < args.len()).then_some(end)
            };
            let mut takes_end = None;
            match &word.to_ascii_uppercase()[..] {
                b"NX" if is_set && !options.only_there => options.only_new = true,
                b"XX" if is_set && !options.only_new => options.only_there = true,
                b"GET" if is_set => options.get = true,
                b"KEEPTTL" if is_set && options.end.is_none() => options.keep_end = true,
                b"PERSIST" if !is_set && options.end.is_none() => options.persist = true,
                b"EX" => takes_end = Some(end(&options, 1000, false)),
                b"PX" => takes_end = Some(end(&options, 1, false)),
                b"EXAT" => takes_end = Some(end(&options, 1000, true)),
                b"PXAT" => takes_end = Some(end(&options, 1, true)),
                _ => return Err(Fault::SYNTAX),
            }
            if let Some(end) = takes_end {
                options.end = Some(end.ok_or(Fault::SYNTAX)?);
                at += 1;
            }
            at += 1;
        }
        Ok(options)
    }
}

impl End {
    fn to_ms(self, exec: &Exec<'_>, args: &[Bytes]) -> Result<u64, Fault> {
        let wrong = || Fault::expire_time(&args[0]);
        let number = to_integer(&args[self.at])?;
        let given = number.checked_mul(self.unit_ms).filter(|_| number > 0);
        let base = if self.is_absolute {
            0
        } else {
            exec.log_ms() as i64
        };
        let end = given.and_then(|given| given.checked_add(base));
        Ok(end.ok_or_else(wrong)? as u64)
    }
}

/// The argument as a string of its own.
fn string(bytes: &Bytes) -> Value {
    Value::Str(Str::new(bytes))
}

pub(crate) fn set(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let options = Options::parse(args, 3, true)?;
    let ends_ms = match options.end {
        Some(end) => end.to_ms(exec, args)?,
        None => NEVER,
    };
    let key = &args[1];
    if options.get {
        let before = exec.get::<Str>(key)?;
        out.bulk_or_null(before.map(|before| &before.bytes[..]));
    }
    let is_asked = options.only_new || options.only_there;
    if is_asked && exec.item(key).is_some() == options.only_new {
        if !options.get {
            out.null();
        }
        return Ok(());
    }
    match options.keep_end {
        true => exec.put_keeping(key, string(&args[2])),
        false => exec.put(key, string(&args[2]), ends_ms),
    }
    if !options.get {
        out.ok();
    }
    Ok(())
}

pub(crate) fn setnx(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let is_new = exec.item(&args[1]).is_none();
    if is_new {
        exec.put(&args[1], string(&args[2]), NEVER);
    }
    out.flag(is_new);
    Ok(())
}

pub(crate) fn setex(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    set_for(exec, args, 1000, out)
}

pub(crate) fn psetex(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    set_for(exec, args, 1, out)
}

fn set_for(exec: &mut Exec<'_>, args: &[Bytes], unit_ms: i64, out: &mut Reply) -> Done {
    let (is_absolute, at) = (false, 2);
    let end = End {
        unit_ms,
        is_absolute,
        at,
    };
    let ends_ms = end.to_ms(exec, args)?;
    exec.put(&args[1], string(&args[3]), ends_ms);
    out.ok();
    Ok(())
}

pub(crate) fn getex(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let options = Options::parse(args, 2, false)?;
    let key = &args[1];
    let Some(value) = exec.get::<Str>(key)? else {
        out.null();
        return Ok(());
    };
    let bytes = value.bytes.clone();
    let end = options.end.map(|end| end.to_ms(exec, args)).transpose()?;
    out.bulk(&bytes);
    match end {
        Some(end) => exec.set_end(key, end),
        None if options.persist && exec.item(key).is_some_and(|item| item.expires_ms != NEVER) => {
            exec.set_end(key, NEVER);
        }
        None => {}
    }
    Ok(())
}

pub(crate) fn getdel(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let value = exec.get::<Str>(&args[1])?;
    out.bulk_or_null(value.map(|value| &value.bytes[..]));
    exec.take(&args[1]);
    Ok(())
}

pub(crate) fn getset(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let value = exec.get::<Str>(&args[1])?;
    out.bulk_or_null(value.map(|value| &value.bytes[..]));
    exec.put(&args[1], string(&args[2]), NEVER);
    Ok(())
}

pub(crate) fn mset(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    if args.len().is_multiple_of(2) {
        return Err(Fault::arity("mset"));
    }
    set_all(exec, args);
    out.ok();
    Ok(())
}

pub(crate) fn msetnx(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    if args.len().is_multiple_of(2) {
        return Err(Fault::arity("msetnx"));
    }
    let mut keys = args[1..].iter().step_by(2);
    let are_new = keys.all(|key| exec.item(key).is_none());
    if are_new {
        set_all(exec, args);
    }
    out.flag(are_new);
    Ok(())
}

fn set_all(exec: &mut Exec<'_>, args: &[Bytes]) {
    for pair in args[1..].chunks_exact(2) {
        exec.put(&pair[0], string(&pair[1]), NEVER);
    }
}

/// Refuses a string that would be longer than any may be.
pub(crate) fn check_length(len: usize) -> Done {
    match len <= STRING_BYTES_MAX {
        true => Ok(()),
        false => Err(Fault::TOO_LONG),
    }
}

pub(crate) fn append(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (key, more) = (&args[1], &args[2]);
    let Some(before) = exec.get::<Str>(key)? else {
        exec.put(key, string(more), NEVER);
        out.count(more.len());
        return Ok(());
    };
    check_length(before.bytes.len() + more.len())?;
    if let Some(value) = exec.edit::<Str>(key)? {
        change_bytes(value, |bytes| bytes.extend_from_slice(more));
        out.count(value.bytes.len());
    }
    Ok(())
}

/// Changes the bytes of a string, in place if nothing else has them.
pub(crate) fn change_bytes(value: &mut Str, change: impl FnOnce(&mut BytesMut)) {
    let mut bytes = match std::mem::take(&mut value.bytes).try_into_mut() {
        Ok(bytes) => bytes,
        Err(shared) => BytesMut::from(&shared[..]),
    };
    change(&mut bytes);
    *value = Str::raw(bytes.freeze());
}

pub(crate) fn setrange(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (key, part) = (&args[1], &args[3]);
    let offset = to_integer(&args[2])?;
    let offset = usize::try_from(offset).map_err(|_| Fault::of("ERR offset is out of range"))?;
    let before = exec.get::<Str>(key)?.map(|value| value.bytes.len());
    if part.is_empty() {
        out.count(before.unwrap_or(0));
        return Ok(());
    }
    let end = offset.saturating_add(part.len());
    check_length(end)?;
    if before.is_none() {
        exec.put(key, Value::Str(Str::default()), NEVER);
    }
    if let Some(value) = exec.edit::<Str>(key)? {
        change_bytes(value, |bytes| {
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset..end].copy_from_slice(part);
        });
        out.count(value.bytes.len());
    }
    Ok(())
}

pub(crate) fn incr(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    add(exec, args, 1, out)
}

pub(crate) fn decr(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    add(exec, args, -1, out)
}

pub(crate) fn incrby(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    add(exec, args, to_integer(&args[2])?, out)
}

pub(crate) fn decrby(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let by = to_integer(&args[2])?.checked_neg();
    let by = by.ok_or(Fault::of("ERR decrement would overflow"))?;
    add(exec, args, by, out)
}

fn add(exec: &mut Exec<'_>, args: &[Bytes], by: i64, out: &mut Reply) -> Done {
    let key = &args[1];
    let before = match exec.get::<Str>(key)? {
        Some(value) => to_integer(&value.bytes)?,
        None => 0,
    };
    let sum = before.checked_add(by).ok_or(Fault::OVERFLOW)?;
    let value = Str::new(sum.to_string().as_bytes());
    exec.put_keeping(key, Value::Str(value));
    out.integer(sum);
    Ok(())
}

pub(crate) fn incrbyfloat(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let key = &args[1];
    let before = match exec.get::<Str>(key)? {
        Some(value) => Extended::parse(&value.bytes).ok_or(Fault::NO_FLOAT)?,
        None => Parsed::Finite(Extended::ZERO),
    };
    let by = Extended::parse(&args[2]).ok_or(Fault::NO_FLOAT)?;
    let sum = number::sum(before, by).ok_or(Fault::INFINITE)?;
    exec.put_keeping(key, Value::Str(Str::sum(&sum)));
    out.bulk(sum.as_bytes());
    Ok(())
}
