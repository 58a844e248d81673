//! Values that are kept as payloads, brought together for responses.
//!
//! The store answers with references; the replica gets the bytes, from its peers if it has only a
//! fragment. All values of a response are asked for at once, as far as there is room: what is under
//! way for all responses together is bounded.

use crate::face::{RETRY, failed};
use bytes::Bytes;
use quorate_etcd_store::{Store, ValueRef};
use quorate_server::{Failure, Handle, PayloadGone};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tonic::Status;

/// Gathers values for the responses of one replica.
#[derive(Clone)]
pub(crate) struct Gatherer {
    handle: Handle<Store>,
    /// Of [`ROOM`] units, those that no value under way takes.
    room: Arc<Semaphore>,
}

/// Why a value could not be had.
#[derive(Debug)]
pub(crate) enum ValueMissing {
    /// The value was compacted since the store named it: the store has to be asked again.
    Dead,
    /// The client has to be told.
    Failed(Status),
}

/// What all values under way may take together, in units of [`UNIT_BYTES`].
const ROOM: usize = 512;
const UNIT_BYTES: u32 = 256 << 10;

impl Gatherer {
    pub(crate) fn new(handle: Handle<Store>) -> Self {
        let room = Arc::new(Semaphore::new(ROOM));
        Gatherer { handle, room }
    }

    /// The bytes of these, in order.
    pub(crate) async fn gather(
        &self,
        references: Vec<ValueRef>,
    ) -> Result<Vec<Bytes>, ValueMissing> {
        if let [reference] = references[..] {
            let _room = self.room_for(&reference).await?;
            return Ok(vec![self.ask(reference).await?]);
        }
        let mut values = vec![Bytes::new(); references.len()];
        let mut asked = JoinSet::new();
        for (place, reference) in references.into_iter().enumerate() {
            let room = self.room_for(&reference).await?;
            let gatherer = self.clone();
            asked.spawn(async move {
                let found = gatherer.ask(reference).await;
                drop(room);
                found.map(|bytes| (place, bytes))
            });
        }
        while let Some(joined) = asked.join_next().await {
            let (place, bytes) = joined.map_err(|error| internal(&error.to_string()))??;
            values[place] = bytes;
        }
        Ok(values)
    }

    /// Waits until it may be asked for.
    async fn room_for(&self, reference: &ValueRef) -> Result<OwnedSemaphorePermit, ValueMissing> {
        let units = (reference.len / UNIT_BYTES + 1).min(ROOM as u32);
        let room = Arc::clone(&self.room).acquire_many_owned(units).await;
        room.map_err(|closed| internal(&closed.to_string()))
    }

    async fn ask(&self, reference: ValueRef) -> Result<Bytes, ValueMissing> {
        loop {
            let asked = self.handle.payload(reference.id, reference.payload());
            return match asked.await {
                Err(Failure::Overloaded) => {
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
                Err(failure) => Err(ValueMissing::Failed(failed(failure))),
                Ok(Err(PayloadGone::Dead)) => Err(ValueMissing::Dead),
                Ok(Err(PayloadGone::Scattered { have, need })) => {
                    Err(ValueMissing::Failed(scattered(have, need)))
                }
                Ok(Ok(bytes)) => Ok(bytes),
            };
        }
    }
}

/// Replicas that are down may come back: the client may try again.
fn scattered(have: u8, need: u8) -> Status {
    Status::unavailable(match need {
        0 => "etcdserver: no fragment of a value can be reached".to_owned(),
        _ => format!("etcdserver: {have} of the {need} fragments that make a value can be reached"),
    })
}

fn internal(why: &str) -> ValueMissing {
    ValueMissing::Failed(Status::internal(why))
}
