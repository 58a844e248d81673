//! Commands of sorted sets.

mod combine;
mod ranges;

pub(crate) use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub(crate) use ranges::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zremrangebylex,
    zremrangebyrank, zremrangebyscore, zrevrange, zrevrangebylex, zrevrangebyscore,
};

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::hashes::{pick, to_pick};
use crate::lists::count_option;
use crate::number::{at_least, to_count, to_float};
use crate::reply::Reply;
use crate::value::{Ranked, Sorted};
use bytes::Bytes;
use quorate_resp::Resp;

/// On what condition `ZADD` changes a member, and what it tells.
#[derive(Clone, Copy, Default)]
struct Adding {
    only_new: bool,
    only_there: bool,
    only_greater: bool,
    only_less: bool,
    tells_changed: bool,
    adds_up: bool,
}

/// What became of one member.
#[derive(Clone, Copy, PartialEq)]
enum Added {
    Nothing,
    New(f64),
    Changed(f64),
    /// The score is what it was.
    Same(f64),
}

impl Adding {
    /// The options in front of the first score, and where that is.
    fn parse(args: &[Bytes]) -> Result<(Adding, usize), Fault> {
        let mut adding = Adding::default();
        let mut at = 2;
        while let Some(word) = args.get(at) {
            match &word.to_ascii_uppercase()[..] {
                b"NX" => adding.only_new = true,
                b"XX" => adding.only_there = true,
                b"GT" => adding.only_greater = true,
                b"LT" => adding.only_less = true,
                b"CH" => adding.tells_changed = true,
                b"INCR" => adding.adds_up = true,
                _ => break,
            }
            at += 1;
        }
        let words = args.len() - at;
        if words == 0 || !words.is_multiple_of(2) {
            return Err(Fault::SYNTAX);
        }
        let Adding {
            only_new,
            only_greater,
            only_less,
            ..
        } = adding;
        if only_new && adding.only_there {
            let text = "ERR XX and NX options at the same time are not compatible";
            return Err(Fault::of(text));
        }
        if only_new && (only_greater || only_less) || only_greater && only_less {
            let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(Fault::of(text));
        }
        if adding.adds_up && words > 2 {
            let text = "ERR INCR option supports a single increment-element pair";
            return Err(Fault::of(text));
        }
        Ok((adding, at))
    }

    /// What is to become of a member that has this score.
    fn decide(self, before: Option<f64>, given: f64) -> Result<Added, Fault> {
        let Some(before) = before else {
            return Ok(match self.only_there {
                true => Added::Nothing,
                false => Added::New(given),
            });
        };
        if self.only_new {
            return Ok(Added::Nothing);
        }
        let score = if self.adds_up { before + given } else { given };
        if score.is_nan() {
            return Err(Fault::of("ERR resulting score is not a number (NaN)"));
        }
        let is_kept = self.only_less && score >= before || self.only_greater && score <= before;
        Ok(match is_kept {
            true => Added::Nothing,
            false if score == before => Added::Same(score),
            false => Added::Changed(score),
        })
    }
}

pub(crate) fn zadd(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (adding, first) = Adding::parse(args)?;
    add(exec, args, (adding, first), out)
}

pub(crate) fn zincrby(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let adding = Adding {
        adds_up: true,
        ..Adding::default()
    };
    add(exec, args, (adding, 2), out)
}

fn add(
    exec: &mut Exec<'_>,
    args: &[Bytes],
    (adding, first): (Adding, usize),
    out: &mut Reply,
) -> Done {
    let key = &args[1];
    let pairs = args[first..].chunks_exact(2);
    let pairs = pairs.map(|pair| Ok((to_float(&pair[0])?, &pair[1])));
    let pairs = pairs.collect::<Result<Vec<_>, Fault>>()?;
    let (mut new, mut changed, mut told) = (0, 0, None);
    for (given, member) in pairs {
        let sorted = exec.get::<Sorted>(key)?;
        let before = sorted.and_then(|sorted| sorted.score(member));
        let added = adding.decide(before, given)?;
        match added {
            Added::Nothing => {}
            Added::Same(score) => told = Some(score),
            Added::New(score) | Added::Changed(score) => {
                exec.change(key, |sorted: &mut Sorted| {
                    sorted.set(member, sorted.kept(score))
                })?;
                told = Some(score);
                new += usize::from(before.is_none());
                changed += usize::from(before.is_some());
            }
        }
    }
    // A key of another type is wrong even if nothing is to be done.
    exec.get::<Sorted>(key)?;
    match (adding.adds_up, told) {
        (true, Some(score)) => out.double(score),
        (true, None) => out.null(),
        (false, _) if adding.tells_changed => out.count(new + changed),
        (false, _) => out.count(new),
    }
    Ok(())
}

pub(crate) fn zrem(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let sorted = exec.get::<Sorted>(&args[1])?;
    let mut members = args[2..].iter();
    let has_any = sorted.is_some_and(|sorted| members.any(|member| sorted.score(member).is_some()));
    let mut removed = 0;
    if has_any {
        removed = exec.change(&args[1], |sorted: &mut Sorted| {
            let members = args[2..].iter();
            members
                .filter(|member| sorted.remove(member).is_some())
                .count()
        })?;
    }
    out.count(removed);
    Ok(())
}

pub(crate) fn zcard(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let sorted = view.get::<Sorted>(&args[1])?;
    out.count(sorted.map_or(0, Sorted::len));
    Ok(())
}

