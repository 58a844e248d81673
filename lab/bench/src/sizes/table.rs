//! The sizes as tables: medians over the turns, ratios within each turn.

use super::theory::deviation_percent;
use super::{Point, Sizes};
use crate::systems::{Links, Shape, System};
use quorate_load::report::{Report, ServerCosts};
use quorate_tooling::tables::{align, median};
use quorate_tooling::units::{show_count, show_ns, show_size};

/// Prints what clients saw, what was sent and written, and how far that is from theory.
pub(super) fn render(sizes: &Sizes) -> String {
    let cells = cells(sizes);
    let links = sizes.links.map_or(String::new(), |links| {
        format!(", replicas behind links of {links}")
    });
    format!(
        "puts as fast as clients come back{links}, fdatasync; medians of the turns, ratios to {} within \
         each\n{}\nbytes per committed byte, and % above theory: (n-1)/k sent by all, n/k written by all, \
         (1+2(n-1)/k)/n moved by each\n{}\n{}",
        base(&sizes.points).map_or(String::new(), Shape::title),
        rows(&cells, &SPEED, Cell::speed),
        rows(&cells, &BYTES, Cell::bytes),
        worst(&cells),
    )
}

fn rows<'a>(
    cells: &[Cell<'a>],
    headings: &[&str],
    row: impl Fn(&Cell<'a>) -> Vec<String>,
) -> String {
    let headings = headings.iter().map(|&text| text.to_owned()).collect();
    let rows: Vec<Vec<String>> = [headings]
        .into_iter()
        .chain(cells.iter().map(row))
        .collect();
    align(&rows)
}

/// One system at one size.
pub(super) struct Cell<'a> {
    pub(super) value_bytes: usize,
    pub(super) shape: Shape,
    links: Option<Links>,
    points: Vec<&'a Point>,
    /// All points of this size.
    others: Vec<&'a Point>,
}

/// All sizes, and the systems of each.
pub(super) fn cells(sizes: &Sizes) -> Vec<Cell<'_>> {
    let mut kinds: Vec<(usize, Shape)> = Vec::new();
    for point in &sizes.points {
        let kind = (point.value_bytes, point.shape);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_by_key(|(value_bytes, shape)| (*value_bytes, place(*shape)));
    let cell = |(value_bytes, shape): (usize, Shape)| {
        let same = |point: &&Point| point.value_bytes == value_bytes;
        let others: Vec<&Point> = sizes.points.iter().filter(same).collect();
        let own = others.iter().filter(|point| point.shape == shape);
        Cell {
            value_bytes,
            shape,
            links: sizes.links,
            points: own.copied().collect(),
            others,
        }
    };
    kinds.into_iter().map(cell).collect()
}

/// Where a system stands among all.
fn place(shape: Shape) -> Option<usize> {
    System::ALL.iter().position(|one| *one == shape.system)
}

/// The shape that the others are compared with: the last one in the order of tables.
fn base(points: &[Point]) -> Option<Shape> {
    let shapes = points.iter().map(|point| point.shape);
    shapes.max_by_key(|shape| place(*shape))
}

