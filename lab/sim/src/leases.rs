//! Leases in the workload, and their judge.
//!
//! Tenants take a lease each, put keys under it, renew it in time or a little too late, and leave
//! it behind. Whatever happens to replicas and links, a lease that somebody knows to be renewed
//! lives for its whole time from when the renewal was asked for; and once the clients have
//! stopped, every lease ends on every replica. The claim has no tolerance but for how much too fast
//! monotonic clocks may run.

use crate::judge::{Op, Request as Asked, Response, Returned};
use crate::network::chance;
use crate::report::{Totals, Violation};
use crate::requests;
use crate::rights::Behalf;
use crate::subject::{Chore, Subject};
use crate::world::{Event, World};
use quorate_core::{Countdown, MILLIS, Machine, Principal, SECONDS};
use quorate_etcd_store::{Asker, Store};
use quorate_host::{Answer, Directive, Request, Token};

/// Tokens from here on are chores'.
const CHORES: Token = 1 << 62;
/// Countdowns that one turn orders the commands of.
const DUE_MAX: usize = 256;
/// How far from a lease's end it may be renewed, before or after.
const CLOSE_NS: u64 = 20 * MILLIS;
/// A compaction keeps at most so many revisions.
const KEPT_MAX: i64 = 60;

/// Everything asked besides operations, and what is known of leases.
#[derive(Default)]
pub(crate) struct Leases {
    tenants: Vec<Tenant>,
    /// By number, from 1.
    leases: Vec<Lease>,
    errands: Vec<Errand>,
    /// How much too fast a monotonic clock may run, parts per million.
    fast_ppm: u64,
    /// No compaction above this was asked for.
    pub(crate) compacted_max: i64,
}

/// Something asked once.
struct Errand {
    what: What,
    /// For whom it was asked.
    asker: Asker,
    asked_ns: u64,
    /// When, by the stamps of the history, and what came of it.
    invoked: u64,
    returned: Option<Returned>,
}

#[derive(Clone, Debug)]
enum What {
    Chore(Chore),
    Request(Asked),
}

#[derive(Clone, Copy, Default)]
struct Tenant {
    lease: Option<u64>,
}

struct Lease {
    ttl_ns: u64,
    /// When the latest renewal that is known to have counted was asked for.
    renewed_ns: Option<u64>,
    /// Somebody asked for its end.
    revoked: bool,
    /// When it was first seen to be gone.
    gone_ns: Option<u64>,
}

impl Leases {
    pub(crate) fn new(tenants: usize, fast_ppm: u64) -> Self {
        Leases {
            fast_ppm,
            tenants: vec![Tenant::default(); tenants],
            ..Leases::default()
        }
    }

    pub(crate) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// Whether a token is none of the clients'.
    pub(crate) fn owns(token: Token) -> bool {
        token >= CHORES
    }

    /// The leases that tenants keep.
    pub(crate) fn held(&self) -> Vec<i64> {
        let held = self.tenants.iter().filter_map(|tenant| tenant.lease);
        held.map(|lease| lease as i64).collect()
    }

    /// What was asked and answered here, for the judge.
    pub(crate) fn history(&self, client: usize) -> Vec<Op> {
        let op = |errand: &Errand| Op {
            client,
            asker: errand.asker.clone(),
            request: match &errand.what {
                What::Request(request) => request.clone(),
                What::Chore(chore) => chore.request(),
            },
            invoked: errand.invoked,
            returned: errand.returned.clone(),
            reader: 0,
        };
        self.errands.iter().map(op).collect()
    }

    fn begin(&mut self, what: What, asker: Asker, invoked: u64, now_ns: u64) -> Token {
        match what {
            What::Request(Asked::Compact(revision)) => {
                self.compacted_max = self.compacted_max.max(revision);
            }
            What::Request(Asked::Revoke(lease)) => self.get(lease as u64).revoked = true,
            _ => {}
        }
        self.errands.push(Errand {
            what,
            asker,
            asked_ns: now_ns,
            invoked,
            returned: None,
        });
        CHORES + self.errands.len() as u64 - 1
    }

