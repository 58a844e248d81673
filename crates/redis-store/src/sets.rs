//! Commands of sets.

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::hashes::{pick, to_pick};
use crate::number::{at_least, to_count};
use crate::reply::Reply;
use crate::value::{Set, Value};
use bytes::Bytes;

pub(crate) fn sadd(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let set = exec.get::<Set>(&args[1])?;
    let has_all = set.is_some_and(|set| args[2..].iter().all(|member| set.contains(member)));
    let mut added = 0;
    if !has_all {
        added = exec.change(&args[1], |set: &mut Set| {
            args[2..].iter().filter(|member| set.insert(member)).count()
        })?;
    }
    out.count(added);
    Ok(())
}

pub(crate) fn srem(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let set = exec.get::<Set>(&args[1])?;
    let has_any = set.is_some_and(|set| args[2..].iter().any(|member| set.contains(member)));
    let mut removed = 0;
    if has_any {
        removed = exec.change(&args[1], |set: &mut Set| {
            args[2..].iter().filter(|member| set.remove(member)).count()
        })?;
    }
    out.count(removed);
    Ok(())
}

pub(crate) fn scard(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let set = view.get::<Set>(&args[1])?;
    out.count(set.map_or(0, Set::len));
    Ok(())
}

pub(crate) fn sismember(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let set = view.get::<Set>(&args[1])?;
    out.flag(set.is_some_and(|set| set.contains(&args[2])));
    Ok(())
}

pub(crate) fn smismember(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let set = view.get::<Set>(&args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        out.flag(set.is_some_and(|set| set.contains(member)));
    }
    Ok(())
}

pub(crate) fn smembers(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let set = view.get::<Set>(&args[1])?;
    out.set(set.map_or(0, Set::len));
    let members = set.into_iter().flat_map(Set::iter);
    members.for_each(|member| out.bulk(&member));
    Ok(())
}

pub(crate) fn smove(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let member = &args[3];
    let Some(from) = exec.get::<Set>(&args[1])? else {
        out.integer(0);
        return Ok(());
    };
    let is_there = from.contains(member);
    exec.get::<Set>(&args[2])?;
    if is_there && args[1] != args[2] {
        exec.change(&args[1], |set: &mut Set| set.remove(member))?;
        exec.change(&args[2], |set: &mut Set| set.insert(member))?;
    }
    out.flag(is_there);
    Ok(())
}

pub(crate) fn spop(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    if args.len() > 3 {
        return Err(Fault::SYNTAX);
    }
    let count = args.get(2).map(|count| to_count(count)).transpose()?;
    let Some(set) = exec.get::<Set>(&args[1])? else {
        match count {
            Some(_) => out.set(0),
            None => out.null(),
        }
        return Ok(());
    };
    let len = set.len();
    let taken = count.unwrap_or(1).min(len);
    if count.is_some() {
        out.set(taken);
    }
    if taken == 0 {
        return Ok(());
    }
    let mut picked = match taken == len {
        true => (0..len).collect(),
        false => exec.random().distinct(taken, len),
    };
    // From the last one on, so that the others keep their places.
    picked.sort_unstable_by(|one, other| other.cmp(one));
    exec.change(&args[1], |set: &mut Set| {
        for at in picked {
            let member = set
                .at(at)
                .map(std::borrow::Cow::into_owned)
                .unwrap_or_default();
            set.remove(&member);
            out.bulk(&member);
        }
    })
}

pub(crate) fn srandmember(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    if args.len() > 3 {
        return Err(Fault::SYNTAX);
    }
    let Some(count) = args.get(2) else {
        let set = view.get::<Set>(&args[1])?;
        let at = set.map(|set| view.random().below(set.len()));
        let picked = set.zip(at).and_then(|(set, at)| set.at(at));
        out.bulk_or_null(picked.as_deref());
        return Ok(());
    };
    let count = to_pick(count)?;
    let Some(set) = view.get::<Set>(&args[1])? else {
        out.array(0);
        return Ok(());
    };
    let picked = pick(view, count, set.len())?;
    out.array(picked.len());
    let members = picked.into_iter().filter_map(|at| set.at(at));
    members.for_each(|member| out.bulk(&member));
    Ok(())
}

