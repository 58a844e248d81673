//! What is asked about users, and as whom everything is asked.

use quorate_etcd_api::etcdserverpb as pb;
use quorate_face_etcd::client::AuthClient;
use std::collections::BTreeMap;

use super::side::{Served, Side};
use super::step::{Action, Outcome};

/// Who it is that asks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Caller {
    /// Somebody who says nothing of that.
    Nobody,
    /// Who logs in for this step.
    Login { name: String, password: String },
    /// Who shows the token that a user was given last.
    Earlier { name: String },
    /// Who shows a token that nobody was given.
    Forger,
}

/// A question about users.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UserAction {
    /// Makes a root with this password, and turns authentication on.
    Enable {
        password: String,
    },
    Disable,
    Status,
    Login(pb::AuthenticateRequest),
    UserAdd(pb::AuthUserAddRequest),
    UserGet(pb::AuthUserGetRequest),
    UserList,
    UserDelete(pb::AuthUserDeleteRequest),
    ChangePassword(pb::AuthUserChangePasswordRequest),
    GrantRole(pb::AuthUserGrantRoleRequest),
    RevokeRole(pb::AuthUserRevokeRoleRequest),
    RoleAdd(pb::AuthRoleAddRequest),
    RoleGet(pb::AuthRoleGetRequest),
    RoleList,
    RoleDelete(pb::AuthRoleDeleteRequest),
    GrantPermission(pb::AuthRoleGrantPermissionRequest),
    RevokePermission(pb::AuthRoleRevokePermissionRequest),
}

/// Who can log in, as far as is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accounts {
    /// Whether callers must say who they are.
    pub(crate) enabled: bool,
    passwords: BTreeMap<String, String>,
}

impl UserAction {
    /// Whether it may change what somebody may do.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(
            self,
            UserAction::Status
                | UserAction::Login(_)
                | UserAction::UserGet(_)
                | UserAction::UserList
                | UserAction::RoleGet(_)
                | UserAction::RoleList
        )
    }
}

impl Accounts {
    /// The user with this name, who logs in.
    pub(crate) fn login(&self, name: &str) -> Caller {
        Caller::Login {
            name: name.to_owned(),
            password: self.passwords.get(name).cloned().unwrap_or_default(),
        }
    }

    /// Who may do everything.
    pub(crate) fn administrator(&self) -> Caller {
        match self.enabled {
            true => self.login(ROOT),
            false => Caller::Nobody,
        }
    }

    /// Whether watches may have to end when this is done: who may watch is another question afterwards.
    pub(crate) fn ends_watches(&self, action: &Action) -> bool {
        match action {
            Action::Users(UserAction::Enable { .. }) => true,
            Action::Users(action) => self.enabled && action.is_change(),
            _ => false,
        }
    }

    /// Takes note of what was done.
    pub(crate) fn learn(&mut self, action: &UserAction) {
        let mut set = |name: &str, password: &str| {
            self.passwords.insert(name.to_owned(), password.to_owned());
        };
        match action {
            UserAction::Enable { password } => {
                set(ROOT, password);
                self.enabled = true;
            }
            UserAction::Disable => self.enabled = false,
            UserAction::UserAdd(request) => set(&request.name, &request.password),
            UserAction::ChangePassword(request) => set(&request.name, &request.password),
            UserAction::UserDelete(request) => drop(self.passwords.remove(&request.name)),
            _ => {}
        }
    }
}

/// The user, and the role, that may do everything.
pub(crate) const ROOT: &str = "root";

impl Side {
    /// Becomes the caller of a step; an outcome says why that cannot be.
    pub(super) async fn become_caller(
        &mut self,
        at: usize,
        caller: &Caller,
    ) -> Result<Option<Outcome>, String> {
        self.token = None;
        match caller {
            Caller::Nobody => {}
            // etcd waits until its log is as long as the number says.
            Caller::Forger => self.token = Some("nobody.1".to_owned()),
            Caller::Earlier { name } => self.token = self.tokens.get(name).cloned(),
            Caller::Login { name, password } => {
                let request = pb::AuthenticateRequest {
                    name: name.clone(),
                    password: password.clone(),
                };
                let outcome = self.log_in(at, request).await?;
                if !outcome.succeeded {
                    return Ok(Some(outcome));
                }
                self.token = self.tokens.get(name).cloned();
            }
        }
        Ok(None)
    }

    async fn log_in(&mut self, at: usize, request: pb::AuthenticateRequest) -> Served {
        let name = request.name.clone();
        let answer = |side: &mut Side, message: &mut pb::AuthenticateResponse| {
            side.tokens.insert(name, std::mem::take(&mut message.token));
        };
        self.call(at, "/etcdserverpb.Auth/Authenticate", request, answer)
            .await
    }

    /// The token of who may do everything, for what belongs to no step. It has nothing to do with the step's caller.
    pub(super) async fn administrator(
        &self,
        at: usize,
        accounts: &Accounts,
    ) -> Result<Option<String>, String> {
        let Caller::Login { name, password } = accounts.administrator() else {
            return Ok(None);
        };
        let request = pb::AuthenticateRequest { name, password };
        let answer = AuthClient::new(self.channel(at))
            .authenticate(request)
            .await;
        let answer = answer.map_err(|status| format!("root cannot log in: {status}"))?;
        Ok(Some(answer.into_inner().token))
    }

