//! Scans: `SCAN`, `HSCAN`, `SSCAN`, `ZSCAN`.
//!
//! Elements are ordered by hash, and a cursor says from which hash on to go. So what is there all the time is told,
//! whatever comes and goes meanwhile, on every replica, and no replica keeps anything for a scan.

use crate::context::View;
use crate::fault::{Done, Fault};
use crate::glob;
use crate::number;
use crate::number::to_integer;
use crate::reply::Reply;
use crate::value::{Hash, Set, Sorted};
use bytes::Bytes;

/// Low bits of a hash that a cursor leaves out, so that it fits the integers of all clients.
const CURSOR_DROPS_BITS: u32 = 12;

/// Elements looked at by one command unless it says otherwise.
const COUNT: usize = 10;

/// What a scan asks for.
struct Scan<'a> {
    cursor: u64,
    count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    /// What fits the pattern: elements, or pairs of them.
    found: Vec<Vec<u8>>,
}

/// Where a cursor is, as C reads it: nothing is 0, and negative numbers count from the end.
fn to_cursor(text: &[u8]) -> Result<u64, Fault> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = std::str::from_utf8(digits).unwrap_or("?");
    let cursor = match digits.starts_with('+') || digits.is_empty() && !text.is_empty() {
        true => None,
        false if digits.is_empty() => Some(0),
        false => digits.parse::<u64>().ok(),
    };
    let cursor = cursor.ok_or(Fault::of("ERR invalid cursor"))?;
    Ok(if is_negative {
        cursor.wrapping_neg()
    } else {
        cursor
    })
}

impl<'a> Scan<'a> {
    fn parse(cursor: u64, words: &'a [Bytes], has_kinds: bool) -> Result<Scan<'a>, Fault> {
        let mut scan = Scan {
            cursor,
            count: COUNT,
            pattern: None,
            kind: None,
            found: Vec::new(),
        };
        for option in words.chunks(2) {
            let [word, given] = option else {
                return Err(Fault::SYNTAX);
            };
            match &word.to_ascii_uppercase()[..] {
                b"COUNT" => {
                    let count = usize::try_from(to_integer(given)?).map_err(|_| Fault::SYNTAX)?;
                    if count == 0 {
                        return Err(Fault::SYNTAX);
                    }
                    scan.count = count;
                }
                b"MATCH" => scan.pattern = Some(given),
                b"TYPE" if has_kinds => scan.kind = Some(given),
                _ => return Err(Fault::SYNTAX),
            }
        }
        Ok(scan)
    }

    /// The first hash that it looks at.
    fn from(&self) -> u64 {
        // A cursor that no scan gave begins anywhere.
        self.cursor << CURSOR_DROPS_BITS
    }

    /// Notes an element and what belongs to it, if it fits.
    fn note(&mut self, element: &[u8], more: Option<&[u8]>) {
        if self
            .pattern
            .is_none_or(|pattern| glob::matches(pattern, element))
        {
            self.found.push(element.to_vec());
            self.found.extend(more.map(<[u8]>::to_vec));
        }
    }

    /// Looks at elements in the order of their hashes; the cursor to go on with.
    fn walk<T>(
        &mut self,
        elements: impl Iterator<Item = T>,
        hash: impl Fn(&T) -> u64,
        mut note: impl FnMut(&mut Self, T),
    ) -> u64 {
        let mut looked_at = 0;
        let mut last = None;
        for element in elements {
            let place = hash(&element) >> CURSOR_DROPS_BITS;
            // What has the same place has the same cursor.
            if looked_at >= self.count && last != Some(place) {
                return place;
            }
            (looked_at, last) = (looked_at + 1, Some(place));
            note(self, element);
        }
        0
    }

    fn tell(self, next: u64, out: &mut Reply) {
        out.array(2);
        out.bulk(next.to_string().as_bytes());
        out.array(self.found.len());
        self.found.iter().for_each(|element| out.bulk(element));
    }
}

pub(crate) fn scan(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let mut scan = Scan::parse(to_cursor(&args[1])?, &args[2..], true)?;
    let (database, now_ms) = (view.database(), view.now_ms());
    let keys = database.keys();
    let from = scan.from();
    let keys = keys.iter_from(keys.count_less(|name| name.hash().cmp(&from)));
    let hash = |(name, _): &(&crate::text::Name, _)| name.hash();
    let next = scan.walk(keys, hash, |scan, (name, item)| {
        let kind = item.value.type_name().as_bytes();
        let fits = scan
            .kind
            .is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind));
        if fits && !item.is_over(now_ms) {
            scan.note(name.text(), None);
        }
    });
    scan.tell(next, out);
    Ok(())
}

