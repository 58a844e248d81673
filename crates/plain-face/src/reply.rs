//! What becomes of a request.

use axum::http::header::ETAG;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use quorate_plain::Version;
use quorate_server::Failure;

/// The request got no result: whether it is worth trying again, and elsewhere.
pub(crate) fn failed(failure: Failure) -> Response {
    let code = match failure {
        Failure::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        Failure::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Failure::Timeout => StatusCode::GATEWAY_TIMEOUT,
        Failure::NotServing | Failure::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        Failure::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        Failure::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (code, format!("{failure}\n")).into_response()
}

/// No member answered a gateway: what was asked for may have been done.
pub(crate) fn unavailable(why: String) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, why + "\n").into_response()
}

/// The request makes no sense.
pub(crate) fn bad(why: impl Into<String>) -> Response {
    (StatusCode::BAD_REQUEST, why.into() + "\n").into_response()
}

/// The store answered a question nobody asked: a bug, told to the client rather than to no one.
pub(crate) fn mismatch() -> Response {
    let why = "the store's answer does not fit the question\n";
    (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
}

/// A response with the version of a key, if it has one.
pub(crate) fn tagged(mut response: Response, version: Option<Version>) -> Response {
    let tag = version.and_then(|version| HeaderValue::try_from(format!("\"{version}\"")).ok());
    if let Some(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
