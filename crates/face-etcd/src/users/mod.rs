//! What is refused to whom.
//!
//! A service method finds out who asks ([`Face::asker`]) and hands that on with every command and query: rights to
//! keys are checked by the store, where a command is applied or a query answered. What no command or query of the
//! store stands for is checked here, against the state that this member has applied ([`Face::demand_user`],
//! [`Face::demand_root`]).

mod routes;
mod service;

use crate::auth::Credentials;
use crate::face::{Face, failed, refused, status};
use quorate_etcd_api::errors;
use quorate_etcd_store::{Access, Asker, AuthBoard, Refused};
use quorate_server::Consistency;
use std::future::Future;
use tonic::{Request, Status};

impl Face {
    /// Who asks with a call.
    ///
    /// # Errors
    /// It shows a token that is not good, or no longer.
    pub(crate) fn asker<'a, T>(
        &'a self,
        request: &Request<T>,
    ) -> impl Future<Output = Result<Asker, Status>> + Send + use<'a, T> {
        let credentials = match self.auth.is_off() {
            true => None,
            false => Some(Credentials::of(request)),
        };
        async move {
            match credentials {
                None => Ok(Asker::Anybody),
                Some(credentials) => Box::pin(self.identify(&credentials)).await,
            }
        }
    }

    /// Who it is that shows these credentials, as of now.
    pub(crate) async fn identify(&self, credentials: &Credentials) -> Result<Asker, Status> {
        let asker = self.auth.identify(credentials, &self.handle).await;
        let asker = asker.map_err(failed)?;
        asker.ok_or_else(|| status(errors::INVALID_AUTH_TOKEN))
    }

    /// The asker for what this member does by itself.
    pub(crate) fn server_itself(&self) -> Asker {
        match self.auth.is_off() {
            true => Asker::Anybody,
            false => Asker::Server,
        }
    }

    /// Refuses who is no user, while authentication is on.
    pub(crate) fn demand_user(&self, asker: &Asker) -> Result<(), Status> {
        self.demand(asker, |board| board.state().check_user(asker))
    }

    /// Refuses who does not have the role root, while authentication is on.
    pub(crate) fn demand_root(&self, asker: &Asker) -> Result<(), Status> {
        self.demand(asker, |board| board.state().check_root(asker))
    }

    /// Refuses who does not have the role root, by what all members know: for changes that do not go through the store.
    pub(crate) async fn demand_operator(&self, asker: Asker) -> Result<(), Status> {
        if asker != Asker::Anybody {
            self.figures(Consistency::Linearizable).await?;
        }
        self.demand_root(&asker)
    }

    /// Refuses who may not read all keys of a range, while authentication is on.
    pub(crate) fn demand_reading(
        &self,
        asker: &Asker,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Refused> {
        match self.auth.known() {
            Some(board) => board.state().check(asker, Access::Read, key, range_end),
            None => Ok(()),
        }
    }

    /// Refuses who may not go on reading all keys of a range, as if it were to show its credentials now.
    pub(crate) fn demand_reading_on(
        &self,
        asker: &Asker,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Refused> {
        match self.auth.known() {
            Some(board) => board.admit_reading(asker, key, range_end),
            None => Ok(()),
        }
    }

    fn demand(
        &self,
        asker: &Asker,
        check: impl FnOnce(&AuthBoard) -> Result<(), Refused>,
    ) -> Result<(), Status> {
        match self.auth.known() {
            Some(board) if *asker != Asker::Server => check(board).map_err(refused),
            _ => Ok(()),
        }
    }
}
