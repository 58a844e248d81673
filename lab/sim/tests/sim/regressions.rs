//! What once went wrong here or in etcd, asked of every registered protocol: each test is named after the
//! mistake, with the number of etcd's issue if it was one of etcd's.

use crate::cluster::{Cluster, Disk, at, open, put, range, write};
use quorate_core::{Application, Durability, MILLIS, SECONDS, Slot};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
};
use quorate_etcd_store::{KeyHash, Query, QueryAnswer as Found, Store, command};
use quorate_host::epochs::{Configuration, Expect, Order, Reconfigure};
use quorate_host::{Answer, Completed, Host, Request, Start, Token};
use quorate_protocols::{Protocol, Visitor, names, visit};
use std::collections::BTreeMap;

/// Runs a scenario with every protocol.
macro_rules! with_every_protocol {
    ($scenario:ident) => {{
        struct Scenario;
        impl Visitor for Scenario {
            type Output = ();
            fn visit<P: Protocol>(self) {
                $scenario::<P>();
            }
        }
        for name in names() {
            visit(name, Scenario).expect("it is registered");
        }
    }};
}

/// The value of a key, as an answer to a read of it has it.
fn value(answer: &Answer<Found>) -> &[u8] {
    match answer {
        Answer::Read(_, Found::Range(found)) => &found.kvs[0].value,
        other => panic!("{other:?}"),
    }
}

/// etcd #20418: a process stopped while it asked whether its state was recent enough, and took an
/// old yes for an answer to what it asked after it went on.
#[test]
fn a_read_after_a_pause_is_not_stale() {
    with_every_protocol!(read_after_a_pause);
}

fn read_after_a_pause<P: Protocol>() {
    let mut cluster = Cluster::<P::Machine>::new::<P>(3);
    cluster.done(0, put("k", "old", 0));
    cluster.level();
    // Replica 3 asks, is heard, and stops before it hears the answers.
    let before = cluster.ask(2, Request::Read(range("k", "")));
    cluster.turn(2);
    cluster.deliver();
    cluster.stopped[2] = true;
    cluster.turn(0);
    cluster.turn(1);
    let answers = std::mem::take(&mut cluster.wire);
    cluster.done(0, put("k", "new", 0));
    // It goes on: somebody asks it, and only then do the old answers arrive.
    let after = cluster.ask(2, Request::Read(range("k", "")));
    cluster.stopped[2] = false;
    cluster.turn(2);
    let asked = std::mem::replace(&mut cluster.wire, answers);
    cluster.deliver();
    cluster.turn(2);
    let is_new = |answer: &Answer<Found>| value(answer) == b"new";
    assert!(
        cluster.answer(after).is_none_or(is_new),
        "{}: stale",
        P::NAME
    );
    cluster.wire.extend(asked);
    cluster.run_until(|c| c.answer(before).is_some() && c.answer(after).is_some());
    assert!(
        cluster.answer(after).is_some_and(is_new),
        "{}: stale",
        P::NAME
    );
}

/// etcd #21378: the answer to a question about reads came from a leader that was deposed meanwhile, and was taken.
#[test]
fn a_read_is_not_stale_for_what_a_deposed_leader_says() {
    with_every_protocol!(reads_across_a_change_of_leader);
}

