//! Options about what the etcd face serves besides gRPC, for replicas and remote gateways.

use clap::Args;
use quorate_face_etcd::{AllowList, WebAccess};
use serde::{Deserialize, Serialize};

/// The services in JSON, and who may ask over plain HTTP.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct WebOptions {
    /// Whether the etcd face serves its calls in JSON, too, as POST /v3/kv/range and so on [default: true]
    #[arg(
        long,
        env = "QUORATE_ENABLE_GRPC_GATEWAY",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    enable_grpc_gateway: Option<bool>,

    /// Origins of pages (https://example.org) that browsers may let read answers of the etcd face, by commas; * for all
    /// [default: *]
    #[arg(long, env = "QUORATE_CORS", value_name = "LIST")]
    cors: Option<String>,

    /// Names that requests over plain HTTP to the etcd face may call this server by, by commas; * for any [default: *]
    #[arg(long, env = "QUORATE_HOST_WHITELIST", value_name = "LIST")]
    host_whitelist: Option<String>,
}

impl WebOptions {
    /// Fills in defaults.
    pub(crate) fn resolve(&self) -> Result<WebAccess, String> {
        let origins = names(self.cors.as_deref());
        for origin in origins.iter().filter(|origin| *origin != "*") {
            let rest = origin.split_once("://").map(|(_, rest)| rest);
            if rest.is_none_or(|rest| rest.is_empty() || rest.contains('/')) {
                return Err(format!(
                    "--cors {origin:?} is no origin of pages, such as https://example.org:8080"
                ));
            }
        }
        let hosts = names(self.host_whitelist.as_deref());
        if let Some(host) = hosts.iter().find(|host| host.contains('/')) {
            return Err(format!(
                "--host-whitelist {host:?} is no name of a server, such as etcd.example.org"
            ));
        }
        Ok(WebAccess {
            json: self.enable_grpc_gateway.unwrap_or(true),
            origins: AllowList::new(origins),
            hosts: AllowList::new(hosts),
        })
    }
}

/// The names in a list with commas.
fn names(list: Option<&str>) -> Vec<String> {
    let names = list.unwrap_or_default().split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cors: &str, hosts: &str) -> WebOptions {
        WebOptions {
            enable_grpc_gateway: None,
            cors: Some(cors.to_owned()),
            host_whitelist: Some(hosts.to_owned()),
        }
    }

    #[test]
    fn without_options_everybody_may_ask() {
        assert_eq!(WebOptions::default().resolve(), Ok(WebAccess::default()));
        assert_eq!(options("", " ,").resolve(), Ok(WebAccess::default()));
    }

    #[test]
    fn lists_are_taken_apart_and_what_is_no_name_is_refused() {
        let access = options("http://a:1, https://b,*", "a,::1").resolve();
        let expected = WebAccess {
            origins: AllowList::new(["http://a:1", "https://b", "*"].map(str::to_owned)),
            hosts: AllowList::new(["a", "::1"].map(str::to_owned)),
            ..WebAccess::default()
        };
        assert_eq!(access, Ok(expected));
        for cors in ["a", "http://", "http://a/"] {
            let refused = options(cors, "").resolve().expect_err(cors);
            assert!(refused.contains("--cors"), "{refused}");
        }
        let refused = options("", "http://a").resolve().expect_err("a URL");
        assert!(refused.contains("--host-whitelist"), "{refused}");
    }
}
