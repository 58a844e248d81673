//! The state of replicas and links over time, from what changed it.

use crate::recording::{CLIENTS, Lane, Recording, What};

/// Who was up when, and which links were cut.
pub(super) struct Lanes {
    /// Lines in the picture.
    pub(super) count: usize,
    /// From when until when each ran, ns.
    pub(super) up: Vec<(Lane, u64, u64)>,
    /// From when until when each stood still.
    pub(super) paused: Vec<(Lane, u64, u64)>,
    /// When links were cut.
    pub(super) cuts: Vec<Band>,
}

/// A time in which some links were cut.
pub(super) struct Band {
    pub(super) since_ns: u64,
    pub(super) until_ns: u64,
    /// Which.
    pub(super) words: String,
}

impl Lanes {
    pub(super) fn of(recording: &Recording) -> Lanes {
        let mut state = OpenLanes::default();
        for mark in &recording.marks {
            state.take(mark.at_ns, &mark.what);
        }
        let end_ns = recording.window_ns.end;
        let highest = recording.marks.iter().map(|mark| match mark.what {
            What::Up(lane) => lane,
            _ => CLIENTS,
        });
        let count = highest.max().unwrap_or(CLIENTS) + 1;
        for lane in 1..count {
            state.take(end_ns, &What::Down(lane));
        }
        state.take(end_ns, &What::Healed);
        state.done.count = count;
        state.done.up.push((CLIENTS, 0, end_ns));
        state.done
    }
}

/// What is not over yet.
struct OpenLanes {
    up: Vec<(Lane, u64)>,
    cut: Vec<(Vec<(usize, usize)>, u64)>,
    done: Lanes,
}

impl Default for OpenLanes {
    fn default() -> Self {
        OpenLanes {
            up: Vec::new(),
            cut: Vec::new(),
            done: Lanes {
                count: 0,
                up: Vec::new(),
                paused: Vec::new(),
                cuts: Vec::new(),
            },
        }
    }
}

impl OpenLanes {
    fn take(&mut self, at_ns: u64, what: &What) {
        match what {
            What::Up(lane) => self.up.push((*lane, at_ns)),
            What::Down(lane) => {
                if let Some(at) = self.up.iter().position(|(up, _)| up == lane) {
                    let (lane, since_ns) = self.up.swap_remove(at);
                    self.done.up.push((lane, since_ns, at_ns));
                }
                self.wake(*lane, at_ns);
            }
            What::Paused(lane, until_ns) => self.done.paused.push((*lane, at_ns, *until_ns)),
            What::Cut(links) => self.cut.push((links.clone(), at_ns)),
            What::Mended(links) => {
                if let Some(at) = self.cut.iter().position(|(cut, _)| cut == links) {
                    let (links, since_ns) = self.cut.swap_remove(at);
                    self.mend(&links, since_ns, at_ns);
                }
            }
            What::Healed => {
                for (links, since_ns) in std::mem::take(&mut self.cut) {
                    self.mend(&links, since_ns, at_ns);
                }
                for (_, _, until_ns) in &mut self.done.paused {
                    *until_ns = at_ns.min(*until_ns);
                }
            }
            What::Decided { .. } | What::Note(_) => {}
        }
    }

    /// Who stood still does no more.
    fn wake(&mut self, lane: Lane, at_ns: u64) {
        let still = self.done.paused.iter_mut();
        for (_, _, until_ns) in still.filter(|(paused, ..)| *paused == lane) {
            *until_ns = at_ns.min(*until_ns);
        }
    }

    fn mend(&mut self, links: &[(usize, usize)], since_ns: u64, until_ns: u64) {
        let names = links.iter();
        let names = names.map(|(from, to)| format!("r{}→r{}", from + 1, to + 1));
        self.done.cuts.push(Band {
            since_ns,
            until_ns,
            words: names.collect::<Vec<_>>().join(", "),
        });
    }
}
