//! A part of a run as a message diagram: a line for all clients and one for each replica, time going
//! down, arrows for messages.

mod lanes;

use crate::recording::{Arrow, CLIENTS, Recording, What};
use crate::report::Report;
use lanes::{Band, Lanes};
use quorate_core::MILLIS;
use quorate_plot::Svg;
use std::collections::BTreeMap;
use std::ops::Range;

/// More arrows cannot be told apart.
const ARROWS_MAX: usize = 600;

/// Draws a recording.
///
/// # Errors
/// Says so if it holds too much, and which part of it would do.
pub(crate) fn render(
    recording: &Recording,
    title: &str,
    report: &Report,
) -> Result<String, String> {
    let (arrows, thinned) = thin(recording)?;
    let lanes = Lanes::of(recording);
    let height = (arrows.len() as f64 * PX_PER_ARROW).clamp(HEIGHT_MIN, HEIGHT_MAX);
    let width = LEFT + lanes.count as f64 * LANE_WIDTH;
    let mut sheet = Sheet {
        svg: Svg::new(width, TOP + height + BOTTOM, STYLE),
        begin_ns: recording.window_ns.start,
        end_ns: recording.window_ns.end,
        height,
        width,
        free: BTreeMap::new(),
    };
    sheet.head(title, report, thinned);
    lanes.cuts.iter().for_each(|band| sheet.cut(band));
    sheet.clock();
    sheet.lanes(&lanes);
    arrows.iter().for_each(|arrow| sheet.arrow(arrow));
    sheet.labels(&arrows);
    sheet.marks(recording);
    Ok(sheet.svg.finish())
}

/// The arrows to draw, and how many were left out: beats, if there are too many otherwise.
fn thin(recording: &Recording) -> Result<(Vec<&Arrow>, usize), String> {
    let all = recording.arrows.len();
    let mut arrows: Vec<&Arrow> = recording.arrows.iter().collect();
    if all > ARROWS_MAX {
        arrows.retain(|arrow| !arrow.words[0].starts_with("beat"));
    }
    let left = arrows.len();
    if left > ARROWS_MAX {
        let (from, to) = (recording.window_ns.start, recording.window_ns.end);
        let fits_ns = (to - from) / left as u64 * ARROWS_MAX as u64;
        return Err(format!(
            "{left} messages between {} and {} ms are too many to tell apart, at most {ARROWS_MAX}: try \
             --from {} --to {}",
            from / MILLIS,
            to / MILLIS,
            from / MILLIS,
            from / MILLIS + (fits_ns / MILLIS).max(1)
        ));
    }
    Ok((arrows, all - left))
}

/// A drawing in the making.
struct Sheet {
    svg: Svg,
    begin_ns: u64,
    end_ns: u64,
    height: f64,
    width: f64,
    /// Where there is room for words again, beside each line: left and right of it.
    free: BTreeMap<(usize, bool), f64>,
}

impl Sheet {
    fn y(&self, at_ns: u64) -> f64 {
        let at_ns = at_ns.clamp(self.begin_ns, self.end_ns) - self.begin_ns;
        TOP + self.height * at_ns as f64 / (self.end_ns - self.begin_ns) as f64
    }

    /// What is drawn, not only hinted at from outside.
    fn window(&self) -> Range<u64> {
        self.begin_ns..self.end_ns
    }

    fn head(&mut self, title: &str, report: &Report, thinned: usize) {
        self.svg.text((MARGIN, 22.0), "head", title);
        let mut legend =
            "dot: decided by its own count; cross: lost; shaded: links cut; grey: stands \
                          still; no line: down; rest the pointer on an arrow for all it says"
                .to_owned();
        if thinned > 0 {
            legend += &format!("; {thinned} beats left out");
        }
        self.svg.text((MARGIN, 40.0), "legend", &legend);
        if let Some(violation) = &report.violation {
            let what = violation.to_string();
            let first = what.lines().next().unwrap_or_default();
            self.svg
                .text((MARGIN, 58.0), "violation", &shorten(first, 150));
        }
    }

    /// A time in which links were cut.
    fn cut(&mut self, band: &Band) {
        if band.until_ns <= self.begin_ns || band.since_ns >= self.end_ns {
            return;
        }
        let (top, bottom) = (self.y(band.since_ns), self.y(band.until_ns));
        self.svg.begin_noted(&format!("cut: {}", band.words));
        let left = x_of(1) - MARGIN;
        let size = (self.width - left, bottom - top);
        self.svg.rect((left, top), size, "rgba(240, 190, 60, 0.22)");
        self.svg.end_noted();
        let words = shorten(&format!("cut {}", band.words), LABEL_CHARS);
        self.note(band.since_ns.max(self.begin_ns), "cut", &words);
    }

