//! What becomes of a request.

use axum::http::header::ETAG;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use quorate_face_common::Unanswered;
use quorate_plain_store::Version;
use quorate_server::Failure;

/// The request got no result. Only 504 leaves open whether a write was done.
pub(crate) fn failed(failure: Failure) -> Response {
    let code = match failure {
        Failure::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        Failure::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Failure::Timeout | Failure::Stopping => StatusCode::GATEWAY_TIMEOUT,
        Failure::NotServing | Failure::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        Failure::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        Failure::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (code, format!("{failure}\n")).into_response()
}

/// No member answered a gateway.
pub(crate) fn unanswered(why: &Unanswered) -> Response {
    let code = match why {
        Unanswered::Unreached(_) => StatusCode::SERVICE_UNAVAILABLE,
        Unanswered::Lost(_) => StatusCode::GATEWAY_TIMEOUT,
    };
    (code, format!("{why}\n")).into_response()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_504_leaves_open_whether_a_write_was_done() {
        let failures = [
            Failure::Overloaded,
            Failure::TooLarge,
            Failure::Timeout,
            Failure::NotServing,
            Failure::Stopping,
            Failure::Stopped,
            Failure::NoSpace,
            Failure::Corrupt,
        ];
        for failure in failures {
            let is_open = failed(failure).status() == StatusCode::GATEWAY_TIMEOUT;
            assert_eq!(is_open, failure.may_be_done(), "{failure:?}");
        }
        let why = "a reason".to_owned();
        let unreached = unanswered(&Unanswered::Unreached(why.clone()));
        assert_eq!(unreached.status(), StatusCode::SERVICE_UNAVAILABLE);
        let lost = unanswered(&Unanswered::Lost(why));
        assert_eq!(lost.status(), StatusCode::GATEWAY_TIMEOUT);
    }
}