    fn grant(&mut self, ttl_s: u64) -> Chore {
        self.leases.push(Lease {
            ttl_ns: ttl_s * SECONDS,
            renewed_ns: None,
            revoked: false,
            gone_ns: None,
        });
        let lease = self.leases.len() as u64;
        Chore::Grant { lease, ttl_s }
    }

    fn get(&mut self, lease: u64) -> &mut Lease {
        &mut self.leases[lease as usize - 1]
    }

    /// A chore had its effect.
    fn done(&mut self, chore: Chore, asked_ns: u64, totals: &mut Totals) -> Result<(), String> {
        totals.granted += u64::from(matches!(chore, Chore::Grant { .. }));
        let (Chore::Grant { lease, .. } | Chore::Renew { lease }) = chore;
        let fast_ppm = self.fast_ppm;
        let known = self.get(lease);
        known.renewed_ns = known.renewed_ns.max(Some(asked_ns));
        known.judge(lease, fast_ppm)
    }

    /// A replica has seen the end of a lease.
    fn gone(&mut self, id: u64, now_ns: u64, totals: &mut Totals) -> Result<(), String> {
        let fast_ppm = self.fast_ppm;
        let lease = self.get(id);
        if lease.gone_ns.is_some() {
            return Ok(());
        }
        lease.gone_ns = Some(now_ns);
        totals.expired += u64::from(!lease.revoked);
        lease.judge(id, fast_ppm)
    }
}

