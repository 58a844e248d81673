//! Plain HTTP, where nothing is served.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// The answer to a request over plain HTTP that nothing is served for.
pub(crate) fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}