impl Cell<'_> {
    /// The shape that this cell is compared with ([`base`]).
    fn base(&self) -> Option<Shape> {
        let shapes = self.others.iter().map(|point| point.shape);
        shapes.max_by_key(|shape| place(*shape))
    }

    fn speed(&self) -> Vec<String> {
        let latency = |of: fn(&Report) -> u64| {
            show_ns(self.median(|point| of(&point.report) as f64).unwrap_or(0.0) as u64)
        };
        let sum = |of: fn(&Point) -> u64| self.points.iter().map(|point| of(point)).sum::<u64>();
        vec![
            show_size(self.value_bytes),
            self.shape.title(),
            shown(
                self.median(|point| Some(f64::from(point.report.clients))),
                0,
            ),
            self.median(puts_per_second)
                .map_or(String::new(), show_count),
            shown(self.median(megabytes_per_second), 1),
            latency(|report| report.latency.p50_ns),
            latency(|report| report.latency.p99_ns),
            shown(self.median(cpu_us), 1),
            shown(self.ratio(puts_per_second), 2),
            shown(self.ratio(cpu_us), 2),
            shown(self.predicted(), 2),
            shown(
                self.median(|point| Some(100.0 * self.link_share(point)?)),
                0,
            ),
            sum(|point| point.report.errors.values().sum()).to_string(),
            sum(|point| point.traffic.elections).to_string(),
        ]
    }

    fn bytes(&self) -> Vec<String> {
        let mut row = vec![show_size(self.value_bytes), self.shape.title()];
        for cost in Cost::ALL {
            row.push(shown(self.per_byte(cost), 3));
            row.push(self.deviation(cost).map_or("-".to_owned(), percent));
        }
        let sum = |of: fn(&Point) -> u64| self.points.iter().map(|point| of(point)).sum::<u64>();
        let per_byte = |of: fn(&Point) -> u64| {
            shown(
                self.median(|point| of(point) as f64 / point.committed_bytes()),
                3,
            )
        };
        row.push(per_byte(|point| point.traffic.sent_bytes));
        row.push(per_byte(|point| point.traffic.kernel_resent_bytes));
        row.push(per_byte(|point| point.traffic.log_bytes));
        row.push(per_byte(|point| point.traffic.moved_bytes));
        row.push(per_byte(|point| point.traffic.filled_bytes));
        row.push(sum(|point| point.traffic.reused_segments).to_string());
        row.push(sum(|point| point.traffic.snapshots).to_string());
        row
    }

    /// A cost per committed byte.
    pub(super) fn per_byte(&self, cost: Cost) -> Option<f64> {
        self.median(|point| cost.bytes(point) / point.committed_bytes())
    }

    /// How far that is above theory, in percent.
    fn deviation(&self, cost: Cost) -> Option<f64> {
        let expected = self.shape.expected(self.value_bytes);
        let expected = match cost {
            // Without a leader it is whoever had the quickest clients.
            Cost::MostSent if !self.shape.system.is_led() => return None,
            Cost::MostSent => expected.most_sent,
            Cost::KernelSent => expected.sent,
            Cost::Moved => expected.moved,
            Cost::Written | Cost::KernelWritten => expected.written,
        };
        Some(deviation_percent(self.per_byte(cost)?, expected))
    }

    /// How many times as many puts as the base theory gives where links bind.
    fn predicted(&self) -> Option<f64> {
        let base = self.base().filter(|base| *base != self.shape)?;
        let link = |shape: Shape| shape.expected(self.value_bytes).link;
        Some(link(base) / link(self.shape))
    }

    /// How much of the busiest link these puts take in theory. What was sent in fact may have left
    /// after the last put was answered.
    fn link_share(&self, point: &Point) -> Option<f64> {
        let sent = megabytes_per_second(point)? * 8e6 * point.expected.link;
        Some(sent / self.links?.bits_per_second as f64)
    }

    /// The median over the turns.
    pub(super) fn median<F: Into<Option<f64>>>(&self, of: impl Fn(&Point) -> F) -> Option<f64> {
        let each = self.points.iter().filter_map(|point| of(point).into());
        median(each.filter(|value| value.is_finite()).collect())
    }

    /// The median of the ratios to the base in the same turn.
    fn ratio(&self, of: fn(&Point) -> Option<f64>) -> Option<f64> {
        let base = self.base().filter(|base| *base != self.shape)?;
        let ratios = self.points.iter().filter_map(|point| {
            let is_base = |other: &&&Point| (other.pair, other.shape) == (point.pair, base);
            let base = of(self.others.iter().find(is_base)?)?;
            (base > 0.0).then_some(of(point)? / base)
        });
        median(ratios.collect())
    }
}

/// What theory says something about, and how it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cost {
    MostSent,
    KernelSent,
    Moved,
    Written,
    KernelWritten,
}

impl Cost {
    const ALL: [Cost; 5] = [
        Cost::MostSent,
        Cost::KernelSent,
        Cost::Moved,
        Cost::Written,
        Cost::KernelWritten,
    ];

    fn bytes(self, point: &Point) -> f64 {
        let traffic = &point.traffic;
        let bytes = match self {
            Cost::MostSent => traffic.most_sent_bytes,
            Cost::KernelSent => traffic.kernel_sent_bytes,
            // What one replica sends another one receives, and every value came from a client.
            Cost::Moved => {
                let moved = point.committed_bytes() + 2.0 * traffic.sent_bytes as f64;
                return moved / f64::from(point.shape.replicas);
            }
            Cost::Written => traffic.log_bytes + traffic.bulk_bytes,
            Cost::KernelWritten => traffic.kernel_written_bytes,
        };
        bytes as f64
    }
}

pub(super) fn puts_per_second(point: &Point) -> Option<f64> {
    Some(point.report.per_second)
}

/// Of values, in MB.
pub(super) fn megabytes_per_second(point: &Point) -> Option<f64> {
    Some(point.committed_bytes() / 1e6 / point.report.seconds)
}

