//! The longest common subsequence of two strings.

use crate::context::View;
use crate::fault::{Done, Fault};
use crate::number::to_integer;
use crate::reply::Reply;
use crate::text::Sought;
use crate::value::{Kind, Str};
use bytes::Bytes;
use std::ops::RangeInclusive;

/// Cells of the table of lengths, at most.
const CELLS_MAX: usize = 16 << 20;

/// What is asked for.
#[derive(Default)]
struct Asked {
    tells_length: bool,
    tells_places: bool,
    with_lengths: bool,
    /// The least length of a match that is told.
    least: usize,
}

impl Asked {
    fn parse(words: &[Bytes]) -> Result<Asked, Fault> {
        let mut asked = Asked::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match &word.to_ascii_uppercase()[..] {
                b"LEN" => asked.tells_length = true,
                b"IDX" => asked.tells_places = true,
                b"WITHMATCHLEN" => asked.with_lengths = true,
                b"MINMATCHLEN" => {
                    let least = to_integer(words.next().ok_or(Fault::SYNTAX)?)?;
                    asked.least = least.max(0) as usize;
                }
                _ => return Err(Fault::SYNTAX),
            }
        }
        if asked.tells_places && asked.tells_length {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(Fault::of(text));
        }
        Ok(asked)
    }
}

/// Where both strings are equal.
struct Match {
    one: RangeInclusive<usize>,
    other: RangeInclusive<usize>,
}

/// For each pair of beginnings of both strings, how much they have in common.
struct Lengths {
    cells: Vec<u32>,
    width: usize,
}

impl Lengths {
    fn of(one: &[u8], other: &[u8]) -> Result<Lengths, Fault> {
        let width = other.len() + 1;
        let cells = width
            .checked_mul(one.len() + 1)
            .filter(|cells| *cells <= CELLS_MAX);
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        let cells = cells.ok_or(Fault::of(text))?;
        let mut lengths = Lengths {
            cells: vec![0; cells],
            width,
        };
        for (i, a) in one.iter().enumerate() {
            for (j, b) in other.iter().enumerate() {
                let length = match a == b {
                    true => lengths.at(i, j) + 1,
                    false => lengths.at(i, j + 1).max(lengths.at(i + 1, j)),
                };
                lengths.cells[(i + 1) * width + j + 1] = length;
            }
        }
        Ok(lengths)
    }

    fn at(&self, one: usize, other: usize) -> u32 {
        self.cells[one * self.width + other]
    }
}

/// The common subsequence, and the matches that it consists of, from the last one on.
fn walk(one: &[u8], other: &[u8], lengths: &Lengths) -> (Vec<u8>, Vec<Match>) {
    let (mut i, mut j) = (one.len(), other.len());
    let (mut common, mut matches) = (Vec::new(), Vec::new());
    let mut open: Option<Match> = None;
    while i > 0 && j > 0 {
        if one[i - 1] == other[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(one[i]);
            let (one_end, other_end) = match &open {
                Some(open) => (*open.one.end(), *open.other.end()),
                None => (i, j),
            };
            open = Some(Match {
                one: i..=one_end,
                other: j..=other_end,
            });
        } else {
            match lengths.at(i - 1, j) > lengths.at(i, j - 1) {
                true => i -= 1,
                false => j -= 1,
            }
            matches.extend(open.take());
        }
    }
    matches.extend(open);
    common.reverse();
    (common, matches)
}

pub(crate) fn lcs(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let string = |key: &[u8]| match view.item(Sought::new(key)) {
        None => Ok(&b""[..]),
        Some(item) => {
            let text = "ERR The specified keys must contain string values";
            let value = Str::of(&item.value).ok_or(Fault::of(text))?;
            Ok(&value.bytes[..])
        }
    };
    let (one, other) = (string(&args[1])?, string(&args[2])?);
    let asked = Asked::parse(&args[3..])?;
    let lengths = Lengths::of(one, other)?;
    let length = i64::from(lengths.at(one.len(), other.len()));
    if asked.tells_length {
        out.integer(length);
        return Ok(());
    }
    let (common, mut matches) = walk(one, other, &lengths);
    if !asked.tells_places {
        out.bulk(&common);
        return Ok(());
    }
    let match_len = |found: &Match| found.one.end() - found.one.start() + 1;
    matches.retain(|found| match_len(found) >= asked.least);
    out.map(2);
    out.bulk(b"matches");
    out.array(matches.len());
    for found in &matches {
        out.array(2 + usize::from(asked.with_lengths));
        for range in [&found.one, &found.other] {
            out.array(2);
            out.count(*range.start());
            out.count(*range.end());
        }
        if asked.with_lengths {
            out.count(match_len(found));
        }
    }
    out.bulk(b"len");
    out.integer(length);
    Ok(())
}
