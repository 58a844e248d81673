//! `MULTI`, `EXEC`, `WATCH`: transactions, gathered here and carried out by the store as one command.

use crate::execute::answers_all;
use crate::limits::{DATABASES, NAME_BYTES, WATCHED_BYTES_MAX};
use crate::session::{Session, Step, Transaction};
use bytes::Bytes;
use quorate_redis_store::Watched;
use quorate_resp::{ReplyWriter, Resp, parse_integer};

impl Session {
    pub(super) fn multi(&mut self) {
        if self.transaction.is_some() {
            return self.error("ERR MULTI calls can not be nested");
        }
        self.transaction = Some(Transaction::default());
        self.out.ok();
    }

    pub(super) fn discard(&mut self) {
        match self.transaction.take() {
            Some(_) => {
                self.watched.clear();
                self.out.ok();
            }
            None => self.error("ERR DISCARD without MULTI"),
        }
    }

    pub(super) async fn watch(&mut self, args: &[Bytes]) -> Step {
        if self.transaction.is_some() {
            self.error("ERR WATCH inside MULTI is not allowed");
            return Ok(());
        }
        let db = self.spoken.db;
        let is_new = |key: &&Bytes| {
            !self
                .watched
                .iter()
                .any(|one| one.db == db && one.key == **key)
        };
        let keys: Vec<Bytes> = args[1..].iter().filter(is_new).cloned().collect();
        let bytes: usize = keys.iter().map(|key| key.len() + NAME_BYTES).sum();
        if self.watched_bytes() + bytes > WATCHED_BYTES_MAX {
            self.error("ERR the watched keys of one connection take more memory than this server has for them");
            return Ok(());
        }
        let asked = keys.iter().map(|key| (db, key.clone())).collect();
        match self.server.versions(asked).await {
            Ok(versions) => {
                for (key, version) in keys.iter().zip(versions) {
                    // A copy: the request it is a part of need not stay in memory.
                    let key = Bytes::copy_from_slice(key);
                    self.watched.push(Watched { db, key, version });
                }
                self.out.ok();
                Ok(())
            }
            Err(failure) => self.failed(failure, 1),
        }
    }

    pub(super) async fn exec(&mut self) -> Step {
        let Some(transaction) = self.transaction.take() else {
            self.error("ERR EXEC without MULTI");
            return Ok(());
        };
        let watched = std::mem::take(&mut self.watched);
        if transaction.is_broken {
            self.error("EXECABORT Transaction discarded because of previous errors.");
            return Ok(());
        }
        let gathered = transaction.gathered;
        let count = gathered.calls.len();
        if count == 0 && watched.is_empty() {
            self.out.array(0);
            return Ok(());
        }
        if !gathered.has_write && watched.is_empty() {
            match self.ask(&gathered).await {
                Ok(Some(replies)) if answers_all(&replies, count) => {
                    self.out.array(count);
                    self.out.raw(&replies);
                    return Ok(());
                }
                // A key's time is over, which has an order, too; or the replies are too long for one query.
                Ok(_) => {}
                Err(failure) => return self.failed(failure, 1),
            }
        }
        let selected = gathered
            .calls
            .iter()
            .rev()
            .find_map(|call| selected_db(&call.args));
        match self.order(gathered, Some(watched)).await {
            Ok(reply) => {
                if let Some(db) = selected.filter(|_| !is_null(&reply)) {
                    self.spoken.db = db;
                }
                self.out.raw(&reply);
                Ok(())
            }
            Err(failure) => self.failed(failure, 1),
        }
    }
}

/// The database that a call selects.
fn selected_db(args: &[Bytes]) -> Option<u32> {
    let [name, db] = args else {
        return None;
    };
    let db = parse_integer(db).filter(|_| name.eq_ignore_ascii_case(b"select"))?;
    u32::try_from(db).ok().filter(|db| *db < DATABASES)
}

/// Whether a transaction was not carried out, for a watched key had changed.
fn is_null(reply: &[u8]) -> bool {
    let null = |resp| {
        let mut null = ReplyWriter::new(resp);
        null.null_array();
        null.into_vec()
    };
    [Resp::Two, Resp::Three]
        .into_iter()
        .any(|resp| null(resp) == reply)
}
