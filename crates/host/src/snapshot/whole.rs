//! A snapshot in one go, of a state that nobody works on.

use super::format::{Framer, Header, Kind};
use super::load::HostState;
use crate::apply::Applier;
use bytes::Bytes;
use quorate_core::{Application, ClusterId, Group, Machine, Slot, Wire};

/// About so long are its pieces.
const PIECE_BYTES: usize = 64 << 10;

/// Gives the bytes of a snapshot of this state in order; says before which slot it is. The machine of
/// its newest epoch has not begun.
///
/// # Errors
/// What `put` says.
pub(crate) fn write_whole<M: Machine, A: Application, E>(
    applier: &mut Applier<A>,
    cluster: ClusterId,
    group: Group,
    mut put: impl FnMut(&Bytes) -> Result<(), E>,
) -> Result<Slot, E> {
    let slot = applier.next();
    let mut framer = Framer::default();
    let mut piece = |framer: &mut Framer, kind: Kind, body: Bytes| {
        put(&framer.head(kind, &body))?;
        put(&body)
    };
    let header = Header::new(cluster, group, slot);
    piece(&mut framer, Kind::Header, header.to_bytes())?;
    let (applied, base) = (applier.state(), M::Base::default());
    let state = HostState { applied, base };
    piece(&mut framer, Kind::Host, state.to_bytes())?;
    for sessions in applier.sessions().pieces(PIECE_BYTES) {
        piece(&mut framer, Kind::Sessions, sessions)?;
    }
    let app = applier.app_mut();
    let mut cut = app.cut();
    while let Some(body) = app.piece(&mut cut, PIECE_BYTES) {
        // An empty one is none: others might have had their turn.
        if !body.is_empty() {
            piece(&mut framer, Kind::App, body)?;
        }
    }
    let end = framer.end();
    piece(&mut framer, Kind::End, end)?;
    Ok(slot)
}
