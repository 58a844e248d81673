//! Users, their roles, and what these permit.
//!
//! Users and roles are part of the replicated state: changed by commands ([`AuthChange`]), in every snapshot, equal on
//! every replica. A command says who asks for it ([`Asker`]), and is checked where it is applied; a query is checked
//! where it is answered. The *auth revision* counts changes of users and roles: a user whose credentials were checked
//! under an older one asks in vain, because its rights may have been others then.
//!
//! Faces see the same state, as far as it is applied, on the [`AuthBoard`].

mod asker;
mod board;
mod change;
mod exported;
mod login;
mod rights;
mod users;

pub use asker::{Asker, Identity};
pub(crate) use asker::{BY_SERVER, BY_USER, asker_and_body, bare_body};
pub use board::{AuthBoard, TokenDigest};
pub use change::{AuthChange, TokenGrant};
pub use exported::{ExportedAuth, ExportedRole, ExportedUser};
pub use login::Login;
pub use rights::Access;
pub use users::AuthState;
pub(crate) use users::{Permission, Role, User};
