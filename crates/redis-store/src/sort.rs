//! `SORT` and `SORT_RO`.

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::number::{float, to_integer};
use crate::reply::Reply;
use crate::text::{Sought, Text};
use crate::value::{Hash, Kind, List, Str, Value};
use bytes::Bytes;
use std::cmp::Ordering;

/// What is asked for.
#[derive(Default)]
struct Asked<'a> {
    is_backwards: bool,
    by_letters: bool,
    limit: Option<(i64, i64)>,
    /// Where the weight of an element is.
    by: Option<&'a [u8]>,
    /// What is told of an element in its place.
    get: Vec<&'a [u8]>,
    to: Option<&'a Bytes>,
}

impl<'a> Asked<'a> {
    fn parse(words: &'a [Bytes], may_store: bool) -> Result<Asked<'a>, Fault> {
        let mut asked = Asked::default();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let next = words.get(at + 1);
            match (&word.to_ascii_uppercase()[..], next) {
                (b"ASC", _) => asked.is_backwards = false,
                (b"DESC", _) => asked.is_backwards = true,
                (b"ALPHA", _) => asked.by_letters = true,
                (b"LIMIT", Some(start)) if at + 2 < words.len() => {
                    asked.limit = Some((to_integer(start)?, to_integer(&words[at + 2])?));
                    at += 2;
                }
                (b"STORE", Some(key)) if may_store => {
                    asked.to = Some(key);
                    at += 1;
                }
                (b"BY", Some(pattern)) => {
                    asked.by = Some(pattern);
                    at += 1;
                }
                (b"GET", Some(pattern)) => {
                    asked.get.push(pattern);
                    at += 1;
                }
                _ => return Err(Fault::SYNTAX),
            }
            at += 1;
        }
        Ok(asked)
    }

    /// What the key holds, sorted and cut as asked for.
    fn sorted(&self, view: &View<'_>, key: &[u8]) -> Result<Vec<Text>, Fault> {
        let value = view.item(Sought::new(key)).map(|item| &item.value);
        let mut elements: Vec<Text> = match value {
            None => Vec::new(),
            Some(Value::List(list)) => list.iter().map(|((), element)| element.clone()).collect(),
            Some(Value::Set(set)) => set.iter().map(|member| member[..].into()).collect(),
            Some(Value::Sorted(sorted)) => sorted
                .iter_from(0)
                .map(|ranked| ranked.member.clone())
                .collect(),
            Some(_) => return Err(Fault::WRONG_TYPE),
        };
        let is_set = matches!(value, Some(Value::Set(_)));
        let is_ranked = matches!(value, Some(Value::Sorted(_)));
        let is_kept = self.by.is_some_and(|by| !by.contains(&b'*'));
        match is_kept {
            // What is stored of a set must not follow the order in which it is kept.
            true if is_set && self.to.is_some() => {
                elements.sort();
                if self.is_backwards {
                    elements.reverse();
                }
            }
            true if is_ranked && self.is_backwards => elements.reverse(),
            true => {}
            false => self.sort(view, &mut elements)?,
        }
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = (start.max(0) as usize).min(elements.len());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        elements.drain(..start);
        elements.truncate(count);
        Ok(elements)
    }

    fn sort(&self, view: &View<'_>, elements: &mut Vec<Text>) -> Done {
        let weight = |element: &Text| match self.by {
            Some(by) => look_up(view, by, element),
            None => Some(element.to_vec()),
        };
        let in_order = |order: Ordering| match self.is_backwards {
            true => order.reverse(),
            false => order,
        };
        if self.by_letters {
            // No weight comes before all weights.
            elements.sort_by_cached_key(weight);
            if self.is_backwards {
                elements.reverse();
            }
            return Ok(());
        }
        let weighed = elements.drain(..).map(|element| {
            let weight = match weight(&element) {
                None => 0.0,
                Some(text) => {
                    // As C does: up to a zero byte, and nothing is 0.
                    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
                    let text = if text.is_empty() {
                        b"0"
                    } else {
                        text.trim_ascii_start()
                    };
                    let text_error = "ERR One or more scores can't be converted into double";
                    float(text).ok_or(Fault::of(text_error))?
                }
            };
            Ok((weight, element))
        });
        let mut weighed = weighed.collect::<Result<Vec<(f64, Text)>, Fault>>()?;
        weighed.sort_by(|one, other| {
            let by_weight = one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal);
            in_order(by_weight.then_with(|| one.1.cmp(&other.1)))
        });
        elements.extend(weighed.into_iter().map(|(_, element)| element));
        Ok(())
    }

    /// What is told of an element.
    fn told(&self, view: &View<'_>, element: &Text) -> Vec<Option<Vec<u8>>> {
        match self.get.is_empty() {
            true => vec![Some(element.to_vec())],
            false => self
                .get
                .iter()
                .map(|get| look_up(view, get, element))
                .collect(),
        }
    }
}

/// What a pattern leads to whose `*` is an element: the string of a key, or the field behind `->` of a hash.
fn look_up(view: &View<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|byte| *byte == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|two| two == b"->");
    let field = arrow
        .map(|arrow| &behind[arrow + 2..])
        .filter(|field| !field.is_empty());
    let behind = match (arrow, field) {
        (Some(arrow), Some(_)) => &behind[..arrow],
        _ => behind,
    };
    let key = [before, element, behind].concat();
    let value = &view.item(Sought::new(&key))?.value;
    match field {
        Some(field) => Hash::of(value)?.get(field).map(<[u8]>::to_vec),
        None => Some(Str::of(value)?.bytes.to_vec()),
    }
}

fn tell(view: &View<'_>, asked: &Asked<'_>, key: &[u8], out: &mut Reply) -> Done {
    let sorted = asked.sorted(view, key)?;
    out.array(sorted.len() * asked.get.len().max(1));
    for element in &sorted {
        let told = asked.told(view, element);
        told.iter()
            .for_each(|told| out.bulk_or_null(told.as_deref()));
    }
    Ok(())
}

pub(crate) fn sort_ro(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let asked = Asked::parse(&args[2..], false)?;
    tell(view, &asked, &args[1], out)
}

pub(crate) fn sort(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let asked = Asked::parse(&args[2..], true)?;
    let Some(to) = asked.to else {
        return exec.look(|view| tell(view, &asked, &args[1], out));
    };
    let elements = exec.look(|view| {
        let sorted = asked.sorted(view, &args[1])?;
        Ok(sorted
            .iter()
            .flat_map(|element| asked.told(view, element))
            .collect::<Vec<_>>())
    })?;
    let mut list = List::default();
    for element in &elements {
        list.push((), element.as_deref().unwrap_or_default().into());
    }
    out.count(list.len());
    exec.store(to, Value::List(list));
    Ok(())
}
