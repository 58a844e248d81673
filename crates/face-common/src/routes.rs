//! Routes for operators: health, status, metrics.

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{RawQuery, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use quorate_core::Application;
use quorate_server::{
    AlarmKind, ChangeError, Consistency, GroupChange, Handle, ProtocolPage, StatusPage,
};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Renders the metrics page.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Says whether a read of the application works, or why it does not.
pub type Probe = Arc<dyn Fn(Consistency) -> Probing + Send + Sync>;

/// A probe under way.
pub type Probing = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What a route gives away or changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteRight {
    /// The state of the replica and its figures.
    Look,
    /// How the cluster works.
    Change,
}

/// Says whether a request with these headers and extensions has a right, or how it is refused.
pub type Guard = Arc<dyn Fn(RouteRight, HeaderMap, Extensions) -> Guarding + Send + Sync>;

/// A guard's answer under way.
pub type Guarding = Pin<Box<dyn Future<Output = Result<(), Response>> + Send>>;

/// What the routes show of a replica.
pub struct Console<A: Application> {
    /// How it is reached.
    pub handle: Handle<A>,
    /// The metrics that the page shows.
    pub metrics: Option<Metrics>,
    /// Whether it is well.
    pub probe: Probe,
    /// Who may look and change; `None` for everybody. Whether a replica is well anybody may ask.
    pub guard: Option<Guard>,
}

impl<A: Application> fmt::Debug for Console<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl<A: Application> Console<A> {
    async fn admit(&self, right: RouteRight, parts: Parts) -> Result<(), Response> {
        match &self.guard {
            Some(guard) => guard(right, parts.headers, parts.extensions).await,
            None => Ok(()),
        }
    }
}

/// The longest page that is posted, in bytes.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// Adds these routes to those of a console.
pub fn add_routes<A>(router: Router, console: Console<A>) -> Router
where
    A: Application + 'static,
    A::Query: Send,
    A::Answer: Send,
{
    let console = Arc::new(console);
    router
        .route("/health", {
            let console = console.clone();
            get(async move |RawQuery(query)| health(&console, query.as_deref()).await)
        })
        .route("/livez", {
            let console = console.clone();
            get(async move |RawQuery(query)| checks(&console, query.as_deref(), &[LOCAL]).await)
        })
        .route("/readyz", {
            let console = console.clone();
            get(async move |RawQuery(query)| {
                let all = [Check::NoCorruption, LOCAL, ALL];
                checks(&console, query.as_deref(), &all).await
            })
        })
        .route("/status", {
            let console = console.clone();
            get(async move |request: Request| {
                console
                    .admit(RouteRight::Look, request.into_parts().0)
                    .await?;
                Ok::<_, Response>(status(&console).await)
            })
        })
        .route("/cluster/protocol", {
            let console = console.clone();
            post(async move |request: Request| {
                let (parts, body) = request.into_parts();
                console.admit(RouteRight::Change, parts).await?;
                let body = to_bytes(body, PAGE_BYTES_MAX).await;
                let body =
                    body.map_err(|why| (StatusCode::BAD_REQUEST, why.to_string()).into_response())?;
                Ok::<_, Response>(protocol(&console, &body).await)
            })
        })
        .route("/metrics", {
            let console = console.clone();
            get(async move |request: Request| {
                console
                    .admit(RouteRight::Look, request.into_parts().0)
                    .await?;
                Ok::<_, Response>(metrics_page(&console.handle, console.metrics.as_ref()).await)
            })
        })
}

/// Whether no alarm hinders this member, and a read works: through the cluster, or on this member with
/// `?serializable=true`. Alarms that are named with `?exclude=` do not count.
async fn health<A: Application>(console: &Console<A>, query: Option<&str>) -> Response {
    let consistency = match flag(query, "serializable") {
        true => Consistency::Serializable,
        false => Consistency::Linearizable,
    };
    let well = async {
        no_alarm(console, |kind| !is_excluded(query, kind)).await?;
        (console.probe)(consistency).await
    };
    let (code, healthy, reason) = match well.await {
        Ok(()) => (StatusCode::OK, true, String::new()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, false, why),
    };
    json(
        code,
        format!(r#"{{"health":"{healthy}","reason":"{reason}"}}"#),
    )
}

/// The name of an alarm, as etcd has it.
#[must_use]
pub fn alarm_name(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    }
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

/// Whether a query string leaves an alarm out: `exclude=NOSPACE`, once for each.
fn is_excluded(query: Option<&str>, kind: AlarmKind) -> bool {
    let mut pairs = query.unwrap_or_default().split('&');
    pairs.any(|pair| pair.split_once('=') == Some(("exclude", alarm_name(kind))))
}

/// What a probe of Kubernetes asks.
#[derive(Clone, Copy)]
enum Check {
    /// No alarm says that states differ.
    NoCorruption,
    /// A read of this consistency works.
    Read(Consistency),
}

const LOCAL: Check = Check::Read(Consistency::Serializable);
const ALL: Check = Check::Read(Consistency::Linearizable);

impl Check {
    /// The check's name, as etcd has it.
    fn name(self) -> &'static str {
        match self {
            Check::NoCorruption => "data_corruption",
            Check::Read(Consistency::Serializable) => "serializable_read",
            Check::Read(Consistency::Linearizable) => "linearizable_read",
        }
    }

    async fn run<A: Application>(self, console: &Console<A>) -> Result<(), String> {
        match self {
            Check::NoCorruption => no_alarm(console, |kind| kind == AlarmKind::Corrupt).await,
            Check::Read(consistency) => (console.probe)(consistency).await,
        }
    }
}

/// Runs checks; lists them with `?verbose`, or when one fails.
async fn checks<A: Application>(
    console: &Console<A>,
    query: Option<&str>,
    checks: &[Check],
) -> Response {
    let mut list = String::new();
    let mut code = StatusCode::OK;
    for check in checks {
        let name = check.name();
        match check.run(console).await {
            Ok(()) => list += &format!("[+]{name} ok\n"),
            Err(error) => {
                list += &format!("[-]{name} failed: {error}\n");
                code = StatusCode::SERVICE_UNAVAILABLE;
            }
        }
    }
    if code == StatusCode::OK && !flag(query, "verbose") {
        list.clear();
    }
    if code == StatusCode::OK {
        list += "ok\n";
    }
    (code, list).into_response()
}

/// What `quorate status` shows.
async fn status<A: Application>(console: &Console<A>) -> Response {
    let page = console.handle.status().await.map(StatusPage::from);
    match page.map(|page| serde_json::to_string(&page)) {
        Ok(Ok(page)) => json(StatusCode::OK, page),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, failure.to_string()).into_response(),
    }
}

