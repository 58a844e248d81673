//! Who may ask over plain HTTP: names of this server that browsers may have come by, and pages that may read answers.
//!
//! A browser asks whatever server a page names, in the name of its user. A page whose own name was made to lead to this
//! server (DNS rebinding, CVE-2018-5702) is known by the name in `Host`; any other page may read an answer only where
//! the answer says so (CORS).

use crate::web_access::{ANY, AllowList};
use quorate_face_common::Encrypted;
use tonic::codegen::http::Request;
use tonic::codegen::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, HOST,
    HeaderMap, HeaderValue, ORIGIN,
};

/// The name of the server in a request, as its client has it, without the port.
pub(super) fn host<B>(request: &Request<B>) -> &str {
    let named = request.headers().get(HOST);
    let named = named.and_then(|host| host.to_str().ok());
    let host = named.or_else(|| {
        request
            .uri()
            .authority()
            .map(|authority| authority.as_str())
    });
    without_port(host.unwrap_or_default())
}

fn without_port(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    match host.split_once(':') {
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

/// Whether a request may call the server by this name. A page that has its own name lead here gets no certificate for
/// it, so over TLS every name will do.
pub(super) fn may_name<B>(request: &Request<B>, host: &str, hosts: &AllowList) -> bool {
    hosts.allows(host) || request.extensions().get::<Encrypted>().is_some()
}

/// The origin of the page that asks, if one does.
pub(super) fn origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(ORIGIN).and_then(|origin| origin.to_str().ok())
}

/// Says in the headers of an answer whether the page that asked may read it.
pub(super) fn share(origins: &AllowList, asked: Option<HeaderValue>, answer: &mut HeaderMap) {
    let shared_with = match asked {
        _ if origins.allows_any() => HeaderValue::from_static(ANY),
        Some(origin) if origin.to_str().is_ok_and(|name| origins.allows(name)) => origin,
        _ => return,
    };
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, shared_with);
    let methods = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE");
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    let headers = HeaderValue::from_static("accept, content-type, authorization");
    answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers);
}

/// What the client of an unknown host is told.
pub(super) fn unknown_host(host: &str) -> String {
    format!(
        "The server does not go by the name {host:?} of the request's Host header. If it should, add the name to \
         --host-whitelist, or use TLS, with which every name is taken. (A page in a browser could otherwise have its \
         own name lead to this server: DNS rebinding, CVE-2018-5702.)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_without_its_port() {
        for (host, name) in [
            ("localhost:2379", "localhost"),
            ("localhost", "localhost"),
            ("127.0.0.1:2379", "127.0.0.1"),
            ("[::1]:2379", "::1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("", ""),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }

    #[test]
    fn over_tls_every_name_will_do() {
        let hosts = AllowList::new(["known".to_owned()]);
        let mut request = Request::new(());
        assert!(may_name(&request, "known", &hosts) && !may_name(&request, "other", &hosts));
        request.extensions_mut().insert(Encrypted);
        assert!(may_name(&request, "other", &hosts));
    }

    #[test]
    fn answers_are_shared_with_the_pages_that_are_named() {
        let shared = |origins: &[&str], asked: Option<&'static str>| {
            let origins = AllowList::new(origins.iter().map(|name| (*name).to_owned()));
            let mut answer = HeaderMap::new();
            share(&origins, asked.map(HeaderValue::from_static), &mut answer);
            let origin = answer.get(ACCESS_CONTROL_ALLOW_ORIGIN);
            origin.map(|origin| origin.to_str().expect("a name").to_owned())
        };
        assert_eq!(shared(&["*"], None).as_deref(), Some("*"));
        assert_eq!(shared(&[], Some("http://b")).as_deref(), Some("*"));
        let named = shared(&["http://a"], Some("http://a"));
        assert_eq!(named.as_deref(), Some("http://a"));
        assert_eq!(shared(&["http://a"], Some("http://b")), None);
        assert_eq!(shared(&["http://a"], None), None);
    }
}
