//! The page, and its picture.

use super::ModesOptions;
use super::scenes::{BIN_NS, Course, TROUBLE_NS, WIRING};
use crate::figures::chora::cost::DEFAULT_NAME;
use quorate_core::{MICROS, MILLIS};
use quorate_plot::{Curves, Plot, Series};
use std::fmt;
use std::path::Path;

/// All that was seen.
pub(super) struct Page {
    pub(super) options: ModesOptions,
    pub(super) courses: Vec<Course>,
}

impl Page {
    /// What should not be.
    pub(super) fn wrong(&self) -> Vec<String> {
        self.courses.iter().flat_map(Course::wrong).collect()
    }

    /// Throughput and mode over time.
    pub(super) fn picture(&self) -> String {
        let series = |name: &str, color| Series {
            name: name.to_owned(),
            color,
        };
        let plots = self.courses.iter().flat_map(|course| {
            let (rates, pulsing) = (course.rates(), course.who_pulses());
            let name = &course.scene.name;
            let most = f64::from(self.options.replicas);
            let trouble = course.scene.trouble.clone();
            let ends = [trouble.start, trouble.start, trouble.end, trouble.end];
            let marks = |top: f64| {
                let heights = [0.0, top, top, 0.0].into_iter();
                let ends = ends.iter().map(|ns| *ns as f64 / 1e9);
                ends.zip(heights).collect::<Vec<_>>()
            };
            let highest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            [
                Plot {
                    title: format!("{name}: thousand commands a second, by s"),
                    curves: vec![
                        (series("committed", "#0072b2"), rates),
                        (series("trouble", "#d55e00"), marks(highest)),
                    ],
                },
                Plot {
                    title: format!("{name}: replicas that pulse, by s"),
                    curves: vec![
                        (series("pulsing", "#009e73"), pulsing),
                        (series("trouble", "#d55e00"), marks(most)),
                    ],
                },
            ]
        });
        Curves {
            head: format!(
                "chora, {} replicas: rounds while something goes wrong, in virtual time",
                self.options.replicas
            ),
            plots: plots.collect(),
            foot: vec![format!(
                "Bins of {} ms. Commands as committed at the first replica; it is the last one that stands still or \
                 is slow.",
                BIN_NS / MILLIS
            )],
        }
        .render()
    }

    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(f, "# Rounds while something goes wrong\n")?;
        let name = options.cost.as_deref().unwrap_or(Path::new(DEFAULT_NAME));
        writeln!(
            f,
            "`quorate-lab modes` prints this page, the same for the same seed: {} replicas that run Chora with {}, and \
             {} commands a second at each of them. Machines run bare in virtual time, in memory; [{}]({}) says what a \
             message costs. A message is on its way for {} us, and up to {} us more. What replicas deliver is compared.\n",
            options.replicas,
            self.parameters(),
            options.rate,
            name.display(),
            name.file_name().map_or(name, Path::new).display(),
            WIRING.least_ns / MICROS,
            WIRING.range_ns / MICROS,
        )?;
        if let Some(picture) = &options.plot {
            let name = picture.file_name().map_or(picture.as_path(), Path::new);
            writeln!(f, "![Throughput and mode over time]({})\n", name.display())?;
        }
        Ok(())
    }

    fn parameters(&self) -> String {
        let given = self.options.param.iter();
        let given: Vec<String> = given
            .map(|(name, value)| format!("`{name}={value}`"))
            .collect();
        match given.is_empty() {
            true => "its usual parameters".to_owned(),
            false => given.join(", "),
        }
    }

    fn stretches(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| from {} ms on | | commands/s | p50 | p99 | pulsing |\n|---|---|--:|--:|--:|--:|",
            TROUBLE_NS / MILLIS
        )?;
        for course in &self.courses {
            let words = [course.scene.name.as_str(), "", ""];
            let when = ["before", "meanwhile", "in the end"];
            for ((words, when), stretch) in words.into_iter().zip(when).zip(course.stretches()) {
                writeln!(
                    f,
                    "| {words} | {when} | {:.0} | {} | {} | {:.0} % |",
                    stretch.per_second,
                    time(stretch.p50_us),
                    time(stretch.p99_us),
                    100.0 * stretch.pulsing,
                )?;
            }
        }
        writeln!(f)
    }

    fn changes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "*Left*: from the beginning of it until a replica no longer pulses. *Back*: from its end until all pulse and go \
             on. *Still*: the longest time without a commit, from the beginning of it on. *Views*: that began since.\n\n\
             | | left | back | still | views |\n|---|--:|--:|--:|--:|"
        )?;
        for course in &self.courses {
            let ms = |ns: Option<u64>| ns.map_or("never".to_owned(), |ns| time(ns as f64 / 1e3));
            writeln!(
                f,
                "| {} | {} | {} | {} | {} |",
                course.scene.name,
                ms(course.left_after_ns()),
                ms(course.back_after_ns()),
                ms(Some(course.longest_still_ns())),
                course.views(),
            )?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.stretches(f)?;
        self.changes(f)?;
        writeln!(
            f,
            "{}",
            EXPLAINED.replace("{slow}", &self.options.slow.to_string())
        )
    }
}

/// What a reader may ask.
const EXPLAINED: &str = "\
- *A replica that stands still* holds up all that comes after its slots, whatever the mode: nothing is committed until it goes on, or \
until its view is given up after one to four times `stall_ms` and the others go on without its slots. Pulses that say nothing new \
end first. It proposes again once it has kept up for `rejoin_ms`, in another view.
- *Delays that vary* make messages later than a round waits for: replicas send at once, and commits take as long as messages do.
- *A replica that is slow* takes {slow} times as long for everything. It decides by itself whether rounds are worth it, as all do.
- Commands come at random, and whoever takes them waits for none: those that came meanwhile are committed later, and their latency is \
counted when they are.";

/// With a fitting unit.
fn time(us: f64) -> String {
    match us {
        us if us.is_nan() => "-".to_owned(),
        us if us < 999.5 => format!("{us:.0} us"),
        us => format!("{:.1} ms", us / 1e3),
    }
}
