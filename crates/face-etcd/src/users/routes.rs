//! The plain routes obey the same users.
//!
//! They take what calls take, and a name with its password as HTTP has it (RFC 7617), for whoever cannot log in first.

use crate::auth::Credentials;
use crate::face::Face;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quorate_etcd_store::{Asker, Identity};
use quorate_face_common::RouteRight;
use quorate_server::Consistency;
use tonic::{Code, Status};

/// In front of a name and its password.
const BASIC: &str = "Basic ";

impl Face {
    /// Lets a request through to a route, or says how it is refused.
    pub(crate) async fn guard_route(
        &self,
        right: RouteRight,
        headers: HeaderMap,
        extensions: Extensions,
    ) -> Result<(), Response> {
        // Figures are taken without a user, as at an etcd.
        if self.auth.is_off() || right == RouteRight::Measure {
            return Ok(());
        }
        // How a replica is has to be seen where no quorum is, too.
        let consistency = match right {
            RouteRight::Change => Consistency::Linearizable,
            RouteRight::Measure | RouteRight::Look => Consistency::Serializable,
        };
        let asker = match name_and_password(&headers) {
            Some((name, password)) => self.asker_by_password(&name, password, consistency).await,
            None => {
                self.identify(&Credentials::among(&headers, &extensions))
                    .await
            }
        };
        let judged = match (asker, right) {
            (Err(status), _) => Err(status),
            (Ok(asker), RouteRight::Change) => self.demand_operator(asker).await,
            // As the calls that tell of members and of a member's state.
            (Ok(asker), RouteRight::Measure | RouteRight::Look) => self.demand_user(&asker),
        };
        judged.map_err(|status| refusal(&status))
    }

    async fn asker_by_password(
        &self,
        name: &str,
        password: String,
        consistency: Consistency,
    ) -> Result<Asker, Status> {
        let board = self.auth.known();
        if board.is_some_and(|board| !board.is_enabled()) {
            return Ok(Asker::Anybody);
        }
        let login = self.check_password(name, password, consistency).await?;
        Ok(Asker::User(Identity {
            name: name.into(),
            revision: login.revision,
        }))
    }
}

fn name_and_password(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let decoded = STANDARD.decode(value.strip_prefix(BASIC)?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// Why a request is refused, for people and programs.
fn refusal(status: &Status) -> Response {
    let code = match status.code() {
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::InvalidArgument
        | Code::Unauthenticated
        | Code::FailedPrecondition
        | Code::Unknown => StatusCode::UNAUTHORIZED,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = format!("{}\n", status.message());
    match code {
        StatusCode::UNAUTHORIZED => {
            let realm = [(WWW_AUTHENTICATE, "Basic realm=\"quorate\"")];
            (code, realm, text).into_response()
        }
        code => (code, text).into_response(),
    }
}
