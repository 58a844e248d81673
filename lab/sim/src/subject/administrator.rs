//! The client that changes users and roles: one change after the other, each known to be made or not before the next.

use super::{Ask, USERS};
use crate::judge::{ROOT, Request, Response, Returned, Users};
use crate::requests;
use bytes::Bytes;
use fastrand::Rng;
use quorate_etcd_api::authpb::{Permission, PermissionType};
use quorate_etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest,
    AuthRoleGrantPermissionRequest, AuthRoleRevokePermissionRequest, AuthUserAddRequest,
    AuthUserChangePasswordRequest, AuthUserDeleteRequest, AuthUserGrantRoleRequest,
    AuthUserRevokeRoleRequest,
};
use quorate_etcd_store::AuthChange;
use std::collections::VecDeque;
use std::rc::Rc;

/// The roles that come and go.
const ROLES: [&str; 4] = ["role-0", "role-1", "role-2", "role-3"];

/// Draws changes, and remembers what came of them.
pub(super) struct Administrator {
    rng: Rng,
    keys: u8,
    /// What there is, as far as it is known.
    known: Users,
    /// The change that was asked for last, until it is known what became of it.
    asked: Option<AuthChange>,
    /// What is to be asked for first.
    first: VecDeque<AuthChange>,
}

impl Administrator {
    pub(super) fn new(rng: Rng, keys: u8) -> Administrator {
        let every = permission(PermissionType::Readwrite, every_key());
        let first = [
            user_add(ROOT),
            grant_role(ROOT, ROOT),
            role_add(ROLES[0]),
            grant_permission(ROLES[0], every),
            user_add(USERS[0]),
            grant_role(USERS[0], ROLES[0]),
            AuthChange::Enable(AuthEnableRequest {}),
        ];
        Administrator {
            rng,
            keys,
            known: Users::default(),
            asked: None,
            first: first.into(),
        }
    }

    /// What is asked next: now and then, and while it is not known what became of a change, what there is.
    pub(super) fn draw(&mut self) -> Ask<Request> {
        if self.asked.is_some() || self.rng.u8(..12) == 0 {
            return Ask::Read(Rc::new(Request::AuthStatus));
        }
        let first = self.first.front().cloned();
        let change = first.unwrap_or_else(|| self.draw_change());
        self.asked = Some(change.clone());
        Ask::Command(Rc::new(Request::Auth(change)))
    }

    /// Something that was asked was answered.
    pub(super) fn learn(&mut self, asked: &Request, returned: &Returned) {
        match (asked, &returned.response) {
            (Request::Auth(change), Response::Auth) => {
                self.asked = None;
                self.made(change);
            }
            (Request::Auth(_), Response::Refused(_)) => self.asked = None,
            (Request::AuthStatus, Response::AuthStatus(enabled, revision)) => {
                let is = |users: &Users| (users.enabled, users.revision) == (*enabled, *revision);
                let asked = self.asked.take();
                let next = asked.filter(|change| self.known.after(change).is_ok_and(|n| is(&n)));
                if let Some(change) = next {
                    self.made(&change);
                }
            }
            _ => {}
        }
    }

    fn made(&mut self, change: &AuthChange) {
        if let Ok(next) = self.known.after(change) {
            self.known = next;
        }
        if self.first.front() == Some(change) {
            self.first.pop_front();
        }
    }

