//! Commands of lists.

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::number::{at_least, to_count, to_integer};
use crate::range;
use crate::reply::Reply;
use crate::text::Text;
use crate::value::List;
use bytes::Bytes;

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

impl End {
    fn parse(word: &[u8]) -> Result<End, Fault> {
        match &word.to_ascii_uppercase()[..] {
            b"LEFT" => Ok(End::Left),
            b"RIGHT" => Ok(End::Right),
            _ => Err(Fault::SYNTAX),
        }
    }

    fn push(self, list: &mut List, element: Text) {
        match self {
            End::Left => list.insert_at(0, (), element),
            End::Right => list.push((), element),
        }
    }

    fn pop(self, list: &mut List) -> Option<Text> {
        let rank = match self {
            End::Left => 0,
            End::Right => list.len().checked_sub(1)?,
        };
        list.remove_at(rank).map(|((), element)| element)
    }
}

pub(crate) fn lpush(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    push(exec, args, End::Left, out)
}

pub(crate) fn rpush(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    push(exec, args, End::Right, out)
}

pub(crate) fn lpushx(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    push_if_there(exec, args, End::Left, out)
}

pub(crate) fn rpushx(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    push_if_there(exec, args, End::Right, out)
}

fn push(exec: &mut Exec<'_>, args: &[Bytes], end: End, out: &mut Reply) -> Done {
    let len = exec.change(&args[1], |list: &mut List| {
        args[2..]
            .iter()
            .for_each(|element| end.push(list, element[..].into()));
        list.len()
    })?;
    out.count(len);
    Ok(())
}

fn push_if_there(exec: &mut Exec<'_>, args: &[Bytes], end: End, out: &mut Reply) -> Done {
    match exec.get::<List>(&args[1])? {
        Some(_) => push(exec, args, end, out),
        None => {
            out.integer(0);
            Ok(())
        }
    }
}

pub(crate) fn lpop(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    pop(exec, args, End::Left, out)
}

pub(crate) fn rpop(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    pop(exec, args, End::Right, out)
}

fn pop(exec: &mut Exec<'_>, args: &[Bytes], end: End, out: &mut Reply) -> Done {
    if args.len() > 3 {
        let name = String::from_utf8_lossy(&args[0]).to_lowercase();
        return Err(Fault::arity(&name));
    }
    let count = args.get(2).map(|count| to_count(count)).transpose()?;
    let Some(list) = exec.get::<List>(&args[1])? else {
        match count {
            Some(_) => out.null_array(),
            None => out.null(),
        }
        return Ok(());
    };
    let taken = count.unwrap_or(1).min(list.len());
    if count.is_some() {
        out.array(taken);
    }
    pop_to(exec, &args[1], end, taken, out)
}

/// Takes elements from a list that has as many, and replies with them.
fn pop_to(exec: &mut Exec<'_>, key: &[u8], end: End, count: usize, out: &mut Reply) -> Done {
    if count == 0 {
        return Ok(());
    }
    exec.change(key, |list: &mut List| {
        let elements = (0..count).filter_map(|_| end.pop(list));
        elements.for_each(|element| out.bulk(&element));
    })
}

pub(crate) fn lmpop(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let keys = at_least(1, &args[1], "ERR numkeys should be greater than 0")? as usize;
    let end_at = keys.saturating_add(2);
    let end = End::parse(args.get(end_at).ok_or(Fault::SYNTAX)?)?;
    let count = count_option(&args[end_at + 1..])?;
    for key in &args[2..end_at] {
        let Some(list) = exec.get::<List>(key)? else {
            continue;
        };
        let taken = count.min(list.len());
        out.array(2);
        out.bulk(key);
        out.array(taken);
        return pop_to(exec, key, end, taken, out);
    }
    out.null_array();
    Ok(())
}

/// What `COUNT` says in the commands that take elements from the first key that has any.
pub(crate) fn count_option(words: &[Bytes]) -> Result<usize, Fault> {
    match words {
        [] => Ok(1),
        [word, count, rest @ ..] if word.eq_ignore_ascii_case(b"COUNT") => {
            let count = at_least(1, count, "ERR count should be greater than 0")?;
            match rest {
                [] => Ok(count as usize),
                _ => Err(Fault::SYNTAX),
            }
        }
        _ => Err(Fault::SYNTAX),
    }
}

pub(crate) fn llen(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let list = view.get::<List>(&args[1])?;
    out.count(list.map_or(0, List::len));
    Ok(())
}

pub(crate) fn lrange(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (start, end) = (to_integer(&args[2])?, to_integer(&args[3])?);
    let Some(list) = view.get::<List>(&args[1])? else {
        out.array(0);
        return Ok(());
    };
    let range = range::of(start, end, list.len());
    out.array(range.len());
    let elements = list.iter_from(range.start).take(range.len());
    elements.for_each(|((), element)| out.bulk(element));
    Ok(())
}

pub(crate) fn lindex(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let Some(list) = view.get::<List>(&args[1])? else {
        out.null();
        return Ok(());
    };
    let at = range::position(to_integer(&args[2])?, list.len());
    let element = at.and_then(|at| list.at(at));
    out.bulk_or_null(element.map(|((), element)| &element[..]));
    Ok(())
}

pub(crate) fn lset(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let list = exec.get::<List>(&args[1])?.ok_or(Fault::NO_KEY)?;
    let at = range::position(to_integer(&args[2])?, list.len()).ok_or(Fault::INDEX)?;
    if let Some(element) = exec
        .edit::<List>(&args[1])?
        .and_then(|list| list.at_mut(at))
    {
        *element = args[3][..].into();
    }
    out.ok();
    Ok(())
}

