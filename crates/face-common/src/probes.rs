//! What probes ask: `/health`, and the checks of `/livez` and `/readyz`, one by one or together, as etcd has them.

use crate::console::{Console, alarm_name, flag, json, values};
use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quorate_core::Application;
use quorate_server::{AlarmKind, Consistency};
use std::sync::Arc;

/// Adds the routes of probes to those of a console.
pub(crate) fn add_probes<A>(mut router: Router, console: &Arc<Console<A>>) -> Router
where
    A: Application + 'static,
    A::Query: Send,
    A::Answer: Send,
{
    router = router.route("/health", {
        let console = console.clone();
        get(async move |RawQuery(query)| health(&console, query.as_deref()).await)
    });
    for (kind, all) in [("livez", &LIVE[..]), ("readyz", &READY[..])] {
        let root = console.clone();
        let checks_of_root = async move |RawQuery(query): RawQuery| {
            let left_out = values(query.as_deref(), "exclude");
            let is_wanted = |check: &Check| !left_out.contains(&check.name());
            let wanted: Vec<Check> = all.iter().copied().filter(is_wanted).collect();
            run(&root, kind, query.as_deref(), &wanted).await
        };
        router = router.route(&format!("/{kind}"), get(checks_of_root));
        for check in all {
            let console = console.clone();
            let one = async move |RawQuery(query): RawQuery| {
                run(&console, kind, query.as_deref(), &[*check]).await
            };
            router = router.route(&format!("/{kind}/{}", check.name()), get(one));
        }
    }
    router
}

/// Whether no alarm hinders this member, and a read works: through the cluster, or on this member with
/// `?serializable=true`. Alarms that are named with `?exclude=` do not count.
async fn health<A: Application>(console: &Console<A>, query: Option<&str>) -> Response {
    let consistency = match flag(query, "serializable") {
        true => Consistency::Serializable,
        false => Consistency::Linearizable,
    };
    let left_out = values(query, "exclude");
    let well = async {
        no_alarm(console, |kind| !left_out.contains(&alarm_name(kind))).await?;
        let Err(why) = (console.probe)(consistency).await else {
            return Ok(());
        };
        Err(match console.handle.status().await {
            Ok(status) if consistency == Consistency::Linearizable && status.leader.is_none() => {
                "RAFT NO LEADER".to_owned()
            }
            _ => format!("RANGE ERROR:{why}"),
        })
    };
    let well = well.await;
    console.counts.count_health(well.is_ok());
    let (code, healthy, reason) = match well {
        Ok(()) => (StatusCode::OK, "true", String::new()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, "false", why),
    };
    // In etcd's order, which clients that look at the text see.
    let reason = serde_json::Value::from(reason);
    json(
        code,
        format!(r#"{{"health":"{healthy}","reason":{reason}}}"#),
    )
}

/// Finds no alarm that hinders this member and counts; or says which one does.
async fn no_alarm<A: Application>(
    console: &Console<A>,
    counts: impl Fn(AlarmKind) -> bool,
) -> Result<(), String> {
    // Why a replica says nothing of itself is said by the read that follows.
    let status = console.handle.status().await;
    let raised = status.map_or_else(|_| Vec::new(), |status| status.raised);
    let found = raised
        .iter()
        .find(|alarm| alarm.hinders && counts(alarm.kind));
    found.map_or(Ok(()), |alarm| {
        Err(format!("ALARM {}", alarm_name(alarm.kind)))
    })
}

/// What a probe of Kubernetes asks.
#[derive(Clone, Copy)]
enum Check {
    /// No alarm says that states differ.
    NoCorruption,
    /// A read of this consistency works.
    Read(Consistency),
    /// The member votes.
    NonLearner,
}

const LOCAL: Check = Check::Read(Consistency::Serializable);
const LIVE: [Check; 1] = [LOCAL];
const READY: [Check; 4] = [
    Check::NoCorruption,
    LOCAL,
    Check::Read(Consistency::Linearizable),
    Check::NonLearner,
];

impl Check {
    /// The check's name, as etcd has it.
    fn name(self) -> &'static str {
        match self {
            Check::NoCorruption => "data_corruption",
            Check::Read(Consistency::Serializable) => "serializable_read",
            Check::Read(Consistency::Linearizable) => "linearizable_read",
            Check::NonLearner => "non_learner",
        }
    }

    async fn run<A: Application>(self, console: &Console<A>) -> Result<(), String> {
        match self {
            Check::NoCorruption => {
                let found = no_alarm(console, |kind| kind == AlarmKind::Corrupt).await;
                found.map_err(|_| format!("alarm activated: {}", alarm_name(AlarmKind::Corrupt)))
            }
            Check::Read(consistency) => (console.probe)(consistency).await,
            Check::NonLearner => match console.handle.status().await {
                Ok(status) if status.is_member => Ok(()),
                Ok(_) => Err("not supported for learner".to_owned()),
                Err(failure) => Err(failure.to_string()),
            },
        }
    }
}

/// Runs checks; lists them with `?verbose`, or when one fails.
async fn run<A: Application>(
    console: &Console<A>,
    kind: &'static str,
    query: Option<&str>,
    checks: &[Check],
) -> Response {
    let mut list = String::new();
    let mut code = StatusCode::OK;
    for check in checks {
        let name = check.name();
        let found = check.run(console).await;
        console.counts.count_check(kind, name, found.is_ok());
        match found {
            Ok(()) => list += &format!("[+]{name} ok\n"),
            Err(error) => {
                list += &format!("[-]{name} failed: {error}\n");
                code = StatusCode::SERVICE_UNAVAILABLE;
            }
        }
    }
    match code {
        // Ended as Go's server ends errors.
        StatusCode::SERVICE_UNAVAILABLE => list.push('\n'),
        _ if values(query, "verbose").is_empty() => list = "ok\n".to_owned(),
        _ => list += "ok\n",
    }
    let is_as_it_says = [("x-content-type-options", "nosniff")];
    (code, is_as_it_says, list).into_response()
}
