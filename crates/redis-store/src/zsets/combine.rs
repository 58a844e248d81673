//! Unions, intersections and differences of sorted sets and sets.

use super::tell_members;
use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::number::{at_least, float, to_integer};
use crate::reply::Reply;
use crate::text::Sought;
use crate::value::{Set, Sorted, Value};
use bytes::Bytes;
use std::borrow::Cow;

/// What is made of several collections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Union,
    Inter,
    Diff,
}

/// What becomes of the scores that a member has in several collections.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Opposite infinities come to nothing.
            Aggregate::Sum => or_zero(one + other),
            Aggregate::Min if other < one => other,
            Aggregate::Max if other > one => other,
            Aggregate::Min | Aggregate::Max => one,
        }
    }
}

fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A collection of members with scores; those of a set have 1.
#[derive(Clone, Copy)]
enum Source<'a> {
    Nothing,
    Set(&'a Set),
    Sorted(&'a Sorted),
}

impl<'a> Source<'a> {
    fn of(view: &View<'a>, key: &[u8]) -> Result<Source<'a>, Fault> {
        match view.item(Sought::new(key)).map(|item| &item.value) {
            None => Ok(Source::Nothing),
            Some(Value::Set(set)) => Ok(Source::Set(set)),
            Some(Value::Sorted(sorted)) => Ok(Source::Sorted(sorted)),
            Some(_) => Err(Fault::WRONG_TYPE),
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Nothing => 0,
            Source::Set(set) => set.len(),
            Source::Sorted(sorted) => sorted.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Nothing => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::Sorted(sorted) => sorted.score(member),
        }
    }

    fn iter(self) -> Box<dyn Iterator<Item = (Cow<'a, [u8]>, f64)> + 'a> {
        match self {
            Source::Nothing => Box::new(std::iter::empty()),
            Source::Set(set) => Box::new(set.iter().map(|member| (member, 1.0))),
            Source::Sorted(sorted) => {
                let members = sorted.iter_from(0);
                Box::new(members.map(|ranked| (Cow::Borrowed(&ranked.member[..]), ranked.score)))
            }
        }
    }
}

/// What a command asks for.
struct Asked<'a> {
    /// Collections and the weights of their scores.
    sources: Vec<(Source<'a>, f64)>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Members to count, at most.
    limit: usize,
}

/// What a command tells of its result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    Members,
    Count,
    Stored,
}

impl<'a> Asked<'a> {
    /// Reads the number of keys, the keys, and the options behind them.
    fn parse(
        view: &View<'a>,
        name: &[u8],
        words: &[Bytes],
        (how, tells): (Combine, Tells),
    ) -> Result<Asked<'a>, Fault> {
        let keys = to_integer(&words[0])?;
        if keys < 1 {
            let name = String::from_utf8_lossy(name).to_lowercase();
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(Fault(text.into()));
        }
        if keys as usize > words.len() - 1 {
            return Err(Fault::SYNTAX);
        }
        let (keys, options) = words[1..].split_at(keys as usize);
        let sources = keys.iter().map(|key| Ok((Source::of(view, key)?, 1.0)));
        let mut asked = Asked {
            sources: sources.collect::<Result<_, Fault>>()?,
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        };
        let has_scores = how != Combine::Diff && tells != Tells::Count;
        let mut rest = options;
        while let Some((word, behind)) = rest.split_first() {
            rest = match &word.to_ascii_uppercase()[..] {
                b"WEIGHTS" if has_scores && behind.len() >= asked.sources.len() => {
                    asked.weigh(behind)?
                }
                b"AGGREGATE" if has_scores && !behind.is_empty() => {
                    asked.aggregate = match &behind[0].to_ascii_uppercase()[..] {
                        b"SUM" => Aggregate::Sum,
                        b"MIN" => Aggregate::Min,
                        b"MAX" => Aggregate::Max,
                        _ => return Err(Fault::SYNTAX),
                    };
                    &behind[1..]
                }
                b"WITHSCORES" if tells == Tells::Members => {
                    asked.with_scores = true;
                    behind
                }
                b"LIMIT" if tells == Tells::Count && !behind.is_empty() => {
                    let limit = at_least(0, &behind[0], "ERR LIMIT can't be negative")?;
                    asked.limit = if limit == 0 {
                        usize::MAX
                    } else {
                        limit as usize
                    };
                    &behind[1..]
                }
                _ => return Err(Fault::SYNTAX),
            };
        }
        Ok(asked)
    }

    /// Takes a weight for each collection. What is behind them.
    fn weigh<'w>(&mut self, words: &'w [Bytes]) -> Result<&'w [Bytes], Fault> {
        let (weights, rest) = words.split_at(self.sources.len());
        for ((_, weight), word) in self.sources.iter_mut().zip(weights) {
            *weight = float(word).ok_or(Fault::of("ERR weight value is not a float"))?;
        }
        Ok(rest)
    }

    fn combine(mut self, how: Combine) -> Sorted {
        let mut result = Sorted::default();
        if how == Combine::Diff {
            let (first, others) = (self.sources[0].0, &self.sources[1..]);
            let is_left = |member: &[u8]| {
                others
                    .iter()
                    .all(|(other, _)| other.score(member).is_none())
            };
            let left = first.iter().filter(|(member, _)| is_left(member));
            for (member, score) in left {
                result.set(&member, score);
            }
            return result;
        }
        // In the order in which Redis adds, since sums of floats depend on it.
        self.sources.sort_by_key(|(source, _)| source.len());
        let aggregate = self.aggregate;
        match how {
            Combine::Inter => {
                let (first, weight) = self.sources[0];
                for (member, score) in first.iter() {
                    let scores = self.sources[1..].iter();
                    let mut scores =
                        scores.map(|(other, weight)| Some(other.score(&member)? * weight));
                    let score = scores
                        .try_fold(or_zero(score * weight), |sum, score: Option<f64>| {
                            Some(aggregate.of(sum, score?))
                        });
                    if let Some(score) = score {
                        result.set(&member, score);
                    }
                }
            }
            Combine::Union | Combine::Diff => {
                for (source, weight) in &self.sources {
                    for (member, score) in source.iter() {
                        let score = or_zero(score * weight);
                        let sum = result.score(&member).map(|sum| aggregate.of(sum, score));
                        result.set(&member, sum.unwrap_or(score));
                    }
                }
            }
        }
        result
    }
}

