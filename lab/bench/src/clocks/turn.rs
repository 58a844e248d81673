//! One clock that goes wrong and is set right again, and how long latency took to be what it had been.

use std::time::Duration;

use crate::plain::Done;
use quorate_tooling::tables::median;

/// What happens to one clock, in every round.
pub(super) struct Case {
    pub(super) replica: usize,
    /// How far it goes wrong, in nanoseconds; 0 in the control.
    pub(super) off_ns: i64,
    pub(super) turns: Vec<Turn>,
}

/// One time that it happened.
pub(super) struct Turn {
    /// Medians of latency: before, while the clock was wrong, and in the second half of the time after.
    medians: [Duration; 3],
    /// The slowest answer while it was wrong, and after.
    slowest: Duration,
    /// From when it was right again until latency was what it had been, as the end of a window; `None` for never.
    pub(super) back: Option<Duration>,
    pub(super) failed: usize,
}

impl Case {
    /// The control, and each clock ahead and behind.
    pub(super) fn all(replicas: u8, off: Duration) -> Result<Vec<Self>, String> {
        let off_ns = i64::try_from(off.as_nanos()).map_err(|_| "--off is too long".to_owned())?;
        let case = |replica, off_ns| Self {
            replica,
            off_ns,
            turns: Vec::new(),
        };
        let wrong = (0..replicas.into())
            .flat_map(|replica| [off_ns, -off_ns].map(|off_ns| case(replica, off_ns)));
        Ok(std::iter::once(case(0, 0)).chain(wrong).collect())
    }

    pub(super) fn is_control(&self) -> bool {
        self.off_ns == 0
    }

    pub(super) fn name(&self) -> String {
        if self.is_control() {
            return "none wrong".to_owned();
        }
        let sign = if self.off_ns < 0 { '-' } else { '+' };
        let off = Duration::from_nanos(self.off_ns.unsigned_abs());
        format!("replica {}, {sign}{off:?}", self.replica + 1)
    }

    /// The medians of all turns' medians.
    pub(super) fn medians(&self) -> [Duration; 3] {
        std::array::from_fn(|phase| {
            let of_phase = self.turns.iter().map(|turn| turn.medians[phase]);
            let seconds = of_phase.map(|time| time.as_secs_f64());
            Duration::from_secs_f64(median(seconds.collect()).unwrap_or_default())
        })
    }

    pub(super) fn slowest(&self) -> Duration {
        let slowest = self.turns.iter().map(|turn| turn.slowest);
        slowest.max().unwrap_or_default()
    }

    /// The median over all turns, of an even number the later of the two in the middle; `None` for never.
    pub(super) fn back(&self) -> Option<Duration> {
        let mut back: Vec<Option<Duration>> = self.turns.iter().map(|turn| turn.back).collect();
        back.sort_unstable_by_key(|back| back.unwrap_or(Duration::MAX));
        *back.get(back.len() / 2)?
    }
}

impl Turn {
    /// What was done before, while the clock was wrong, and from `right_at` on.
    pub(super) fn of(phases: [&[Done]; 3], right_at: Duration) -> Self {
        let middle = |done: &[Done]| {
            let took = done.iter().filter(|one| one.is_answered);
            let took = took.map(|one| one.took.as_secs_f64());
            Duration::from_secs_f64(median(took.collect()).unwrap_or_default())
        };
        let [before, wrong, after] = phases;
        let both = wrong.iter().chain(after);
        Self {
            medians: [
                middle(before),
                middle(wrong),
                middle(&after[after.len() / 2..]),
            ],
            slowest: both.clone().map(|one| one.took).max().unwrap_or_default(),
            back: back(before, after, right_at).map(|began| began + WINDOW),
            failed: both.filter(|one| !one.is_answered).count(),
        }
    }

    pub(super) fn line(&self) -> String {
        let [before, wrong, after] = self.medians.map(micros);
        let back = within_words(self.back);
        format!("{before} before, {wrong} wrong, {after} after; back {back}")
    }
}

/// Whether latency took longer than that to be what it had been.
pub(super) fn is_late(back: Option<Duration>, within: Duration) -> bool {
    back.is_none_or(|back| back > within)
}