pub(crate) fn lrem(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let count = to_integer(&args[2])?;
    let Some(list) = exec.get::<List>(&args[1])? else {
        out.integer(0);
        return Ok(());
    };
    let most = match count {
        0 => usize::MAX,
        count => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let is_sought = |element: &Text| element[..] == args[3][..];
    let mut found: Vec<usize> = match count < 0 {
        false => {
            let ranked = list.iter().zip(0..);
            let found = ranked.filter(|(((), element), _)| is_sought(element));
            found.map(|(_, rank)| rank).take(most).collect()
        }
        true => {
            let ranked = list.iter_back(list.len()).zip((0..list.len()).rev());
            let found = ranked.filter(|(((), element), _)| is_sought(element));
            found.map(|(_, rank)| rank).take(most).collect()
        }
    };
    found.sort_unstable();
    if !found.is_empty() {
        exec.change(&args[1], |list: &mut List| {
            found
                .iter()
                .rev()
                .for_each(|rank| drop(list.remove_at(*rank)));
        })?;
    }
    out.count(found.len());
    Ok(())
}

pub(crate) fn ltrim(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (start, end) = (to_integer(&args[2])?, to_integer(&args[3])?);
    if let Some(list) = exec.get::<List>(&args[1])? {
        let kept = range::of(start, end, list.len());
        exec.change(&args[1], |list: &mut List| {
            list.remove_range(kept.end..list.len());
            list.remove_range(0..kept.start.min(list.len()));
        })?;
    }
    out.ok();
    Ok(())
}

pub(crate) fn linsert(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let behind = match &args[2].to_ascii_uppercase()[..] {
        b"BEFORE" => 0,
        b"AFTER" => 1,
        _ => return Err(Fault::SYNTAX),
    };
    let Some(list) = exec.get::<List>(&args[1])? else {
        out.integer(0);
        return Ok(());
    };
    let pivot = list
        .iter()
        .position(|((), element)| element[..] == args[3][..]);
    let Some(pivot) = pivot else {
        out.integer(-1);
        return Ok(());
    };
    let len = exec.change(&args[1], |list: &mut List| {
        list.insert_at(pivot + behind, (), args[4][..].into());
        list.len()
    })?;
    out.count(len);
    Ok(())
}

pub(crate) fn lpos(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (mut rank, mut count, mut most) = (1, None, 0);
    for option in args[3..].chunks(2) {
        let [word, number] = option else {
            return Err(Fault::SYNTAX);
        };
        match &word.to_ascii_uppercase()[..] {
            b"RANK" => {
                rank = to_integer(number)?;
                if rank == i64::MIN {
                    return Err(Fault::BEYOND);
                }
                if rank == 0 {
                    return Err(Fault::of(RANK_IS_ZERO));
                }
            }
            b"COUNT" => count = Some(at_least(0, number, "ERR COUNT can't be negative")?),
            b"MAXLEN" => most = at_least(0, number, "ERR MAXLEN can't be negative")?,
            _ => return Err(Fault::SYNTAX),
        }
    }
    let list = view.get::<List>(&args[1])?;
    let (skip, len) = (rank.unsigned_abs() as usize - 1, list.map_or(0, List::len));
    let most = if most == 0 { len } else { most as usize };
    let wanted = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count as usize,
    };
    let is_sought = |element: &Text| element[..] == args[2][..];
    let found: Vec<usize> = match list {
        None => Vec::new(),
        Some(list) if rank > 0 => {
            let looked_at = list.iter().zip(0..len).take(most);
            let found = looked_at.filter(|(((), element), _)| is_sought(element));
            found.map(|(_, at)| at).skip(skip).take(wanted).collect()
        }
        Some(list) => {
            let looked_at = list.iter_back(len).zip((0..len).rev()).take(most);
            let found = looked_at.filter(|(((), element), _)| is_sought(element));
            found.map(|(_, at)| at).skip(skip).take(wanted).collect()
        }
    };
    match count {
        None => match found.first() {
            Some(at) => out.count(*at),
            None => out.null(),
        },
        Some(_) => {
            out.array(found.len());
            found.iter().for_each(|at| out.count(*at));
        }
    }
    Ok(())
}

const RANK_IS_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                            second ... or use negative to start from the end of the list";

pub(crate) fn lmove(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let (from, to) = (End::parse(&args[3])?, End::parse(&args[4])?);
    move_element(exec, &args[1..3], (from, to), out)
}

pub(crate) fn rpoplpush(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    move_element(exec, &args[1..3], (End::Right, End::Left), out)
}

fn move_element(
    exec: &mut Exec<'_>,
    keys: &[Bytes],
    (from, to): (End, End),
    out: &mut Reply,
) -> Done {
    if exec.get::<List>(&keys[0])?.is_none() {
        out.null();
        return Ok(());
    }
    exec.get::<List>(&keys[1])?;
    if keys[0] == keys[1] {
        // Never empty on the way, so that the key keeps its end.
        return exec.change(&keys[0], |list: &mut List| {
            if let Some(element) = from.pop(list) {
                out.bulk(&element);
                to.push(list, element);
            }
        });
    }
    let element = exec.change(&keys[0], |list: &mut List| from.pop(list))?;
    if let Some(element) = element {
        out.bulk(&element);
        exec.change(&keys[1], |list: &mut List| to.push(list, element))?;
    }
    Ok(())
}