fn reads_across_a_change_of_leader<P: Protocol>() {
    // Whoever leads, if anybody does, is one of these.
    for former in 0..3 {
        let (asker, third) = ((former + 1) % 3, (former + 2) % 3);
        let mut cluster = Cluster::<P::Machine>::new::<P>(3);
        cluster.done(former, put("k", "old", 0));
        cluster.level();
        // The others ask, are heard by all, and hear no answers yet.
        let before = cluster.ask(asker, Request::Read(range("k", "")));
        cluster.turn(asker);
        cluster.deliver();
        cluster.turn(former);
        cluster.turn(third);
        let answers = std::mem::take(&mut cluster.wire);
        // They go on without the one that may have led.
        cluster.stopped[former] = true;
        cluster.done(third, put("k", "new", 0));
        cluster.wire.clear();
        cluster.stopped[former] = false;
        // Now the asker hears that one alone: what it said before, and what it says now.
        cluster.stopped[third] = true;
        let after = cluster.ask(asker, Request::Read(range("k", "")));
        let own = cluster.ask(former, Request::Read(range("k", "")));
        cluster.turn(asker);
        cluster.wire.extend(answers);
        let is_new = |answer: &Answer<Found>| value(answer) == b"new";
        for _ in 0..TURNS_QUIET {
            cluster.now_ns += MILLIS;
            cluster.deliver();
            cluster.turn(asker);
            cluster.turn(former);
            for token in [after, own] {
                let told = cluster.answer(token);
                assert!(told.is_none_or(is_new), "{} of {former}: stale", P::NAME);
            }
        }
        cluster.stopped[third] = false;
        cluster.run_until(|c| [before, after, own].iter().all(|t| c.answer(*t).is_some()));
        for token in [after, own] {
            let told = cluster.answer(token);
            assert!(told.is_some_and(is_new), "{} of {former}: stale", P::NAME);
        }
    }
}

/// etcd #15247: a leader that was stuck came back and ended all leases, which others had renewed
/// meanwhile.
#[test]
fn a_stuck_replica_does_not_end_the_leases_others_renewed() {
    with_every_protocol!(leases_of_a_stuck_replica);
}

fn leases_of_a_stuck_replica<P: Protocol>() {
    const LEASES: i64 = 10;
    let mut cluster = Cluster::<P::Machine>::new::<P>(3);
    for id in 1..=LEASES {
        let grant = LeaseGrantRequest { id, ttl: 2 };
        cluster.done(0, command::encode_lease_grant(&grant));
        cluster.done(0, put(&format!("k{id}"), "v", id));
    }
    cluster.level();
    cluster.stopped[2] = true;
    for _ in 0..4 {
        cluster.now_ns += SECONDS;
        for id in 1..=LEASES {
            let renew = LeaseKeepAliveRequest { id };
            cluster.done(0, command::encode_lease_renew(&renew));
        }
    }
    // To replica 3 all of them are over, and it says so before it hears anything.
    let ended = cluster.order_due(2);
    assert_eq!(ended as i64, LEASES);
    cluster.turn(2);
    cluster.stopped[2] = false;
    cluster.run_until(|cluster| cluster.hosts.iter().all(|host| host.look().waiting() == 0));
    cluster.level();
    for host in &cluster.hosts {
        let Found::Leases(_, ids) = host.look().app().query(&Query::Leases) else {
            panic!("the leases can be read");
        };
        assert_eq!(ids.len() as i64, LEASES, "{}", P::NAME);
        let Found::Range(keys) = host.look().app().query(&range("k", "l")) else {
            panic!("the keys can be read");
        };
        assert_eq!(keys.count, LEASES, "{}", P::NAME);
    }
    // Left alone, they do end.
    cluster.now_ns += 3 * SECONDS;
    assert_eq!(cluster.order_due(0) as i64, LEASES);
    cluster.run_until(|cluster| cluster.hosts.iter().all(|host| host.look().waiting() == 0));
    cluster.level();
    assert_eq!(
        cluster.hosts[2].look().app().status().keys,
        0,
        "{}",
        P::NAME
    );
}

/// Turns, 1 ms apart, without a sync after which none is to come: more than an election takes.
const TURNS_QUIET: usize = 300;

/// A replica of one, what it has written, and what of it a crash leaves.
struct Single<P: Protocol> {
    host: Host<P::Machine, Store>,
    answers: Vec<(Token, Answer<Found>)>,
    now_ns: u64,
    written: Disk,
    disk: Disk,
}

impl<P: Protocol> Single<P> {
    fn new(start: Start, mut disk: Disk) -> Self {
        let host = open::<P>((0, 1), Durability::Disk, start, &mut disk);
        let written = disk.clone();
        Single {
            host,
            answers: Vec::new(),
            now_ns: 1,
            written,
            disk,
        }
    }

