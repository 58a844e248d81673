//! `quorate quorums`: what erasure-coded replication costs and survives, by the arithmetic that the
//! protocols use.

use clap::Args;
use quorate_protocols::rs_paxos::{Quorums, Row, table};
use std::fmt::Write;

/// The options of `quorate quorums`.
#[derive(Args, Debug)]
#[command(after_help = LEGEND)]
pub(crate) struct QuorumsOptions {
    /// How many replicas, 3 to 9 [default: each of them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=9))]
    replicas: Option<u8>,
}

const LEGEND: &str = "\
Any QR promises elect a leader. A value is cut so that any X fragments rebuild it, and chosen by
QW accepts; QR + QW - X is the number of replicas. F replicas may fail while leaders are elected
and values chosen. QL replicas confirm a leader for a read. Bytes are per byte written. The
largest X for each F is marked.

Example:
  quorate quorums --replicas 7";

/// Prints the table, or a table for each number of replicas.
pub(crate) fn run(options: &QuorumsOptions) {
    let Some(replicas) = options.replicas else {
        let pages = (3..=9).map(|n| format!("{n} replicas\n{}", page(n)));
        return print!("{}", pages.collect::<Vec<_>>().join("\n"));
    };
    print!("{}", page(usize::from(replicas)));
}

fn page(n: usize) -> String {
    let rows = table(n);
    let mut page = String::from("  F  QR  QW   X   QL  bytes on disk  bytes sent by the leader\n");
    for row in &rows {
        let larger = |other: &&Row| other.f == row.f && other.x > row.x;
        let mark = if rows.iter().any(|other| larger(&other)) {
            ' '
        } else {
            '*'
        };
        let Row { f, read, write, x } = *row;
        let leader = Quorums { n, read }.leader();
        let on_disk = n as f64 / x as f64;
        let sent = (n - 1) as f64 / x as f64;
        let _ = writeln!(
            page,
            "{f:>3} {read:>3} {write:>3} {x:>3}{mark} {leader:>3}  {on_disk:>13.2}  {sent:>24.2}"
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::page;

    /// Table 1 of the paper.
    #[test]
    fn seven_replicas() {
        let expected = "\
  F  QR  QW   X   QL  bytes on disk  bytes sent by the leader
  3   4   4   1*   4           7.00                      6.00
  2   3   5   1    5           7.00                      6.00
  2   4   5   2    4           3.50                      3.00
  2   5   3   1    3           7.00                      6.00
  2   5   4   2    3           3.50                      3.00
  2   5   5   3*   3           2.33                      2.00
  1   2   6   1    6           7.00                      6.00
  1   3   6   2    5           3.50                      3.00
  1   4   6   3    4           2.33                      2.00
  1   5   6   4    3           1.75                      1.50
  1   6   2   1    2           7.00                      6.00
  1   6   3   2    2           3.50                      3.00
  1   6   4   3    2           2.33                      2.00
  1   6   5   4    2           1.75                      1.50
  1   6   6   5*   2           1.40                      1.20
";
        assert_eq!(page(7).trim_start(), expected);
    }

    #[test]
    fn every_size_has_a_largest_code_for_each_number_of_failures() {
        for n in 3..=9 {
            let marks = page(n).matches('*').count();
            assert_eq!(marks, (n - 1) / 2, "{n} replicas");
        }
    }
}
