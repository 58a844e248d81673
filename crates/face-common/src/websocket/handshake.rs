//! How a request of HTTP/1.1 becomes a WebSocket (RFC 6455, section 4.2).

use super::sha1::sha1;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tonic::codegen::http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use tonic::codegen::http::{Method, Request, Response, StatusCode};

/// What a server appends to the key that it was sent.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY_BYTES: usize = 16;

/// Whether a request asks for a WebSocket.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    has_token(headers, &CONNECTION, "upgrade") && has_token(headers, &UPGRADE, "websocket")
}

/// The answer that makes the request's connection a WebSocket.
///
/// # Errors
/// Why the request is not as it should be, for the one who sent it.
pub fn accept<B, R: Default>(request: &Request<B>) -> Result<Response<R>, &'static str> {
    let headers = request.headers();
    if request.method() != Method::GET {
        return Err("a WebSocket is asked for with GET");
    }
    let version = headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != "13") {
        return Err("Sec-WebSocket-Version has to be 13");
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let decoded = key.and_then(|key| STANDARD.decode(key).ok());
    let Some(key) = key.filter(|_| decoded.is_some_and(|key| key.len() == KEY_BYTES)) else {
        return Err("Sec-WebSocket-Key has to be 16 bytes in base64");
    };
    let digest = sha1(&[key, GUID.as_bytes()].concat());
    let mut response = Response::new(R::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answers = response.headers_mut();
    answers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accepted) = HeaderValue::from_str(&STANDARD.encode(digest)) {
        answers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    }
    Ok(response)
}

/// Whether a header, which is a list, has this word.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut words = texts.flat_map(|text| text.split(',')).map(str::trim);
    words.any(|word| word.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        // The example of RFC 6455, section 1.3.
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/v3/watch");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a good request")
    }

    #[test]
    fn the_key_is_answered_as_in_the_standard() {
        let request = request(&GOOD);
        assert!(is_wanted(request.headers()));
        let response: Response<()> = accept(&request).expect("it is good");
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let accepted = response.headers()[SEC_WEBSOCKET_ACCEPT].clone();
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn anything_else_is_refused_or_no_handshake() {
        for left_out in 0..GOOD.len() {
            let mut headers = GOOD.to_vec();
            headers.remove(left_out);
            let request = request(&headers);
            let is_wanted = is_wanted(request.headers());
            let accepted: Result<Response<()>, _> = accept(&request);
            assert!(!is_wanted || accepted.is_err(), "without {left_out}");
        }
        for (name, value) in [
            ("sec-websocket-key", "c2hvcnQ="),
            ("sec-websocket-version", "8"),
        ] {
            let headers =
                GOOD.map(|(known, good)| (known, if known == name { value } else { good }));
            assert!(accept::<_, ()>(&request(&headers)).is_err(), "{name}");
        }
        let mut post = request(&GOOD);
        *post.method_mut() = Method::POST;
        assert!(accept::<_, ()>(&post).is_err());
    }
}
