//! What operators see of a replica whose server is fed with the log, at the admin address.

use crate::RedisApplication;
use crate::fed::{Fed, REPLY_MAX, position};
use crate::quoted::quoted;
use crate::rdb_body::file_of;
use crate::server::{Server, since_epoch};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use quorate_face_common::{Page, json};
use quorate_server::{Consistency, Handle};
use tokio::time::timeout;

/// How far the server is, in JSON.
pub(crate) async fn page(server: &Server) -> Response {
    let Some(fed) = &server.fed else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let status = fed.feed.status();
    let role = match status.is_serving {
        true => "commands",
        false => "loading",
    };
    let digest = match position(&server.handle, Consistency::Serializable).await {
        Ok((_, digest)) => quoted(&format!("{digest:016x}")),
        Err(_) => "null".to_owned(),
    };
    let failure = status.failure.map_or("null".to_owned(), |why| quoted(&why));
    let fields = [
        ("role", quoted(role)),
        ("server", quoted(&fed.program)),
        ("offset", status.taken.to_string()),
        ("server_offset", status.carried_out.to_string()),
        (
            "lag",
            (status.taken - status.carried_out.min(status.taken)).to_string(),
        ),
        ("lag_bytes", status.behind_bytes.to_string()),
        ("digest", digest),
        (
            "replies_digest",
            quoted(&format!("{:016x}", status.replies)),
        ),
        ("rdb_offset", status.rdb_position.to_string()),
        ("history_bytes", status.history_bytes.to_string()),
        ("server_deaths", status.deaths.to_string()),
        ("clients", server.clients.count().to_string()),
        ("clock_us", since_epoch().as_micros().to_string()),
        ("failure", failure),
    ];
    let fields = fields.map(|(name, value)| format!("\"{name}\":{value}"));
    json(StatusCode::OK, format!("{{{}}}", fields.join(",")))
}

impl Fed {
    /// Whether the replica answers, and has a server.
    pub(crate) async fn probe(
        &self,
        handle: &Handle<RedisApplication>,
        consistency: Consistency,
    ) -> Result<(), String> {
        if let Some(why) = self.feed.status().failure {
            return Err(why);
        }
        let read = position(handle, consistency).await;
        read.map(drop).map_err(|failure| failure.to_string())
    }

    /// All that is committed, as the server saves it.
    pub(crate) async fn rdb(&self, handle: &Handle<RedisApplication>) -> Response {
        let unavailable = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
        let position = match position(handle, Consistency::Linearizable).await {
            Ok((position, _)) => position,
            Err(failure) => return unavailable(failure.to_string()),
        };
        match timeout(REPLY_MAX, self.feed.rdb(position)).await {
            Ok(Ok(rdb)) => file_of(rdb),
            Ok(Err(_)) | Err(_) => unavailable("the server did not save its state".to_owned()),
        }
    }

    /// Adds what the feed counts to a page of metrics.
    pub(crate) fn add_to(&self, page: &mut Page) {
        let status = self.feed.status();
        let gauges = [
            (
                "quorate_redis_taken",
                "Bodies of the log that servers carry out.",
                status.taken,
            ),
            (
                "quorate_redis_lag",
                "Bodies that the own server has not carried out yet.",
                status.taken - status.carried_out.min(status.taken),
            ),
            (
                "quorate_redis_history_bytes",
                "Bodies since the newest RDB.",
                status.history_bytes,
            ),
        ];
        for (name, help, value) in gauges {
            page.gauge(name, help, value as f64);
        }
        page.counter(
            "quorate_redis_server_deaths_total",
            "Servers that ended by themselves.",
            status.deaths,
        );
    }
}
