//! Redis servers beside replicas: the drivers of the effects mode over hosts, protocols and disks as they are.
//!
//! The servers, their clients and their judges are those of `lab/redis-sim`; the cluster here takes the place of its
//! stand-in for the log. A replica's driver ends with its process, and stands still while that is stopped.

use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, World};
use quorate_core::{MICROS, Machine, Principal, SECONDS};
use quorate_host::{Answer, Request, Token};
use quorate_redis_sim::Wanted;

/// How often servers and drivers go on.
const STEP_NS: u64 = 200 * MICROS;
/// How much longer servers may take to come to rest than replicas.
const REST_NS: u64 = 60 * SECONDS;

fn wrong(why: String) -> Violation {
    Violation::new("effects", why)
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Servers, drivers and clients go on, and what drivers want is asked of their hosts.
    pub(crate) fn servers_go_on(&mut self) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let Some(servers) = &mut self.servers else {
            return Ok(());
        };
        self.queue.after(STEP_NS, Event::Servers);
        for (index, node) in self.nodes.iter().enumerate() {
            if node.busy_until_ns > servers.stopped_ns[index] {
                servers.stopped_ns[index] = node.busy_until_ns;
                servers.beside.stopped(index, node.busy_until_ns);
            }
        }
        servers.beside.advance(now_ns).map_err(wrong)?;
        self.take_wanted();
        self.restart_failed();
        if self.clients.stopped {
            self.count_members();
        }
        Ok(())
    }

    fn take_wanted(&mut self) {
        let wanted = self.servers.as_mut();
        for wanted in wanted.map_or(Vec::new(), |servers| servers.beside.take_wanted()) {
            let (asker, request) = match wanted {
                Wanted::Submit(asker, body) => {
                    let (payloads, principal) = (Vec::new(), Principal::default());
                    let request = Request::Write {
                        body,
                        payloads,
                        principal,
                    };
                    (asker, request)
                }
                Wanted::Read(asker) => (asker, Request::Read(A::read(&A::get(0)))),
                Wanted::Restart(index) => {
                    if let Some(servers) = &mut self.servers {
                        servers.restarts.insert(index);
                    }
                    continue;
                }
            };
            let token = self.servers.as_mut().map(|servers| servers.token(asker));
            self.send_request(asker.0, token.unwrap_or_default(), request);
        }
    }

    /// Where a driver has failed for want of luck, its operator starts the process anew.
    fn restart_failed(&mut self) {
        let failed = self
            .servers
            .as_ref()
            .map(|servers| servers.restarts.clone());
        failed
            .into_iter()
            .flatten()
            .for_each(|index| self.restart(index));
    }

    /// The process of a replica runs.
    pub(crate) fn servers_begin(&mut self, index: usize) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let host = self.nodes[index].host.as_ref();
        let shared = host.and_then(|host| host.look().app().shared());
        if let Some((servers, shared)) = self.servers.as_mut().zip(shared) {
            servers.beside.advance(now_ns).map_err(wrong)?;
            servers.restarts.remove(&index);
            servers.beside.began(index, &shared).map_err(wrong)?;
        }
        Ok(())
    }

    /// The process of a replica has ended.
    pub(crate) fn servers_end(&mut self, index: usize) {
        if let Some(servers) = &mut self.servers {
            servers.beside.ended(index);
            servers.stopped_ns[index] = 0;
        }
    }

    /// A host has had a turn: its driver learns what was applied.
    pub(crate) fn servers_learn(&mut self, index: usize) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let Some(servers) = &mut self.servers else {
            return Ok(());
        };
        servers.beside.applied(index, now_ns).map_err(wrong)
    }

    /// A driver has its answer.
    pub(crate) fn driver_answered(
        &mut self,
        token: Token,
        answer: &Answer<A::Answer>,
    ) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let Some(servers) = &mut self.servers else {
            return Ok(());
        };
        let asker = servers.asker(token);
        servers.beside.advance(now_ns).map_err(wrong)?;
        match answer {
            Answer::Applied(_, result) => servers.beside.result(asker, Some(result.clone())),
            Answer::Read(_, state) => servers.beside.read(asker, A::stream_state(state)),
            // A driver knows by its token what it has asked for.
            Answer::Payload(_) | Answer::Refused(_) => {
                servers.beside.result(asker, None);
                servers.beside.read(asker, None);
            }
        }
        Ok(())
    }

    /// Nothing goes wrong with servers any more.
    pub(crate) fn heal_servers(&mut self) {
        if let Some(servers) = &mut self.servers {
            servers.beside.heal();
        }
    }

    /// Whether all servers of members have come to rest.
    pub(crate) fn servers_rest(&self) -> bool {
        let servers = self.servers.as_ref();
        servers.is_none_or(|servers| servers.beside.is_calm())
    }

    /// Who is no member any more need not come to rest.
    fn count_members(&mut self) {
        let newest = self.newest_epoch();
        let members: Vec<bool> = (0..self.nodes.len())
            .map(|index| newest.has(self.member(index)))
            .collect();
        if let Some(servers) = &mut self.servers {
            for (index, is_member) in members.into_iter().enumerate() {
                servers.beside.set_member(index, is_member);
            }
        }
    }

    /// How much longer a cluster with servers may take to come to rest.
    pub(crate) fn servers_patience_ns(&self) -> u64 {
        self.servers.as_ref().map_or(0, |_| REST_NS)
    }

    /// What servers do that do not come to rest.
    pub(crate) fn describe_servers(&self) -> String {
        let servers = self.servers.as_ref();
        servers.map_or(String::new(), |servers| servers.beside.describe())
    }

    /// What happened to servers, for people.
    pub(crate) fn trace_servers(&mut self) {
        let now_ns = self.queue.now_ns();
        if let Some(servers) = &mut self.servers {
            for line in servers.beside.take_trace() {
                self.trace.event(now_ns, "servers", &[], || line);
            }
        }
    }

    /// Whether clients of servers were answered as by one without faults.
    pub(crate) fn judge_servers(&mut self) -> Result<(), Violation> {
        let Some(servers) = &mut self.servers else {
            return Ok(());
        };
        let report = servers.beside.judge().map_err(wrong)?;
        let mut count = |what, count: usize| {
            *self.totals.faults.entry(what).or_default() += count as u64;
        };
        count("server answered", report.answered);
        count("server continued", report.continued);
        count("server had a tail", report.tails);
        count("server saved", report.saved);
        count("executor changed", report.epochs as usize);
        Ok(())
    }
}
