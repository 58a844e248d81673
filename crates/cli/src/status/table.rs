//! A report for people, whose tables have at most a hundred columns.

use super::report::{Figures, Latency, LeaderReport, PLACES, ReplicaReport, Report};
use super::rounds;
use quorate_server::{Role, StatusPage};

/// The report for people: first what an operator asks, then the details.
pub(super) fn render(report: &Report) -> String {
    let mut text = summary(report);
    text.push('\n');
    text += &headline(report);
    text += &align(&replica_rows(report));
    text += LEGEND;
    text += &open_ports(report);
    if report.is_stuck() {
        text += "more replicas than may fail have lost what they promised: none of them can come \
                 back; begin a new cluster\n";
    }
    text += &rounds::render(report);
    if report.any_page().is_some() {
        text += &format!(
            "\nlatency p50/p99 by place, of the last {:.1} s (* since the start, for idle ones)\n",
            report.recent_seconds
        );
        text += &align(&latency_rows(report));
        text += LATENCY_LEGEND;
    }
    text
}

/// What the columns of the table mean.
const LEGEND: &str = "\
slot: decided and applied; lag: slots behind the furthest; fast: without a vote, of late/in all
queue: requests and frames that wait; wakes/s: turns of the core; log: bytes/files; snap: snapshots
";

/// What the columns of latencies mean.
const LATENCY_LEGEND: &str = "\
face: request to answer; ring: until the core takes it; order: until it is decided and applied;
log: one flush; network: frames to sockets; apply: one command; total: as the core sees it
";

/// Whether all is well and why not, who leads, who is behind, what limits, and the space on disks.
fn summary(report: &Report) -> String {
    let counts = format!(
        "{} of {} replicas serve",
        report.replicas_serving, report.replicas_total
    );
    let mut text = match (report.healthy, report.serves, report.any_page()) {
        (_, _, None) => "NOT HEALTHY: no replica answers\n".to_owned(),
        (true, ..) => format!("healthy: {counts}\n"),
        (false, true, _) => format!("NOT HEALTHY: {counts}, which is enough to go on\n"),
        (false, false, _) => format!("NOT HEALTHY: {counts}, which are too few\n"),
    };
    for problem in report.problems.iter().chain(&report.notes) {
        let who = match problem.replica_id {
            Some(id) => format!("replica {id}"),
            None => "an endpoint".to_owned(),
        };
        // On one line, however long: it is searched for, and goes to reports.
        text += &format!("  {who}: {}\n", problem.text);
    }
    if let Some(leader) = &report.leader {
        text += &wrapped(&format!("leader  {}", leader_in_words(leader)));
    }
    if report.any_page().is_some() {
        let behind = match &report.furthest_behind {
            Some(behind) => format!("replica {} by {} slots", behind.replica_id, behind.slots),
            None => "nobody".to_owned(),
        };
        text += &format!("behind  {behind}\n");
    }
    if let Some(limit) = &report.limit {
        text += &wrapped(&format!("limit   {}", limit.text));
    }
    if let Some(disk) = &report.disk {
        let free = match (disk.free_bytes_least, disk.free_bytes_least_replica_id) {
            (Some(free), Some(id)) => format!("; {} free at least (replica {id})", bytes(free)),
            _ => String::new(),
        };
        let used = bytes(disk.used_bytes_most);
        text += &format!("disk    {used} used at most{free}\n");
    }
    text
}

/// Columns of a line, at most.
const COLUMNS: usize = 100;

/// A text broken into lines of at most a hundred columns, those after the first further in.
fn wrapped(text: &str) -> String {
    const INDENT: &str = "        ";
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if width > INDENT.len() && width + length > COLUMNS {
            lines.truncate(lines.trim_end().len());
            lines += "\n";
            lines += INDENT;
            width = INDENT.len();
        }
        lines += word;
        width += word.chars().count();
    }
    lines + "\n"
}

fn leader_in_words(leader: &LeaderReport) -> String {
    match (leader.replica_id, leader.by_protocol) {
        (Some(id), true) => format!("replica {id} (term {})", leader.term),
        (Some(id), false) => format!(
            "none, every replica orders; clients that ask are told replica {id} (term {})",
            leader.term
        ),
        (None, true) => "none at present: one is found when something is to be ordered".to_owned(),
        (None, false) => "none, every replica orders".to_owned(),
    }
}

/// A line about replicas to which callers prove nothing.
fn open_ports(report: &Report) -> String {
    let replicas = report.replicas.iter();
    let is_open = |replica: &&ReplicaReport| {
        let page = replica.status.as_ref();
        page.is_some_and(|page| page.peer_proof.is_empty())
    };
    let open: Vec<String> = replicas.filter(is_open).map(name).collect();
    match open.is_empty() {
        true => String::new(),
        false => format!(
            "whoever reaches a peer port can act as a member: replicas {}\n",
            open.join(", ")
        ),
    }
}

fn headline(report: &Report) -> String {
    let Some(page) = report.any_page() else {
        return String::new();
    };
    let params: Vec<String> = page
        .params
        .iter()
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    format!(
        "cluster {}\nprotocol {}{}   durability {}   quorate {}\n",
        page.cluster_id,
        page.protocol,
        params.concat(),
        page.durability,
        page.version
    )
}

