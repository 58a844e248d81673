//! Ranges of sorted sets: by rank, by score, and by name among members of one score.

use super::tell_members;
use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::number::to_integer;
use crate::range;
use crate::reply::Reply;
use crate::value::{Ranked, Sorted, Value};
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Range;

/// What a range is given by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A range as a client gives it.
enum Bounds<'a> {
    /// From and to, inclusive; from the end of the direction if negative.
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Names(NameBound<'a>, NameBound<'a>),
}

/// The least or greatest score, and whether it is left out.
#[derive(Clone, Copy)]
struct ScoreBound {
    score: f64,
    is_excluded: bool,
}

/// The first or last name.
#[derive(Clone, Copy)]
enum NameBound<'a> {
    BeforeAll,
    BehindAll,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl ScoreBound {
    fn parse(text: &[u8]) -> Result<ScoreBound, Fault> {
        let (is_excluded, number) = match text {
            [b'(', number @ ..] => (true, number),
            number => (false, number),
        };
        // C reads nothing as zero.
        let number = if number.is_empty() { b"0" } else { number };
        let number = std::str::from_utf8(number).unwrap_or_default();
        let score = number.trim_start().parse::<f64>();
        match score {
            Ok(score) if !score.is_nan() => Ok(ScoreBound { score, is_excluded }),
            _ => Err(Fault::of("ERR min or max is not a float")),
        }
    }
}

impl<'a> NameBound<'a> {
    fn parse(text: &'a [u8]) -> Result<NameBound<'a>, Fault> {
        match text {
            b"-" => Ok(NameBound::BeforeAll),
            b"+" => Ok(NameBound::BehindAll),
            [b'[', name @ ..] => Ok(NameBound::Included(name)),
            [b'(', name @ ..] => Ok(NameBound::Excluded(name)),
            _ => Err(Fault::of("ERR min or max not valid string range item")),
        }
    }

    /// Where a member is as seen from this bound; one that is equal counts as less if this says so.
    fn place(self, member: &[u8], equal: Ordering) -> Ordering {
        match self {
            NameBound::BeforeAll => Ordering::Greater,
            NameBound::BehindAll => Ordering::Less,
            NameBound::Included(name) => member.cmp(name).then(equal),
            NameBound::Excluded(name) => member.cmp(name).then(equal.reverse()),
        }
    }
}

impl<'a> Bounds<'a> {
    fn parse(by: By, least: &'a [u8], most: &'a [u8]) -> Result<Bounds<'a>, Fault> {
        Ok(match by {
            By::Rank => Bounds::Ranks(to_integer(least)?, to_integer(most)?),
            By::Score => Bounds::Scores(ScoreBound::parse(least)?, ScoreBound::parse(most)?),
            By::Lex => Bounds::Names(NameBound::parse(least)?, NameBound::parse(most)?),
        })
    }

    /// The positions within; ranks count from the end if it is backwards.
    fn positions(&self, sorted: &Sorted, is_backwards: bool) -> Range<usize> {
        let len = sorted.len();
        let positions = match *self {
            Bounds::Ranks(start, end) => {
                let ranks = range::of(start, end, len);
                match is_backwards {
                    true => len - ranks.end..len - ranks.start,
                    false => ranks,
                }
            }
            Bounds::Scores(least, most) => {
                let place = |ranked: &Ranked, bound: ScoreBound, equal_is_less| {
                    let place = ranked.score.partial_cmp(&bound.score);
                    let equal = if equal_is_less {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    };
                    place.unwrap_or(Ordering::Equal).then(equal)
                };
                let from = sorted.count_less(|ranked| place(ranked, least, least.is_excluded));
                let to = sorted.count_less(|ranked| place(ranked, most, !most.is_excluded));
                from..to
            }
            Bounds::Names(least, most) => {
                let from = |ranked: &Ranked| least.place(&ranked.member, Ordering::Greater);
                let to = |ranked: &Ranked| most.place(&ranked.member, Ordering::Less);
                sorted.count_less(from)..sorted.count_less(to)
            }
        };
        positions.start.min(positions.end)..positions.end
    }
}

/// What a command of ranges asks for.
struct Asked<'a> {
    bounds: Bounds<'a>,
    is_backwards: bool,
    with_scores: bool,
    /// How many to skip and to take; below 0, all.
    limit: (i64, i64),
}

/// What the name of a command says about its ranges already.
#[derive(Clone, Copy)]
struct Given {
    by: Option<By>,
    is_backwards: Option<bool>,
    /// Whether members are stored, not told.
    stores: bool,
}

