//! Who asks, and what is asked about users.

use quorate_etcd_api::authpb::{Permission, UserAddOptions};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{self as pb, TxnRequest};

use super::{Draw, ops};
use crate::differential::step::Action;
use crate::differential::users::{Caller, ROOT, UserAction};

impl Draw<'_> {
    /// Somebody who asks for this.
    pub(super) fn caller(&mut self, action: &Action) -> Caller {
        let accounts = &self.world.accounts;
        if !accounts.enabled {
            return match self.rng.u8(..40) {
                0 => Caller::Forger,
                1 => Caller::Earlier { name: self.user() },
                _ => Caller::Nobody,
            };
        }
        let choice = match action {
            // What these do must be known beforehand, or is refused to others on purpose.
            Action::Compact(_)
            | Action::RaiseNoSpace
            | Action::PutTooMuch { .. }
            | Action::WhileCorrupt(_)
            | Action::Disarm => 0,
            // Who asks for nothing need be nobody in etcd.
            Action::Txn(txn) if names_no_key(txn) => 0,
            _ => self.rng.u8(..24),
        };
        match choice {
            // Of a write without a token it is said that it has none, and in etcd that there is no space.
            19 | 21 | 22 if self.world.is_full => accounts.administrator(),
            0..11 => accounts.administrator(),
            11..19 => accounts.login(&self.user()),
            19 => Caller::Nobody,
            20 => Caller::Forger,
            21 => Caller::Earlier { name: self.user() },
            22 => Caller::Earlier {
                name: ROOT.to_owned(),
            },
            _ => Caller::Login {
                name: self.user(),
                password: "wrong".to_owned(),
            },
        }
    }

    pub(super) fn user_action(&mut self) -> UserAction {
        if !self.world.accounts.enabled && self.one_in(4) {
            return UserAction::Enable {
                password: self.root_password(),
            };
        }
        if self.world.accounts.enabled && self.one_in(16) {
            return UserAction::Disable;
        }
        match self.rng.u8(..24) {
            0 => UserAction::Status,
            1 => UserAction::Login(pb::AuthenticateRequest {
                name: self.user(),
                password: self.password(),
            }),
            2..5 => UserAction::UserAdd(self.user_to_add()),
            5 => UserAction::UserGet(pb::AuthUserGetRequest { name: self.user() }),
            6 => UserAction::UserList,
            7 => UserAction::UserDelete(pb::AuthUserDeleteRequest { name: self.user() }),
            8 => UserAction::ChangePassword(self.new_password()),
            9..12 => UserAction::GrantRole(pb::AuthUserGrantRoleRequest {
                user: self.user(),
                role: self.role(),
            }),
            12 => UserAction::RevokeRole(pb::AuthUserRevokeRoleRequest {
                name: self.user(),
                role: self.role(),
            }),
            13..15 => UserAction::RoleAdd(pb::AuthRoleAddRequest { name: self.role() }),
            15 => UserAction::RoleGet(pb::AuthRoleGetRequest { role: self.role() }),
            16 => UserAction::RoleList,
            17 => UserAction::RoleDelete(pb::AuthRoleDeleteRequest { role: self.role() }),
            18..22 => UserAction::GrantPermission(self.permission()),
            _ => {
                let key = self.key();
                UserAction::RevokePermission(pb::AuthRoleRevokePermissionRequest {
                    role: self.role(),
                    range_end: self.end(&key),
                    key,
                })
            }
        }
    }

    fn user_to_add(&mut self) -> pb::AuthUserAddRequest {
        let name = self.user();
        let no_password = name != ROOT && self.one_in(6);
        pb::AuthUserAddRequest {
            password: match (&name[..], no_password) {
                (ROOT, _) => self.root_password(),
                (_, true) => String::new(),
                (_, false) => self.password(),
            },
            options: match self.one_in(3) || no_password {
                true => Some(UserAddOptions { no_password }),
                false => None,
            },
            hashed_password: String::new(),
            name,
        }
    }

    fn new_password(&mut self) -> pb::AuthUserChangePasswordRequest {
        let name = self.user();
        pb::AuthUserChangePasswordRequest {
            password: match &name[..] {
                ROOT => self.root_password(),
                _ => self.password(),
            },
            hashed_password: String::new(),
            name,
        }
    }

    fn permission(&mut self) -> pb::AuthRoleGrantPermissionRequest {
        let key = self.key();
        let perm = Permission {
            perm_type: self.rng.i32(0..3),
            range_end: self.end(&key),
            key,
        };
        pb::AuthRoleGrantPermissionRequest {
            name: self.role(),
            perm: (!self.one_in(30)).then_some(perm),
        }
    }

    /// The name of a user, who may exist.
    fn user(&mut self) -> String {
        self.name(&["ann", "ann", "bob", "bob", ROOT])
    }

    /// The name of a role, which may exist.
    fn role(&mut self) -> String {
        self.name(&["keys", "keys", "more", "more", ROOT])
    }

    fn name(&mut self, names: &[&str]) -> String {
        match self.rng.u8(..40) {
            0 => String::new(),
            1 => "nobody".to_owned(),
            _ => names[self.rng.usize(..names.len())].to_owned(),
        }
    }

    /// A password that root can have: others can log in for a step when it is known.
    fn root_password(&mut self) -> String {
        self.rng.choice(["p", "secret"]).unwrap_or("p").to_owned()
    }

    fn password(&mut self) -> String {
        match self.one_in(10) {
            true => String::new(),
            false => self.root_password(),
        }
    }
}

/// Whether a transaction asks nothing of any key, nor do those within it.
fn names_no_key(txn: &TxnRequest) -> bool {
    let mut operations = ops(txn);
    txn.compare.is_empty()
        && operations.all(|op| match &op.request {
            Some(Request::RequestTxn(inner)) => names_no_key(inner),
            _ => false,
        })
}
