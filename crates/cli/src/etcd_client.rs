//! Calls of etcd's API, to whichever endpoint answers.

use crate::Failure;
use crate::endpoints::Asked;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::AuthenticateRequest;
use quorate_face_common::Dialer;
use quorate_face_etcd::client::AuthClient;
use quorate_tooling::login::Login;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// A connection to a replica, and who uses it.
#[derive(Clone)]
pub(crate) struct EtcdClient {
    pub(crate) channel: Channel,
    /// The endpoint that answered.
    pub(crate) place: String,
    token: Option<MetadataValue<Ascii>>,
}

/// How long things may take.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// The longest time that an answer may take to begin.
    pub(crate) answer: Duration,
    /// How long a connection may be silent before it is asked for a sign of life, which may take as long once more;
    /// `None` for ever.
    pub(crate) silence: Option<Duration>,
}

impl EtcdClient {
    /// Connects to the first endpoint that lets it.
    pub(crate) async fn connect(asked: &Asked, patience: Patience) -> Result<EtcdClient, Failure> {
        let mut why = String::new();
        for place in &asked.places {
            let url = match place.contains("://") {
                true => place.clone(),
                false => format!("http://{place}"),
            };
            let endpoint = Endpoint::from_shared(url);
            let endpoint = endpoint.map_err(|error| Failure::Failed(error.to_string()))?;
            let mut endpoint = endpoint
                .timeout(patience.answer)
                .connect_timeout(patience.answer);
            if let Some(silence) = patience.silence {
                endpoint = endpoint
                    .http2_keep_alive_interval(silence)
                    .keep_alive_timeout(silence)
                    .keep_alive_while_idle(true);
            }
            let dialer = Dialer::new(asked.tls.clone());
            match endpoint.connect_with_connector(dialer).await {
                Ok(channel) => {
                    let token = match &asked.user {
                        Some(user) => log_in(channel.clone(), user).await?,
                        None => None,
                    };
                    return Ok(EtcdClient {
                        channel,
                        place: place.clone(),
                        token,
                    });
                }
                Err(error) => why = unreached(place, &error),
            }
        }
        Err(Failure::Failed(why))
    }

    /// A request of who uses the connection.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        self.by_token(Request::new(message))
    }

    /// A request with the token of who uses the connection.
    pub(crate) fn by_token<T>(&self, mut request: Request<T>) -> Request<T> {
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

/// A token for a user; none where authentication is off.
async fn log_in(channel: Channel, user: &Login) -> Result<Option<MetadataValue<Ascii>>, Failure> {
    let request = AuthenticateRequest {
        name: user.name.clone(),
        password: user.password.clone(),
    };
    let token = match AuthClient::new(channel).authenticate(request).await {
        Ok(answer) => answer.into_inner().token,
        Err(status) if status.message() == errors::AUTH_NOT_ENABLED.text => return Ok(None),
        Err(status) => return Err(failed(&status)),
    };
    let token = token.parse();
    let token = token.map_err(|_| Failure::Failed("the answer is no token".to_owned()))?;
    Ok(Some(token))
}

/// Why a replica was not reached: what its certificate lacks, or nobody is there.
fn unreached(place: &str, error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let last = causes.last().map(ToString::to_string).unwrap_or_default();
    match place.starts_with("https://") {
        true => format!("no replica answers at {place}: {last}"),
        false => format!("no replica answers at {place}: is it running?"),
    }
}

/// What a replica says in the place of an answer.
pub(crate) fn failed(status: &Status) -> Failure {
    let text = status.message();
    let text = text.strip_prefix("etcdserver: ").unwrap_or(text);
    Failure::Failed(text.strip_prefix("quorate: ").unwrap_or(text).to_owned())
}