    fn draw_change(&mut self) -> AuthChange {
        if !self.known.enabled && self.rng.bool() {
            return AuthChange::Enable(AuthEnableRequest {});
        }
        let user = USERS[self.rng.usize(..USERS.len())];
        let role = ROLES[self.rng.usize(..ROLES.len())];
        if self.rng.bool()
            && let Some(change) = self.missing(user, role)
        {
            return change;
        }
        match self.rng.u8(..20) {
            0..=3 => grant_permission(role, self.draw_permission()),
            4..=7 => self.revoke_permission(role),
            8..=10 => grant_role(user, role),
            11 | 12 => AuthChange::UserRevokeRole(AuthUserRevokeRoleRequest {
                name: user.to_owned(),
                role: role.to_owned(),
            }),
            13 | 14 => user_add(user),
            15 => AuthChange::UserDelete(AuthUserDeleteRequest {
                name: user.to_owned(),
            }),
            16 => role_add(role),
            17 => AuthChange::RoleDelete(AuthRoleDeleteRequest {
                role: role.to_owned(),
            }),
            18 => AuthChange::UserChangePassword(AuthUserChangePasswordRequest {
                name: user.to_owned(),
                ..AuthUserChangePasswordRequest::default()
            }),
            _ => AuthChange::Disable(AuthDisableRequest {}),
        }
    }

    /// What a user lacks most to have some right, if it has none: itself, a role, or a permission of that.
    fn missing(&mut self, user: &str, role: &str) -> Option<AuthChange> {
        let Some(held) = self.known.users.get(user) else {
            return Some(user_add(user));
        };
        let role = held.first().map_or(role, String::as_str).to_owned();
        match self.known.roles.get(&role) {
            None => Some(role_add(&role)),
            Some(permissions) if permissions.is_empty() => {
                Some(grant_permission(&role, self.draw_permission()))
            }
            Some(_) if held.is_empty() => Some(grant_role(user, &role)),
            Some(_) => None,
        }
    }

    /// Takes away a permission that the role has, or any role; if there is none, one that it does not have.
    fn revoke_permission(&mut self, role: &str) -> AuthChange {
        let held = |(role, held): (&String, &Vec<Permission>)| {
            let each = held.iter().cloned();
            each.map(|one| (role.clone(), one)).collect::<Vec<_>>()
        };
        let all: Vec<(String, Permission)> = self.known.roles.iter().flat_map(held).collect();
        let (role, gone) = match self.rng.choice(&all) {
            Some(found) => found.clone(),
            None => (role.to_owned(), self.draw_permission()),
        };
        AuthChange::RoleRevokePermission(AuthRoleRevokePermissionRequest {
            role,
            key: gone.key,
            range_end: gone.range_end,
        })
    }

    fn draw_permission(&mut self) -> Permission {
        let kind = match self.rng.u8(..4) {
            0 => PermissionType::Read,
            1 => PermissionType::Write,
            _ => PermissionType::Readwrite,
        };
        let key = self.rng.u8(..self.keys);
        let span = match self.rng.u8(..8) {
            0 | 1 => every_key(),
            2 => requests::registers(),
            3 => requests::leased(),
            4 => (requests::name(key), Bytes::from_static(b"\0")),
            5 => (requests::name(key), Bytes::new()),
            _ => (
                requests::name(key),
                requests::name(self.rng.u8(key + 1..=self.keys)),
            ),
        };
        permission(kind, span)
    }
}

fn every_key() -> (Bytes, Bytes) {
    let every = Bytes::from_static(b"\0");
    (every.clone(), every)
}

fn permission(kind: PermissionType, (key, range_end): (Bytes, Bytes)) -> Permission {
    Permission {
        perm_type: kind as i32,
        key,
        range_end,
    }
}

fn user_add(name: &str) -> AuthChange {
    AuthChange::UserAdd(AuthUserAddRequest {
        name: name.to_owned(),
        ..AuthUserAddRequest::default()
    })
}

fn grant_role(user: &str, role: &str) -> AuthChange {
    AuthChange::UserGrantRole(AuthUserGrantRoleRequest {
        user: user.to_owned(),
        role: role.to_owned(),
    })
}

fn role_add(name: &str) -> AuthChange {
    AuthChange::RoleAdd(AuthRoleAddRequest {
        name: name.to_owned(),
    })
}

fn grant_permission(role: &str, given: Permission) -> AuthChange {
    AuthChange::RoleGrantPermission(AuthRoleGrantPermissionRequest {
        name: role.to_owned(),
        perm: Some(given),
    })
}
