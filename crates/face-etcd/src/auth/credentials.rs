//! What a call shows of who asks.

use quorate_face_common::CommonName;
use std::fmt;
use std::sync::Arc;
use tonic::Request;
use tonic::codegen::http::{Extensions, HeaderMap};

/// A token from the metadata of a call, and the name in the certificate of its connection.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    pub(crate) token: Option<Box<str>>,
    pub(crate) common_name: Option<Arc<str>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("has_token", &self.token.is_some())
            .field("common_name", &self.common_name)
            .finish()
    }
}

/// In front of a token where HTTP wants one.
const BEARER: &str = "Bearer ";
/// Where the JSON gateway says that a call came to it over HTTP: the certificate is then not the caller's.
const OF_JSON_GATEWAY: &str = "grpcgateway-accept";

impl Credentials {
    /// Takes the credentials of a call.
    pub(crate) fn of<T>(request: &Request<T>) -> Credentials {
        Credentials::among(request.metadata().as_ref(), request.extensions())
    }

    /// Takes the credentials among the headers and extensions of a request.
    pub(crate) fn among(headers: &HeaderMap, extensions: &Extensions) -> Credentials {
        let token = headers
            .get("token")
            .or_else(|| headers.get("authorization"));
        let token = token.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let token = token.map(|token| token.strip_prefix(BEARER).unwrap_or(&token).into());
        let name = extensions.get::<CommonName>();
        let name = name.filter(|_| !headers.contains_key(OF_JSON_GATEWAY));
        Credentials {
            token,
            common_name: name.map(|CommonName(name)| Arc::clone(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::metadata::MetadataValue;

    fn shown(metadata: &[(&'static str, &'static str)], name: Option<&str>) -> (String, String) {
        let mut request = Request::new(());
        for (key, value) in metadata {
            let value = MetadataValue::from_static(value);
            request.metadata_mut().insert(*key, value);
        }
        if let Some(name) = name {
            request.extensions_mut().insert(CommonName(name.into()));
        }
        let found = Credentials::of(&request);
        let token = found.token.unwrap_or_default().into();
        (token, found.common_name.unwrap_or_default().to_string())
    }

    #[test]
    fn a_token_stands_under_either_name() {
        let pair = |token: &str, name: &str| (token.to_owned(), name.to_owned());
        for (metadata, name, expected) in [
            (&[("token", "a.1")][..], None, pair("a.1", "")),
            (&[("authorization", "a.1")], None, pair("a.1", "")),
            (&[("authorization", "Bearer a.1")], None, pair("a.1", "")),
            (
                &[("token", "a.1"), ("authorization", "b.2")],
                None,
                pair("a.1", ""),
            ),
            (&[], Some("alice"), pair("", "alice")),
            (
                &[("grpcgateway-accept", "*/*")],
                Some("alice"),
                pair("", ""),
            ),
            (&[], None, pair("", "")),
        ] {
            assert_eq!(shown(metadata, name), expected, "{metadata:?}");
        }
    }

    #[test]
    fn a_token_is_not_formatted() {
        let credentials = Credentials {
            token: Some("hunter2".into()),
            common_name: None,
        };
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
