//! The face in command mode: calls are ordered as they are, and the replica's own server, fed with the log, answers.

use crate::application::{Answer, Query, RedisApplication};
use crate::limits::DATABASES;
use crate::table::Found;
use bytes::Bytes;
use quorate_core::Principal;
use quorate_redis_commands::{self as commands, CommandsAnswer, CommandsQuery, Outcome, body};
use quorate_redis_relay::{FeedHandle, NoReply};
use quorate_redis_store::{Call, Request};
use quorate_resp::{Reply, ReplyWriter};
use quorate_server::{Consistency, Failure, Handle};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// How long the own server may take to answer, behind everything that it has to carry out before.
pub(crate) const REPLY_MAX: Duration = Duration::from_secs(30);

/// The replica's server as the face needs it.
#[derive(Clone, Debug)]
pub(crate) struct Fed {
    pub(crate) feed: FeedHandle,
    /// The server's family and version, and its program.
    pub(crate) program: String,
}

/// Why a command is not taken that the table does not have, if Redis has it.
pub(crate) fn missing(args: &[Bytes]) -> Option<String> {
    let name = args
        .first()
        .filter(|name| quorate_redis_store::is_of_redis(name));
    match name {
        Some(name) => {
            let name = String::from_utf8_lossy(name).to_lowercase();
            Some(commands::missing(&name))
        }
        None => quorate_redis_store::refused(args),
    }
}

/// Why a call is not taken, if its outcome would differ from server to server.
pub(crate) fn refused(found: Found, args: &[Bytes]) -> Option<String> {
    commands::refused(found.name(), args)
}

impl Fed {
    /// Orders calls; the reply is that of the replica's own server.
    pub(crate) async fn order(
        &self,
        handle: &Handle<RedisApplication>,
        request: &Request,
    ) -> Result<Bytes, Failure> {
        let awaited = self.feed.expect(request).map_err(failure)?;
        let body = body(awaited.origin, request);
        let result = handle.write(body, Principal::default()).await?;
        match Outcome::of(&result) {
            Some(Outcome::Taken) => answered(awaited.reply()).await,
            Some(Outcome::Aborted) => {
                let mut null = ReplyWriter::new(request.resp);
                null.null_array();
                Ok(null.into_vec().into())
            }
            Some(Outcome::NoSpace) => Err(Failure::NoSpace),
            Some(Outcome::Corrupt) => Err(Failure::Corrupt),
            // A bug, and nothing was done.
            Some(Outcome::Malformed) | None => Err(Failure::NotServing),
        }
    }

    /// Asks calls that change nothing, behind everything that was answered before.
    pub(crate) async fn read(
        &self,
        handle: &Handle<RedisApplication>,
        request: Request,
        consistency: Consistency,
    ) -> Result<Bytes, Failure> {
        let (position, _) = position(handle, consistency).await?;
        answered(self.feed.read(position, request)).await
    }

    /// The versions of keys.
    pub(crate) async fn versions(
        &self,
        handle: &Handle<RedisApplication>,
        keys: Vec<Bytes>,
    ) -> Result<Vec<u64>, Failure> {
        let query = CommandsQuery::Versions(keys);
        match ask(handle, query, Consistency::Linearizable).await? {
            CommandsAnswer::Versions(versions) => Ok(versions),
            CommandsAnswer::Position(..) => Err(Failure::NotServing),
        }
    }

    /// The number of keys in each database.
    pub(crate) async fn sizes(
        &self,
        handle: &Handle<RedisApplication>,
    ) -> Result<Vec<i64>, Failure> {
        let calls = (0..DATABASES).flat_map(|db| {
            let select = vec!["SELECT".into(), db.to_string().into()];
            [select, vec!["DBSIZE".into()]].map(|args| Call { args })
        });
        let request = Request {
            calls: calls.collect(),
            ..Request::default()
        };
        let replies = self
            .read(handle, request, Consistency::Serializable)
            .await?;
        let mut replies = bytes::BytesMut::from(&replies[..]);
        let mut sizes = Vec::new();
        while let Ok(Some(reply)) = Reply::take(&mut replies) {
            if let Reply::Integer(keys) = reply {
                sizes.push(keys);
            }
        }
        Ok(sizes)
    }
}

/// The reply of the own server; whether the calls are done is not known if it does not come.
async fn answered(reply: impl Future<Output = Result<Bytes, NoReply>>) -> Result<Bytes, Failure> {
    match timeout(REPLY_MAX, reply).await {
        Ok(replied) => replied.map_err(failure),
        Err(_) => Err(Failure::Timeout),
    }
}

fn failure(why: NoReply) -> Failure {
    match why {
        NoReply::Lost => Failure::Timeout,
        NoReply::Full => Failure::Overloaded,
    }
}

/// How many bodies were taken, and the digest of them all.
pub(crate) async fn position(
    handle: &Handle<RedisApplication>,
    consistency: Consistency,
) -> Result<(u64, u64), Failure> {
    match ask(handle, CommandsQuery::Position, consistency).await? {
        CommandsAnswer::Position(position, digest) => Ok((position, digest)),
        CommandsAnswer::Versions(_) => Err(Failure::NotServing),
    }
}

async fn ask(
    handle: &Handle<RedisApplication>,
    query: CommandsQuery,
    consistency: Consistency,
) -> Result<CommandsAnswer, Failure> {
    match handle.read(Query::Commands(query), consistency).await? {
        Answer::Commands(answer) => Ok(answer),
        _ => Err(Failure::NotServing),
    }
}
