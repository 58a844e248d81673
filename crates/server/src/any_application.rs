//! Applications whose type the core does not know.
//!
//! Core, host and machines are long, and compiling them takes long. They are compiled once, in this crate, for
//! [`AnyApplication`]; what a program has of its own type is a [`Handle`](crate::Handle) and a few lines that box.

use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Countdown, Payload, PayloadId};
use std::any::Any;

/// An application that a replica's threads can have.
pub trait Embeddable:
    Application<Query: Send, Answer: Send, Cut: Send> + Send + Sized + 'static
{
}

impl<A> Embeddable for A where A: Application<Query: Send, Answer: Send, Cut: Send> + Send + 'static {}

/// A query, an answer or a cut, of whichever type the application has.
pub type AnyValue = Box<dyn Any + Send>;

/// An application whose type the core does not know.
pub(crate) trait AnyApplication:
    Application<Query = AnyValue, Answer = AnyValue, Cut = AnyValue> + Send
{
    /// [`Application::empty`], whose result has no size that is known.
    fn empty_box(&self) -> Box<dyn AnyApplication>;
}

/// Hides the type of an application.
pub(crate) fn boxed(app: impl Embeddable) -> Box<dyn AnyApplication> {
    Box::new(Boxing(app))
}

/// Answers a query in a box from the state of an application, as the core does with
/// [`Request::Read`](crate::Request::Read).
///
/// # Panics
/// If the query is of another application.
pub fn answer_any<A: Embeddable>(app: &A, query: &AnyValue) -> AnyValue {
    Box::new(app.query(query.downcast_ref().expect(OTHER_TYPE)))
}

/// The answer in a box.
///
/// # Panics
/// If it is of another application.
pub(crate) fn answer_of<A: Embeddable>(answer: AnyValue) -> A::Answer {
    *answer.downcast().expect(OTHER_TYPE)
}

/// A replica's handles have the type of its application from where it is started.
const OTHER_TYPE: &str = "it is of the type of the replica's application";

/// An application that is asked, answers and cuts in boxes.
struct Boxing<A>(A);

impl<A: Embeddable> AnyApplication for Boxing<A> {
    fn empty_box(&self) -> Box<dyn AnyApplication> {
        Box::new(self.empty())
    }
}

impl<A: Embeddable> Application for Boxing<A> {
    type Query = AnyValue;
    type Answer = AnyValue;
    type Cut = AnyValue;

    fn apply(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Bytes {
        self.0.apply(at, body, payloads)
    }

    fn command_properties(&self) -> CommandProperties {
        self.0.command_properties()
    }

    fn is_retractable(&self, body: &Bytes) -> bool {
        self.0.is_retractable(body)
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        self.0.attempt(at, body)
    }

    fn keep(&mut self) {
        self.0.keep();
    }

    fn retract(&mut self) {
        self.0.retract();
    }

    fn is_live(&self, payload: PayloadId) -> bool {
        self.0.is_live(payload)
    }

    fn take_dead(&mut self) -> Vec<PayloadId> {
        self.0.take_dead()
    }

    fn live(&self, after: Option<PayloadId>, most: usize) -> Vec<(PayloadId, Payload)> {
        self.0.live(after, most)
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        self.0.take_countdowns()
    }

    fn tidy(&mut self) -> bool {
        self.0.tidy()
    }

    fn query(&self, query: &AnyValue) -> AnyValue {
        answer_any(&self.0, query)
    }

    fn cut(&mut self) -> AnyValue {
        Box::new(self.0.cut())
    }

    fn cut_digest(&self, cut: &AnyValue) -> Option<u64> {
        self.0.cut_digest(cut.downcast_ref().expect(OTHER_TYPE))
    }

    fn has_cut_digests(&self) -> bool {
        self.0.has_cut_digests()
    }

    fn piece(&mut self, cut: &mut AnyValue, bytes: usize) -> Option<Bytes> {
        self.0.piece(cut.downcast_mut().expect(OTHER_TYPE), bytes)
    }

    fn release(&mut self, cut: AnyValue) {
        self.0.release(*cut.downcast().expect(OTHER_TYPE));
    }

    fn empty(&self) -> Self {
        Boxing(self.0.empty())
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.0.load(piece)
    }

    fn loaded(&mut self) -> Result<(), String> {
        self.0.loaded()
    }

    fn installed(&mut self) {
        self.0.installed();
    }
}

#[cfg(test)]
mod tests;