pub(super) fn within_words(back: Option<Duration>) -> String {
    match back {
        Some(back) => format!("within {} ms", back.as_millis()),
        None => "never".to_owned(),
    }
}

pub(super) fn micros(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

/// When latency was what it had been: the beginning of the first windows in a row whose medians are no higher
/// than nearly all before. Later ones may be: others use the machine, as they did before.
fn back(before: &[Done], after: &[Done], right_at: Duration) -> Option<Duration> {
    let began = before.iter().map(|one| one.at).min()?;
    let mut usual: Vec<f64> = windows(before, began).into_iter().flatten().collect();
    usual.sort_unstable_by(f64::total_cmp);
    let most = usual.get((usual.len() * USUAL_TENTHS / 10).min(usual.len().checked_sub(1)?))?;
    let is_usual = |median: &Option<f64>| median.is_some_and(|median| median <= *most);
    let after = windows(after, right_at);
    let first = after
        .windows(WINDOWS_IN_ROW)
        .position(|row| row.iter().all(is_usual))?;
    Some(WINDOW * first as u32)
}

/// The medians of latency in windows of time from `began` on; `None` where nothing was answered. The last
/// one, which may be cut short, is left out.
fn windows(done: &[Done], began: Duration) -> Vec<Option<f64>> {
    let mut took: Vec<Vec<f64>> = Vec::new();
    for one in done.iter().filter(|one| one.at >= began) {
        let index = ((one.at - began).as_nanos() / WINDOW.as_nanos()) as usize;
        took.resize(took.len().max(index + 1), Vec::new());
        took[index].push(match one.is_answered {
            true => one.took.as_secs_f64(),
            false => f64::INFINITY,
        });
    }
    took.pop();
    took.into_iter().map(median).collect()
}

/// Over how long a median of latency is taken.
const WINDOW: Duration = Duration::from_millis(50);
/// Latency is what it was while medians are no higher than so many tenths of those before.
const USUAL_TENTHS: usize = 9;
/// The number of good windows in a row after which latency is back.
const WINDOWS_IN_ROW: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn done(at_ms: u64, took_us: u64) -> Done {
        Done {
            op: None,
            took: Duration::from_micros(took_us),
            at: Duration::from_millis(at_ms),
            is_answered: true,
        }
    }

    #[test]
    fn latency_is_back_once_windows_in_a_row_are_as_before() {
        let right_at = Duration::from_millis(1_000);
        let before: Vec<Done> = (0..1_000).map(|ms| done(ms, 1_000)).collect();
        let slow_until = |until: u64| {
            let took = move |ms| if ms < until { 9_000 } else { 900 };
            let after: Vec<Done> = (1_000..1_400).map(|ms| done(ms, took(ms))).collect();
            back(&before, &after, right_at)
        };
        assert_eq!(slow_until(1_000), Some(Duration::ZERO));
        assert_eq!(slow_until(1_080), Some(Duration::from_millis(100)));
        assert_eq!(slow_until(1_500), None);
    }

    #[test]
    fn the_rounds_of_a_case_are_judged_by_their_median() {
        let ms = Duration::from_millis;
        let turn = |back| Turn {
            medians: [Duration::ZERO; 3],
            slowest: Duration::ZERO,
            back,
            failed: 0,
        };
        let mut cases = Case::all(3, Duration::from_secs(3600)).unwrap();
        let names: Vec<String> = cases.iter().map(Case::name).collect();
        assert_eq!(
            names[..3],
            ["none wrong", "replica 1, +3600s", "replica 1, -3600s"]
        );
        assert_eq!(cases.len(), 7);
        let backs = [
            Some(ms(50)),
            None,
            Some(ms(100)),
            Some(ms(50)),
            Some(ms(300)),
        ];
        cases[1].turns.extend(backs.map(turn));
        assert_eq!(cases[1].back(), Some(ms(100)));
        cases[1].turns.extend([None, None].map(turn));
        assert_eq!(cases[1].back(), Some(ms(300)));
    }
}
