//! The Auth service.

use crate::auth::{NewToken, PasswordError};
use crate::codec::decode;
use crate::face::{Face, mismatch, refused, status};
use crate::reply::Reply;
use crate::server::Auth;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb as api;
use quorate_etcd_store::{
    Asker, AuthAnswer, AuthChange, AuthQuery, Identity, Login, Query, QueryAnswer, Refused,
    TokenGrant, command,
};
use quorate_server::{Consistency, USERS_LEVEL};
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

/// How often a login is tried again because users change meanwhile.
const LOGINS_MAX: u32 = 16;

/// Calls that change users and roles: the request is the command, the response its result.
macro_rules! ordered {
    ($self:ident, $request:ident, $change:ident) => {{
        let asker = $self.asker(&$request).await?;
        $self.demand_level().await?;
        let change = AuthChange::$change($request.into_inner());
        $self.order(command::encode_auth(&change), &asker).await
    }};
}

#[async_trait]
impl Auth for Face {
    async fn auth_enable(
        &self,
        request: Request<api::AuthEnableRequest>,
    ) -> Answered<Reply<api::AuthEnableResponse>> {
        ordered!(self, request, Enable)
    }

    async fn auth_disable(
        &self,
        request: Request<api::AuthDisableRequest>,
    ) -> Answered<Reply<api::AuthDisableResponse>> {
        ordered!(self, request, Disable)
    }

    async fn auth_status(
        &self,
        request: Request<api::AuthStatusRequest>,
    ) -> Answered<api::AuthStatusResponse> {
        let asker = self.asker(&request).await?;
        let (revision, answer) = self.ask_auth(AuthQuery::Status, &asker).await?;
        let AuthAnswer::Status(enabled, auth_revision) = answer else {
            return Err(mismatch());
        };
        Ok(Response::new(api::AuthStatusResponse {
            header: Some(self.header(revision).await?),
            enabled,
            auth_revision,
        }))
    }

    async fn authenticate(
        &self,
        request: Request<api::AuthenticateRequest>,
    ) -> Answered<api::AuthenticateResponse> {
        let api::AuthenticateRequest { name, password } = request.into_inner();
        for _ in 0..LOGINS_MAX {
            let login = self.check_password(&name, password.clone(), Consistency::Linearizable);
            let login = login.await?;
            let identity = Identity {
                name: name.as_str().into(),
                revision: login.revision,
            };
            let token = self.auth.options.tokens.draw(&identity);
            let token = token.map_err(Status::unknown)?;
            match self.grant_token(&name, &login, &token).await? {
                // Its password may be another one by now.
                Err(Refused::AuthOldRevision) => {}
                Err(reason) => return Err(refused(reason)),
                Ok(applied) => {
                    let granted: api::AuthenticateResponse = decode(applied.response)?;
                    return Ok(Response::new(api::AuthenticateResponse {
                        header: Some(self.header(applied.revision).await?),
                        token: token.whole(&granted.token),
                    }));
                }
            }
        }
        Err(refused(Refused::AuthOldRevision))
    }

    async fn user_add(
        &self,
        request: Request<api::AuthUserAddRequest>,
    ) -> Answered<Reply<api::AuthUserAddResponse>> {
        let asker = self.asker(&request).await?;
        self.demand_level().await?;
        let mut request = request.into_inner();
        let password = std::mem::take(&mut request.password);
        request.hashed_password = match request.options.is_some_and(|o| o.no_password) {
            true => String::new(),
            false => self.hash(password, &asker).await?,
        };
        let change = AuthChange::UserAdd(request);
        self.order(command::encode_auth(&change), &asker).await
    }

    async fn user_get(
        &self,
        request: Request<api::AuthUserGetRequest>,
    ) -> Answered<api::AuthUserGetResponse> {
        let asker = self.asker(&request).await?;
        let query = AuthQuery::User(request.into_inner().name);
        let (header, roles) = self.names(query, &asker).await?;
        Ok(Response::new(api::AuthUserGetResponse { header, roles }))
    }

    async fn user_list(
        &self,
        request: Request<api::AuthUserListRequest>,
    ) -> Answered<api::AuthUserListResponse> {
        let asker = self.asker(&request).await?;
        let (header, users) = self.names(AuthQuery::Users, &asker).await?;
        Ok(Response::new(api::AuthUserListResponse { header, users }))
    }

    async fn user_delete(
        &self,
        request: Request<api::AuthUserDeleteRequest>,
    ) -> Answered<Reply<api::AuthUserDeleteResponse>> {
        ordered!(self, request, UserDelete)
    }

    async fn user_change_password(
        &self,
        request: Request<api::AuthUserChangePasswordRequest>,
    ) -> Answered<Reply<api::AuthUserChangePasswordResponse>> {
        let asker = self.asker(&request).await?;
        self.demand_level().await?;
        let mut request = request.into_inner();
        let password = std::mem::take(&mut request.password);
        // As in etcd, an empty one is one that fits nothing.
        request.hashed_password = match password.is_empty() {
            true => String::new(),
            false => self.hash(password, &asker).await?,
        };
        let change = AuthChange::UserChangePassword(request);
        self.order(command::encode_auth(&change), &asker).await
    }

    async fn user_grant_role(
        &self,
        request: Request<api::AuthUserGrantRoleRequest>,
    ) -> Answered<Reply<api::AuthUserGrantRoleResponse>> {
        ordered!(self, request, UserGrantRole)
    }

