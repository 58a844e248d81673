//! Deadline-ordered multicast by itself (paper, sections 2 and 3): senders, two receivers, and the order in
//! which these have the messages, with and without deadlines.

use crate::figures::FiguresOptions;
use crate::figures::points::links;
use crate::network::{Network, exponential};
use crate::plan::Links;
use crate::queue::Queue;
use fastrand::Rng;
use quorate_core::{MICROS, MILLIS, MemberIndex, Now, SECONDS};
use quorate_protocols::nezha::{Delays, Estimates};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Messages of one experiment.
const MESSAGES: usize = 20_000;
/// No delay is taken for longer: `owd_us`, by default.
const DELAY_MAX_NS: u64 = MILLIS;
const RECEIVERS: usize = 2;

/// One experiment, and what it came to.
#[derive(Clone, Debug)]
pub(super) struct Multicast {
    pub(super) senders: usize,
    /// Messages a second, of each sender.
    pub(super) rate: u64,
    /// Of the delays that deadlines allow for.
    pub(super) percentile: usize,
    /// Reordering score of the second receiver where messages are taken as they come, percent.
    pub(super) plain_percent: f64,
    /// The same where they are taken by deadline, and late ones as they come.
    pub(super) ordered_percent: f64,
    /// Messages that came too late for their deadline, of all receivers, percent.
    pub(super) late_percent: f64,
    /// How long a message was held in the mean, us.
    pub(super) held_us: f64,
}

/// A message, by its number.
type Number = u32;

enum Event {
    Send {
        sender: usize,
    },
    Arrive {
        receiver: usize,
        sender: usize,
        number: Number,
        sent_ns: u64,
        deadline_ns: u64,
    },
    Told {
        sender: usize,
        receiver: usize,
        delay_ns: u64,
    },
    Release {
        receiver: usize,
    },
}

#[derive(Clone, Default)]
struct Receiver {
    delays: Vec<Delays>,
    /// In the order in which they came.
    plain: Vec<Number>,
    /// In the order in which they are taken.
    ordered: Vec<Number>,
    /// By deadline, with when they came.
    early: BTreeMap<(u64, Number), u64>,
    /// The last one taken by its deadline.
    last: (u64, Number),
    late: u64,
    held_ns: u64,
}

struct Run {
    queue: Queue<Event>,
    network: Network,
    links: Links,
    rng: Rng,
    receivers: Vec<Receiver>,
    /// What senders know of the ways.
    senders: Vec<Estimates>,
    percentile: usize,
    rate: u64,
    sent: Number,
}

impl Multicast {
    /// Performs an experiment, on the network of the options.
    pub(super) fn run(
        options: &FiguresOptions,
        senders: usize,
        rate: u64,
        percentile: usize,
    ) -> Multicast {
        let receiver = Receiver {
            delays: vec![Delays::default(); senders],
            ..Receiver::default()
        };
        let mut run = Run {
            queue: Queue::new(),
            network: Network::new(RECEIVERS + senders),
            links: links(options).links(),
            rng: Rng::with_seed(options.seed),
            receivers: vec![receiver; RECEIVERS],
            senders: vec![Estimates::new(RECEIVERS); senders],
            percentile,
            rate,
            sent: 0,
        };
        (0..senders).for_each(|sender| run.send_later(sender));
        while let Some(event) = run.queue.next() {
            run.happen(event);
        }
        let [first, second] = &run.receivers[..] else {
            unreachable!("there are two receivers");
        };
        let all = (RECEIVERS * MESSAGES) as f64;
        let late = first.late + second.late;
        Multicast {
            senders,
            rate,
            percentile,
            plain_percent: score(&first.plain, &second.plain),
            ordered_percent: score(&first.ordered, &second.ordered),
            late_percent: late as f64 * 100.0 / all,
            held_us: (first.held_ns + second.held_ns) as f64 / all / MICROS as f64,
        }
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "senders": self.senders,
            "rate": self.rate,
            "percentile": self.percentile,
            "reordered_percent": self.plain_percent,
            "reordered_by_deadline_percent": self.ordered_percent,
            "late_percent": self.late_percent,
            "held_us": self.held_us,
        })
    }
}

impl Run {
    fn send_later(&mut self, sender: usize) {
        let delay = exponential(&mut self.rng, SECONDS / self.rate);
        self.queue.after(delay, Event::Send { sender });
    }

    /// How long something takes from one to another; receivers come first.
    fn travel(&mut self, from: usize, to: usize) -> u64 {
        let now_ns = self.queue.now_ns();
        let [delay, _] = (self.network).route(now_ns, &mut self.rng, &self.links, (from, to), 0);
        delay.expect("nothing is lost here")
    }

