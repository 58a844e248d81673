//! An application that does nothing: what is measured with it is replication alone, as the papers of this field do.

use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Payload};
use quorate_plain_store::Write;

/// Takes the plain store's commands, keeps nothing of them, and has nothing to say.
#[derive(Debug, Default)]
pub(super) struct Null;

impl Application for Null {
    type Query = ();
    type Answer = ();
    type Cut = ();

    fn apply(&mut self, _: At, _: &Bytes, _: &[Payload]) -> Bytes {
        Bytes::new()
    }

    fn command_properties(&self) -> CommandProperties {
        CommandProperties {
            touches: Some(Write::touches),
            ..CommandProperties::UNKNOWN
        }
    }

    fn is_retractable(&self, _: &Bytes) -> bool {
        true
    }

    fn query(&self, (): &()) {}

    fn cut(&mut self) {}

    fn piece(&mut self, (): &mut (), _: usize) -> Option<Bytes> {
        None
    }

    fn release(&mut self, (): ()) {}

    fn empty(&self) -> Self {
        Null
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        match piece.is_empty() {
            true => Ok(()),
            false => Err("a snapshot of something".to_owned()),
        }
    }

    fn loaded(&mut self) -> Result<(), String> {
        Ok(())
    }
}