    async fn user_revoke_role(
        &self,
        request: Request<api::AuthUserRevokeRoleRequest>,
    ) -> Answered<Reply<api::AuthUserRevokeRoleResponse>> {
        ordered!(self, request, UserRevokeRole)
    }

    async fn role_add(
        &self,
        request: Request<api::AuthRoleAddRequest>,
    ) -> Answered<Reply<api::AuthRoleAddResponse>> {
        ordered!(self, request, RoleAdd)
    }

    async fn role_get(
        &self,
        request: Request<api::AuthRoleGetRequest>,
    ) -> Answered<api::AuthRoleGetResponse> {
        let asker = self.asker(&request).await?;
        let query = AuthQuery::Role(request.into_inner().role);
        let (revision, answer) = self.ask_auth(query, &asker).await?;
        let AuthAnswer::Permissions(perm) = answer else {
            return Err(mismatch());
        };
        let header = Some(self.header(revision).await?);
        Ok(Response::new(api::AuthRoleGetResponse { header, perm }))
    }

    async fn role_list(
        &self,
        request: Request<api::AuthRoleListRequest>,
    ) -> Answered<api::AuthRoleListResponse> {
        let asker = self.asker(&request).await?;
        let (header, roles) = self.names(AuthQuery::Roles, &asker).await?;
        Ok(Response::new(api::AuthRoleListResponse { header, roles }))
    }

    async fn role_delete(
        &self,
        request: Request<api::AuthRoleDeleteRequest>,
    ) -> Answered<Reply<api::AuthRoleDeleteResponse>> {
        ordered!(self, request, RoleDelete)
    }

    async fn role_grant_permission(
        &self,
        request: Request<api::AuthRoleGrantPermissionRequest>,
    ) -> Answered<Reply<api::AuthRoleGrantPermissionResponse>> {
        ordered!(self, request, RoleGrantPermission)
    }

    async fn role_revoke_permission(
        &self,
        request: Request<api::AuthRoleRevokePermissionRequest>,
    ) -> Answered<Reply<api::AuthRoleRevokePermissionResponse>> {
        ordered!(self, request, RoleRevokePermission)
    }
}

impl Face {
    /// Refuses changes that a replica of the group may not know yet.
    async fn demand_level(&self) -> Result<(), Status> {
        let replica = self.replica_at(USERS_LEVEL).await?;
        match replica.lacks_level("users and roles", USERS_LEVEL) {
            Some(why) => Err(Status::failed_precondition(format!("quorate: {why}"))),
            None => Ok(()),
        }
    }

    /// The hash of a new password. Who may not set one has none hashed.
    async fn hash(&self, password: String, asker: &Asker) -> Result<String, Status> {
        self.demand_root(asker)?;
        let cost = self.auth.options.bcrypt_cost;
        let hashed = self.auth.passwords.hash(password, cost).await;
        hashed.map_err(not_hashed)
    }

    /// Says under which auth revision a password fits, by what all members know or by what this one does.
    pub(super) async fn check_password(
        &self,
        name: &str,
        password: String,
        consistency: Consistency,
    ) -> Result<Login, Status> {
        let query = Query::Login {
            name: name.to_owned(),
        };
        let answer = self.read(query, consistency, &Asker::Anybody);
        let QueryAnswer::Login(login) = answer.await? else {
            return Err(mismatch());
        };
        let fits = self.auth.passwords.fits(password, login.hash.clone());
        match fits.await.map_err(not_hashed)? {
            true => Ok(login),
            false => {
                tracing::info!(user = name, "a password does not fit");
                Err(status(errors::AUTH_FAILED))
            }
        }
    }

    async fn grant_token(
        &self,
        name: &str,
        login: &Login,
        token: &NewToken,
    ) -> Result<Result<quorate_etcd_store::Applied, Refused>, Status> {
        let change = AuthChange::GrantToken(TokenGrant {
            name: name.to_owned(),
            digest: token.digest(),
            revision: login.revision,
        });
        let body = command::encode_auth(&change);
        self.apply(body, Vec::new(), &Asker::Anybody).await
    }

    async fn ask_auth(&self, query: AuthQuery, asker: &Asker) -> Result<(i64, AuthAnswer), Status> {
        let query = Query::Auth(query);
        match self.read(query, Consistency::Linearizable, asker).await? {
            QueryAnswer::Auth(revision, answer) => Ok((revision, answer)),
            _ => Err(mismatch()),
        }
    }

    async fn names(
        &self,
        query: AuthQuery,
        asker: &Asker,
    ) -> Result<(Option<api::ResponseHeader>, Vec<String>), Status> {
        match self.ask_auth(query, asker).await? {
            (revision, AuthAnswer::Names(names)) => Ok((Some(self.header(revision).await?), names)),
            _ => Err(mismatch()),
        }
    }
}

/// What a client is told of a password that was not looked at.
fn not_hashed(why: PasswordError) -> Status {
    match why {
        PasswordError::TooMany => status(errors::TOO_MANY_REQUESTS),
        // In the words of etcd.
        PasswordError::TooLong => Status::unknown("bcrypt: password length exceeds 72 bytes"),
        PasswordError::Failed => Status::internal("the password cannot be hashed or checked"),
    }
}
