//! Commands of keys, whatever they hold.

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::glob;
use crate::keyspace::{DATABASES, NEVER};
use crate::number::to_integer;
use crate::reply::Reply;
use crate::text::Sought;
use crate::value::{Kind, Str};
use bytes::Bytes;

pub(crate) fn del(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let taken = args[1..].iter().filter(|key| exec.take(key).is_some());
    let count = taken.count();
    out.count(count);
    Ok(())
}

pub(crate) fn exists(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let there = args[1..].iter();
    out.count(
        there
            .filter(|key| view.item(Sought::new(key)).is_some())
            .count(),
    );
    Ok(())
}

pub(crate) fn type_of(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let item = view.item(Sought::new(&args[1]));
    out.simple(item.map_or("none", |item| item.value.type_name()));
    Ok(())
}

pub(crate) fn keys(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let now_ms = view.now_ms();
    let there = view.database().keys().iter();
    let names = there
        .filter(|(_, item)| !item.is_over(now_ms))
        .map(|(name, _)| name.text());
    let names: Vec<_> = names.filter(|name| glob::matches(&args[1], name)).collect();
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name));
    Ok(())
}

pub(crate) fn randomkey(view: &View<'_>, _: &[Bytes], out: &mut Reply) -> Done {
    let (database, now_ms) = (view.database(), view.now_ms());
    if database.len(now_ms) == 0 {
        out.null();
        return Ok(());
    }
    // From a random place on, the first key that is there.
    let keys = database.keys();
    let from = view.random().below(keys.len());
    let behind = keys.iter_from(from).chain(keys.iter());
    let name = behind
        .filter(|(_, item)| !item.is_over(now_ms))
        .map(|(name, _)| name.text())
        .next();
    out.bulk_or_null(name.map(|name| &name[..]));
    Ok(())
}

pub(crate) fn dbsize(view: &View<'_>, _: &[Bytes], out: &mut Reply) -> Done {
    out.count(view.database().len(view.now_ms()));
    Ok(())
}

pub(crate) fn rename(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    move_to(exec, args, false)?;
    out.ok();
    Ok(())
}

pub(crate) fn renamenx(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let is_moved = move_to(exec, args, true)?;
    out.flag(is_moved);
    Ok(())
}

/// Gives a key another name. Whether it did.
fn move_to(exec: &mut Exec<'_>, args: &[Bytes], only_new: bool) -> Result<bool, Fault> {
    let (from, to) = (&args[1], &args[2]);
    if exec.item(from).is_none() {
        return Err(Fault::NO_KEY);
    }
    if from == to || (only_new && exec.item(to).is_some()) {
        return Ok(from == to && !only_new);
    }
    if let Some(item) = exec.take(from) {
        exec.put(to, item.value, item.expires_ms);
    }
    Ok(true)
}

pub(crate) fn copy(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (from, to) = (&args[1], &args[2]);
    let (mut db, mut replaces) = (exec.db, false);
    let mut at = 3;
    while let Some(word) = args.get(at) {
        match &word.to_ascii_uppercase()[..] {
            b"REPLACE" => replaces = true,
            b"DB" if at + 1 < args.len() => {
                at += 1;
                db = to_database(&args[at])?;
            }
            _ => return Err(Fault::SYNTAX),
        }
        at += 1;
    }
    if db == exec.db && from == to {
        return Err(Fault::SAME_OBJECT);
    }
    let to = Sought::new(to);
    let is_free = exec.item_of(db, to).is_none();
    let item = exec.item(from).filter(|_| is_free || replaces);
    let copied = item.map(|item| (item.value.clone(), item.expires_ms));
    out.flag(copied.is_some());
    if let Some((value, expires_ms)) = copied {
        exec.put_in(db, to, value, expires_ms);
    }
    Ok(())
}

/// The number of a database.
fn to_database(number: &[u8]) -> Result<u32, Fault> {
    let number = i32::try_from(to_integer(number)?).map_err(|_| Fault::BEYOND_INT)?;
    let db = u32::try_from(number).ok().filter(|db| *db < DATABASES);
    db.ok_or(Fault::DATABASE)
}

