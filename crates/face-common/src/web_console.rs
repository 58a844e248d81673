//! A page for browsers that shows a replica: what it says of itself, its rates and its times, drawn as they come.
//!
//! The page shows and changes nothing, and comes from this program alone: its policy lets a browser load nothing from
//! elsewhere, run no script that is not this one, and show it in no frame. Its script reads `/status` and `/metrics`,
//! which ask for the rights that they always ask for, and puts what they say on the page as text, never as HTML.

use crate::console::{Console, RouteRight};
use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quorate_core::Application;
use std::sync::Arc;

const PAGE: &str = include_str!("web_console/console.html");
const SCRIPT: &str = include_str!("web_console/console.js");
const STYLE: &str = include_str!("web_console/console.css");

/// What a browser lets the page do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds the page and what it is made of.
pub(crate) fn add_console<A>(router: Router, console: &Arc<Console<A>>) -> Router
where
    A: Application + 'static,
    A::Query: Send,
    A::Answer: Send,
{
    let console = Arc::clone(console);
    let page = get(async move |request: Request| {
        // Whoever has no right is asked for name and password by the browser, once for all that follows.
        let parts = request.into_parts().0;
        console.admit(RouteRight::Look, parts).await?;
        Ok::<_, Response>(file("text/html; charset=utf-8", PAGE))
    });
    router
        .route("/console", page)
        .route(
            "/console.js",
            get(async || file("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route(
            "/console.css",
            get(async || file("text/css; charset=utf-8", STYLE)),
        )
}

/// Whether a path is of the page: a gateway has none, for what it passes on and what it counts are not of one replica.
#[must_use]
pub fn is_of_console(path: &str) -> bool {
    matches!(path, "/console" | "/console.js" | "/console.css")
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &str); 6] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        // A program of another version has another page.
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_makes_no_html() {
        for text in [PAGE, SCRIPT, STYLE] {
            assert!(
                !text.contains("//cdn") && !text.contains("src=\"http"),
                "{text}"
            );
        }
        // What would break the policy, or make text into HTML.
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!SCRIPT.contains(word), "{word}");
        }
        for word in ["<style", "style=\"", "onclick", "javascript:", "<script>"] {
            assert!(!PAGE.contains(word), "{word}");
        }
        let response = file("text/html", PAGE);
        let policy = response.headers()[CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
    }
}