impl Lease {
    /// A renewal that counted came before the end, so the end came its whole time later.
    fn judge(&self, id: u64, fast_ppm: u64) -> Result<(), String> {
        let (Some(renewed_ns), Some(gone_ns)) = (self.renewed_ns, self.gone_ns) else {
            return Ok(());
        };
        let least_ns = self.ttl_ns - self.ttl_ns * fast_ppm / 1_000_000;
        if self.revoked || gone_ns >= renewed_ns + least_ns {
            return Ok(());
        }
        let ms = |ns: u64| ns / MILLIS;
        Err(format!(
            "lease {id} of {} ms was renewed after {} ms and gone after {} ms",
            ms(self.ttl_ns),
            ms(renewed_ns),
            ms(gone_ns)
        ))
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Tenants and compactions begin.
    pub(crate) fn schedule_chores(&mut self) {
        for tenant in 0..self.leases.tenants() {
            let delay = self.rng.u64(..SECONDS);
            self.queue.after(delay, Event::Tenant { tenant });
        }
        self.schedule_compaction();
    }

    /// A tenant does the next thing.
    pub(crate) fn tenant_acts(&mut self, tenant: usize) {
        if self.clients.stopped {
            return;
        }
        let mut delay = self.rng.u64(20 * MILLIS..500 * MILLIS);
        let what = match self.leases.tenants[tenant].lease {
            None => What::Chore(self.leases.grant(self.rng.u64(2..=3))),
            Some(lease) => match self.rng.u8(..10) {
                0 => What::Request(Asked::Revoke(lease as i64)),
                // Left behind: its time ends.
                1 => {
                    self.leases.tenants[tenant].lease = None;
                    return self.queue.after(delay, Event::Tenant { tenant });
                }
                2..=6 => What::Request(requests::attach(lease, self.rng.u64(..1_000))),
                _ => {
                    if self.rng.bool() {
                        let ttl_ns = self.leases.get(lease).ttl_ns;
                        delay = self.rng.u64(ttl_ns - CLOSE_NS..ttl_ns + CLOSE_NS);
                    }
                    What::Chore(Chore::Renew { lease })
                }
            },
        };
        self.leases.tenants[tenant].lease = match what {
            What::Chore(Chore::Grant { lease, .. }) => Some(lease),
            What::Request(Asked::Revoke(_)) => None,
            _ => self.leases.tenants[tenant].lease,
        };
        let behalf = self.rights.draw_user();
        self.order(behalf, what);
        self.queue.after(delay, Event::Tenant { tenant });
    }

    fn schedule_compaction(&mut self) {
        if let Some(every_ns) = self.plan.load.compact_every_ns {
            let delay = self.rng.u64(..2 * every_ns);
            self.queue.after(delay, Event::Compact);
        }
    }

    /// Somebody forgets history, up to a revision a client has seen.
    pub(crate) fn compact(&mut self) {
        if self.clients.stopped {
            return;
        }
        let revision = self.clients.newest - self.rng.u64(..KEPT_MAX as u64) as i64;
        if revision > 0 {
            let behalf = self.rights.draw_compactor();
            self.order(behalf, What::Request(Asked::Compact(revision)));
        }
        self.schedule_compaction();
    }

    /// Asks some replica, once.
    fn order(&mut self, behalf: Behalf, what: What) {
        let now_ns = self.queue.now_ns();
        let invoked = self.clients.tick();
        let node = self.rng.usize(..self.nodes.len());
        let asker = self.asker_at(node, behalf);
        let body = match &what {
            What::Chore(chore) => chore.command(),
            // Nothing that is ordered here has a value.
            What::Request(request) => Store::command(request, None).0,
        };
        let body = A::sign(&asker, body);
        let token = self.leases.begin(what, asker, invoked, now_ns);
        let errands = &self.leases.errands;
        self.trace
            .event(now_ns, "chore", &[token, node as u64], || {
                format!("r{} {:?}", node + 1, errands.last().map(|e| &e.what))
            });
        let request = Request::Write {
            body,
            principal: Principal::default(),
            payloads: Vec::new(),
        };
        self.send_request(node, token, request);
    }

    /// What was asked for once is answered once, or never.
    pub(crate) fn chore_answered(
        &mut self,
        token: Token,
        answer: &Answer<A::Answer>,
    ) -> Result<(), Violation> {
        let Answer::Applied(_, result) = answer else {
            return Ok(());
        };
        if chance(&mut self.rng, self.plan.load.answer_loss) {
            return Ok(());
        }
        let wrong = |why| Violation::new("answer", why);
        let errand = &mut self.leases.errands[(token - CHORES) as usize];
        let stamp = self.clients.tick();
        let (returned, is_done) = match &errand.what {
            What::Chore(chore) => chore.returned(result, stamp).map_err(wrong)?,
            What::Request(request) => {
                let told = Store::response(request, result, &self.values, stamp);
                (told.map_err(wrong)?, false)
            }
        };
        self.totals.compactions += u64::from(returned.response == Response::Compacted);
        errand.returned = Some(returned);
        if let (What::Chore(chore), true) = (&errand.what, is_done) {
            let (chore, asked_ns) = (*chore, errand.asked_ns);
            let judged = self.leases.done(chore, asked_ns, &mut self.totals);
            judged.map_err(|why| Violation::new("lease", why))?;
        }
        Ok(())
    }

    /// Countdowns begin and end with what a replica has newly applied.
    pub(crate) fn set_countdowns(
        &mut self,
        index: usize,
        countdowns: Vec<Countdown>,
    ) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let node = &mut self.nodes[index];
        for countdown in countdowns {
            if let Countdown::Stop { id } = countdown {
                let judged = self.leases.gone(id, now_ns, &mut self.totals);
                judged.map_err(|why| Violation::new("lease", why))?;
            }
            let mono_ns = node.clock.now(now_ns).mono_ns;
            node.countdowns.set(mono_ns, countdown);
        }
        Ok(())
    }

    /// The commands of countdowns that have ended.
    pub(crate) fn order_due(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let now = node.clock.now(self.queue.now_ns());
        let Some(host) = node.host.as_mut() else {
            return;
        };
        for _ in 0..DUE_MAX {
            let Some(body) = node.countdowns.take_due(now.mono_ns) else {
                return;
            };
            host.direct(now, Directive::OrderDue(body));
        }
    }

    /// Whether no replica has a lease or a countdown. Their keys went with them, or the journal says
    /// otherwise.
    pub(crate) fn leases_are_over(&self) -> Result<bool, Violation> {
        if self.nodes.iter().any(|n| n.countdowns.next().is_some()) {
            return Ok(false);
        }
        let hosts = self.nodes.iter().flat_map(|node| &node.host);
        let kept = hosts.filter_map(|host| host.look().app().revisions());
        let left: Result<usize, String> = kept.map(|kept| kept.leases()).sum();
        let left = left.map_err(|why| Violation::new("application", why))?;
        Ok(left == 0)
    }
}
