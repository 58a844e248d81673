//! The ratios between systems that are held against bounds: a gate that must be passed, and a goal behind it.

use serde::Serialize;

use super::table::in_order;
use super::{Comparison, Crowd, Run, Standing, System, Workload};
use crate::spread::Spread;
use quorate_load::report::Report;
use quorate_tooling::tables::Table;

/// A ratio, over the turns in which both systems ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// What is divided by what, for people.
    pub name: String,
    /// The number of clients; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The number of connections of these clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// The least ratio of a turn.
    pub least: f64,
    /// The median ratio of the turns.
    pub median: f64,
    /// The greatest ratio of a turn.
    pub most: f64,
    /// The bound that is to be passed, and the one that is aimed at; absent for what stands there to be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

/// Bounds of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// The bound that must be passed.
    pub gate: f64,
    /// The bound that is aimed at.
    pub goal: f64,
}

/// A figure of a run, if it has it.
type Figure = fn(&Report) -> Option<f64>;

const CPU: Figure = |report| Some(report.servers.as_ref()?.cpu_us_per_op);
const RATE: Figure = |report| Some(report.per_second);
const P50: Figure = |report| Some(report.latency.p50_ns as f64);
const P99: Figure = |report| Some(report.latency.p99_ns as f64);

/// Everything that could be measured.
pub(super) fn of(comparison: &Comparison) -> Vec<Gate> {
    let mut gates = Vec::new();
    for workload in [Workload::Put, Workload::Get] {
        let runs = comparison.runs.iter();
        let runs: Vec<&Run> = runs.filter(|run| run.workload == workload).collect();
        for crowd in in_order(&runs, |run| run.crowd()) {
            let many = crowd.clients >= MANY;
            let runs = Runs(
                runs.iter()
                    .copied()
                    .filter(|run| run.crowd() == crowd)
                    .collect(),
            );
            let what = format!("CPU per {}, etcd over quorate", workload.name());
            let bound = match workload {
                Workload::Put if crowd.clients == 1 => bound(3.5, 5.0),
                Workload::Put if many => bound(5.0, 8.0),
                Workload::Get if crowd.clients == 1 || many => bound(6.0, 8.0),
                _ => None,
            };
            let ratios = runs.ratios(CPU, System::Etcd, System::Quorate);
            gates.extend(gate(&what, Some(crowd), ratios, bound));
            let what = format!("{}s per second, quorate over etcd", workload.name());
            let bound = bound_if(workload == Workload::Put && many, 3.0, 4.0);
            let ratios = runs.ratios(RATE, System::Quorate, System::Etcd);
            gates.extend(gate(&what, Some(crowd), ratios, bound));
            let ratios = runs.ratios(P50, System::Quorate, System::Floor);
            let bound = bound_if(crowd.clients == 1, 1.35, 1.2);
            gates.extend(gate("p50, quorate over floor", Some(crowd), ratios, bound));
        }
    }
    gates.extend(of_equal_load(comparison));
    gates.extend(of_long_values(comparison));
    gates.extend(of_memory(&comparison.standing));
    gates
}

fn of_equal_load(comparison: &Comparison) -> Option<Gate> {
    let runs = Runs(comparison.equal_load.iter().collect());
    let ratios = runs.ratios(P99, System::Etcd, System::Quorate);
    let crowd = comparison.equal_load.first()?.crowd();
    let what = "p99 at equal offered load (own client), etcd over quorate";
    gate(what, Some(crowd), ratios, bound(5.0, 8.0))
}

fn of_long_values(comparison: &Comparison) -> Vec<Gate> {
    let Some(first) = comparison.long_values.first() else {
        return Vec::new();
    };
    let runs = Runs(comparison.long_values.iter().collect());
    let named = |what: &str| format!("{} B: {what}", first.report.value_bytes);
    let written = |system| {
        let runs = runs.of(system).filter_map(|run| {
            let servers = run.report.servers.as_ref()?;
            Some(servers.bytes_written_per_op / run.report.value_bytes as f64)
        });
        runs.collect()
    };
    let crowd = Some(first.crowd());
    let ratios = runs.ratios(RATE, System::Quorate, System::Etcd);
    let gates = [
        gate(
            &named("puts per second, quorate over etcd"),
            crowd,
            ratios,
            bound(3.0, 5.0),
        ),
        gate(
            &named("bytes written per byte, quorate"),
            crowd,
            written(System::Quorate),
            bound(3.5, 3.2),
        ),
        gate(
            &named("bytes written per byte, etcd"),
            crowd,
            written(System::Etcd),
            None,
        ),
    ];
    gates.into_iter().flatten().collect()
}

fn of_memory(standing: &[Standing]) -> Option<Gate> {
    let rss = |system| {
        let one = standing.iter().find(|one| one.system == system)?;
        one.many.as_ref().map(|many| many.rss_bytes as f64)
    };
    let ratio = rss(System::Etcd)? / rss(System::Quorate)?;
    let what = "memory with many keys, etcd over quorate";
    gate(what, None, vec![ratio], bound(2.0, 3.0))
}

