//! What operators see of a replica whose data is in the store of this program, at the admin address: the server that is
//! followed, if there is one.

use crate::import::{self, Target};
use crate::quoted::quoted;
use crate::server::Server;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use quorate_face_common::json;
use quorate_redis_store::{Answer, Query, Standing};
use quorate_server::{Consistency, Failure, REDIS_STORE_IMPORT_LEVEL};

/// How far the data of another server is here, in JSON.
pub(crate) async fn page(server: &Server) -> Response {
    let standing = match standing(server).await {
        Ok(standing) => standing,
        Err(failure) => return unavailable(&failure),
    };
    let failure = standing
        .failure
        .map_or("null".to_owned(), |why| quoted(&why));
    let fields = [
        ("role", quoted("own")),
        ("epoch", standing.epoch.to_string()),
        ("offset", standing.len.to_string()),
        ("clients", server.clients.count().to_string()),
        ("failure", failure),
    ];
    let fields = fields.into_iter().chain(import::fields(standing.import));
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    json(StatusCode::OK, format!("{{{}}}", fields.join(",")))
}

/// Orders a command of an import.
pub(crate) async fn order(server: &Server, body: Bytes) -> Response {
    match standing(server).await {
        Ok(standing) => {
            let target = Target {
                epoch: standing.epoch,
                import: standing.import,
                level: REDIS_STORE_IMPORT_LEVEL,
            };
            import::order(&server.handle, target, body, |_| ()).await
        }
        Err(failure) => unavailable(&failure),
    }
}

/// Where the stream of the other server stands, as far as this replica has applied it.
async fn standing(server: &Server) -> Result<Standing, Failure> {
    let read = server.read(Query::Standing, Consistency::Serializable);
    match read.await? {
        Answer::Standing(standing) => Ok(standing),
        _ => Err(Failure::NotServing),
    }
}

fn unavailable(failure: &Failure) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, failure.to_string()).into_response()
}