    /// Times at the left.
    fn clock(&mut self) {
        let span_ns = self.end_ns - self.begin_ns;
        let steps = [MILLIS / 10, MILLIS, 5 * MILLIS, 10 * MILLIS, 100 * MILLIS];
        let fits = |step: &&u64| span_ns / **step <= (self.height / 40.0) as u64;
        let step = *steps.iter().find(fits).unwrap_or(&(1_000 * MILLIS));
        let mut at_ns = self.begin_ns.next_multiple_of(step);
        while at_ns <= self.end_ns {
            let y = self.y(at_ns);
            self.svg.line((LEFT - 50.0, y), (self.width, y), "grid");
            let ms = at_ns as f64 / MILLIS as f64;
            self.svg
                .text((MARGIN, y + 4.0), "clock", &format!("{ms:.1} ms"));
            at_ns += step;
        }
    }

    /// The lines: whole while a replica runs, grey where it stands still.
    fn lanes(&mut self, lanes: &Lanes) {
        for lane in 0..lanes.count {
            let name = match lane {
                CLIENTS => "clients".to_owned(),
                replica => format!("r{replica}"),
            };
            self.svg.text((x_of(lane), TOP - 8.0), "name", &name);
        }
        for (class, bands) in [("lane", &lanes.up), ("still", &lanes.paused)] {
            for (lane, since_ns, until_ns) in bands {
                let (top, bottom) = (self.y(*since_ns), self.y(*until_ns));
                if bottom > top {
                    self.svg
                        .line((x_of(*lane), top), (x_of(*lane), bottom), class);
                }
            }
        }
    }

    /// A message, as far as it is within the picture; a lost one ends on its way, in a cross.
    fn arrow(&mut self, arrow: &Arrow) {
        let arrives_ns = arrow.arrives_ns.unwrap_or(arrow.sent_ns + LOST_NS);
        let (x1, x2) = (x_of(arrow.from), x_of(arrow.to));
        let slope = self.height / (self.end_ns - self.begin_ns) as f64;
        let y = |at_ns: u64| TOP + (at_ns as f64 - self.begin_ns as f64) * slope;
        let (y1, y2) = (y(arrow.sent_ns), y(arrives_ns).max(y(arrow.sent_ns) + 1.0));
        let at = |share: f64| (x1 + (x2 - x1) * share, y1 + (y2 - y1) * share);
        let share = |y: f64| ((y - y1) / (y2 - y1)).clamp(0.0, 1.0);
        let (begin, end) = (share(TOP), share(TOP + self.height));
        self.svg
            .begin_noted(&shorten(&arrow.words.join("\n"), NOTE_CHARS));
        if arrow.is_lost {
            let cut_off = at(end.min(LOST_SHARE));
            self.svg.line(at(begin), cut_off, "lost");
            self.svg
                .text((cut_off.0 - 4.0, cut_off.1 + 4.0), "cross", "✕");
        } else if end < 1.0 {
            self.svg.line(at(begin), at(end), "message");
        } else {
            self.svg.arrow(at(begin), at(end), "message");
        }
        self.svg.end_noted();
    }

    /// What messages say, beside the line they leave from; one to everybody says it once.
    fn labels(&mut self, arrows: &[&Arrow]) {
        let (mut last, window) = (None, self.window());
        for arrow in arrows
            .iter()
            .filter(|arrow| window.contains(&arrow.sent_ns))
        {
            let key = (arrow.from, arrow.sent_ns, arrow.words.join("; "));
            if last.as_ref() != Some(&key) {
                let words = match arrow.from {
                    CLIENTS => arrow.words[0].clone(),
                    _ if arrow.to == CLIENTS => arrow.words[0].clone(),
                    _ => key.2.clone(),
                };
                let words = shorten(&words, LABEL_CHARS);
                self.beside(arrow.from, true, arrow.sent_ns, "label", &words);
                last = Some(key);
            }
        }
    }

