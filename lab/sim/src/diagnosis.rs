//! What is stuck where: a run that does not end says what waits for what.

use crate::report::Violation;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::{MICROS, Machine, PayloadId};
use std::collections::BTreeSet;

/// Payloads that a run waits for in vain, of which it says what there is.
const PAYLOADS_SHOWN: usize = 12;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A liveness violation: every operation without an answer, then every replica.
    pub(crate) fn stuck(&self, why: &str) -> Violation {
        let mut what = format!(
            "{why}, in {:?}, {} operations done",
            self.phase, self.clients.completed
        );
        what.push_str(&self.clients.describe_pending(self.queue.now_ns()));
        what.push_str(&self.describe_missing_payloads());
        for index in 0..self.nodes.len() {
            what.push_str(&format!("\n    replica {}: ", index + 1));
            what.push_str(&self.describe_node(index));
        }
        what.push_str(&self.describe_servers());
        Violation::new("liveness", what)
    }

    /// Of every payload that is waited for or lacking somewhere, what each replica that is up has.
    fn describe_missing_payloads(&self) -> String {
        let hosts = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let mut missing: BTreeSet<PayloadId> =
            hosts.flat_map(|host| host.look().lacking()).collect();
        missing.extend(self.clients.payloads_wanted());
        let lines = missing.into_iter().take(PAYLOADS_SHOWN).map(|payload| {
            let holders = self.nodes.iter().enumerate().filter_map(|(index, node)| {
                let host = node.host.as_ref()?;
                let here = host
                    .look()
                    .fragments()
                    .filter(|found| found.payload == payload);
                let names = here.map(|found| format!("X{}#{}", found.code, found.index));
                let names: Vec<String> = names.collect();
                Some(format!("r{} [{}]", index + 1, names.join(" ")))
            });
            let holders: Vec<String> = holders.collect();
            format!("\n    fragments of {payload:?}: {}", holders.join(", "))
        });
        lines.collect()
    }

    fn describe_node(&self, index: usize) -> String {
        let now_ns = self.queue.now_ns();
        let node = &self.nodes[index];
        let role = match &node.host {
            None => "down",
            Some(_) if node.left_out => "cut off",
            Some(host) if host.look().machine().is_none() => {
                "not serving, for it lacks decided slots"
            }
            Some(host) if !host.look().is_serving() => "not serving, for it lost its promises",
            Some(_) => "serving",
        };
        let mut parts = vec![role.to_string()];
        if node.busy_until_ns > now_ns {
            parts.push(format!(
                "stopped for {} us",
                (node.busy_until_ns - now_ns) / MICROS
            ));
        }
        if node.in_flight.is_some() {
            parts.push("its disk is syncing".into());
        }
        if !node.inbox.is_empty() {
            parts.push(format!("{} inputs wait for its turn", node.inbox.len()));
        }
        if !node.snapshot_writes.is_empty() {
            parts.push(format!(
                "{} snapshot writes wait",
                node.snapshot_writes.len()
            ));
        }
        let deaf: Vec<String> = (0..self.nodes.len())
            .filter(|peer| *peer != index && !self.network.is_open(*peer, index))
            .map(|peer| format!("r{}", peer + 1))
            .collect();
        if !deaf.is_empty() {
            parts.push(format!("hears nothing from {}", deaf.join(", ")));
        }
        if let Some(host) = &node.host {
            let (_, digest) = host.look().digest();
            let mono_ns = node.clock.now(now_ns).mono_ns;
            parts.push(format!(
                "digest {digest:016x}, {}",
                host.look().explain(mono_ns)
            ));
            parts.push(format!("{:?}", host.look().counters()));
            if let Some(kept) = host.look().app().revisions() {
                parts.push(format!("leases and their keys {:?}", kept.leases()));
            }
            parts.push(format!("next countdown {:?}", node.countdowns.next()));
        }
        parts.join("; ")
    }
}
