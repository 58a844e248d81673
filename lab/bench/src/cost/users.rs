//! A cluster whose users are known, and one of them who may write every key.

use std::time::Duration;

use quorate_etcd_api::authpb::Permission;
use quorate_etcd_api::etcdserverpb::{
    AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest,
    AuthUserGrantRoleRequest,
};
use quorate_load::load::access::Access;
use quorate_load::load::rpc::{Call, Channel};
use quorate_tooling::login::Login;
use quorate_tooling::scrape;
use quorate_tooling::tls_args::ClientTlsArgs;

/// Rights to read and to write, as a permission says it.
const READ_AND_WRITE: i32 = 2;
const PATIENCE: Duration = Duration::from_secs(5);
/// The name of the user who may do everything, and of the role that says so.
const ROOT: &str = "root";
/// The name of the user who may write all keys, and of the role that says so.
const WRITER: &str = "writer";
/// What both show.
const PASSWORD: &str = "bench";

/// Has a cluster at the level of users know some, and returns the one whose rights it looks at.
pub(super) fn enable(endpoint: &str, tls: &ClientTlsArgs) -> Result<Login, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(enable_at(endpoint, tls))
}

async fn enable_at(endpoint: &str, tls: &ClientTlsArgs) -> Result<Login, String> {
    let access = Access {
        tls: tls.connector(&[endpoint.to_owned()])?,
        login: None,
    };
    let mut channel = Channel::connect_as(scrape::authority(endpoint)?, &access, PATIENCE).await?;
    add_user(&mut channel, ROOT).await?;
    add_user(&mut channel, WRITER).await?;
    let all_keys = AuthRoleGrantPermissionRequest {
        name: WRITER.to_owned(),
        perm: Some(Permission {
            perm_type: READ_AND_WRITE,
            key: b"\0"[..].into(),
            range_end: b"\0"[..].into(),
        }),
    };
    tell(&mut channel, Call::RoleGrantPermission, &all_keys).await?;
    tell(&mut channel, Call::AuthEnable, &AuthEnableRequest {}).await?;
    Ok(Login {
        name: WRITER.to_owned(),
        password: PASSWORD.to_owned(),
    })
}

/// Adds a user who has a role of the same name.
async fn add_user(channel: &mut Channel, name: &str) -> Result<(), String> {
    let user = AuthUserAddRequest {
        name: name.to_owned(),
        password: PASSWORD.to_owned(),
        ..AuthUserAddRequest::default()
    };
    tell(channel, Call::UserAdd, &user).await?;
    let name = || name.to_owned();
    tell(channel, Call::RoleAdd, &AuthRoleAddRequest { name: name() }).await?;
    let grant = AuthUserGrantRoleRequest {
        user: name(),
        role: name(),
    };
    tell(channel, Call::UserGrantRole, &grant).await
}

/// Makes a call whose answer says no more than that it was done.
async fn tell(
    channel: &mut Channel,
    call: Call,
    request: &impl prost::Message,
) -> Result<(), String> {
    let answer: Result<(), _> = channel.call(call, request).await;
    answer.map_err(|failure| failure.text)
}
