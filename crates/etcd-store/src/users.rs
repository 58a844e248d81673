//! What the store makes of changes of users and roles, and of questions about them.

use crate::auth::{AuthChange, AuthState, Login, TokenDigest, TokenGrant};
use crate::command;
use crate::flaw::Flaw;
use crate::query::{AuthAnswer, AuthQuery, QueryAnswer};
use crate::refused::Refused;
use crate::store::Store;
use bytes::Bytes;
use quorate_core::At;
use quorate_etcd_api::etcdserverpb::{AuthEnableRequest, AuthenticateResponse};
use std::sync::Arc;

/// Looking at users and roles.
impl Store {
    /// Users and roles.
    #[must_use]
    pub fn users(&self) -> Arc<AuthState> {
        Arc::clone(&self.auth)
    }
}

/// No response of a change says more than its header; that of a token, in which slot it was granted.
impl Store {
    pub(crate) fn read_auth(&self, query: &AuthQuery) -> Result<QueryAnswer, Refused> {
        let state = &self.auth;
        let answer = match query {
            AuthQuery::Status => AuthAnswer::Status(state.is_enabled(), state.revision()),
            AuthQuery::User(name) => {
                let user = state.user(name).ok_or(Refused::UserNotFound)?;
                AuthAnswer::Names(user.roles.iter().map(|role| role.to_string()).collect())
            }
            AuthQuery::Users => {
                let users = state.users_after(None);
                AuthAnswer::Names(users.map(|(name, _)| name.to_owned()).collect())
            }
            AuthQuery::Role(role) => AuthAnswer::Permissions(state.permissions(role)?),
            AuthQuery::Roles => {
                let roles = state.roles_after(None);
                AuthAnswer::Names(roles.map(|(name, _)| name.to_owned()).collect())
            }
        };
        Ok(QueryAnswer::Auth(self.revision, answer))
    }

    pub(crate) fn login(&self, name: &str) -> Result<Login, Refused> {
        if !self.auth.is_enabled() {
            return Err(Refused::AuthNotEnabled);
        }
        let user = self.auth.user(name).ok_or(Refused::AuthFailed)?;
        if user.no_password {
            return Err(Refused::NoPasswordUser);
        }
        Ok(Login {
            hash: user.password.clone(),
            revision: self.auth.revision(),
        })
    }

    pub(crate) fn change_auth(&mut self, at: At, change: &AuthChange) -> Result<Bytes, Refused> {
        if let AuthChange::GrantToken(grant) = change {
            return self.grant_token(at, grant);
        }
        // Nothing is changed by halves: a change that is refused leaves the copy behind.
        let mut state = AuthState::clone(&self.auth);
        let mut stays_valid = true;
        let mut gone = None;
        match change {
            AuthChange::Enable(_) => state.enable()?,
            AuthChange::Disable(_) => {
                state.disable();
                stays_valid = false;
            }
            AuthChange::UserAdd(request) => {
                let no_password = request.options.is_some_and(|options| options.no_password);
                state.add_user(&request.name, &request.hashed_password, no_password)?;
            }
            AuthChange::UserDelete(request) => {
                state.delete_user(&request.name)?;
                gone = Some(&request.name);
            }
            AuthChange::UserChangePassword(request) => {
                state.change_password(&request.name, &request.hashed_password)?;
                gone = Some(&request.name);
            }
            AuthChange::UserGrantRole(request) => {
                state.grant_role(&request.user, &request.role)?;
            }
            AuthChange::UserRevokeRole(request) => {
                state.revoke_role(&request.name, &request.role)?;
            }
            AuthChange::RoleAdd(request) => state.add_role(&request.name)?,
            AuthChange::RoleDelete(request) => state.delete_role(&request.role)?,
            AuthChange::RoleGrantPermission(request) => {
                state.grant_permission(&request.name, request.perm.as_ref())?;
            }
            AuthChange::RoleRevokePermission(request) => {
                state.revoke_permission(&request.role, &request.key, &request.range_end)?;
            }
            AuthChange::GrantToken(_) => {}
        }
        if !stays_valid {
            self.board.forget_tokens(|_| true);
        } else if let Some(name) = gone {
            self.board.forget_tokens(|user| user == name);
        }
        let takes_away = matches!(
            change,
            AuthChange::UserRevokeRole(_)
                | AuthChange::RoleDelete(_)
                | AuthChange::RoleRevokePermission(_)
        );
        if takes_away && self.flaw == Some(Flaw::RevokedRightsKept) {
            state.keep_rights(&self.auth);
        }
        self.auth = Arc::new(state);
        match self.flaw {
            Some(Flaw::WatchesNotLookedAtAgain) => self.board.put_up(&self.auth),
            _ => self.board.publish(&self.auth),
        }
        Ok(command::applied(self.revision, &AuthEnableRequest {}))
    }

    fn grant_token(&mut self, at: At, grant: &TokenGrant) -> Result<Bytes, Refused> {
        if !self.auth.is_enabled() {
            return Err(Refused::AuthNotEnabled);
        }
        match self.auth.user(&grant.name) {
            Some(user) if !user.no_password => {}
            _ => return Err(Refused::AuthFailed),
        }
        if grant.revision != self.auth.revision() {
            return Err(Refused::AuthOldRevision);
        }
        if let Ok(digest) = TokenDigest::try_from(&grant.digest[..]) {
            self.board.note_token(digest, &grant.name, at.stamp_ns);
        }
        let response = AuthenticateResponse {
            header: None,
            token: at.slot.0.to_string(),
        };
        Ok(command::applied(self.revision, &response))
    }
}
