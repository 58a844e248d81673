//! The search.

use crate::corpus::Corpus;
use crate::judge::{Limits, Outcome, judge};
use crate::mutate::mutate;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::Wire;
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::path::Path;
use std::time::{Duration, Instant};

/// Inputs tried when no time is given.
const INPUTS: u64 = 20_000;
/// Inputs that are mutated further, at most.
const POOL_MAX: usize = 4_096;
/// Attempts to make a failing input smaller.
const SHRINKS: usize = 4_000;
/// Inputs in a corpus, at most, and the length of those that are added to it for their way alone.
const KEPT_MAX: usize = 40;
const KEPT_BYTES_MAX: usize = 200;
/// How many of the newest inputs are mutated more often than the others.
const NEWEST: usize = 16;

/// A search for inputs that a decoder does not bear.
pub struct Fuzz {
    name: String,
    corpus: Corpus,
    seeds: Vec<Vec<u8>>,
    limits: Limits,
    seal: fn(&mut Vec<u8>),
}

impl Fuzz {
    /// A search with its corpus in `folder`, the `CARGO_MANIFEST_DIR` of the crate it is about.
    #[must_use]
    pub fn new(folder: &str, name: &str) -> Self {
        let path = Path::new(folder).join("corpus").join(format!("{name}.txt"));
        Fuzz {
            name: name.to_owned(),
            corpus: Corpus::new(path),
            seeds: Vec::new(),
            limits: Limits::default(),
            seal: |_| {},
        }
    }

    /// Real encodings to begin with.
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        self.seeds.extend(seeds.into_iter().map(Into::into));
        self
    }

    /// What the decoder may take.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Puts checksums right, so that mutations get past them. One input in eight goes without.
    #[must_use]
    pub fn seal(mut self, seal: fn(&mut Vec<u8>)) -> Self {
        self.seal = seal;
        self
    }

    /// Searches: for as long as `QUORATE_FUZZ_SECONDS` says, or a fixed number of inputs.
    ///
    /// # Panics
    /// When an input fails, and then says which.
    pub fn run<T: Debug, E: Display>(
        self,
        decode: impl Fn(Bytes) -> Result<T, E>,
        check: impl Fn(&Bytes, &T),
    ) {
        let judge = |input: &Bytes| judge(input, &self.limits, &decode, &check);
        let mut search = Search {
            fuzz: &self,
            rng: Rng::with_seed(seed()),
            pool: Vec::new(),
            shapes: BTreeSet::new(),
            inputs: 0,
            kept: 0,
            grow: std::env::var_os("QUORATE_FUZZ_GROW").is_some(),
            worst: (0, 0),
            slowest: Duration::ZERO,
        };
        let kept = self.corpus.read();
        search.kept = kept.len();
        for input in self.seeds.iter().chain(&kept) {
            search.try_one(input.clone().into(), &judge, true);
        }
        let (inputs, until) = match budget() {
            Some(time) => (u64::MAX, Some(Instant::now() + time)),
            None => (INPUTS, None),
        };
        while search.inputs < inputs
            && (!search.inputs.is_multiple_of(64)
                || until.is_none_or(|until| Instant::now() < until))
        {
            let input = search.draw();
            search.try_one(input.into(), &judge, false);
        }
        search.report();
    }
}

impl Fuzz {
    /// Searches with a decoder of the wire encoding, of which every value has exactly one.
    pub fn run_wire<T: Wire + Debug>(self) {
        self.run(T::from_bytes, |input, value| {
            assert_eq!(value.to_bytes(), *input, "the encoding of {value:?}");
        });
    }
}

/// How long each search runs (`QUORATE_FUZZ_SECONDS`); without it, a fixed number of inputs.
fn budget() -> Option<Duration> {
    let seconds = std::env::var("QUORATE_FUZZ_SECONDS").ok()?;
    let seconds = seconds.parse();
    Some(Duration::from_secs(
        seconds.expect("QUORATE_FUZZ_SECONDS is a number"),
    ))
}

/// The seed of a search (`QUORATE_FUZZ_SEED`); without it, always the same.
fn seed() -> u64 {
    let seed = std::env::var("QUORATE_FUZZ_SEED").ok();
    seed.map_or(1, |seed| {
        seed.parse().expect("QUORATE_FUZZ_SEED is a number")
    })
}

/// Does something again and again, each time with another seed: for as long as `QUORATE_FUZZ_SECONDS`
/// says, or so many times.
pub fn rounds(count: u64, mut round: impl FnMut(Rng)) {
    let until = budget().map(|time| Instant::now() + time);
    for number in 0.. {
        if until.map_or(number >= count, |until| Instant::now() >= until) {
            return;
        }
        round(Rng::with_seed(seed().wrapping_add(number)));
    }
}

struct Search<'a> {
    fuzz: &'a Fuzz,
    rng: Rng,
    pool: Vec<Bytes>,
    /// Everything the decoder has said so far.
    shapes: BTreeSet<String>,
    inputs: u64,
    /// Inputs in the corpus.
    kept: usize,
    /// Whether inputs that went a new way are added to it (`QUORATE_FUZZ_GROW`).
    grow: bool,
    /// The most bytes held, and the length of the input they were held for.
    worst: (u64, usize),
    slowest: Duration,
}