    /// Decisions, crashes, starts, and what else happens.
    fn marks(&mut self, recording: &Recording) {
        let window = self.window();
        for mark in recording
            .marks
            .iter()
            .filter(|mark| window.contains(&mark.at_ns))
        {
            let (at_ns, y) = (mark.at_ns, self.y(mark.at_ns));
            match &mark.what {
                What::Up(lane) => self.beside(*lane, false, at_ns, "starts", "starts"),
                What::Down(lane) => {
                    self.svg.text((x_of(*lane) - 6.0, y + 5.0), "crash", "✕");
                    self.beside(*lane, false, at_ns, "crash", "crashes");
                }
                What::Paused(lane, _) => self.beside(*lane, false, at_ns, "starts", "stands still"),
                What::Decided { lane, slot, noop } => {
                    self.svg.dot((x_of(*lane), y), 4.0, "#009e73");
                    let words = if *noop {
                        format!("{slot:?} empty")
                    } else {
                        format!("{slot:?}")
                    };
                    self.beside(*lane, false, at_ns, "decided", &words);
                }
                What::Healed => self.note(at_ns, "starts", "all links whole"),
                What::Note(words) => self.note(at_ns, "starts", words),
                What::Cut(_) | What::Mended(_) => {}
            }
        }
    }

    /// Words at the left edge.
    fn note(&mut self, at_ns: u64, class: &str, words: &str) {
        let place = self.place((usize::MAX, false), at_ns);
        if let Some(y) = place {
            self.svg.text((LEFT - 130.0, y + 4.0), class, words);
        }
    }

    /// Words beside a line, at its right or its left.
    fn beside(&mut self, lane: usize, right: bool, at_ns: u64, class: &str, words: &str) {
        if let Some(y) = self.place((lane, right), at_ns) {
            let (x, class) = match right {
                true => (x_of(lane) + 7.0, class.to_owned()),
                false => (x_of(lane) - 7.0, format!("{class} left")),
            };
            self.svg.text((x, y + 4.0), &class, words);
        }
    }

    /// The height at which there is room for words, if that is not far from where they belong.
    fn place(&mut self, side: (usize, bool), at_ns: u64) -> Option<f64> {
        let wanted = self.y(at_ns);
        let free = self.free.entry(side).or_insert(0.0);
        let y = wanted.max(*free);
        (y - wanted <= SHIFT_MAX).then(|| {
            *free = y + LINE;
            y
        })
    }
}

fn x_of(lane: usize) -> f64 {
    LEFT + lane as f64 * LANE_WIDTH + 30.0
}

fn shorten(words: &str, chars: usize) -> String {
    match words.char_indices().nth(chars) {
        None => words.to_owned(),
        Some((end, _)) => format!("{}…", &words[..end]),
    }
}

const STYLE: &str = "\
.head { font-size: 16px; font-weight: bold }
.violation { fill: #b00020; font-weight: bold }
.name { text-anchor: middle; font-weight: bold }
.clock { fill: #777; font-size: 11px }
.grid { stroke: #eee }
.lane { stroke: #222; stroke-width: 1.5 }
.still { stroke: #bbb; stroke-width: 5 }
.message { stroke: #0072b2; stroke-width: 0.8; fill: #0072b2 }
.lost { stroke: #d55e00; stroke-width: 0.8; stroke-dasharray: 4 3 }
.cross { fill: #d55e00; font-size: 11px }
.label { font-size: 9px; fill: #333; paint-order: stroke; stroke: #fff; stroke-width: 3px }
.decided { font-size: 10px; fill: #00704f; paint-order: stroke; stroke: #fff; stroke-width: 3px }
.crash { fill: #b00020; font-weight: bold }
.starts { font-size: 11px; fill: #555 }
.cut { font-size: 11px; fill: #8a6400 }
.left { text-anchor: end }
";
const MARGIN: f64 = 14.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 24.0;
const LEFT: f64 = 220.0;
const LANE_WIDTH: f64 = 270.0;
const HEIGHT_MIN: f64 = 900.0;
const HEIGHT_MAX: f64 = 8_000.0;
const PX_PER_ARROW: f64 = 9.0;
/// Between two labels beside a line.
const LINE: f64 = 10.0;
/// A label further from its place would mislead.
const SHIFT_MAX: f64 = 14.0;
const LABEL_CHARS: usize = 44;
const NOTE_CHARS: usize = 2_000;
/// How far a lost message is drawn.
const LOST_SHARE: f64 = 0.5;
/// How long it would have taken, for its slope.
const LOST_NS: u64 = MILLIS / 5;