/// Has the cluster go on with another protocol; answers once that is decided.
async fn protocol<A: Application>(console: &Console<A>, body: &Bytes) -> Response {
    let page: ProtocolPage = match serde_json::from_slice(body) {
        Ok(page) => page,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let (name, params) = (page.protocol, page.params);
    let change = GroupChange::Protocol { name, params };
    match console.handle.change_soon(change).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(ChangeError::Failed(failure)) => {
            let code = match failure.may_be_done() {
                true => StatusCode::GATEWAY_TIMEOUT,
                false => StatusCode::SERVICE_UNAVAILABLE,
            };
            (code, failure.to_string()).into_response()
        }
        Err(why) => (StatusCode::CONFLICT, why.to_string()).into_response(),
    }
}

/// The metrics page. The replica, or the gateway, brings its figures up to date first; one that is too busy
/// shows those it has.
pub async fn metrics_page<A: Application>(handle: &Handle<A>, page: Option<&Metrics>) -> Response {
    let _ = tokio::time::timeout(FIGURES_WAIT, handle.status()).await;
    let page = page.map_or_else(String::new, |page| page());
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

/// A response in JSON.
pub fn json(code: StatusCode, body: String) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// How long the metrics page waits for the replica.
const FIGURES_WAIT: Duration = Duration::from_millis(500);

/// Whether a query string sets a flag: `name`, `name=` or `name=true`.
fn flag(query: Option<&str>, name: &str) -> bool {
    query.unwrap_or_default().split('&').any(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        key == name && matches!(value, "" | "true" | "1")
    })
}
