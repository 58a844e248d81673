//! Whether fingerprints tell enough: two states that have the same one must answer everything alike.

use crate::host_model::{Act, Fault, HostModel, Told};
use crate::interner::Interner;
use crate::node::{Node, Print};
use crate::panics::Guard;
use crate::scope::{Disks, Scope};
use quorate_core::{Introspect, Plain, Seat};
use quorate_protocols::Protocol;
use quorate_protocols::rabia::Rabia;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::hash::Hasher;

/// Passes on the first so many pieces of a fingerprint: what comes later is left out.
struct Blinkered<'a, H> {
    inner: &'a mut H,
    left: usize,
}

impl<H: Hasher> Hasher for Blinkered<'_, H> {
    fn finish(&self) -> u64 {
        self.inner.finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.left > 0 {
            self.left -= 1;
            self.inner.write(bytes);
        }
    }
}

/// Pairs of states looked at, and how many of them did not answer alike.
#[derive(Default, Debug)]
struct Pairs {
    /// Whose machines were come by in different ways.
    compared: usize,
    different: usize,
}

/// Walks through states of single replicas that hear whatever any replica says, and compares each
/// with the first one of the same print, `pieces` of the machine's fingerprint taken into account.
fn compare<P: Protocol>(scope: &Scope, pieces: usize, states_max: usize) -> Pairs {
    let configure = |seat: &Seat| P::config(seat).expect("its parameters are right");
    let model = HostModel::<P::Machine> {
        scope,
        seed: scope.seeds()[0],
        configure: &configure,
    };
    let print = |node: &Node<P::Machine>| {
        node.print_by(|machine, to| {
            Introspect::fingerprint(
                machine,
                &mut Blinkered {
                    inner: to,
                    left: pieces,
                },
            );
        })
    };
    let mut interner = Interner::new();
    let mut known: BTreeMap<Print, Node<P::Machine>> = BTreeMap::new();
    let first = (0..scope.n).map(|me| {
        model
            .first(me, &mut interner, &mut Told(None))
            .expect("it starts")
    });
    let mut open = first.collect::<VecDeque<_>>();
    let mut pairs = Pairs::default();
    while let Some(node) = open.pop_front() {
        match known.get(&print(&node)) {
            Some(twin) => {
                pairs.compared += 1;
                let is_alike = answers(&model, twin, &mut interner, &print)
                    == answers(&model, &node, &mut interner, &print);
                pairs.different += usize::from(!is_alike);
            }
            None if known.len() < states_max => {
                for act in acts(scope, &node, &interner) {
                    let next = apply(&model, &node, act, &mut interner, &mut Told(None));
                    open.extend(next.ok().flatten());
                }
                known.insert(print(&node), node);
            }
            None => {}
        }
    }
    pairs
}

/// Everything that may happen to a replica by itself or through a message said so far.
fn acts<M: Plain>(scope: &Scope, node: &Node<M>, interner: &Interner<M>) -> Vec<Act> {
    if node.machine.is_none() {
        return Vec::new();
    }
    let clock = 0;
    let mails = 0..interner.mail_count() as u32;
    let mails = mails.filter(|mail| interner.mail(*mail).to == node.me);
    let mut acts = mails
        .map(|mail| Act::Hear { mail, clock })
        .collect::<Vec<_>>();
    let writes = 1..=node.disk.writes.len() as u8;
    acts.extend(writes.map(|writes| Act::Flush { writes }));
    if node.fired < scope.fires {
        acts.extend((0..node.timers.len() as u8).map(|timer| Act::Fire { timer, clock }));
    }
    if node.crashes < scope.crashes {
        let lines = node.disk.durable as u8..=node.disk.lines.len() as u8;
        acts.extend(lines.map(|lines| Act::Crash { lines }));
    }
    let is_open = |request: &usize| {
        scope.requests[*request].at == node.me && node.submitted & 1 << request == 0
    };
    let open = (0..scope.requests.len()).filter(is_open);
    acts.extend(open.map(|request| Act::Submit {
        request: request as u8,
        clock,
        floor: 0,
    }));
    acts
}

/// What comes of a step; what one replica hears here is not what one cluster could say, so that
/// lemmas may be broken, which ends the way.
fn apply<M: Plain>(
    model: &HostModel<'_, M>,
    node: &Node<M>,
    act: Act,
    interner: &mut Interner<M>,
    told: &mut Told,
) -> Result<Option<Node<M>>, Fault> {
    Guard::new(None).run(|| model.apply(node, act, &[], interner, told))
}

/// An input, what was said about it, and where it leads.
type Answer = (Act, Vec<String>, Result<Option<Print>, Fault>);

/// What a state answers to everything: every output in words, and the print of what comes of it.
fn answers<M: Plain>(
    model: &HostModel<'_, M>,
    node: &Node<M>,
    interner: &mut Interner<M>,
    print: &impl Fn(&Node<M>) -> Print,
) -> Vec<Answer> {
    let acts = acts(model.scope, node, interner);
    let answer = |act| {
        let mut told = Told(Some(Vec::new()));
        let next = apply(model, node, act, interner, &mut told);
        let next = next.map(|next| next.map(|next| print(&next)));
        (act, told.0.unwrap_or_default(), next)
    };
    acts.into_iter().map(answer).collect()
}

/// Everything that may happen to three replicas: slow disks, crashes, timers.
fn scope() -> Scope {
    let mut all = crate::table::configurations();
    let crash = all.find(|scope| scope.name == "n3-crash");
    Scope {
        depth: 3,
        fires: 2,
        lost: &[],
        disks: Disks::Slow,
        ..*crash.expect("it is in the table")
    }
}

const STATES: usize = 100;

#[test]
fn states_with_equal_fingerprints_answer_every_input_alike() {
    let pairs = compare::<Rabia>(&scope(), usize::MAX, STATES);
    assert!(
        pairs.compared > STATES,
        "{pairs:?}: every state was come by in several ways"
    );
    assert_eq!(pairs.different, 0, "{pairs:?}");
}

/// The test above notices what is missing.
#[test]
fn a_fingerprint_that_leaves_something_out_is_noticed() {
    let pairs = compare::<Rabia>(&scope(), 8, STATES);
    assert!(pairs.different > 0, "{pairs:?}");
}