impl<'a> Asked<'a> {
    /// Reads both bounds and the options behind them.
    fn parse(words: &'a [Bytes], given: Given) -> Result<Asked<'a>, Fault> {
        let (mut by, mut is_backwards) = (given.by, given.is_backwards);
        let (mut with_scores, mut limit) = (false, (0, -1));
        let mut at = 2;
        while let Some(word) = words.get(at) {
            match &word.to_ascii_uppercase()[..] {
                b"WITHSCORES" if !given.stores => with_scores = true,
                b"LIMIT" if at + 2 < words.len() => {
                    limit = (to_integer(&words[at + 1])?, to_integer(&words[at + 2])?);
                    at += 2;
                }
                b"REV" if is_backwards.is_none() => is_backwards = Some(true),
                b"BYLEX" if by.is_none() => by = Some(By::Lex),
                b"BYSCORE" if by.is_none() => by = Some(By::Score),
                _ => return Err(Fault::SYNTAX),
            }
            at += 1;
        }
        let (by, is_backwards) = (by.unwrap_or(By::Rank), is_backwards.unwrap_or(false));
        if limit.1 != -1 && by == By::Rank {
            let text = "ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX";
            return Err(Fault::of(text));
        }
        if with_scores && by == By::Lex {
            let text = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(Fault::of(text));
        }
        if by == By::Rank {
            limit = (0, -1);
        }
        let (least, most) = match is_backwards && by != By::Rank {
            true => (&words[1], &words[0]),
            false => (&words[0], &words[1]),
        };
        Ok(Asked {
            bounds: Bounds::parse(by, least, most)?,
            is_backwards,
            with_scores,
            limit,
        })
    }

    /// The members asked for, in the order asked for.
    fn of<'s>(&self, sorted: &'s Sorted) -> Vec<&'s Ranked> {
        let positions = self.bounds.positions(sorted, self.is_backwards);
        let (skip, take) = self.limit;
        let Ok(skip) = usize::try_from(skip) else {
            return Vec::new();
        };
        let take = usize::try_from(take).unwrap_or(usize::MAX);
        let len = positions.len();
        let taken = take.min(len.saturating_sub(skip));
        match self.is_backwards {
            true => sorted
                .iter_back(positions.end)
                .skip(skip)
                .take(taken)
                .collect(),
            false => {
                let from = positions.start.saturating_add(skip);
                sorted.iter_from(from).take(taken).collect()
            }
        }
    }
}

/// The name of a command says this.
const fn given(by: By, is_backwards: bool) -> Given {
    Given {
        by: Some(by),
        is_backwards: Some(is_backwards),
        stores: false,
    }
}

fn tell(view: &View<'_>, args: &[Bytes], given: Given, out: &mut Reply) -> Done {
    let asked = Asked::parse(&args[2..], given)?;
    let sorted = view.get::<Sorted>(&args[1])?;
    let members = sorted.map_or_else(Vec::new, |sorted| asked.of(sorted));
    let members = members
        .iter()
        .map(|ranked| (&ranked.member[..], ranked.score));
    tell_members(members, asked.with_scores, out);
    Ok(())
}

pub(crate) fn zrange(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let given = Given {
        by: None,
        is_backwards: None,
        stores: false,
    };
    tell(view, args, given, out)
}

pub(crate) fn zrevrange(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, given(By::Rank, true), out)
}

pub(crate) fn zrangebyscore(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, given(By::Score, false), out)
}

pub(crate) fn zrevrangebyscore(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, given(By::Score, true), out)
}

pub(crate) fn zrangebylex(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, given(By::Lex, false), out)
}

pub(crate) fn zrevrangebylex(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, given(By::Lex, true), out)
}

pub(crate) fn zrangestore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let given = Given {
        by: None,
        is_backwards: None,
        stores: true,
    };
    let asked = Asked::parse(&args[3..], given)?;
    let mut stored = Sorted::default();
    if let Some(sorted) = exec.get::<Sorted>(&args[2])? {
        for ranked in asked.of(sorted) {
            stored.set(&ranked.member, ranked.score);
        }
    }
    out.count(stored.len());
    exec.store(&args[1], Value::Sorted(stored));
    Ok(())
}

pub(crate) fn zcount(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    count(view, args, By::Score, out)
}

pub(crate) fn zlexcount(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    count(view, args, By::Lex, out)
}

fn count(view: &View<'_>, args: &[Bytes], by: By, out: &mut Reply) -> Done {
    let bounds = Bounds::parse(by, &args[2], &args[3])?;
    let sorted = view.get::<Sorted>(&args[1])?;
    out.count(sorted.map_or(0, |sorted| bounds.positions(sorted, false).len()));
    Ok(())
}

pub(crate) fn zremrangebyrank(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    remove(exec, args, By::Rank, out)
}

pub(crate) fn zremrangebyscore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    remove(exec, args, By::Score, out)
}

pub(crate) fn zremrangebylex(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    remove(exec, args, By::Lex, out)
}

fn remove(exec: &mut Exec<'_>, args: &[Bytes], by: By, out: &mut Reply) -> Done {
    let bounds = Bounds::parse(by, &args[2], &args[3])?;
    let sorted = exec.get::<Sorted>(&args[1])?;
    let positions = sorted.map_or(0..0, |sorted| bounds.positions(sorted, false));
    if !positions.is_empty() {
        exec.change(&args[1], |sorted: &mut Sorted| {
            positions
                .clone()
                .for_each(|_| drop(sorted.remove_at(positions.start)));
        })?;
    }
    out.count(positions.len());
    Ok(())
}