pub(crate) fn hscan(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let cursor = to_cursor(&args[2])?;
    let Some(hash) = view.get::<Hash>(&args[1])? else {
        return nothing(out);
    };
    let mut scan = Scan::parse(cursor, &args[3..], false)?;
    let next = match hash {
        Hash::Packed(packed) => {
            packed
                .iter()
                .for_each(|(field, value)| scan.note(field, Some(value)));
            0
        }
        Hash::Names(names) => {
            let from = scan.from();
            let fields = names.iter_from(names.count_less(|name| name.hash().cmp(&from)));
            let hash = |(name, _): &(&crate::text::Name, _)| name.hash();
            scan.walk(fields, hash, |scan, (name, value)| {
                scan.note(name.text(), Some(value));
            })
        }
    };
    scan.tell(next, out);
    Ok(())
}

pub(crate) fn sscan(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let cursor = to_cursor(&args[2])?;
    let Some(set) = view.get::<Set>(&args[1])? else {
        return nothing(out);
    };
    let mut scan = Scan::parse(cursor, &args[3..], false)?;
    let next = match set {
        Set::Ints(_) => {
            set.iter().for_each(|member| scan.note(&member, None));
            0
        }
        Set::Names(names) => {
            let from = scan.from();
            let members = names.iter_from(names.count_less(|name| name.hash().cmp(&from)));
            let hash = |(name, ()): &(&crate::text::Name, &())| name.hash();
            scan.walk(members, hash, |scan, (name, ())| {
                scan.note(name.text(), None)
            })
        }
    };
    scan.tell(next, out);
    Ok(())
}

pub(crate) fn zscan(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let cursor = to_cursor(&args[2])?;
    let Some(sorted) = view.get::<Sorted>(&args[1])? else {
        return nothing(out);
    };
    let mut scan = Scan::parse(cursor, &args[3..], false)?;
    let note = |scan: &mut Scan<'_>, member: &[u8], score: f64| {
        scan.note(member, Some(number::write_float(score).as_bytes()));
    };
    let next = match sorted.is_large {
        false => {
            for ranked in sorted.iter_from(0) {
                let score = small_score(ranked.score);
                scan.note(&ranked.member, Some(score.as_bytes()));
            }
            0
        }
        true => {
            let members = sorted.names_from(sorted.names_before(scan.from()));
            let hash = |(name, _): &(&crate::text::Name, f64)| name.hash();
            scan.walk(members, hash, |scan, (name, score)| {
                note(scan, name.text(), score)
            })
        }
    };
    scan.tell(next, out);
    Ok(())
}

/// The score of a small sorted set, where Redis keeps integers as such.
fn small_score(score: f64) -> String {
    let most = (i64::MAX / 2) as f64;
    match score.fract() == 0.0 && (-most..=most).contains(&score) {
        true => (score as i64).to_string(),
        false => number::write_float(score),
    }
}

/// The reply to a scan of a key that is not there.
fn nothing(out: &mut Reply) -> Done {
    out.array(2);
    out.bulk(b"0");
    out.array(0);
    Ok(())
}
