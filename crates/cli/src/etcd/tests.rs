//! What etcd's command lines mean, in terms of `quorate serve`.

use super::flags::{FLAGS, Fate};
use super::given::{self, Asked, Given};
use super::members::{self, Place};
use super::roster;
use super::translate::{self, Plan};
use super::{Cli, options};
use crate::new_cluster::NewCluster;
use clap::CommandFactory;
use quorate_core::{Durability, ReplicaId};
use std::collections::BTreeMap;
use std::path::Path;

fn given(line: &str) -> Given {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match given::read(&words, std::iter::empty()) {
        Ok(Asked::Start(given)) => given,
        other => panic!("{line}: {other:?}"),
    }
}

fn plan(line: &str) -> Result<Plan, String> {
    let commands = Cli::command();
    let serve = commands.find_subcommand("serve").unwrap();
    translate::plan(&given(line), serve)
}

fn place(line: &str, dir: &Path) -> Result<(Place, Vec<String>), String> {
    let plan = plan(&format!("{line} --data-dir {}", dir.display()))?;
    let place = members::find(&plan)?;
    let cluster = roster::by_number(&place.members);
    let words = plan.serve_line(place.number, &cluster, place.is_new);
    options(&words).map_err(|failure| format!("{failure:?}"))?;
    Ok((place, words))
}

#[test]
fn no_flag_at_all_is_a_member_alone_on_this_machine() {
    let home = tempfile::tempdir().unwrap();
    let (_, line) = place("", home.path()).unwrap();
    let expected = [
        "serve".to_owned(),
        "--id=1".to_owned(),
        "--name=default".to_owned(),
        format!("--data-dir={}", home.path().display()),
        "--listen-client-urls=http://localhost:2379".to_owned(),
        "--listen-peer-urls=http://localhost:2380".to_owned(),
        "--advertise-client-urls=http://localhost:2379".to_owned(),
        "--initial-cluster=1=http://localhost:2380".to_owned(),
        "--initial-cluster-state=new".to_owned(),
        "--initial-cluster-token=etcd-cluster".to_owned(),
    ];
    assert_eq!(line, expected);
    assert_eq!(
        plan("--name infra1").unwrap().data_dir,
        Path::new("infra1.etcd")
    );
}

#[test]
fn members_have_the_numbers_that_their_names_give_them() {
    let cluster =
        "--initial-cluster c=http://127.0.0.1:3,a=http://127.0.0.1:1,b=http://127.0.0.1:2";
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        let home = tempfile::tempdir().unwrap();
        let line = format!(
            "--name {name} {cluster} --initial-advertise-peer-urls http://127.0.0.1:{number} --snapshot-count=500 \
             --quorate-protocol nezha"
        );
        let (place, words) = place(&line, home.path()).unwrap();
        assert_eq!((place.number, place.is_new), (number, true));
        let list =
            "--initial-cluster=1=http://127.0.0.1:1,2=http://127.0.0.1:2,3=http://127.0.0.1:3";
        assert!(words.contains(&list.to_owned()), "{words:?}");
        let end = &words[words.len() - 2..];
        assert_eq!(end, ["--snapshot-count=500", "--protocol=nezha"]);
    }
}

/// Scenario: a member that has begun is started once more, and told other things.
#[test]
fn a_member_with_data_goes_on_under_its_number_whatever_it_is_told() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let first = "--name b --initial-cluster a=http://127.0.0.1:1,b=http://127.0.0.1:2 \
                 --initial-advertise-peer-urls http://127.0.0.1:2";
    let (begun, _) = place(first, dir).unwrap();
    roster::store(dir, &begun.members).unwrap();
    let urls = begun.members.iter();
    let cluster = NewCluster {
        token: "t".to_owned(),
        members: urls
            .map(|member| (ReplicaId(member.number), member.url.clone()))
            .collect(),
        protocol: "rabia".to_owned(),
        durability: Durability::Disk,
        params: BTreeMap::new(),
    };
    quorate_server::bootstrap(dir, &cluster.meta(ReplicaId(2))).unwrap();
    for line in [
        first,
        "--name b",
        "--name b --initial-cluster-state existing",
        "--name other --initial-cluster other=http://127.0.0.1:9,b=http://127.0.0.1:8",
        "--discovery-srv nowhere.invalid",
    ] {
        let (place, _) = place(line, dir).unwrap();
        let is_new = false;
        let is_of_folder = true;
        let expected = Place {
            is_new,
            is_of_folder,
            ..begun.clone()
        };
        assert_eq!(place, expected, "{line}");
    }
    // A folder that `quorate serve` began has no names in it.
    std::fs::remove_file(dir.join("initial-cluster")).unwrap();
    assert_eq!(place("--name x", dir).unwrap().0.members.len(), 1);
    assert_eq!(place(first, dir).unwrap().0.members, begun.members);
}

