//! Who asks: users by their tokens or certificates. While authentication is off a request costs one look at a flag.

mod credentials;
mod jwt;
mod keys;
mod passwords;
mod pem;
mod tokens;
mod verified;

pub(crate) use credentials::Credentials;
pub use jwt::{JwtOptions, JwtSigner};
pub use tokens::TokenKind;

pub(crate) use passwords::{PasswordError, Passwords};
pub(crate) use tokens::NewToken;

use quorate_etcd_store::{Asker, AuthBoard, Query, QueryAnswer, Store};
use quorate_server::{Consistency, Failure, Handle};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, watch};

/// How users show who they are, and how their passwords are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserOptions {
    /// The tokens that users get for their passwords.
    pub tokens: TokenKind,
    /// How long a simple token lasts after its last use.
    pub token_ttl: Duration,
    /// The cost of the bcrypt hashes of new passwords: the logarithm of their rounds.
    pub bcrypt_cost: u32,
    /// The board of the store; `None` to ask the replica for it once a client comes.
    pub board: Option<Arc<AuthBoard>>,
}

impl UserOptions {
    /// The options for a face whose store has this board.
    #[must_use]
    pub fn with_board(self, board: Arc<AuthBoard>) -> Self {
        UserOptions {
            board: Some(board),
            ..self
        }
    }
}

impl Default for UserOptions {
    fn default() -> Self {
        UserOptions {
            tokens: TokenKind::Simple,
            token_ttl: Duration::from_secs(300),
            bcrypt_cost: 10,
            board: None,
        }
    }
}

/// What a face needs to know who asks.
pub(crate) struct Auth {
    board: OnceCell<Arc<AuthBoard>>,
    pub(crate) options: UserOptions,
    pub(crate) passwords: Passwords,
    /// Changes with every change of users and roles.
    changes: watch::Sender<()>,
}

impl Auth {
    pub(crate) fn new(options: UserOptions) -> Auth {
        let changes = watch::Sender::new(());
        if let Some(board) = &options.board {
            tell(board, &changes);
        }
        Auth {
            board: OnceCell::new_with(options.board.clone()),
            options,
            passwords: Passwords::default(),
            changes,
        }
    }

    /// That of a gateway, which knows no users: members judge what it orders, where they apply it.
    pub(crate) fn of_gateway() -> Auth {
        Auth::new(UserOptions {
            board: Some(Arc::default()),
            ..UserOptions::default()
        })
    }

    /// Whether authentication is known to be off.
    pub(crate) fn is_off(&self) -> bool {
        self.board.get().is_some_and(|board| !board.is_enabled())
    }

    /// What this member has applied of users and roles.
    pub(crate) async fn board(&self, handle: &Handle<Store>) -> Result<&Arc<AuthBoard>, Failure> {
        let ask = async || {
            let asked = handle.read(Query::Board, Consistency::Serializable);
            let QueryAnswer::Board(board) = asked.await? else {
                return Err(Failure::NotServing);
            };
            tell(&board, &self.changes);
            Ok(board)
        };
        self.board.get_or_try_init(ask).await
    }

    /// Tells of every change of users and roles from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Differs whenever other users may have other rights than before, as far as this member has applied.
    pub(crate) fn stamp(&self) -> (u64, bool) {
        let board = self.board.get();
        board.map_or((0, false), |board| board.stamp())
    }

    /// What is known here of users and roles without asking: nothing before the first request.
    pub(crate) fn known(&self) -> Option<&AuthBoard> {
        self.board.get().map(|board| &**board)
    }

    /// Who it is that shows these credentials, as of now; `None` for a token that is not good, or no longer.
    pub(crate) async fn identify(
        &self,
        credentials: &Credentials,
        handle: &Handle<Store>,
    ) -> Result<Option<Asker>, Failure> {
        let board = self.board(handle).await?;
        if !board.is_enabled() {
            return Ok(Some(Asker::Anybody));
        }
        if let Some(token) = &credentials.token {
            let UserOptions {
                tokens, token_ttl, ..
            } = &self.options;
            let identity = tokens.identity(token, board, handle, *token_ttl).await;
            return Ok(identity.map(Asker::User));
        }
        Ok(Some(match &credentials.common_name {
            Some(name) => Asker::User(board.state().identity(name)),
            None => Asker::Nobody,
        }))
    }
}

/// Has every change on a board told.
fn tell(board: &AuthBoard, changes: &watch::Sender<()>) {
    let changes = changes.clone();
    board.listen(move || changes.send_replace(()));
}
