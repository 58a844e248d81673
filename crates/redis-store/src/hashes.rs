//! Commands of hashes.

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::number::{self, Extended, Parsed, to_integer};
use crate::reply::Reply;
use crate::value::Hash;
use bytes::Bytes;

pub(crate) fn hset(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let added = set_fields(exec, args, "hset")?;
    out.count(added);
    Ok(())
}

pub(crate) fn hmset(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    set_fields(exec, args, "hmset")?;
    out.ok();
    Ok(())
}

/// Sets fields. How many are new.
fn set_fields(exec: &mut Exec<'_>, args: &[Bytes], name: &str) -> Result<usize, Fault> {
    if !args.len().is_multiple_of(2) {
        return Err(Fault::arity(name));
    }
    exec.change(&args[1], |hash: &mut Hash| {
        hash.make_room(args[2..].iter().map(|part| &part[..]));
        let pairs = args[2..].chunks_exact(2);
        pairs.filter(|pair| !hash.set(&pair[0], &pair[1])).count()
    })
}

pub(crate) fn hsetnx(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = exec.get::<Hash>(&args[1])?;
    let is_new = hash.is_none_or(|hash| hash.get(&args[2]).is_none());
    if is_new {
        exec.change(&args[1], |hash: &mut Hash| hash.set(&args[2], &args[3]))?;
    }
    out.flag(is_new);
    Ok(())
}

pub(crate) fn hget(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    out.bulk_or_null(hash.and_then(|hash| hash.get(&args[2])));
    Ok(())
}

pub(crate) fn hmget(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    out.array(args.len() - 2);
    for field in &args[2..] {
        out.bulk_or_null(hash.and_then(|hash| hash.get(field)));
    }
    Ok(())
}

pub(crate) fn hdel(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = exec.get::<Hash>(&args[1])?;
    let has_any = hash.is_some_and(|hash| args[2..].iter().any(|field| hash.get(field).is_some()));
    let mut removed = 0;
    if has_any {
        removed = exec.change(&args[1], |hash: &mut Hash| {
            args[2..].iter().filter(|field| hash.remove(field)).count()
        })?;
    }
    out.count(removed);
    Ok(())
}

pub(crate) fn hlen(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    out.count(hash.map_or(0, Hash::len));
    Ok(())
}

pub(crate) fn hstrlen(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    let value = hash.and_then(|hash| hash.get(&args[2]));
    out.count(value.map_or(0, <[u8]>::len));
    Ok(())
}

pub(crate) fn hexists(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    out.flag(hash.is_some_and(|hash| hash.get(&args[2]).is_some()));
    Ok(())
}

pub(crate) fn hgetall(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    out.map(hash.map_or(0, Hash::len));
    for (field, value) in hash.into_iter().flat_map(Hash::iter) {
        out.bulk(field);
        out.bulk(value);
    }
    Ok(())
}

pub(crate) fn hkeys(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    out.array(hash.map_or(0, Hash::len));
    let pairs = hash.into_iter().flat_map(Hash::iter);
    pairs.for_each(|(field, _)| out.bulk(field));
    Ok(())
}

pub(crate) fn hvals(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let hash = view.get::<Hash>(&args[1])?;
    out.array(hash.map_or(0, Hash::len));
    let pairs = hash.into_iter().flat_map(Hash::iter);
    pairs.for_each(|(_, value)| out.bulk(value));
    Ok(())
}

pub(crate) fn hincrby(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let by = to_integer(&args[3])?;
    let hash = exec.get::<Hash>(&args[1])?;
    let before = match hash.and_then(|hash| hash.get(&args[2])) {
        Some(value) => {
            number::integer(value).ok_or(Fault::of("ERR hash value is not an integer"))?
        }
        None => 0,
    };
    let sum = before.checked_add(by).ok_or(Fault::OVERFLOW)?;
    let text = sum.to_string();
    exec.change(&args[1], |hash: &mut Hash| {
        hash.set(&args[2], text.as_bytes())
    })?;
    out.integer(sum);
    Ok(())
}

pub(crate) fn hincrbyfloat(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let by = Extended::parse(&args[3]).ok_or(Fault::NO_FLOAT)?;
    if by == Parsed::Infinite {
        return Err(Fault::of("ERR value is NaN or Infinity"));
    }
    let hash = exec.get::<Hash>(&args[1])?;
    let before = match hash.and_then(|hash| hash.get(&args[2])) {
        Some(value) => Extended::parse(value).ok_or(Fault::of("ERR hash value is not a float"))?,
        None => Parsed::Finite(Extended::ZERO),
    };
    let sum = number::sum(before, by).ok_or(Fault::INFINITE)?;
    exec.change(&args[1], |hash: &mut Hash| {
        hash.set(&args[2], sum.as_bytes())
    })?;
    out.bulk(sum.as_bytes());
    Ok(())
}

pub(crate) fn hrandfield(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let Some(count) = args.get(2) else {
        let hash = view.get::<Hash>(&args[1])?;
        let at = hash.map(|hash| view.random().below(hash.len()));
        let picked = hash.zip(at).and_then(|(hash, at)| hash.at(at));
        out.bulk_or_null(picked.map(|(field, _)| field));
        return Ok(());
    };
    let count = to_pick(count)?;
    let with_values = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"WITHVALUES") => true,
        Some(_) => return Err(Fault::SYNTAX),
    };
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Fault::OUT_OF_RANGE);
    }
    let Some(hash) = view.get::<Hash>(&args[1])? else {
        out.array(0);
        return Ok(());
    };
    let picked = pick(view, count, hash.len())?;
    match with_values {
        true => out.pairs(picked.len()),
        false => out.array(picked.len()),
    }
    for (field, value) in picked.into_iter().filter_map(|at| hash.at(at)) {
        if with_values {
            out.pair();
        }
        out.bulk(field);
        if with_values {
            out.bulk(value);
        }
    }
    Ok(())
}

/// How many elements to pick; below 0, as many draws that may repeat.
pub(crate) fn to_pick(count: &[u8]) -> Result<i64, Fault> {
    let count = to_integer(count)?;
    match count == i64::MIN {
        true => Err(Fault::BEYOND),
        false => Ok(count),
    }
}

/// Draws that may repeat, at most: their replies are made in memory.
const DRAWS_MAX: usize = 1 << 20;

/// Positions below `len`, as many as [`to_pick`] says: different ones, or draws that may repeat.
pub(crate) fn pick(view: &View<'_>, count: i64, len: usize) -> Result<Vec<usize>, Fault> {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let mut random = view.random();
    match count < 0 {
        true if wanted > DRAWS_MAX => Err(Fault::OUT_OF_RANGE),
        true => Ok((0..wanted).map(|_| random.below(len)).collect()),
        false if wanted >= len => Ok((0..len).collect()),
        false => Ok(random.distinct(wanted, len)),
    }
}
