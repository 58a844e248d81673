//! What every part of a host may touch: who the replica is, the applied state, the log, the timers, and what is to
//! leave.

mod recall;

use crate::api::{Frame, Limits};
use crate::apply::Applier;
use crate::decided::Located;
use crate::epochs::{GroupState, Note};
use crate::frame::{self, Body, Header};
use crate::pending::Pending;
use crate::rollback::Rollback;
use crate::storage::Storage;
use crate::timers::Timers;
use crate::version::{PeerVersions, WireVersion};
use bytes::Bytes;
use quorate_core::{
    Application, Base, Decoder, Entry, EntryId, Epoch, Machine, Member, Peers, ReplicaId, Seat,
    Slot,
};
pub(crate) use recall::append_lost;

/// The state that all parts of a host share. The parts own everything else, and get this as an argument.
pub(crate) struct Context<M: Machine, A: Application> {
    /// The place in the epoch whose machine runs, or ran last.
    pub(crate) seat: Seat,
    pub(crate) limits: Limits,
    pub(crate) membership: Membership,
    pub(crate) applier: Applier<A>,
    /// The machine's part of the applied state.
    pub(crate) base: M::Base,
    pub(crate) storage: Storage<M::Record>,
    /// What this replica promised, and what it remembers of the promises of peers.
    pub(crate) rollback: Rollback,
    pub(crate) peer_versions: PeerVersions,
    pub(crate) timers: Timers<M::Timer>,
    pub(crate) effects: Pending<A::Answer>,
}

/// Who this replica is to the epochs, and whom it talks to.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// This replica, in the life that epochs list.
    pub(crate) me: Member,
    /// The other members of the newest epoch and of the one before, ascending.
    pub(crate) peers: Vec<ReplicaId>,
    /// Whether the newest epoch lists this replica in its present life.
    pub(crate) is_member: bool,
    /// The member that the group has named as its leader, until the machine hears of it.
    pub(crate) preferred: Option<ReplicaId>,
}

impl Membership {
    /// Of a replica that does not know its peers yet.
    pub(crate) fn new(me: Member) -> Self {
        Membership {
            me,
            peers: Vec::new(),
            is_member: false,
            preferred: None,
        }
    }
}

impl<M: Machine, A: Application> Context<M, A> {
    /// The first slot not applied.
    pub(crate) fn applied(&self) -> Slot {
        self.applier.next()
    }

    pub(crate) fn app(&self) -> &A {
        self.applier.app()
    }

    /// The epoch that orders commands, as far as this replica knows.
    pub(crate) fn epoch(&self) -> &Epoch {
        self.applier.newest()
    }

    /// What the group knows of itself.
    pub(crate) fn epochs(&self) -> &GroupState {
        self.applier.epochs()
    }

    /// Whether the newest epoch lists this replica in its present life.
    pub(crate) fn is_member(&self) -> bool {
        self.membership.is_member
    }

    /// Whether an entry was applied, where the protocol keeps track.
    pub(crate) fn base_has(&self, entry: EntryId) -> bool {
        self.base.contains(entry)
    }

    /// The member of the newest epoch with this number.
    pub(crate) fn member(&self, id: ReplicaId) -> Option<Member> {
        let mut members = self.epoch().members.iter();
        members.find(|member| member.id == id).copied()
    }

    /// The other members of the newest epoch.
    pub(crate) fn others(&self) -> Vec<ReplicaId> {
        let members = self.epoch().member_ids();
        members.filter(|id| *id != self.seat.me).collect()
    }

    /// Whether this is somebody a frame may come from. Who is no member, or not yet, may know none of
    /// those that the group consists of by now: it listens to whomever it was told of.
    pub(crate) fn knows(&self, peer: ReplicaId) -> bool {
        let state = self.applier.epochs();
        let mut epochs = state.chain.lineage();
        let is_member = epochs.any(|epoch| epoch.index_of(peer).is_some());
        let is_known = is_member || state.addresses.contains_key(&peer);
        peer != self.seat.me && (is_known || !self.is_member())
    }

    /// A slot was applied: so is the machine's part of the state, and its entry lies here in the log.
    pub(crate) fn advance(&mut self, slot: Slot, entry: Option<Entry>, located: Option<Located>) {
        self.base.advance(slot, entry.as_ref());
        let id = entry.as_ref().map(|entry| entry.id);
        self.storage.retained.decided(slot, id);
        self.storage.decided.push(slot, entry, located);
    }

    /// A message of the present epoch's machines, from the front of some.
    pub(crate) fn read_message(&self, input: &mut Decoder) -> Result<M::Message, String> {
        M::message(&self.seat.epoch.protocol, input).map_err(|e| e.to_string())
    }

    /// A message of the present epoch's machines that is alone.
    pub(crate) fn read_one_message(&self, bytes: Bytes) -> Result<M::Message, String> {
        let mut input = Decoder::new(bytes);
        let message = self.read_message(&mut input)?;
        input.finish().map_err(|e| e.to_string())?;
        Ok(message)
    }

    /// Sends a frame that waits for nothing.
    pub(crate) fn post(&mut self, to: Peers, body: &Body) {
        let header = self.header(to);
        let chunks = frame::encode(&header, body);
        let version = header.version;
        let bulk = matches!(
            body,
            Body::Attached { .. }
                | Body::Fragment {
                    fragment: Some(_),
                    ..
                }
        );
        self.effects.frames.push(Frame {
            to,
            version,
            bulk,
            chunks,
        });
    }

    /// Everybody this replica should be in touch with, ascending: the other members of the newest epoch
    /// and of the one before, and whoever has an address.
    pub(crate) fn acquaintances(&self) -> Vec<ReplicaId> {
        let addressed = self.epochs().addresses.keys().copied();
        let peers = self.membership.peers.iter().copied();
        let mut all: Vec<ReplicaId> = peers.chain(addressed).collect();
        all.retain(|id| *id != self.seat.me);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Asks everybody how far they are: where a leader hears all, others may know little of each other. The
    /// answers are notes, and every frame tells how far its sender is.
    pub(crate) fn ask_around(&mut self) {
        for peer in self.acquaintances() {
            self.ask_progress(peer);
        }
    }

    /// Asks one replica how far it is, which is a sign of life.
    pub(crate) fn ask_progress(&mut self, peer: ReplicaId) {
        let (epoch, incarnation) = (self.epoch().number, self.membership.me.incarnation);
        let note = Note::Ask { epoch };
        self.post(Peers::One(peer), &Body::Note { incarnation, note });
    }

    /// Sends what only replicas understand that speak the version with claims and digests.
    pub(crate) fn post_claim(&mut self, peer: ReplicaId, body: &Body) {
        if self.peer_versions.towards(Peers::One(peer)).has_claims() {
            self.post(Peers::One(peer), body);
        }
    }

    /// What a frame for these peers begins with.
    pub(crate) fn header(&self, to: Peers) -> Header {
        let version = self.peer_versions.towards(to);
        Header {
            version,
            group: self.seat.group,
            epoch: self.applier.newest().number,
            applied: self.applier.next(),
            checkpoint: self.shown_digest(version),
            claim: self.claim(),
        }
    }

    /// The digest that frames carry: of everything applied. Older programs keep only those of checkpoints.
    fn shown_digest(&self, version: WireVersion) -> (Slot, u64) {
        match version.has_claims() {
            true => (self.applier.next(), self.applier.digest()),
            false => self.applier.checkpoint(),
        }
    }
}
