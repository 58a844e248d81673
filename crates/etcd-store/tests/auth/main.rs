//! Users, roles and what they permit, one conversation per test.

mod changes;
mod rights;
mod state;

use bytes::Bytes;
use quorate_core::{Application, At, Slot};
use quorate_etcd_api::authpb::{Permission, PermissionType, UserAddOptions};
use quorate_etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest,
    AuthRoleGrantPermissionRequest, AuthRoleRevokePermissionRequest, AuthUserAddRequest,
    AuthUserChangePasswordRequest, AuthUserDeleteRequest, AuthUserGrantRoleRequest,
    AuthUserRevokeRoleRequest, DeleteRangeRequest, PutRequest, RangeRequest,
};
use quorate_etcd_store::{
    Asker, AuthAnswer, AuthChange, AuthQuery, Identity, Query, QueryAnswer, Refused, Store,
    TokenGrant, command, decode_result,
};

/// A store and what clients do with it.
struct Conversation {
    store: Store,
    /// Commands so far.
    slot: u64,
}

impl Conversation {
    /// With an empty store.
    fn new() -> Self {
        let store = Store::new();
        Conversation { store, slot: 0 }
    }

    /// With authentication on, and users root and alice, who has the role reader.
    fn with_users() -> Self {
        let mut talk = Conversation::new();
        for change in [
            user_add("root"),
            grant_role("root", "root"),
            user_add("alice"),
            role_add("reader"),
            grant_role("alice", "reader"),
            AuthChange::Enable(AuthEnableRequest {}),
        ] {
            talk.change(&Asker::Anybody, change)
                .expect("authentication is off");
        }
        talk
    }

    /// Applies a command that somebody asks for.
    fn apply(&mut self, asker: &Asker, body: Bytes) -> Result<Bytes, Refused> {
        let at = At {
            slot: Slot(self.slot),
            stamp_ns: self.slot,
            ..At::default()
        };
        self.slot += 1;
        let result = self.store.apply(at, &asker.sign(body), &[]);
        decode_result(&result).map(|applied| applied.response)
    }

    fn change(&mut self, asker: &Asker, change: AuthChange) -> Result<Bytes, Refused> {
        self.apply(asker, command::encode_auth(&change))
    }

    /// Has the user root change something.
    fn root(&mut self, change: AuthChange) -> Result<Bytes, Refused> {
        let root = self.user("root");
        self.change(&root, change)
    }

    /// A user whose credentials are checked now.
    fn user(&self, name: &str) -> Asker {
        let revision = self.auth_revision();
        let name = name.into();
        Asker::User(Identity { name, revision })
    }

    fn ask(&self, asker: &Asker, query: Query) -> Result<QueryAnswer, Refused> {
        match self.store.query(&query.by(asker)) {
            QueryAnswer::Refused(why) => Err(why),
            answer => Ok(answer),
        }
    }

    fn auth_revision(&self) -> u64 {
        let asked = Query::Auth(AuthQuery::Status);
        match self.ask(&Asker::Server, asked) {
            Ok(QueryAnswer::Auth(_, AuthAnswer::Status(_, revision))) => revision,
            other => panic!("not a status: {other:?}"),
        }
    }

    fn put(&mut self, asker: &Asker, key: &str) -> Result<Bytes, Refused> {
        self.apply(asker, command::encode_put(&put(key)))
    }

    fn range(&self, asker: &Asker, key: &str, end: &str) -> Result<QueryAnswer, Refused> {
        self.ask(asker, Query::Range(range(key, end)))
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str) -> PutRequest {
    PutRequest {
        key: bytes(key),
        value: bytes("v"),
        ..PutRequest::default()
    }
}

fn range(key: &str, end: &str) -> RangeRequest {
    RangeRequest {
        key: bytes(key),
        range_end: bytes(end),
        ..RangeRequest::default()
    }
}

fn delete(key: &str, end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: bytes(key),
        range_end: bytes(end),
        prev_kv: false,
    }
}

fn user_add(name: &str) -> AuthChange {
    AuthChange::UserAdd(AuthUserAddRequest {
        name: name.to_owned(),
        hashed_password: format!("hash of {name}"),
        ..AuthUserAddRequest::default()
    })
}

fn user_add_without_password(name: &str) -> AuthChange {
    AuthChange::UserAdd(AuthUserAddRequest {
        name: name.to_owned(),
        options: Some(UserAddOptions { no_password: true }),
        ..AuthUserAddRequest::default()
    })
}

fn user_delete(name: &str) -> AuthChange {
    AuthChange::UserDelete(AuthUserDeleteRequest {
        name: name.to_owned(),
    })
}

fn change_password(name: &str, hash: &str) -> AuthChange {
    AuthChange::UserChangePassword(AuthUserChangePasswordRequest {
        name: name.to_owned(),
        hashed_password: hash.to_owned(),
        ..AuthUserChangePasswordRequest::default()
    })
}

fn grant_role(user: &str, role: &str) -> AuthChange {
    AuthChange::UserGrantRole(AuthUserGrantRoleRequest {
        user: user.to_owned(),
        role: role.to_owned(),
    })
}

fn revoke_role(user: &str, role: &str) -> AuthChange {
    AuthChange::UserRevokeRole(AuthUserRevokeRoleRequest {
        name: user.to_owned(),
        role: role.to_owned(),
    })
}

fn role_add(name: &str) -> AuthChange {
    AuthChange::RoleAdd(AuthRoleAddRequest {
        name: name.to_owned(),
    })
}

fn role_delete(role: &str) -> AuthChange {
    AuthChange::RoleDelete(AuthRoleDeleteRequest {
        role: role.to_owned(),
    })
}

fn grant(role: &str, kind: PermissionType, key: &str, end: &str) -> AuthChange {
    AuthChange::RoleGrantPermission(AuthRoleGrantPermissionRequest {
        name: role.to_owned(),
        perm: Some(Permission {
            perm_type: kind as i32,
            key: bytes(key),
            range_end: bytes(end),
        }),
    })
}

fn revoke(role: &str, key: &str, end: &str) -> AuthChange {
    AuthChange::RoleRevokePermission(AuthRoleRevokePermissionRequest {
        role: role.to_owned(),
        key: bytes(key),
        range_end: bytes(end),
    })
}

fn enable() -> AuthChange {
    AuthChange::Enable(AuthEnableRequest {})
}

fn disable() -> AuthChange {
    AuthChange::Disable(AuthDisableRequest {})
}
