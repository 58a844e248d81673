//! `--endpoints`: where a cluster is asked.

use crate::Failure;
use clap::Args;
use quorate_server::StatusPage;
use quorate_tooling::scrape::{get, post};
use serde::Serialize;
use std::time::Duration;

/// The longest time that an answer may take.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The endpoints that a command asks.
#[derive(Args, Clone, Debug)]
pub(crate) struct Endpoints {
    /// Where clients reach any replica, or several; the others are found from there
    #[arg(
        long = "endpoints",
        env = "QUORATE_ENDPOINTS",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = "127.0.0.1:2379"
    )]
    urls: Vec<String>,
}

impl Endpoints {
    /// The endpoints as they were given; an error if one is not `host:port`, with or without a scheme.
    pub(crate) fn urls(&self) -> Result<&[String], Failure> {
        match self.urls.iter().find(|url| !is_endpoint(url)) {
            None => Ok(&self.urls),
            Some(url) => Err(Failure::Usage(format!(
                "--endpoints {url:?} is not of the form host:port or http://host:port"
            ))),
        }
    }

    /// The status page of the first replica that answers.
    pub(crate) fn status_page(&self) -> Result<StatusPage, Failure> {
        let mut why = String::new();
        for url in self.urls()? {
            match status_page(url) {
                Ok(page) => return Ok(page),
                Err(error) => why = error,
            }
        }
        Err(Failure::Failed(why))
    }

    /// Asks the first that answers at all for something.
    pub(crate) fn post(&self, path: &str, body: &impl Serialize) -> Result<(), Failure> {
        let body = serde_json::to_string(body);
        let body = body.map_err(|error| Failure::Failed(error.to_string()))?;
        let mut why = String::new();
        for url in self.urls()? {
            match post(host_port(url), path, &body, ANSWER_TIMEOUT) {
                Ok((200, _)) => return Ok(()),
                Ok((_, answer)) => return Err(Failure::Failed(answer)),
                Err(error) => why = error,
            }
        }
        Err(Failure::Failed(why))
    }
}

fn is_endpoint(url: &str) -> bool {
    match host_port(url).rsplit_once(':') {
        Some((host, port)) => {
            !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
        }
        None => false,
    }
}

/// `host:port` of an endpoint.
pub(crate) fn host_port(url: &str) -> &str {
    url.strip_prefix("http://")
        .unwrap_or(url)
        .trim_end_matches('/')
}

/// The status page of the replica at an endpoint.
pub(crate) fn status_page(url: &str) -> Result<StatusPage, String> {
    let text = get(host_port(url), "/status")?;
    let page = serde_json::from_str(&text);
    page.map_err(|error| format!("{url} is no Quorate replica: {error}"))
}
