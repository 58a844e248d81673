//! `--endpoints`: where a cluster is asked.

use crate::Failure;
use crate::address::port_too_large;
use crate::redis_endpoint::{REDIS, admin_of};
use crate::user_args::{self, UserArgs};
use clap::Args;
use quorate_server::StatusPage;
use quorate_tls::Connector;
use quorate_tooling::login::Login;
use quorate_tooling::scrape::{DownloadError, Fetcher};
use quorate_tooling::tls_args::ClientTlsArgs;
use serde::Serialize;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// The longest time that an answer may take.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the next bytes of a file may take: a server may have to save it first.
const FILE_TIMEOUT: Duration = Duration::from_secs(600);

/// The endpoints that a command asks.
#[derive(Args, Clone, Debug)]
pub(crate) struct Endpoints {
    /// Where clients reach any replica, or several; the others are found from there. TLS is spoken to
    /// https://HOST:PORT, and without a scheme if certificates are given; replicas with the Redis face are asked where
    /// they serve operators, at redis://HOST:PORT
    #[arg(
        long = "endpoints",
        env = "QUORATE_ENDPOINTS",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = "127.0.0.1:2379"
    )]
    urls: Vec<String>,

    #[command(flatten)]
    tls: ClientTlsArgs,

    #[command(flatten)]
    user: UserArgs,
}

/// A cluster to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The endpoints, each as [`place`] has it.
    pub(crate) places: Vec<String>,
    /// What connects to those that speak TLS.
    pub(crate) tls: Option<Arc<Connector>>,
    /// Who asks, where that is told.
    pub(crate) user: Option<Login>,
    fetcher: Fetcher,
}

impl Endpoints {
    /// The endpoints, and what is needed to ask there.
    pub(crate) fn open(&self) -> Result<Asked, Failure> {
        let asked = Asked::new(&self.urls, &self.tls)?;
        Ok(asked.by(self.user.resolve()?))
    }

    /// The status page of the first replica that answers.
    pub(crate) fn status_page(&self) -> Result<StatusPage, Failure> {
        self.open()?.first_status_page()
    }
}

impl Asked {
    /// These endpoints; an error if one is not `host:port`, with or without a scheme.
    pub(crate) fn new(urls: &[String], tls: &ClientTlsArgs) -> Result<Asked, Failure> {
        if let Some(url) = urls.iter().find(|url| !is_endpoint(url)) {
            if let Some(why) = port_too_large(url.trim_end_matches('/')) {
                return Err(Failure::Usage(format!("--endpoints {url:?}: {why}")));
            }
            return Err(Failure::Usage(format!(
                "--endpoints {url:?} is not of the form host:port, http://host:port or https://host:port"
            )));
        }
        let complete = urls.iter().map(|url| match url.strip_prefix(REDIS) {
            Some(address) => admin_of(address),
            None => Ok(tls.complete(url)),
        });
        let complete: Vec<String> = all_found(complete).map_err(Failure::Failed)?;
        let tls = tls.connector(&complete).map_err(Failure::Usage)?;
        Ok(Asked {
            places: complete.iter().map(|url| place(url).to_owned()).collect(),
            fetcher: Fetcher::new(tls.clone()),
            tls,
            user: None,
        })
    }

    /// Asks as a user from now on, if there is one.
    pub(crate) fn by(self, user: Option<Login>) -> Asked {
        let header = user.as_ref().map(user_args::header);
        Asked {
            fetcher: self.fetcher.authorized(header),
            user,
            ..self
        }
    }

    /// The status page of the first replica that answers.
    pub(crate) fn first_status_page(&self) -> Result<StatusPage, Failure> {
        let mut why = String::new();
        for place in &self.places {
            match self.status_page(place) {
                Ok(page) => return Ok(page),
                Err(error) => why = error,
            }
        }
        Err(Failure::Failed(why))
    }

    /// A page of the replica at an endpoint.
    pub(crate) fn get(&self, url: &str, path: &str) -> Result<String, String> {
        let page = self.find(url, path)?;
        page.ok_or_else(|| format!("{}{path}: {}", place(url), refusal(404, "")))
    }

