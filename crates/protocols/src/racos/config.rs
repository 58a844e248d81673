//! Parameters, and who must hold how much of a value.

use super::mutants::Fault;
use crate::rabia::weak_mvc;
use crate::shared::faults::Faults;
use crate::shared::params::Params;
use quorate_core::{ENTRY_BYTES_MAX, Epoch, MILLIS, MemberIndex, MemberSet, ReplicaId, Seat};

/// How many of something it takes beside what Weak-MVC takes; `k + f` is none of its thresholds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// `f`: with so many members lost, `k` holders of a value remain of `H = k + f`.
    pub spare: usize,
    /// Others that tell a member which lost its disk what they hold, at least: any so many include one of
    /// the `k + f - 1` others that hold a value which was announced with its help.
    pub rejoin: usize,
}

impl Thresholds {
    /// `H = k + f`: durable holders of a value before it may be ordered.
    #[must_use]
    pub fn holders(&self, code: u8) -> usize {
        usize::from(code) + self.spare
    }
}

/// All that is equal on the replicas of an epoch, and who this replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Weak-MVC's, with a lane for each member unless asked otherwise.
    pub mvc: weak_mvc::Config,
    /// How many segments rebuild a value (`k`).
    pub code: u8,
    /// The quorum arithmetic of values.
    pub thresholds: Thresholds,
    /// Values are cut anew when too few members answer (`adaptive`).
    pub adaptive: bool,
    /// A member that has its segment on its disk proposes the value, and there are no acknowledgements
    /// (`merged`).
    pub merged: bool,
    /// The fault of a mutant.
    pub faults: Faults<Fault>,
    /// Values of so many bytes are spread; smaller ones travel whole within their batch (`payload_min`).
    pub payload_min: usize,
    /// Bytes of one entry's payloads, at most unless one command has more (`spread_bytes`).
    pub spread_bytes_max: usize,
    /// Where values are cut anew: how long an origin waits for acknowledgements, beyond the time that segments
    /// may be under way (`spread_timeout_ms`).
    pub spread_timeout_ns: u64,
    /// With `merged`, how long an origin must not have been heard of before others have the log make void what
    /// it left (`origin_gone_ms`).
    pub origin_gone_ns: u64,
    /// Own entries spread and not delivered, at most (`spreading`).
    pub spreading_max: usize,
    /// Bytes of undecided segments held of one origin, at most (`spread_quota_mib`).
    pub quota_bytes: u64,
}

const OWN: [&str; 9] = [
    "adaptive",
    "k",
    "merged",
    "origin_gone_ms",
    "payload_min",
    "spread_bytes",
    "spreading",
    "spread_quota_mib",
    "spread_timeout_ms",
];

/// Why two ways to choose a code exclude each other.
const ONE_CODE: &str = "merged and adaptive: with merged the number of proposals that give a value its slot is k + f, \
     the same for all values of an epoch; choose one of the two, or change k by an order";

impl Config {
    /// The configuration of one seat.
    pub fn new(seat: &Seat) -> Result<Config, String> {
        let known = known();
        let epoch = &seat.epoch;
        let params = Params::of(epoch, &known)?;
        let adaptive = params.switch("adaptive", false)?;
        let merged = params.switch("merged", false)?;
        if adaptive && merged {
            return Err(ONE_CODE.into());
        }
        let Code { k, f } = code(&params, adaptive)?;
        let n = epoch.n();
        let quota_mib = params.number("spread_quota_mib", 1024, 1..=1 << 20)?;
        let mut mvc = weak_mvc::Config::new(seat, &params, f, n.max(1))?;
        if merged {
            // Who proposes holds: so many proposers are enough holders, and as many as a slot takes.
            let enough = mvc.thresholds.proposal.max(k + f);
            mvc.thresholds = mvc.thresholds.with_proposal(enough);
            mvc.holders_propose = true;
        }
        let coarsest = if adaptive { 1 } else { k };
        let rejoin = (n + 1).saturating_sub(coarsest + f).max(1);
        let timeout_ms = params.number("spread_timeout_ms", 200, 0..=600_000)?;
        Ok(Config {
            mvc,
            code: u8::try_from(k).map_err(|_| format!("k = {k}: must be at most 255"))?,
            thresholds: Thresholds { spare: f, rejoin },
            adaptive,
            merged,
            faults: Faults::default(),
            payload_min: params.number("payload_min", 4096, 1..=ENTRY_BYTES_MAX)?,
            spread_bytes_max: params.number("spread_bytes", 4 << 20, 1..=ENTRY_BYTES_MAX)?,
            spread_timeout_ns: timeout_ms as u64 * MILLIS,
            origin_gone_ns: params.number("origin_gone_ms", 600_000, 0..=86_400_000)? as u64
                * MILLIS,
            spreading_max: params.number("spreading", 4, 1..=1024)?,
            quota_bytes: (quota_mib as u64) << 20,
        })
    }

    /// All members but this replica.
    pub(super) fn others(&self) -> MemberSet {
        self.mvc.others()
    }

    /// Position of a member.
    pub(super) fn member(&self, id: ReplicaId) -> Option<MemberIndex> {
        self.mvc.member(id)
    }
}

/// How many failures at once the epoch's parameters ask to survive.
pub(super) fn failures_survived(epoch: &Epoch) -> usize {
    let known = known();
    let params = Params {
        epoch,
        known: &known,
    };
    let adapts = params.switch("adaptive", false).unwrap_or(false);
    code(&params, adapts).map_or(0, |code| code.f)
}

fn known() -> Vec<&'static str> {
    OWN.into_iter().chain(weak_mvc::PARAMS).collect()
}

/// How values are cut.
struct Code {
    /// Segments that rebuild a value.
    k: usize,
    /// How many failures at once are survived.
    f: usize,
}

/// `k` and `f`, with `k + f <= n - f`: with `f` members down the others are still enough to hold a value.
/// By default one of three or more may fail, and values are cut as finely as that allows. Where
/// values are cut anew, `k + f <= n` is enough, and `1 + 2f <= n`.
fn code(params: &Params<'_>, adapts: bool) -> Result<Code, String> {
    let n = params.epoch.n();
    let most = n.saturating_sub(1) / 2;
    let asked = match params.text("k") {
        Some(_) => Some(params.number("k", 1, 1..=n.max(1))?),
        None => None,
    };
    let f_of = |k: usize| (n.saturating_sub(k) / 2).min(most);
    let f = params.number("f", asked.map_or(most.min(1), f_of), 0..=most)?;
    let finest = if f == 0 { 1 } else { n - 2 * f };
    let k = asked.unwrap_or(finest);
    if adapts && k + f <= n && (f > 0 || k == 1) {
        return Ok(Code { k, f });
    }
    if k + 2 * f > n {
        return Err(format!(
            "k = {k}, f = {f}: a value must be on k + f = {} disks before it is ordered, and with {f} of \
             {n} replicas down {} remain; k must be at most {}",
            k + f,
            n - f,
            n - 2 * f
        ));
    }
    if f == 0 && k > 1 {
        return Err(format!(
            "k = {k}: {n} replicas would survive no failure; k must be at most {}",
            n.saturating_sub(2).max(1)
        ));
    }
    Ok(Code { k, f })
}