/// A way to make one set of several.
#[derive(Clone, Copy)]
enum Combine {
    Union,
    Inter,
    Diff,
}

impl Combine {
    fn of(self, sets: &[Option<&Set>]) -> Set {
        let (first, others) = match sets.split_first() {
            Some((first, others)) => (*first, others),
            None => (None, sets),
        };
        match self {
            Combine::Union => {
                let mut all = first.cloned().unwrap_or_default();
                for member in others.iter().flatten().flat_map(|set| set.iter()) {
                    all.insert(&member);
                }
                all
            }
            Combine::Diff => {
                let mut left = first.cloned().unwrap_or_default();
                for member in others.iter().flatten().flat_map(|set| set.iter()) {
                    left.remove(&member);
                }
                left
            }
            Combine::Inter => {
                let mut shared = Set::default();
                for member in intersection(sets) {
                    shared.insert(&member);
                }
                shared
            }
        }
    }
}

/// The members that all sets have, in the order of the smallest.
fn intersection<'a>(sets: &[Option<&'a Set>]) -> impl Iterator<Item = std::borrow::Cow<'a, [u8]>> {
    let all: Option<Vec<&Set>> = sets.iter().copied().collect();
    let mut all = all.unwrap_or_default();
    all.sort_by_key(|set| set.len());
    let mut all = all.into_iter();
    let smallest = all.next();
    let others: Vec<&Set> = all.collect();
    let members = smallest.into_iter().flat_map(Set::iter);
    members.filter(move |member| others.iter().all(|set| set.contains(member)))
}

fn sets_of<'a>(view: &View<'a>, keys: &[Bytes]) -> Result<Vec<Option<&'a Set>>, Fault> {
    keys.iter().map(|key| view.get::<Set>(key)).collect()
}

fn combine(view: &View<'_>, how: Combine, keys: &[Bytes], out: &mut Reply) -> Done {
    let combined = how.of(&sets_of(view, keys)?);
    out.set(combined.len());
    combined.iter().for_each(|member| out.bulk(&member));
    Ok(())
}

fn combine_to(exec: &mut Exec<'_>, how: Combine, args: &[Bytes], out: &mut Reply) -> Done {
    let combined = exec.look(|view| sets_of(view, &args[2..]).map(|sets| how.of(&sets)))?;
    // One that was made of another may have kept the form of that one; Redis begins anew.
    let mut fresh = Set::default();
    for member in combined.iter() {
        fresh.insert(&member);
    }
    out.count(fresh.len());
    exec.store(&args[1], Value::Set(fresh));
    Ok(())
}

pub(crate) fn sunion(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    combine(view, Combine::Union, &args[1..], out)
}

pub(crate) fn sinter(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    combine(view, Combine::Inter, &args[1..], out)
}

pub(crate) fn sdiff(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    combine(view, Combine::Diff, &args[1..], out)
}

pub(crate) fn sunionstore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    combine_to(exec, Combine::Union, args, out)
}

pub(crate) fn sinterstore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    combine_to(exec, Combine::Inter, args, out)
}

pub(crate) fn sdiffstore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    combine_to(exec, Combine::Diff, args, out)
}

pub(crate) fn sintercard(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (keys, limit) = keys_and_limit(args)?;
    let sets = sets_of(view, keys)?;
    out.count(intersection(&sets).take(limit).count());
    Ok(())
}

/// The keys of `SINTERCARD` and `ZINTERCARD`, and how far to count.
pub(crate) fn keys_and_limit(args: &[Bytes]) -> Result<(&[Bytes], usize), Fault> {
    let keys = at_least(1, &args[1], "ERR numkeys should be greater than 0")? as usize;
    if keys > args.len() - 2 {
        let text = "ERR Number of keys can't be greater than number of args";
        return Err(Fault::of(text));
    }
    let (keys, words) = args[2..].split_at(keys);
    let mut limit = 0;
    for option in words.chunks(2) {
        match option {
            [word, number] if word.eq_ignore_ascii_case(b"LIMIT") => {
                limit = at_least(0, number, "ERR LIMIT can't be negative")?;
            }
            _ => return Err(Fault::SYNTAX),
        }
    }
    let limit = if limit == 0 {
        usize::MAX
    } else {
        limit as usize
    };
    Ok((keys, limit))
}