fn cpu_us(point: &Point) -> Option<f64> {
    let cost = |servers: &ServerCosts| servers.cpu_us_per_op;
    point.report.servers.as_ref().map(cost)
}

/// Of all replicas, per MB of values.
pub(super) fn cpu_ms_per_megabyte(point: &Point) -> Option<f64> {
    Some(cpu_us(point)? * 1e3 / point.value_bytes as f64)
}

/// What is furthest from theory among the sizes that should be near it.
fn worst(cells: &[Cell<'_>]) -> String {
    let large = cells
        .iter()
        .filter(|cell| cell.value_bytes >= NEAR_BYTES_MIN);
    let all = large.flat_map(|cell| {
        let of = move |cost| Some((cell.deviation(cost)?, cell, cost));
        Cost::ALL.into_iter().filter_map(of)
    });
    let worst = all.max_by(|one, other| one.0.abs().total_cmp(&other.0.abs()));
    worst.map_or(String::new(), |(deviation, cell, cost)| {
        format!(
            "from {} up, furthest from theory: {} % ({} at {}, {cost:?})\n",
            show_size(NEAR_BYTES_MIN),
            percent(deviation),
            cell.shape.title(),
            show_size(cell.value_bytes),
        )
    })
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn percent(value: f64) -> String {
    format!("{value:+.1}")
}

const NEAR_BYTES_MIN: usize = 64 << 10;

const SPEED: [&str; 14] = [
    "value",
    "system",
    "clients",
    "puts/s",
    "MB/s",
    "p50",
    "p99",
    "CPU us/put",
    "x puts",
    "x CPU",
    "x if links bind",
    "% of link",
    "failed",
    "elections",
];

const BYTES: [&str; 19] = [
    "value",
    "system",
    "most sent",
    "%",
    "sockets sent",
    "%",
    "each moved",
    "%",
    "log+bulk",
    "%",
    "kernel wrote",
    "%",
    "all sent",
    "sent again",
    "log",
    "moved",
    "zeros",
    "reused",
    "snapshots",
];

#[cfg(test)]
pub(super) mod tests {
    use super::super::Traffic;
    use super::*;
    use quorate_protocols::Code;

    pub(in super::super) fn point(pair: u16, system: System, per_second: f64) -> Point {
        let value_bytes = 65_536;
        let shape = system.shape(Code { n: 5, k: 3 }, 5);
        let expected = shape.expected(value_bytes);
        let report = Report {
            operations: 100,
            seconds: 1.0,
            per_second,
            ..Report::default()
        };
        let committed = 6_553_600.0;
        let traffic = Traffic {
            most_sent_bytes: (committed * expected.most_sent * 1.01) as u64,
            sent_bytes: (committed * expected.sent) as u64,
            kernel_sent_bytes: (committed * expected.sent * 1.02) as u64,
            log_bytes: (committed * 0.05) as u64,
            bulk_bytes: (committed * (expected.written - 0.05)) as u64,
            kernel_written_bytes: (committed * expected.written * 0.9) as u64,
            ..Traffic::default()
        };
        Point {
            pair,
            shape,
            value_bytes,
            expected,
            report,
            traffic,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_turn_and_deviations_from_theory() {
        let points = vec![
            point(0, System::RsPaxos, 300.0),
            point(0, System::MultiPaxos, 150.0),
            point(1, System::MultiPaxos, 50.0),
            point(1, System::RsPaxos, 100.0),
        ];
        let sizes = Sizes {
            links: Some(Links {
                bits_per_second: 200_000_000,
                loss: Some(0.0001),
            }),
            points,
        };
        let cells = cells(&sizes);
        let systems: Vec<System> = cells.iter().map(|cell| cell.shape.system).collect();
        assert_eq!(systems, [System::RsPaxos, System::MultiPaxos]);
        assert_eq!(cells[0].ratio(puts_per_second), Some(2.0));
        assert_eq!(cells[1].ratio(puts_per_second), None);
        let row = cells[0].speed();
        assert_eq!(row[8..12], ["2.00", "-", "3.00", "35"]);
        let row = cells[0].bytes();
        assert_eq!(
            row[2..12],
            [
                "1.347", "+1.0", "1.360", "+2.0", "0.733", "-0.0", "1.667", "-0.0", "1.500",
                "-10.0"
            ]
        );
        let text = render(&sizes);
        assert!(text.contains("furthest from theory: -10.0 % ("), "{text}");
    }
}