    fn submit(&mut self, token: Token, request: Request<Query>) {
        self.host.submit(at(self.now_ns), token, request);
    }

    /// Waits for the only answer; says after how many syncs it came.
    fn answer(&mut self) -> (Answer<Found>, usize) {
        for syncs in 0.. {
            let wanted = self.sync_wanted();
            if let Some((_, answer)) = self.answers.pop() {
                return (answer, syncs);
            }
            self.sync(&wanted.expect("without an answer, something needs the disk"));
        }
        unreachable!("it does not sync for ever")
    }

    /// Turns until a sync is asked for; `None` if nothing is to be synced any more.
    fn sync_wanted(&mut self) -> Option<quorate_host::Flush> {
        for _ in 0..TURNS_QUIET {
            self.now_ns += MILLIS;
            let now = at(self.now_ns);
            self.host.turn(now);
            loop {
                let effects = self.host.take_effects(now);
                self.answers.extend(effects.answers);
                let Some(flush) = effects.flush else { break };
                if flush.sync {
                    return Some(flush);
                }
                self.written.perform(&flush);
                self.host.completed(now, Completed::Flush(flush.through));
            }
        }
        None
    }

    fn sync(&mut self, flush: &quorate_host::Flush) {
        self.written.perform(flush);
        self.disk = self.written.clone();
        self.host
            .completed(at(self.now_ns), Completed::Flush(flush.through));
    }
}

/// etcd #14370: a member alone answered a write before it was on its disk, and lost it.
#[test]
fn a_replica_alone_answers_nothing_that_a_crash_could_lose() {
    with_every_protocol!(alone);
}

fn alone<P: Protocol>() {
    let mut single = Single::<P>::new(Start::FirstBoot, Disk::default());
    while let Some(flush) = single.sync_wanted() {
        single.sync(&flush);
    }
    single.submit(1, write(put("k", "v", 0)));
    let (_, syncs) = single.answer();
    assert!(syncs > 0, "{}: answered before any sync", P::NAME);
    // All that was not synced is lost.
    let mut single = Single::<P>::new(Start::Resume, single.disk);
    single.submit(2, Request::Read(range("k", "")));
    let (answer, _) = single.answer();
    assert_eq!(value(&answer), b"v", "{}: it is lost", P::NAME);
}

/// etcd #13766, #17780: after a crash, in a compaction too, a member had another revision than before
/// for what it had applied.
#[test]
fn the_revision_after_a_crash_is_that_of_what_was_applied() {
    with_every_protocol!(crash_at_every_flush);
}

fn crash_at_every_flush<P: Protocol>() {
    let mut single = Single::<P>::new(Start::FirstBoot, Disk::default());
    let mut states: BTreeMap<Slot, (u64, KeyHash)> = BTreeMap::new();
    let mut disks = Vec::new();
    for n in 0..40_i64 {
        single.submit(n as u64, write(change(n)));
        while let Some(flush) = single.sync_wanted() {
            single.sync(&flush);
            single.host.tidy();
            states.extend(decided_state(&single.host));
            disks.push(single.disk.clone());
        }
        states.extend(decided_state(&single.host));
    }
    assert!(states.len() > 30 && disks.len() > 30);
    let mut recovered = 0;
    for disk in disks {
        let mut again = Single::<P>::new(Start::Resume, disk);
        while again.host.look().is_ahead()
            && let Some(flush) = again.sync_wanted()
        {
            again.sync(&flush);
        }
        let Some((slot, after)) = decided_state(&again.host) else {
            continue;
        };
        if let Some(before) = states.get(&slot) {
            assert_eq!(&after, before, "{}", P::NAME);
            recovered += 1;
        }
    }
    assert!(recovered > 30, "{}: {recovered} say too little", P::NAME);
}