pub(crate) fn move_(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let db = to_database(&args[2])?;
    if db == exec.db {
        return Err(Fault::SAME_OBJECT);
    }
    let key = Sought::new(&args[1]);
    let is_free = exec.item_of(db, key).is_none();
    let item = if is_free { exec.take(&args[1]) } else { None };
    out.flag(item.is_some());
    if let Some(item) = item {
        exec.put_in(db, key, item.value, item.expires_ms);
    }
    Ok(())
}

pub(crate) fn select(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    exec.db = to_database(&args[1])?;
    out.ok();
    Ok(())
}

pub(crate) fn swapdb(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let to_database = |number: &[u8], error| match to_database(number) {
        Err(fault) if fault != Fault::DATABASE => Err(Fault::of(error)),
        db => Ok(db),
    };
    // Both are numbers before either is out of range.
    let first = to_database(&args[1], "ERR invalid first DB index")?;
    let second = to_database(&args[2], "ERR invalid second DB index")?;
    let (first, second) = (first?, second?);
    if first != second {
        exec.swap(first, second);
    }
    out.ok();
    Ok(())
}

pub(crate) fn flushdb(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    check_flush(args)?;
    exec.empty(exec.db);
    out.ok();
    Ok(())
}

pub(crate) fn flushall(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    check_flush(args)?;
    (0..DATABASES).for_each(|db| exec.empty(db));
    out.ok();
    Ok(())
}

/// Refuses what `FLUSHDB` and `FLUSHALL` do not know. When memory is freed changes nothing that anybody sees.
fn check_flush(args: &[Bytes]) -> Done {
    let mut words = args[1..].iter();
    let knows = |word: &Bytes| [&b"SYNC"[..], b"ASYNC"].contains(&&word.to_ascii_uppercase()[..]);
    match args.len() <= 2 && words.all(knows) {
        true => Ok(()),
        false => Err(Fault::SYNTAX),
    }
}

/// On what condition a key gets a new end.
#[derive(Default)]
struct Condition {
    none_yet: bool,
    some_already: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(words: &[Bytes]) -> Result<Condition, Fault> {
        let mut condition = Condition::default();
        for word in words {
            match &word.to_ascii_uppercase()[..] {
                b"NX" => condition.none_yet = true,
                b"XX" => condition.some_already = true,
                b"GT" => condition.later = true,
                b"LT" => condition.earlier = true,
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Fault(format!("ERR Unsupported option {word}").into()));
                }
            }
        }
        let is_relative = condition.some_already || condition.later || condition.earlier;
        if condition.none_yet && is_relative {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Fault::of(text));
        }
        if condition.later && condition.earlier {
            let text = "ERR GT and LT options at the same time are not compatible";
            return Err(Fault::of(text));
        }
        Ok(condition)
    }

    /// Whether an end may take the place of another one. No end is later than all.
    fn allows(&self, before_ms: u64, ends_ms: i64) -> bool {
        let has_end = before_ms != NEVER;
        let ends_ms = i128::from(ends_ms);
        let before = if has_end {
            i128::from(before_ms)
        } else {
            i128::MAX
        };
        !(self.none_yet && has_end
            || self.some_already && !has_end
            || self.later && ends_ms <= before
            || self.earlier && ends_ms >= before)
    }
}

pub(crate) fn expire(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    end_at(exec, args, 1000, exec.log_ms(), out)
}

pub(crate) fn pexpire(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    end_at(exec, args, 1, exec.log_ms(), out)
}

pub(crate) fn expireat(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    end_at(exec, args, 1000, 0, out)
}

pub(crate) fn pexpireat(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    end_at(exec, args, 1, 0, out)
}

