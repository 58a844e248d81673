//! What routes for operators show of a replica, and how they read what they are asked.

use crate::page::Page;
use crate::probe_counts::ProbeCounts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorate_core::Application;
use quorate_server::{AlarmKind, Consistency, Handle};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Renders the metrics page.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Begins the page of metrics with those that the face knows of.
pub type MoreMetrics = Arc<dyn Fn() -> Paging + Send + Sync>;

/// The beginning of a page of metrics under way.
pub type Paging = Pin<Box<dyn Future<Output = Page> + Send>>;

/// Says whether a read of the application works, or why it does not.
pub type Probe = Arc<dyn Fn(Consistency) -> Probing + Send + Sync>;

/// A probe under way.
pub type Probing = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What a route gives away or changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteRight {
    /// The figures of the replica.
    Measure,
    /// The state of the replica, its members and where they are, and the settings of the cluster.
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
    /// What the face adds to that page.
    pub more_metrics: Option<MoreMetrics>,
    /// Whether it is well.
    pub probe: Probe,
    /// What probes came to; empty at first.
    pub counts: Arc<ProbeCounts>,
    /// Who has which right; `None` for everybody all of them. Whether a replica is well anybody may ask.
    pub guard: Option<Guard>,
}

impl<A: Application> fmt::Debug for Console<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl<A: Application> Console<A> {
    /// Refuses a request that does not have a right.
    pub(crate) async fn admit(&self, right: RouteRight, parts: Parts) -> Result<(), Response> {
        if right == RouteRight::Change && is_of_another_site(&parts.headers) {
            let why =
                "a browser sends this on behalf of another site: changes are taken from none\n";
            return Err((StatusCode::FORBIDDEN, why).into_response());
        }
        match &self.guard {
            Some(guard) => guard(right, parts.headers, parts.extensions).await,
            None => Ok(()),
        }
    }
}

/// Whether a browser sends this for a page that came from elsewhere: it adds the password that was once given here.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text(HeaderName::from_static("sec-fetch-site"));
    if let Some(site) = site {
        return !matches!(site, "same-origin" | "none");
    }
    // Older browsers tell the origin alone; programs tell none.
    let origin = text(header::ORIGIN).map(|origin| origin.split_once("://"));
    match (origin, text(header::HOST)) {
        (None, _) => false,
        (Some(Some((_, origin))), Some(host)) => origin != host,
        (Some(_), _) => true,
    }
}

/// The name of an alarm, as etcd has it.
#[must_use]
pub fn alarm_name(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    }
}

/// A response in JSON.
pub fn json(code: StatusCode, body: String) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Whether a query string sets a flag: `name`, `name=` or `name=true`.
pub(crate) fn flag(query: Option<&str>, name: &str) -> bool {
    let mut values = values(query, name).into_iter();
    values.any(|value| matches!(value, "" | "true" | "1"))
}

/// The values that a query string has for a name, an empty one for a name alone.
pub(crate) fn values<'a>(query: Option<&'a str>, name: &str) -> Vec<&'a str> {
    let pairs = query.unwrap_or_default().split('&');
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let named = pairs.filter(|(key, _)| *key == name);
    named.map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_sites_have_a_browser_send_is_told_from_the_rest() {
        let is_other = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| {
                let value = value.parse().unwrap();
                (HeaderName::from_static(name), value)
            });
            is_of_another_site(&headers.collect())
        };
        let host = ("host", "10.0.0.1:2379");
        assert!(!is_other(&[host]));
        assert!(!is_other(&[host, ("origin", "http://10.0.0.1:2379")]));
        assert!(!is_other(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(is_other(&[host, ("origin", "http://evil.example")]));
        assert!(is_other(&[host, ("origin", "null")]));
        assert!(is_other(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(is_other(&[host, ("sec-fetch-site", "same-site")]));
    }
}