impl Search<'_> {
    fn draw(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        let count = self.pool.len();
        let newest = count.saturating_sub(NEWEST);
        let mut input = match count {
            0 => Vec::new(),
            _ if rng.u8(..4) == 0 => self.pool[rng.usize(newest..count)].to_vec(),
            _ => self.pool[rng.usize(..count)].to_vec(),
        };
        let other = match count {
            0 => Bytes::new(),
            _ => self.pool[rng.usize(..count)].clone(),
        };
        mutate(&mut input, &other, rng);
        if rng.u8(..8) > 0 {
            (self.fuzz.seal)(&mut input);
        }
        input
    }

    fn try_one(&mut self, input: Bytes, judge: &impl Fn(&Bytes) -> Outcome, keep: bool) {
        self.inputs += 1;
        let outcome = judge(&input);
        if outcome.wrong.is_some() {
            self.fail(&input, judge);
        }
        if outcome.peak_bytes > self.worst.0 {
            self.worst = (outcome.peak_bytes, input.len());
        }
        self.slowest = self.slowest.max(outcome.time);
        let is_new = !self.shapes.contains(&outcome.shape);
        if is_new && !keep && self.grows_by(&input) {
            let added = self.fuzz.corpus.add(&input, &outcome.shape);
            added.unwrap_or_else(|error| panic!("{}: {error}", self.fuzz.corpus.path().display()));
            self.kept += 1;
        }
        self.shapes.insert(outcome.shape);
        if is_new || keep {
            if self.pool.len() >= POOL_MAX {
                let out = self.rng.usize(..self.pool.len());
                self.pool.swap_remove(out);
            }
            self.pool.push(input);
        }
    }

    /// Whether an input that went a new way is to stay in the corpus.
    fn grows_by(&self, input: &[u8]) -> bool {
        self.grow && self.kept < KEPT_MAX && input.len() <= KEPT_BYTES_MAX
    }

    /// Shrinks a failing input, keeps it, and ends the search.
    fn fail(&mut self, input: &Bytes, judge: &impl Fn(&Bytes) -> Outcome) -> ! {
        let mut smallest = input.to_vec();
        for _ in 0..SHRINKS {
            let mut smaller = smallest.clone();
            let from = self.rng.usize(..=smaller.len());
            let to = self.rng.usize(from..=smaller.len());
            smaller.drain(from..to);
            (self.fuzz.seal)(&mut smaller);
            let is_smaller = smaller.len() < smallest.len();
            if is_smaller && judge(&smaller.clone().into()).wrong.is_some() {
                smallest = smaller;
            }
        }
        let wrong = judge(&smallest.clone().into()).wrong;
        let wrong = wrong.or_else(|| judge(input).wrong).unwrap_or_default();
        let path = self.fuzz.corpus.path().display();
        let kept = match self.fuzz.corpus.read().contains(&smallest) {
            true => format!("it is in {path}"),
            false => match self.fuzz.corpus.add(&smallest, &wrong) {
                Ok(()) => format!("it was added to {path}"),
                Err(error) => format!("{path} does not take it: {error}"),
            },
        };
        panic!(
            "{}: {wrong}\n  with the input {smallest:02x?}\n  {kept}",
            self.fuzz.name
        );
    }

    fn report(&self) {
        println!(
            "fuzz {}: {} inputs, {} ways through, at most {} B held for {} B, at most {:?}",
            self.fuzz.name,
            self.inputs,
            self.shapes.len(),
            self.worst.0,
            self.worst.1,
            self.slowest
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::panic::catch_unwind;

    /// Scenario: a decoder bears everything but a certain four bytes in a row, behind a magic and a
    /// length. The search gets there from a valid input, shrinks what it found, and keeps it; the
    /// next search fails at once.
    #[test]
    fn a_fault_behind_a_few_conditions_is_found_shrunk_and_kept() {
        let home = std::env::temp_dir().join(format!("quorate-fuzz-{}", std::process::id()));
        let decode = |input: Bytes| match &input[..] {
            [b'm', length, rest @ ..] if usize::from(*length) == rest.len() => {
                assert!(
                    !rest.windows(3).any(|part| part == [0, 0, 0]),
                    "three zeros"
                );
                Ok(rest.len())
            }
            [b'm', ..] => Err("length"),
            _ => Err("magic"),
        };
        let search = |inputs: &[&[u8]]| {
            let folder = home.display().to_string();
            let inputs = inputs.to_vec();
            let fuzz = Fuzz::new(&folder, "sample").seeds(inputs);
            catch_unwind(move || fuzz.run(decode, |_, _| {}))
        };
        search(&[b"m\x041111"]).expect_err("the fault was not found");
        let kept = Corpus::new(home.join("corpus/sample.txt")).read();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert!(kept[0].len() <= 6, "not shrunk: {kept:?}");
        search(&[]).expect_err("what was kept was not tried");
        fs::remove_dir_all(&home).unwrap();
    }
}