#[test]
fn what_makes_no_sense_is_refused_as_etcd_refuses_it() {
    let home = tempfile::tempdir().unwrap();
    for (line, why) in [
        (
            "--listen-client-urls http://127.0.0.1:1",
            "--advertise-client-urls is required when --listen-client-urls is set explicitly",
        ),
        (
            "--name a --initial-cluster b=http://127.0.0.1:2380",
            "couldn't find local name \"a\" in the initial cluster configuration",
        ),
        (
            "--name a --initial-cluster a=http://127.0.0.1:1 --initial-advertise-peer-urls http://127.0.0.1:2",
            "--initial-cluster has a=http://127.0.0.1:1 but missing from \
             --initial-advertise-peer-urls=http://127.0.0.1:2",
        ),
        (
            "--initial-cluster-state old",
            "unexpected clusterState \"old\"",
        ),
        ("--initial-cluster-state existing", "names no other member"),
        ("--heartbeat-interval 0", "--heartbeat-interval must be >0"),
        (
            "--heartbeat-interval 300",
            "--election-timeout[1000ms] should be at least as 5 times as --heartbeat-interval[300ms]",
        ),
        (
            "--election-timeout 60000",
            "is too long, and should be set less than 50000ms",
        ),
        ("--log-level loud", "unrecognized level: \"loud\""),
        ("--log-format xml", "unknown log format: \"xml\""),
        ("--name a=b", "has characters that no name may have"),
        (
            "--force-new-cluster",
            "--force-new-cluster: writes may be lost",
        ),
        ("--discovery https://d", "--discovery: services of etcd 2"),
        (
            "--discovery-srv d --initial-cluster default=http://127.0.0.1:1",
            "multiple discovery or bootstrap flags are set",
        ),
    ] {
        let said = place(line, home.path()).unwrap_err();
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn what_has_no_meaning_is_warned_of_once_and_defaults_are_not() {
    let plan = plan(
        "--max-wals 9 --max-snapshots 5 --pre-vote=false --pre-vote=true --force-new-cluster=false --proxy off \
         --backend-batch-interval 0",
    );
    let said = "--max-wals has no meaning here: files of the log are freed once two snapshots are past them";
    assert_eq!(plan.unwrap().warnings, [said]);
}

/// Nothing that is asked for is left out, and nothing that guards is missing.
#[test]
fn every_flag_that_is_handed_on_is_an_option_of_serve() {
    let commands = Cli::command();
    let serve = commands.find_subcommand("serve").unwrap();
    let options: Vec<&str> = serve
        .get_arguments()
        .filter_map(|one| one.get_long())
        .collect();
    let handed_on = FLAGS.iter().filter_map(|flag| match flag.fate {
        Fate::Serve { option, .. } => Some((flag.name, option)),
        _ => None,
    });
    let missing: Vec<_> = handed_on
        .filter(|(_, option)| !options.contains(option))
        .collect();
    assert!(missing.is_empty(), "serve has no option for {missing:?}");
}

#[test]
fn logs_are_as_etcd_writes_them() {
    let plan = plan("--log-level fatal --log-outputs default,/tmp/x,stdout --log-format console");
    let log = plan.unwrap().log;
    assert_eq!(log.level, "error");
    assert_eq!(log.outputs, ["stderr", "/tmp/x", "stdout"]);
    assert_eq!(log.format, crate::modes::LogFormat::Text);
    let log = super::tests::plan("--quorate-log-level info,quorate_server=debug");
    let log = log.unwrap().log;
    assert_eq!(log.level, "info,quorate_server=debug");
    assert_eq!(log.format, crate::modes::LogFormat::Json);
}

/// The page's tables of flags, made of the table in the code. What differs is shown whole, to be copied.
#[test]
fn the_guide_lists_every_flag_as_the_table_has_it() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/from-etcd.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("flags.txt -->\n").unwrap();
    let (tables, _) = rest.split_once("<!-- end of flags -->").unwrap();
    let (mut expected, mut section) = (String::new(), "");
    for flag in FLAGS.iter() {
        if flag.section != section {
            section = flag.section;
            expected.push_str(&format!(
                "\n### {section}\n\n| flag | etcd's default | here |\n|---|---|---|\n"
            ));
        }
        let default = match flag.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let what = match flag.fate {
            Fate::Used | Fate::Serve { .. } => "",
            Fate::Moot => "no meaning: ",
            Fate::Refused => "refused: ",
        };
        let (name, why) = (flag.name, flag.why);
        expected.push_str(&format!("| `--{name}` | {default} | {what}{why} |\n"));
    }
    assert!(
        tables.trim() == expected.trim(),
        "the page is to have\n{expected}"
    );
}