/// As many clients as from which on machines are busy.
const MANY: u32 = 64;

fn bound(gate: f64, goal: f64) -> Option<Bound> {
    Some(Bound { gate, goal })
}

fn bound_if(holds: bool, gate: f64, goal: f64) -> Option<Bound> {
    holds.then_some(Bound { gate, goal })
}

fn gate(name: &str, crowd: Option<Crowd>, ratios: Vec<f64>, bound: Option<Bound>) -> Option<Gate> {
    if ratios.is_empty() {
        return None;
    }
    let spread = Spread::of(ratios.into_iter());
    Some(Gate {
        name: name.to_owned(),
        clients: crowd.map(|crowd| crowd.clients),
        connections: crowd.map(|crowd| crowd.connections),
        least: spread.least,
        median: spread.middle,
        most: spread.most,
        bound,
    })
}

/// Runs of one kind, of several systems and turns.
struct Runs<'a>(Vec<&'a Run>);

impl Runs<'_> {
    fn of(&self, system: System) -> impl Iterator<Item = &Run> {
        self.0
            .iter()
            .copied()
            .filter(move |run| run.system == system)
    }

    /// A figure of one system divided by that of another, of each turn that has both.
    fn ratios(&self, figure: Figure, of: System, to: System) -> Vec<f64> {
        let ratios = self.of(of).filter_map(|run| {
            let other = self.of(to).find(|other| other.pair == run.pair)?;
            let base = figure(&other.report).filter(|base| *base > 0.0)?;
            Some(figure(&run.report)? / base)
        });
        ratios.collect()
    }
}

/// The ratios as a table.
pub(super) fn render(gates: &[Gate]) -> String {
    if gates.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        "ratio",
        "clients",
        "conns",
        "median [range]",
        "gate",
        "goal",
        "",
    ]);
    let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
    for one in gates {
        let spread = Spread {
            least: one.least,
            middle: one.median,
            most: one.most,
        };
        let shown = |of: fn(&Bound) -> f64| {
            one.bound
                .as_ref()
                .map_or_else(String::new, |bound| of(bound).to_string())
        };
        table.add(vec![
            one.name.clone(),
            number(one.clients),
            number(one.connections),
            spread.show(2),
            shown(|bound| bound.gate),
            shown(|bound| bound.goal),
            one.bound
                .map_or("", |bound| bound.verdict(one.median))
                .to_owned(),
        ]);
    }
    format!("ratios within turns, medians of the turns\n{table}\n")
}

impl Bound {
    /// Whether a ratio passes. A goal below its gate says that less is better.
    fn verdict(self, ratio: f64) -> &'static str {
        let reaches = |bound: f64| match self.goal < self.gate {
            true => ratio <= bound,
            false => ratio >= bound,
        };
        match (reaches(self.gate), reaches(self.goal)) {
            (_, true) => "goal",
            (true, false) => "gate",
            (false, false) => "missed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_load::report::ServerCosts;

    fn run(pair: u16, system: System, cpu_us_per_op: f64) -> Run {
        let report = Report {
            connections: 1,
            per_second: 1e6 / cpu_us_per_op,
            servers: Some(ServerCosts {
                cpu_us_per_op,
                ..ServerCosts::default()
            }),
            ..Report::default()
        };
        Run {
            pair,
            system,
            workload: Workload::Put,
            clients: 1,
            report,
        }
    }

    /// Scenario: the machine is half as fast in the second turn, and the floor ran in neither.
    #[test]
    fn a_ratio_is_of_one_turn_and_stands_beside_its_bounds() {
        let runs = [
            run(0, System::Quorate, 10.0),
            run(0, System::Etcd, 40.0),
            run(1, System::Quorate, 20.0),
            run(1, System::Etcd, 72.0),
        ];
        let runs: Vec<&Run> = runs.iter().collect();
        let ratios = Runs(runs).ratios(CPU, System::Etcd, System::Quorate);
        assert_eq!(ratios, [4.0, 3.6]);
        let made = gate("CPU", None, ratios, bound(3.5, 5.0)).unwrap();
        assert!((made.median - 3.8).abs() < 1e-9, "{made:?}");
        let table = render(&[made]);
        assert!(
            table.contains("3.80 [3.60-4.00]") && table.contains("gate"),
            "{table}"
        );
        assert_eq!(gate("CPU", None, Vec::new(), None), None);
    }

    #[test]
    fn a_goal_below_its_gate_says_that_less_is_better() {
        let [more, less] = [bound(3.0, 4.0), bound(1.35, 1.2)].map(Option::unwrap);
        let verdicts = [2.9, 3.0, 4.1].map(|ratio| more.verdict(ratio));
        assert_eq!(verdicts, ["missed", "gate", "goal"]);
        let verdicts = [1.4, 1.3, 1.1].map(|ratio| less.verdict(ratio));
        assert_eq!(verdicts, ["missed", "gate", "goal"]);
    }
}
