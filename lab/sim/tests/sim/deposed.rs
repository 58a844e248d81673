//! A leader of Nezha that is deposed with entries executed and not committed, host and store included: nobody
//! is shown what is taken back, and it comes to the state of the others.

use crate::cluster::{Cluster, put, range};
use bytes::Bytes;
use quorate_core::Machine;
use quorate_etcd_store::{EventsQuery, Keys, Query, QueryAnswer as Found, Store};
use quorate_host::{Answer, Host, Request};
use quorate_protocols::nezha::Nezha;

/// The changes that a watcher at a replica has been told, and where it goes on.
struct Watcher {
    at: usize,
    from: i64,
    told: Vec<String>,
}

impl Watcher {
    fn new(at: usize) -> Watcher {
        Watcher {
            at,
            from: 1,
            told: Vec::new(),
        }
    }

    /// Reads what is new, as the hub of a server does after each turn.
    fn look<M: Machine>(&mut self, cluster: &mut Cluster<M>) {
        let (key, range_end) = (Bytes::from_static(b"k"), Bytes::new());
        let keys = Keys::Span { key, range_end };
        let watched = Query::Events(EventsQuery {
            keys,
            from: self.from,
        });
        let Found::Events(found) = peek(cluster, self.at, watched) else {
            panic!("no events");
        };
        for event in &found.events {
            let kv = event.kv.as_ref().expect("only puts");
            self.told
                .push(String::from_utf8_lossy(&kv.value).into_owned());
        }
        self.from = found.next;
    }
}

/// What a stale read of a replica shows right now.
fn peek<M: Machine>(cluster: &mut Cluster<M>, at: usize, query: Query) -> Found {
    let token = cluster.ask(at, Request::Peek(query));
    cluster.turn(at);
    match cluster.answer(token) {
        Some(Answer::Read(_, found)) => found.clone(),
        other => panic!("{other:?}"),
    }
}

fn value<M: Machine>(cluster: &mut Cluster<M>, at: usize) -> String {
    let Found::Range(found) = peek(cluster, at, range("k", "")) else {
        panic!("no range");
    };
    String::from_utf8_lossy(&found.kvs[0].value).into_owned()
}

/// Scenario: the leader of the first view executes two puts that reach nobody, and is shut out; the others go
/// on under the next leader, and answer a put of their own. Its clients have no answer, and neither its readers nor its watchers see
/// anything of them. Back among the others it takes them back, and everybody comes to the same: the puts are
/// decided after all, behind what was answered, and told once.
#[test]
fn a_deposed_leader_takes_back_what_it_executed_and_shows_it_to_nobody() {
    let mut cluster = Cluster::new::<Nezha>(3);
    let mut watchers = [0, 1, 2].map(Watcher::new);
    cluster.done(0, put("k", "first", 0));
    cluster.level();

    let shut_out = |cluster: &mut Cluster<_>| {
        let among_others = |(from, to, _): &(usize, usize, Bytes)| *from != 0 && *to != 0;
        cluster.wire.retain(among_others);
    };
    let lost = ["lost", "lost, too"].map(|value| cluster.write(0, put("k", value, 0)));
    let mut has_executed = false;
    let during = cluster.write(1, put("k", "second", 0));
    for _ in 0..5_000 {
        cluster.now_ns += 1_000_000;
        shut_out(&mut cluster);
        cluster.deliver();
        (0..3).for_each(|index| cluster.turn(index));
        has_executed |= cluster.hosts[0].look().is_ahead();
        assert_eq!(value(&mut cluster, 0), "first", "a stale read");
        for watcher in &mut watchers {
            watcher.look(&mut cluster);
        }
        assert!(lost.iter().all(|token| cluster.answer(*token).is_none()));
        if cluster.answer(during).is_some() {
            break;
        }
    }
    assert!(cluster.answer(during).is_some(), "the others went on");
    assert!(has_executed, "nothing was executed ahead at the leader");
    assert_eq!(watchers[0].told, ["first"]);
    assert_eq!(watchers[1].told, ["first", "second"]);

    shut_out(&mut cluster);
    cluster.run_until(|cluster| lost.iter().all(|token| cluster.answer(*token).is_some()));
    // An answer may be ahead of what everybody has applied.
    cluster.run_until(|cluster| {
        let has_all =
            |host: &Host<_, Store>| !host.look().is_ahead() && host.look().app().revision() == 5;
        cluster.hosts.iter().all(has_all)
    });
    cluster.level();
    for watcher in &mut watchers {
        watcher.look(&mut cluster);
    }
    let told = watchers[1].told.clone();
    assert_eq!(told[..2], ["first", "second"]);
    let mut late = told[2..].to_vec();
    late.sort_unstable();
    assert_eq!(
        late,
        ["lost", "lost, too"],
        "each once, behind what was answered"
    );
    assert!(watchers.iter().all(|watcher| watcher.told == told));
    let state = |cluster: &mut Cluster<_>, at| {
        let hash = Query::HashKv { revision: 0 };
        peek(cluster, at, hash)
    };
    let all = [0, 1, 2].map(|at| state(&mut cluster, at));
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
}
