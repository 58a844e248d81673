//! What people read.

use quorate_server::{MemberPage, StatusPage};
use quorate_tooling::units::show_bytes;
use std::fmt::Write;

/// Members and learners, and what those that could be asked lack.
pub(super) fn status(page: &StatusPage, others: &[StatusPage]) -> String {
    let epoch = page.epochs.last().map_or(0, |epoch| epoch.number);
    let done = match page.is_open {
        true if page.is_settled => "done".to_owned(),
        true => format!(
            "done; long values are being moved: {}, and until all are there only members that lost \
             their data can be replaced",
            progress(page)
        ),
        false => "under way: too few members are known to have the state it began with".to_owned(),
    };
    let mut text = format!(
        "cluster {}, {}, epoch {epoch}; last change: {done}\n",
        page.cluster_id,
        configuration(&page.protocol, &page.params),
    );
    for alarm in &page.alarms {
        let _ = writeln!(text, "{alarm}");
    }
    let _ = writeln!(
        text,
        "{:>3}  {:<8}  {:<9}  {:<30}  name",
        "id", "role", "connected", "peer url"
    );
    for member in &page.members {
        let role = if member.is_learner {
            "learner"
        } else {
            "member"
        };
        let MemberPage {
            replica_id,
            peer_url,
            name,
            ..
        } = member;
        let connected = match (
            *replica_id == page.replica_id,
            page.links_up.contains(replica_id),
        ) {
            (true, _) => "asked",
            (false, true) => "yes",
            (false, false) => "NO",
        };
        let _ = writeln!(
            text,
            "{replica_id:>3}  {role:<8}  {connected:<9}  {peer_url:<30}  {name}"
        );
    }
    if page.is_settled {
        for one in [page]
            .into_iter()
            .chain(others)
            .filter(|one| one.payloads_lacking > 0)
        {
            let _ = writeln!(text, "long values are being rebuilt: {}", progress(one));
        }
    }
    text
}

/// The progress of a replica, in words.
fn progress(page: &StatusPage) -> String {
    let rate = page.recode_bytes_per_s_max;
    let rate = rate.map(|rate| format!(", at most {}/s", show_bytes(rate)));
    format!(
        "replica {} has moved {} of {}{} and lacks {}",
        page.replica_id,
        show_bytes(page.recoded_bytes),
        show_bytes(page.recode_bytes),
        rate.unwrap_or_default(),
        page.payloads_lacking
    )
}

/// Configurations, the first on top.
pub(super) fn history(page: &StatusPage) -> String {
    let mut text = format!(
        "{:>5}  {:>12}  {:<20}  configuration\n",
        "epoch", "first slot", "members"
    );
    for epoch in &page.epochs {
        let note = if epoch.forced {
            " (made by hand after a disaster)"
        } else {
            ""
        };
        let members: Vec<String> = epoch.members.iter().map(u16::to_string).collect();
        let _ = writeln!(
            text,
            "{:>5}  {:>12}  {:<20}  {}",
            epoch.number,
            epoch.first_slot,
            members.join(" "),
            configuration(&epoch.protocol, &epoch.params) + note,
        );
    }
    text
}

fn configuration(protocol: &str, params: &std::collections::BTreeMap<String, String>) -> String {
    let params = params
        .iter()
        .map(|(name, value)| format!(" {name}={value}"));
    format!("{protocol}{}", params.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_server::EpochPage;

    fn page() -> StatusPage {
        let member = |replica_id: u16| MemberPage {
            replica_id,
            name: format!("replica-{replica_id}"),
            peer_url: format!("http://h{replica_id}:2380"),
            client_url: String::new(),
            is_learner: replica_id == 4,
        };
        let epoch = |number, members: &[u16]| EpochPage {
            number,
            first_slot: 10 * number,
            protocol: "rs-paxos".into(),
            params: [("code".to_owned(), "2".to_owned())].into(),
            members: members.into(),
            forced: number == 2,
        };
        StatusPage {
            cluster_id: "c1".into(),
            replica_id: 1,
            epochs: vec![epoch(1, &[1, 2]), epoch(2, &[1, 2, 3])],
            is_open: true,
            is_settled: true,
            protocol: "rs-paxos".into(),
            params: [("code".to_owned(), "2".to_owned())].into(),
            links_up: vec![2],
            members: (1..=4).map(member).collect(),
            ..StatusPage::default()
        }
    }

    #[test]
    fn tables_are_aligned_and_say_who_is_out_of_reach() {
        let expected = "\
cluster c1, rs-paxos code=2, epoch 2; last change: done
 id  role      connected  peer url                        name
  1  member    asked      http://h1:2380                  replica-1
  2  member    yes        http://h2:2380                  replica-2
  3  member    NO         http://h3:2380                  replica-3
  4  learner   NO         http://h4:2380                  replica-4
";
        assert_eq!(status(&page(), &[]), expected);
        let expected = "\
epoch    first slot  members               configuration
    1            10  1 2                   rs-paxos code=2
    2            20  1 2 3                 rs-paxos code=2 (made by hand after a disaster)
";
        assert_eq!(history(&page()), expected);
    }

    /// The change is settled without the one member that lost its disk and rebuilds its values.
    #[test]
    fn a_member_that_rebuilds_its_values_says_how_far_that_is() {
        let rebuilding = StatusPage {
            replica_id: 2,
            payloads_lacking: 30,
            recoded_bytes: 5 << 20,
            recode_bytes: 20 << 20,
            ..page()
        };
        let shown = status(&page(), &[rebuilding, page()]);
        let expected = "being rebuilt: replica 2 has moved 5.00 MiB of 20.0 MiB and lacks 30\n";
        assert!(shown.ends_with(expected), "{shown}");
        assert!(shown.contains("last change: done\n"), "{shown}");
    }

    #[test]
    fn while_values_are_moved_it_says_how_far_that_is_and_how_fast() {
        let moving = StatusPage {
            is_settled: false,
            payloads_lacking: 7,
            recoded_bytes: 3 << 20,
            recode_bytes: 10 << 20,
            recode_bytes_per_s_max: None,
            ..page()
        };
        let limited = StatusPage {
            recode_bytes_per_s_max: Some(50 << 20),
            ..moving.clone()
        };
        for (page, rate) in [(moving, ""), (limited, ", at most 50.0 MiB/s")] {
            let expected =
                format!("replica 1 has moved 3.00 MiB of 10.0 MiB{rate} and lacks 7, and");
            let shown = status(&page, &[]);
            assert!(shown.contains(&expected), "{shown}");
        }
    }
}
