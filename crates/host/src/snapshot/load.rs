//! Loading a snapshot, from a file or from a peer, into a state that stands aside until it is
//! whole.

use super::format::{Header, Kind, Unframer};
use crate::api::HostConfig;
use crate::apply::{AppliedState, Applier, first_state};
use crate::epochs::GroupState;
use crate::log::LogSource;
use crate::sessions::Sessions;
use bytes::Bytes;
use quorate_core::{Application, ClientId, Decoder, Encoder, Machine, Slot, Wire, WireError};

/// Bytes read from a file at a time.
const READ_BYTES: usize = 1 << 20;

/// The host's and the machine's part of a snapshot, as its second piece holds it.
#[derive(Debug)]
pub(crate) struct HostState<B> {
    pub(crate) applied: AppliedState,
    pub(crate) base: B,
}

impl<B: Wire> HostState<B> {
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut out = Encoder::new();
        self.applied.encode(&mut out);
        self.base.encode(&mut out);
        out.into_bytes()
    }

    /// `first` is what the group knew of itself when it began.
    fn from_bytes(bytes: Bytes, header: &Header, first: &GroupState) -> Result<Self, WireError> {
        let mut input = Decoder::new(bytes);
        let applied = match header.has_epochs() {
            true => AppliedState::decode(&mut input)?,
            false => AppliedState::decode_without_epochs(&mut input, first.clone())?,
        };
        let base = B::decode(&mut input)?;
        input.finish()?;
        Ok(HostState { applied, base })
    }
}

/// A snapshot that is being loaded.
pub(crate) struct Loading<M: Machine, A> {
    header: Header,
    /// What the group knew of itself when it began.
    first: GroupState,
    header_seen: bool,
    unframer: Unframer,
    state: Option<HostState<M::Base>>,
    sessions: Sessions,
    last_session: Option<ClientId>,
    app: A,
}

/// A snapshot that is whole.
pub(crate) struct Loaded<M: Machine, A> {
    pub(crate) slot: Slot,
    pub(crate) digest: u64,
    pub(crate) state: HostState<M::Base>,
    pub(crate) sessions: Sessions,
    pub(crate) app: A,
}

impl<M: Machine, A: Application> Loading<M, A> {
    /// Begins to load the snapshot that `header` names; `app` is empty.
    pub(crate) fn new(header: Header, first: GroupState, app: A, sessions_max: usize) -> Self {
        Loading {
            header,
            first,
            header_seen: false,
            unframer: Unframer::default(),
            state: None,
            sessions: Sessions::new(sessions_max),
            last_session: None,
            app,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.unframer.feed(bytes);
        while let Some((kind, body)) = self.unframer.next()? {
            self.take(kind, body)?;
        }
        Ok(())
    }

    /// The state, if every byte came and all of it fits together.
    pub(crate) fn finish(mut self) -> Result<Loaded<M, A>, String> {
        let digest = self.unframer.digest().ok_or("its end is missing")?;
        let state = self.state.ok_or("the host's part is missing")?;
        self.app.loaded()?;
        Ok(Loaded {
            slot: self.header.next,
            digest,
            state,
            sessions: self.sessions,
            app: self.app,
        })
    }

    fn take(&mut self, kind: Kind, body: Bytes) -> Result<(), String> {
        let wire = |e: quorate_core::WireError| format!("a valid piece does not decode: {e}");
        match kind {
            Kind::Header if !self.header_seen => {
                let header = Header::from_bytes(body).map_err(wire)?;
                if !header.is_of(&self.header) {
                    return Err(format!("it is {header:?}, not {:?}", self.header));
                }
                (self.header, self.header_seen) = (header, true);
                Ok(())
            }
            Kind::Host if self.header_seen && self.state.is_none() => {
                let state = HostState::from_bytes(body, &self.header, &self.first);
                self.state = Some(state.map_err(wire)?);
                Ok(())
            }
            Kind::Sessions if self.state.is_some() => self
                .sessions
                .load(&mut self.last_session, body)
                .map_err(wire),
            Kind::App if self.state.is_some() => self.app.load(body),
            kind => Err(format!("a piece of kind {kind:?} where none should be")),
        }
    }
}

impl<M: Machine, A: Application> Loaded<M, A> {
    /// What is applied from here on.
    pub(crate) fn into_applier(mut self, old: &Applier<A>) -> (Applier<A>, M::Base) {
        self.app.installed();
        let HostState { applied, base } = self.state;
        let applier = old.replaced(self.slot, applied, self.sessions, self.app);
        (applier, base)
    }
}

/// A stored snapshot, newest first in a list.
pub(crate) type Stored = (Slot, u64);

/// The snapshots there are, newest first.
pub(crate) fn list(source: &mut dyn LogSource) -> Result<Vec<Stored>, String> {
    let mut stored = source.snapshots().map_err(|e| e.to_string())?;
    stored.sort_unstable();
    stored.reverse();
    Ok(stored)
}

/// Loads a stored snapshot.
pub(crate) fn load<M: Machine, A: Application>(
    config: &HostConfig<M::Config>,
    source: &mut dyn LogSource,
    stored: Stored,
    app: A,
) -> Result<Loaded<M, A>, String> {
    let header = Header::new(config.cluster, config.seat.group, stored.0);
    let first = first_state(&config.genesis);
    let mut loading = Loading::new(header, first, app, config.limits.sessions_max);
    read(source, stored, |part| loading.feed(part))?;
    loading.finish()
}

/// Reads a stored snapshot without loading it: its digest, if it is whole and what it should be.
pub(crate) fn verify<C>(
    config: &HostConfig<C>,
    source: &mut dyn LogSource,
    stored: Stored,
) -> Result<u64, String> {
    let header = Header::new(config.cluster, config.seat.group, stored.0);
    let mut unframer = Unframer::default();
    let mut is_first = true;
    read(source, stored, |part| {
        unframer.feed(part);
        while let Some((_, body)) = unframer.next()? {
            let is_right = || Header::from_bytes(body).is_ok_and(|found| found.is_of(&header));
            if std::mem::take(&mut is_first) && !is_right() {
                return Err("it is the snapshot of another slot or replica".to_owned());
            }
        }
        Ok(())
    })?;
    unframer.digest().ok_or_else(|| "its end is missing".into())
}

/// Reads a stored snapshot from its beginning to its end.
fn read(
    source: &mut dyn LogSource,
    (slot, bytes): Stored,
    mut take: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut offset = 0;
    while offset < bytes {
        let len = (bytes - offset).min(READ_BYTES as u64) as usize;
        let part = source.read_snapshot(slot, offset, len);
        let part = part.map_err(|e| format!("it cannot be read at byte {offset}: {e}"))?;
        if part.is_empty() {
            return Err(format!("it ends at byte {offset} of {bytes}"));
        }
        offset += part.len() as u64;
        take(&part)?;
    }
    Ok(())
}