    /// Asks something about users.
    pub(super) async fn ask_about_users(&mut self, at: usize, action: &UserAction) -> Served {
        macro_rules! call {
            ($method:literal, $request:expr, $answer:ident) => {
                self.call(
                    at,
                    concat!("/etcdserverpb.Auth/", $method),
                    $request,
                    |_, _: &mut pb::$answer| (),
                )
                .await
            };
        }
        match action.clone() {
            UserAction::Enable { password } => self.enable(at, password).await,
            UserAction::Disable => {
                call!(
                    "AuthDisable",
                    pb::AuthDisableRequest {},
                    AuthDisableResponse
                )
            }
            UserAction::Status => {
                call!("AuthStatus", pb::AuthStatusRequest {}, AuthStatusResponse)
            }
            UserAction::Login(request) => self.log_in(at, request).await,
            UserAction::UserAdd(request) => call!("UserAdd", request, AuthUserAddResponse),
            UserAction::UserGet(request) => call!("UserGet", request, AuthUserGetResponse),
            UserAction::UserList => {
                call!("UserList", pb::AuthUserListRequest {}, AuthUserListResponse)
            }
            UserAction::UserDelete(request) => {
                call!("UserDelete", request, AuthUserDeleteResponse)
            }
            UserAction::ChangePassword(request) => call!(
                "UserChangePassword",
                request,
                AuthUserChangePasswordResponse
            ),
            UserAction::GrantRole(request) => {
                call!("UserGrantRole", request, AuthUserGrantRoleResponse)
            }
            UserAction::RevokeRole(request) => {
                call!("UserRevokeRole", request, AuthUserRevokeRoleResponse)
            }
            UserAction::RoleAdd(request) => call!("RoleAdd", request, AuthRoleAddResponse),
            UserAction::RoleGet(request) => call!("RoleGet", request, AuthRoleGetResponse),
            UserAction::RoleList => {
                call!("RoleList", pb::AuthRoleListRequest {}, AuthRoleListResponse)
            }
            UserAction::RoleDelete(request) => {
                call!("RoleDelete", request, AuthRoleDeleteResponse)
            }
            UserAction::GrantPermission(request) => {
                call!(
                    "RoleGrantPermission",
                    request,
                    AuthRoleGrantPermissionResponse
                )
            }
            UserAction::RevokePermission(request) => {
                call!(
                    "RoleRevokePermission",
                    request,
                    AuthRoleRevokePermissionResponse
                )
            }
        }
    }

    /// Makes a root that has its role, and turns authentication on.
    async fn enable(&mut self, at: usize, password: String) -> Served {
        let mut whole = Outcome::default();
        let name = || ROOT.to_owned();
        let steps = [
            UserAction::UserAdd(pb::AuthUserAddRequest {
                name: name(),
                password: password.clone(),
                options: None,
                hashed_password: String::new(),
            }),
            UserAction::ChangePassword(pb::AuthUserChangePasswordRequest {
                name: name(),
                password,
                hashed_password: String::new(),
            }),
            UserAction::GrantRole(pb::AuthUserGrantRoleRequest {
                user: name(),
                role: name(),
            }),
        ];
        for step in steps {
            whole.add(Box::pin(self.ask_about_users(at, &step)).await?);
        }
        let request = pb::AuthEnableRequest {};
        let answer = |_: &mut Side, _: &mut pb::AuthEnableResponse| ();
        let enabled = self.call(at, "/etcdserverpb.Auth/AuthEnable", request, answer);
        let enabled = enabled.await?;
        let succeeded = enabled.succeeded;
        whole.add(enabled);
        whole.succeeded = succeeded;
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_know_who_can_log_in() {
        let mut accounts = Accounts::default();
        assert_eq!(accounts.administrator(), Caller::Nobody);
        accounts.learn(&UserAction::Enable {
            password: "p".to_owned(),
        });
        let root = |password: &str| Caller::Login {
            name: ROOT.to_owned(),
            password: password.to_owned(),
        };
        assert_eq!(accounts.administrator(), root("p"));
        accounts.learn(&UserAction::ChangePassword(
            pb::AuthUserChangePasswordRequest {
                name: ROOT.to_owned(),
                password: "q".to_owned(),
                hashed_password: String::new(),
            },
        ));
        assert_eq!(accounts.administrator(), root("q"));
        accounts.learn(&UserAction::Disable);
        assert_eq!(accounts.administrator(), Caller::Nobody);
    }

    #[test]
    fn watches_end_when_rights_change_and_not_when_they_are_asked_for() {
        let mut accounts = Accounts::default();
        let change = Action::Users(UserAction::Disable);
        assert!(!accounts.ends_watches(&change));
        accounts.enabled = true;
        assert!(accounts.ends_watches(&change));
        assert!(!accounts.ends_watches(&Action::Users(UserAction::Status)));
    }
}
