//! A handle that knows the type of the replica's application.

use super::{Consistency, Failure, ReplicaHandle, Request};
use crate::any_application::{Embeddable, answer_of};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use tokio::sync::mpsc;

/// How faces reach a replica of an application: a [`ReplicaHandle`], and reads in the application's own types.
pub struct Handle<A> {
    replica: ReplicaHandle,
    of: PhantomData<fn() -> A>,
}

impl<A> Handle<A> {
    /// A handle, and the end the core drains. At most `capacity` requests wait between them. Queries arrive there in
    /// boxes ([`answer_any`](crate::answer_any)).
    #[must_use]
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<Request>) {
        let (replica, incoming) = ReplicaHandle::new(capacity);
        (Handle::of(replica), incoming)
    }

    /// The handle to a replica that has an `A`.
    pub(crate) fn of(replica: ReplicaHandle) -> Self {
        Handle {
            replica,
            of: PhantomData,
        }
    }
}

impl<A: Embeddable> Handle<A> {
    /// Reads the state.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn read(
        &self,
        query: A::Query,
        consistency: Consistency,
    ) -> Result<A::Answer, Failure> {
        let answer = self.replica.read_any(Box::new(query), consistency).await?;
        Ok(answer_of::<A>(answer))
    }
}

/// All but reads is the same for every application.
impl<A> Deref for Handle<A> {
    type Target = ReplicaHandle;

    fn deref(&self) -> &ReplicaHandle {
        &self.replica
    }
}

impl<A> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.replica.fmt(f)
    }
}

impl<A> Clone for Handle<A> {
    fn clone(&self) -> Self {
        Handle::of(self.replica.clone())
    }
}