fn tell(view: &View<'_>, args: &[Bytes], how: Combine, out: &mut Reply) -> Done {
    let asked = Asked::parse(view, &args[0], &args[1..], (how, Tells::Members))?;
    let with_scores = asked.with_scores;
    let combined = asked.combine(how);
    let members: Vec<_> = combined.iter_from(0).collect();
    let members = members
        .iter()
        .map(|ranked| (&ranked.member[..], ranked.score));
    tell_members(members, with_scores, out);
    Ok(())
}

fn store(exec: &mut Exec<'_>, args: &[Bytes], how: Combine, out: &mut Reply) -> Done {
    let combined = exec.look(|view| {
        let asked = Asked::parse(view, &args[0], &args[2..], (how, Tells::Stored))?;
        Ok(asked.combine(how))
    })?;
    out.count(combined.len());
    exec.store(&args[1], Value::Sorted(combined));
    Ok(())
}

pub(crate) fn zunion(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, Combine::Union, out)
}

pub(crate) fn zinter(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, Combine::Inter, out)
}

pub(crate) fn zdiff(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    tell(view, args, Combine::Diff, out)
}

pub(crate) fn zintercard(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let asked = Asked::parse(view, &args[0], &args[1..], (Combine::Inter, Tells::Count))?;
    let limit = asked.limit;
    out.count(asked.combine(Combine::Inter).len().min(limit));
    Ok(())
}

pub(crate) fn zunionstore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    store(exec, args, Combine::Union, out)
}

pub(crate) fn zinterstore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    store(exec, args, Combine::Inter, out)
}

pub(crate) fn zdiffstore(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    store(exec, args, Combine::Diff, out)
}
