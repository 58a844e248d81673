//! URLs of ports, as etcd's flags have them: `http://host:port`.

/// The `host:port` of a URL given for `flag`.
pub(crate) fn host_port(flag: &str, url: &str) -> Result<String, String> {
    if url.contains(',') {
        return Err(format!(
            "--{flag} {url:?}: one URL is enough, lists are not supported"
        ));
    }
    if url.starts_with("https://") || url.starts_with("unix") {
        return Err(format!("--{flag} {url:?}: only http:// is supported yet"));
    }
    let rest = url
        .strip_prefix("http://")
        .map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let port = rest
        .filter(|rest| !rest.contains('/'))
        .and_then(|rest| rest.rsplit_once(':'))
        .filter(|(host, _)| !host.is_empty())
        .and_then(|(_, port)| port.parse::<u16>().ok());
    match (rest, port) {
        (Some(rest), Some(_)) => Ok(rest.to_owned()),
        _ => Err(format!(
            "--{flag} {url:?} is not of the form http://host:port"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::host_port;

    #[test]
    fn only_plain_urls_with_a_port_are_taken() {
        assert_eq!(
            host_port("x", "http://127.0.0.1:2379").unwrap(),
            "127.0.0.1:2379"
        );
        assert_eq!(host_port("x", "http://[::1]:2379/").unwrap(), "[::1]:2379");
        for (url, why) in [
            ("127.0.0.1:2379", "not of the form"),
            ("http://127.0.0.1", "not of the form"),
            ("http://:2379", "not of the form"),
            ("http://a:99999", "not of the form"),
            ("http://a:1/path", "not of the form"),
            ("https://a:1", "only http://"),
            ("http://a:1,http://b:2", "one URL"),
        ] {
            let error = host_port("listen-client-urls", url).unwrap_err();
            assert!(
                error.contains(why) && error.contains("--listen-client-urls"),
                "{error}"
            );
        }
    }
}