    /// A page of the replica at an endpoint; `None` if it has no such page.
    pub(crate) fn find(&self, url: &str, path: &str) -> Result<Option<String>, String> {
        let url = place(url);
        match self.fetcher.fetch(url, path)? {
            (200, page) => Ok(Some(page)),
            (404, _) => Ok(None),
            (status, answer) => Err(format!("{url}{path}: {}", refusal(status, &answer))),
        }
    }

    /// Writes a file of the first replica that answers at all.
    pub(crate) fn download(&self, path: &str, out: &mut impl Write) -> Result<(), Failure> {
        let mut why = String::new();
        for place in &self.places {
            match self.fetcher.download(place, path, FILE_TIMEOUT, out) {
                Ok((200, _)) => return Ok(()),
                Ok((404, _)) => {
                    return Err(Failure::Failed(format!(
                        "{place} has no {path}: it has another face, or is of an older version"
                    )));
                }
                Ok((status, answer)) => return Err(Failure::Failed(refusal(status, &answer))),
                Err(DownloadError::Begun(error)) => return Err(Failure::Failed(error)),
                Err(DownloadError::NotBegun(error)) => why = error,
            }
        }
        Err(Failure::Failed(why))
    }

    /// The status page of the replica at an endpoint.
    pub(crate) fn status_page(&self, url: &str) -> Result<StatusPage, String> {
        let text = self.get(url, "/status")?;
        let page = serde_json::from_str(&text);
        page.map_err(|error| format!("{url} is no Quorate replica: {error}"))
    }

    /// Asks the replica at an endpoint for something; what it says.
    pub(crate) fn post_at(
        &self,
        url: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<String, Failure> {
        let body = serde_json::to_string(body);
        let body = body.map_err(|error| Failure::Failed(error.to_string()))?;
        match self
            .fetcher
            .post(place(url), path, &body, ANSWER_TIMEOUT)
            .map_err(Failure::Failed)?
        {
            (200, answer) => Ok(answer),
            (status, answer) => Err(Failure::Failed(refusal(status, &answer))),
        }
    }

    /// Gives bytes to the replica at an endpoint: the status of its answer, and what it says.
    pub(crate) fn post_bytes_at(
        &self,
        url: &str,
        path: &str,
        bytes: &[u8],
        patience: Duration,
    ) -> Result<(u16, String), String> {
        self.fetcher.post_bytes(place(url), path, bytes, patience)
    }

    /// Asks the first that answers at all for something; what it says.
    pub(crate) fn post(&self, path: &str, body: &impl Serialize) -> Result<String, Failure> {
        let body = serde_json::to_string(body);
        let body = body.map_err(|error| Failure::Failed(error.to_string()))?;
        let mut why = String::new();
        for place in &self.places {
            match self.fetcher.post(place, path, &body, ANSWER_TIMEOUT) {
                Ok((200, answer)) => return Ok(answer),
                Ok((status, answer)) => return Err(Failure::Failed(refusal(status, &answer))),
                Err(error) => why = error,
            }
        }
        Err(Failure::Failed(why))
    }
}

/// The places that were found; an error if none was.
fn all_found(places: impl Iterator<Item = Result<String, String>>) -> Result<Vec<String>, String> {
    let (mut found, mut lost) = (Vec::new(), None);
    for place in places {
        match place {
            Ok(place) => found.push(place),
            Err(why) => lost = Some(why),
        }
    }
    match lost.filter(|_| found.is_empty()) {
        None => Ok(found),
        Some(why) => Err(why),
    }
}

/// Why an endpoint gave no page, and what to do.
fn refusal(status: u16, answer: &str) -> String {
    match (status, answer.trim_end()) {
        (401, why) => format!("{why}: give --user NAME[:PASSWORD], or the certificate of a user"),
        (status, "") => format!("status {status}"),
        (_, why) => why.to_owned(),
    }
}

fn is_endpoint(url: &str) -> bool {
    let place = place(url.strip_prefix(REDIS).unwrap_or(url));
    match place
        .strip_prefix("https://")
        .unwrap_or(place)
        .rsplit_once(':')
    {
        Some((host, port)) => {
            !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
        }
        None => false,
    }
}

/// `host:port` of an endpoint, or `https://host:port` of one that speaks TLS.
pub(crate) fn place(url: &str) -> &str {
    url.strip_prefix("http://")
        .unwrap_or(url)
        .trim_end_matches('/')
}