    fn happen(&mut self, event: Event) {
        let now_ns = self.queue.now_ns();
        match event {
            Event::Send { sender } => {
                if (self.sent as usize) < MESSAGES {
                    self.send(sender);
                    self.send_later(sender);
                }
            }
            Event::Arrive {
                receiver,
                sender,
                number,
                sent_ns,
                deadline_ns,
            } => {
                let delay_ns = self.arrive(receiver, sender, (deadline_ns, number), sent_ns);
                let back_ns = self.travel(receiver, RECEIVERS + sender);
                let told = Event::Told {
                    sender,
                    receiver,
                    delay_ns,
                };
                self.queue.after(back_ns, told);
            }
            Event::Told {
                sender,
                receiver,
                delay_ns,
            } => self.senders[sender].told(MemberIndex::new(receiver), delay_ns, now_ns),
            Event::Release { receiver } => self.receivers[receiver].release(now_ns),
        }
    }

    fn send(&mut self, sender: usize) {
        let now_ns = self.queue.now_ns();
        let estimates = &self.senders[sender];
        // Nobody here is a receiver of its own.
        let delay_ns = estimates.reach_ns(now_ns, None, DELAY_MAX_NS, None);
        let now = Now {
            mono_ns: now_ns,
            clock_ns: now_ns,
            clock_error_ns: 0,
        };
        let deadline_ns = estimates.deadline(now, delay_ns, DELAY_MAX_NS);
        let number = self.sent;
        self.sent += 1;
        for receiver in 0..RECEIVERS {
            let delay_ns = self.travel(RECEIVERS + sender, receiver);
            let arrive = Event::Arrive {
                receiver,
                sender,
                number,
                sent_ns: now_ns,
                deadline_ns,
            };
            self.queue.after(delay_ns, arrive);
        }
    }

    /// A message comes; how long those of its sender are thought to take.
    fn arrive(
        &mut self,
        receiver: usize,
        sender: usize,
        (deadline_ns, number): (u64, Number),
        sent_ns: u64,
    ) -> u64 {
        let now_ns = self.queue.now_ns();
        let at = &mut self.receivers[receiver];
        let delays = &mut at.delays[sender];
        let delay_ns = (now_ns - sent_ns) as i64;
        delays.add(now_ns, delay_ns, self.percentile, DELAY_MAX_NS);
        let estimate_ns = delays.estimate();
        at.plain.push(number);
        if (deadline_ns, number) > at.last {
            at.early.insert((deadline_ns, number), now_ns);
            let wait_ns = deadline_ns.saturating_sub(now_ns);
            self.queue.after(wait_ns, Event::Release { receiver });
        } else {
            at.late += 1;
            at.ordered.push(number);
        }
        estimate_ns
    }
}

impl Receiver {
    /// Takes what is due.
    fn release(&mut self, now_ns: u64) {
        while let Some(first) = self.early.first_entry()
            && first.key().0 <= now_ns
        {
            let ((deadline_ns, number), came_ns) = first.remove_entry();
            self.last = (deadline_ns, number);
            self.held_ns += now_ns - came_ns;
            self.ordered.push(number);
        }
    }
}

/// The reordering score (paper, section 2): which part of one receiver's sequence is not in the longest
/// part of it that is in the other's order, percent.
fn score(truth: &[Number], sequence: &[Number]) -> f64 {
    let mut places = vec![0; truth.len()];
    for (place, number) in truth.iter().enumerate() {
        places[*number as usize] = place;
    }
    // The least last place of an increasing subsequence, by its length.
    let mut ends: Vec<usize> = Vec::new();
    for number in sequence {
        let place = places[*number as usize];
        let length = ends.partition_point(|end| *end < place);
        match ends.get_mut(length) {
            Some(end) => *end = place,
            None => ends.push(place),
        }
    }
    (sequence.len() - ends.len()) as f64 * 100.0 / sequence.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_what_the_longest_increasing_subsequence_leaves() {
        assert_eq!(score(&[0, 1, 2, 3], &[0, 1, 2, 3]), 0.0);
        assert_eq!(score(&[2, 0, 3, 1], &[2, 0, 3, 1]), 0.0);
        assert_eq!(score(&[0, 1, 2, 3], &[1, 0, 2, 3]), 25.0);
        assert_eq!(score(&[0, 1, 2, 3], &[3, 2, 1, 0]), 75.0);
        assert_eq!(score(&[], &[]), 0.0);
    }

    #[test]
    fn later_deadlines_reorder_less_and_hold_for_longer() {
        let options = crate::parse("").unwrap();
        let run = |percentile| Multicast::run(&options, 4, 10_000, percentile);
        let (half, most) = (run(50), run(95));
        assert!(half.plain_percent > 10.0, "{half:?}");
        assert!(half.ordered_percent < half.plain_percent, "{half:?}");
        assert!(most.ordered_percent < half.ordered_percent, "{most:?}");
        assert!(most.held_us > half.held_us, "{most:?}");
        let one = Multicast::run(&options, 1, 1_000, 50);
        assert_eq!(one.plain_percent, 0.0, "links keep the order: {one:?}");
    }
}