pub(crate) fn zscore(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let sorted = view.get::<Sorted>(&args[1])?;
    tell_score(sorted.and_then(|sorted| sorted.score(&args[2])), out);
    Ok(())
}

pub(crate) fn zmscore(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let sorted = view.get::<Sorted>(&args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        tell_score(sorted.and_then(|sorted| sorted.score(member)), out);
    }
    Ok(())
}

fn tell_score(score: Option<f64>, out: &mut Reply) {
    match score {
        Some(score) => out.double(score),
        None => out.null(),
    }
}

pub(crate) fn zrank(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell_rank(view, args, out, |rank, _| rank)
}

pub(crate) fn zrevrank(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell_rank(view, args, out, |rank, len| len - 1 - rank)
}

fn tell_rank(
    view: &View<'_>,
    args: &[Bytes],
    out: &mut Reply,
    counted: fn(usize, usize) -> usize,
) -> Done {
    let with_score = match &args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"WITHSCORE") => true,
        _ => return Err(Fault::SYNTAX),
    };
    let sorted = view.get::<Sorted>(&args[1])?;
    let found = sorted.and_then(|sorted| {
        let rank = sorted.rank(&args[2])?;
        Some((counted(rank, sorted.len()), sorted.score(&args[2])))
    });
    match found {
        Some((rank, score)) if with_score => {
            out.array(2);
            out.count(rank);
            tell_score(score, out);
        }
        Some((rank, _)) => out.count(rank),
        None if with_score => out.null_array(),
        None => out.null(),
    }
    Ok(())
}

/// Members and their scores, or the members alone.
fn tell_members<'a>(
    members: impl ExactSizeIterator<Item = (&'a [u8], f64)>,
    with_scores: bool,
    out: &mut Reply,
) {
    match with_scores {
        true => out.pairs(members.len()),
        false => out.array(members.len()),
    }
    for (member, score) in members {
        if with_scores {
            out.pair();
        }
        out.bulk(member);
        if with_scores {
            out.double(score);
        }
    }
}

pub(crate) fn zrandmember(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let Some(count) = args.get(2) else {
        let sorted = view.get::<Sorted>(&args[1])?;
        let at = sorted.map(|sorted| view.random().below(sorted.len()));
        let picked = sorted.zip(at).and_then(|(sorted, at)| sorted.at(at));
        out.bulk_or_null(picked.map(|ranked| &ranked.member[..]));
        return Ok(());
    };
    let count = to_pick(count)?;
    let with_scores = match &args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"WITHSCORES") => true,
        _ => return Err(Fault::SYNTAX),
    };
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Fault::OUT_OF_RANGE);
    }
    let Some(sorted) = view.get::<Sorted>(&args[1])? else {
        out.array(0);
        return Ok(());
    };
    let picked: Vec<&Ranked> = pick(view, count, sorted.len())?
        .into_iter()
        .filter_map(|at| sorted.at(at))
        .collect();
    let members = picked
        .iter()
        .map(|ranked| (&ranked.member[..], ranked.score));
    tell_members(members, with_scores, out);
    Ok(())
}

/// An end of a ranking.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Min,
    Max,
}

pub(crate) fn zpopmin(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    pop(exec, args, End::Min, out)
}

pub(crate) fn zpopmax(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    pop(exec, args, End::Max, out)
}

fn pop(exec: &mut Exec<'_>, args: &[Bytes], end: End, out: &mut Reply) -> Done {
    if args.len() > 3 {
        return Err(Fault::SYNTAX);
    }
    let count = args.get(2).map(|count| to_count(count)).transpose()?;
    let len = exec.get::<Sorted>(&args[1])?.map_or(0, Sorted::len);
    let taken = count.unwrap_or(1).min(len);
    let is_nested = out.resp() == Resp::Three && count.is_some();
    out.array(if is_nested { taken } else { 2 * taken });
    pop_to(exec, &args[1], (end, taken), is_nested, out)
}

/// Takes as many members, which are there, and replies with them.
fn pop_to(
    exec: &mut Exec<'_>,
    key: &[u8],
    (end, count): (End, usize),
    is_nested: bool,
    out: &mut Reply,
) -> Done {
    if count == 0 {
        return Ok(());
    }
    exec.change(key, |sorted: &mut Sorted| {
        for _ in 0..count {
            let rank = if end == End::Min { 0 } else { sorted.len() - 1 };
            if let Some(Ranked { score, member }) = sorted.remove_at(rank) {
                if is_nested {
                    out.array(2);
                }
                out.bulk(&member);
                out.double(score);
            }
        }
    })
}

pub(crate) fn zmpop(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let keys = at_least(1, &args[1], "ERR numkeys should be greater than 0")? as usize;
    let end_at = keys.saturating_add(2);
    let end = match &args.get(end_at).ok_or(Fault::SYNTAX)?.to_ascii_uppercase()[..] {
        b"MIN" => End::Min,
        b"MAX" => End::Max,
        _ => return Err(Fault::SYNTAX),
    };
    let count = count_option(&args[end_at + 1..])?;
    for key in &args[2..end_at] {
        let Some(sorted) = exec.get::<Sorted>(key)? else {
            continue;
        };
        let taken = count.min(sorted.len());
        out.array(2);
        out.bulk(key);
        out.array(taken);
        return pop_to(exec, key, (end, taken), true, out);
    }
    out.null_array();
    Ok(())
}