fn end_at(
    exec: &mut Exec<'_>,
    args: &[Bytes],
    unit_ms: i64,
    base_ms: u64,
    out: &mut Reply,
) -> Done {
    let (key, number) = (&args[1], to_integer(&args[2]));
    let condition = Condition::parse(&args[3..])?;
    let given = number?.checked_mul(unit_ms);
    let end = given.and_then(|given| given.checked_add(base_ms as i64));
    let ends_ms = end.ok_or_else(|| Fault::expire_time(&args[0]))?;
    let before = exec.item(key).map(|item| item.expires_ms);
    let changes = before.is_some_and(|before| condition.allows(before, ends_ms));
    if changes {
        exec.set_end(key, ends_ms.max(0) as u64);
    }
    out.flag(changes);
    Ok(())
}

pub(crate) fn persist(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let has_end = exec
        .item(&args[1])
        .is_some_and(|item| item.expires_ms != NEVER);
    if has_end {
        exec.set_end(&args[1], NEVER);
    }
    out.flag(has_end);
    Ok(())
}

pub(crate) fn ttl(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell_end(view, args, out, |end, now| {
        (end.saturating_sub(now) + 500) / 1000
    })
}

pub(crate) fn pttl(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell_end(view, args, out, u64::saturating_sub)
}

pub(crate) fn expiretime(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell_end(view, args, out, |end, _| (end + 500) / 1000)
}

pub(crate) fn pexpiretime(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell_end(view, args, out, |end, _| end)
}

/// Tells of a key's end what a function makes of it and of the time: -1 for none, -2 for no key.
fn tell_end(view: &View<'_>, args: &[Bytes], out: &mut Reply, told: fn(u64, u64) -> u64) -> Done {
    out.integer(match view.item(Sought::new(&args[1])) {
        None => -2,
        Some(item) if item.expires_ms == NEVER => -1,
        Some(item) => told(item.expires_ms, view.clock_ms()) as i64,
    });
    Ok(())
}

pub(crate) fn object(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let what = args[1].to_ascii_lowercase();
    if what == b"help" && args.len() == 2 {
        out.array(OBJECT_HELP.len());
        OBJECT_HELP.iter().for_each(|line| out.simple(line));
        return Ok(());
    }
    if ![&b"encoding"[..], b"refcount", b"idletime", b"freq"].contains(&&what[..]) {
        let given = String::from_utf8_lossy(&args[1]);
        let text = format!("ERR unknown subcommand '{given}'. Try OBJECT HELP.");
        return Err(Fault(text.into()));
    }
    if args.len() != 3 {
        let what = String::from_utf8_lossy(&what);
        return Err(Fault::arity(&format!("object|{what}")));
    }
    let Some(item) = view.item(Sought::new(&args[2])) else {
        out.null();
        return Ok(());
    };
    match &what[..] {
        b"encoding" => out.bulk(item.value.encoding().as_bytes()),
        b"refcount" => out.integer(match Str::of(&item.value).and_then(Str::as_int) {
            Some(int) if SHARED_INTS.contains(&int) => i64::from(i32::MAX),
            _ => 1,
        }),
        b"idletime" => out.integer(0),
        _ => {
            let text = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                        Please note that when switching between policies at runtime LRU and LFU data \
                        will take some time to adjust.";
            return Err(Fault::of(text));
        }
    }
    Ok(())
}

/// Integers that Redis keeps once for all keys.
const SHARED_INTS: std::ops::Range<i64> = 0..10_000;

const OBJECT_HELP: [&str; 9] = [
    "OBJECT <subcommand> <key>. Subcommands are:",
    "ENCODING",
    "    The form in which Redis would keep the value.",
    "FREQ",
    "    An error: how often keys are looked at is not counted.",
    "IDLETIME",
    "    0: when keys were looked at is not kept.",
    "REFCOUNT",
    "    How many use the value: one, or all for a small integer.",
];

pub(crate) fn ping(_: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    match args {
        [_] => out.simple("PONG"),
        [_, text] => out.bulk(text),
        _ => return Err(Fault::arity("ping")),
    }
    Ok(())
}

pub(crate) fn echo(_: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    out.bulk(&args[1]);
    Ok(())
}

pub(crate) fn publish(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    exec.published.push((args[1].clone(), args[2].clone()));
    // How many hear it differs from replica to replica: the one that was asked may tell.
    out.integer(0);
    Ok(())
}