fn replica_rows(report: &Report) -> Vec<Vec<String>> {
    let headings = [
        "id", "endpoint", "role", "slot", "lag", "cmds/s", "fast", "queue", "wakes/s", "log",
        "snap", "RSS", "up",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for replica in &report.replicas {
        let mut row = vec![name(replica), replica.endpoint.clone()];
        match (&replica.status, &replica.figures) {
            (Some(page), Some(figures)) => row.extend(cells(page, figures)),
            _ => {
                let word = if replica.frozen { "frozen" } else { "down" };
                row.push(word.to_owned());
                row.resize(headings.len(), "-".to_owned());
            }
        }
        rows.push(row);
    }
    rows
}

fn cells(page: &StatusPage, figures: &Figures) -> Vec<String> {
    let role = match (page.role, page.has_quorum) {
        (Role::Rejoining, _) => "rejoining",
        (Role::Voting, true) if page.leads == Some(true) => "leader",
        (Role::Voting, true) => "voting",
        (Role::Voting, false) => "no quorum",
        (Role::Learner, _) => "learner",
    };
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.0}", s * 100.0));
    vec![
        role.to_owned(),
        page.applied_slot.to_string(),
        figures.lag_slots.to_string(),
        short(figures.commands_per_second),
        // Of late and since the start.
        format!(
            "{}/{}%",
            percent(figures.fast_share_recent),
            percent(figures.fast_share)
        ),
        figures.queue_lengths.values().sum::<u64>().to_string(),
        short(figures.wakeups_per_second),
        // Bytes and segments.
        format!("{}/{}", bytes(page.log_bytes), page.log_segments),
        bytes(page.snapshot_bytes),
        bytes(page.memory_rss_bytes),
        uptime(page.uptime_ms / 1000),
    ]
}

fn latency_rows(report: &Report) -> Vec<Vec<String>> {
    let headings = ["id"].into_iter().chain(PLACES).map(str::to_owned);
    let mut rows = vec![headings.collect::<Vec<_>>()];
    for replica in &report.replicas {
        let Some(figures) = &replica.figures else {
            continue;
        };
        let cell = |place| match (
            figures.latency_recent.get(place),
            figures.latency.get(place),
        ) {
            (Some(recent), _) => pair(recent),
            (None, Some(total)) => pair(total) + "*",
            (None, None) => "-".to_owned(),
        };
        rows.push(
            [name(replica)]
                .into_iter()
                .chain(PLACES.map(cell))
                .collect(),
        );
    }
    rows
}

fn pair(latency: &Latency) -> String {
    format!("{}/{}", time(latency.p50_us), time(latency.p99_us))
}

pub(super) fn name(replica: &ReplicaReport) -> String {
    replica
        .replica_id
        .map_or("?".to_owned(), |id| id.to_string())
}

/// `7.5us`, `140us`, `2.1ms`, `38ms`, `1.4s`: five characters at most, so that a row of pairs of
/// them stays within a hundred.
pub(super) fn time(us: f64) -> String {
    for (unit, size) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        match us / size {
            count if count < 9.95 => return format!("{count:.1}{unit}"),
            count if count < 999.5 => return format!("{count:.0}{unit}"),
            _ => {}
        }
    }
    "long".to_owned()
}

/// A count as people read it: `950`, `12.3k`.
fn short(count: f64) -> String {
    match count {
        count if count < 1e4 => format!("{count:.0}"),
        count => format!("{:.1}k", count / 1e3),
    }
}

/// `512K`, `48M`, `1.5G`.
pub(super) fn bytes(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    match kib {
        kib if kib < 1024.0 => format!("{kib:.0}K"),
        kib if kib < 1024.0 * 1024.0 => format!("{:.0}M", kib / 1024.0),
        kib => format!("{:.1}G", kib / 1024.0 / 1024.0),
    }
}

/// The two largest units.
pub(super) fn uptime(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Words to the left, figures to the right.
pub(super) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, width))| match at {
            1 | 2 if rows[0][1] == "endpoint" => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_between_words() {
        let long = format!("  replica 1: {}", "words and ".repeat(40));
        let lines = wrapped(long.trim_end());
        assert!(lines.lines().count() > 3 && lines.lines().all(|line| line.len() <= COLUMNS));
        let words: Vec<&str> = lines.split_whitespace().collect();
        assert_eq!(words, long.split_whitespace().collect::<Vec<_>>());
        assert_eq!(wrapped("leader  none"), "leader  none\n");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [time(7.51), time(140.2), time(2140.0), time(1.4e6)],
            ["7.5us", "140us", "2.1ms", "1.4s"]
        );
        for us in [
            9.949, 9.96, 999.4, 999.6, 9_960.0, 37_500.0, 999_600.0, 1e8, 1e12,
        ] {
            assert!(time(us).len() <= 5, "{}", time(us));
        }
        assert_eq!([bytes(5 << 20), bytes(3 << 29)], ["5M", "1.5G"]);
        assert_eq!(
            [uptime(59), uptime(61), uptime(90_061)],
            ["59s", "1m01s", "1d01h"]
        );
        assert_eq!([short(950.0), short(12_345.0)], ["950", "12.3k"]);
    }
}