/// Puts, deletions of the newest key, and compactions up to these very deletions.
fn change(n: i64) -> bytes::Bytes {
    match n % 4 {
        0 | 1 => put(&format!("k{}", n / 4 % 3), "v", 0),
        2 => Store::encode_delete_range(&DeleteRangeRequest {
            key: format!("k{}", n / 4 % 3).into(),
            ..DeleteRangeRequest::default()
        }),
        // Three of four commands have a revision, the first is 2.
        _ => Store::encode_compact(&CompactionRequest {
            revision: 1 + n - n / 4,
            physical: false,
        }),
    }
}

/// Through where a host has applied, the digest of that, and of the keys with their revisions; `None`
/// while it has executed more.
fn decided_state<M: quorate_core::Machine>(
    host: &Host<M, Store>,
) -> Option<(Slot, (u64, KeyHash))> {
    let hash = host
        .look()
        .app()
        .hash(0)
        .expect("the present can be hashed");
    (!host.look().is_ahead()).then(|| (host.look().applied(), (host.look().digest().1, hash)))
}

/// Most members have lost their promises since they started, one after the other, and each has made up for it. The
/// epoch that begins then is one of which none of them forgot anything: nobody waits for the others to recover from.
#[test]
fn an_epoch_begins_although_most_members_once_lost_their_promises() {
    with_every_protocol!(losses_before_an_epoch);
}

fn losses_before_an_epoch<P: Protocol>() {
    let mut cluster = Cluster::<P::Machine>::new::<P>(3);
    cluster.done(0, put("k", "before", 0));
    for index in [1, 0] {
        cluster.replace(index, |disk| {
            open::<P>((index, 3), Durability::Memory, Start::Resume, disk)
        });
        cluster.run_until(|cluster| cluster.hosts[index].look().is_serving());
        cluster.done(2, put("k", "meanwhile", 0));
        cluster.level();
    }
    renew(&mut cluster, &[0, 1, 2]);
    for index in 0..3 {
        cluster.done(index, put("k", "after", 0));
    }
    cluster.level();
}

/// The group begins the next epoch with the same configuration, and these replicas are in it.
fn renew<M: quorate_core::Machine>(cluster: &mut Cluster<M>, through: &[usize]) {
    let epoch = cluster.hosts[2].look().epoch().clone();
    let order = Order::Reconfigure(Reconfigure {
        expect: Expect::of(&epoch),
        configuration: Configuration::of(&epoch),
    });
    let ordered = cluster.ask(2, Request::Order(order));
    cluster.run_until(|cluster| cluster.answer(ordered).is_some());
    let answer = cluster.answer(ordered);
    assert!(matches!(answer, Some(Answer::Applied(..))), "{answer:?}");
    let is_in_it = |host: &Host<M, Store>| host.look().epoch().number > epoch.number;
    cluster.run_until(|cluster| through.iter().all(|index| is_in_it(&cluster.hosts[*index])));
}

/// A replica loses its log, notes that, and stops before it found out of which epochs it lost promises. The log that it
/// finds the next time is whole, and it may still have had a part in any: it begins as one that forgot.
#[test]
fn who_may_have_promised_in_an_epoch_says_so_after_another_start() {
    with_every_protocol!(losses_and_another_start);
}

fn losses_and_another_start<P: Protocol>() {
    let open_again = |disk: &mut Disk| open::<P>((0, 3), Durability::Disk, Start::Resume, disk);
    let mut cluster = Cluster::<P::Machine>::begin::<P>(3, Durability::Disk);
    cluster.done(0, put("k", "before", 0));
    cluster.level();
    cluster.disks[0] = Disk::default();
    cluster.replace(0, open_again);
    cluster.turn(0);
    cluster.stopped[0] = true;
    renew(&mut cluster, &[1, 2]);
    cluster.stopped[0] = false;
    cluster.replace(0, open_again);
    cluster.run_until(|cluster| {
        let host = cluster.hosts[0].look();
        host.epoch().number == 2 && host.is_serving()
    });
    cluster.began.sort_unstable();
    let began = [(0, 2, false), (1, 2, true), (2, 2, true)];
    assert_eq!(cluster.began, began, "{}", P::NAME);
    cluster.done(0, put("k", "after", 0));
    cluster.level();
}
