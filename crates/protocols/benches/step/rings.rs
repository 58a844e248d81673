//! Replicas of one process: a ring in memory for each direction between two of them, for one producer and one consumer,
//! without locks. What a thread that polls does with a message, all of it: take it from a ring, decode it, step, encode
//! what follows once, and put that into the rings of its receivers.

use bytes::Bytes;
use quorate_core::{Encoder, Peers, ReplicaId, Written};
use rtrb::{Consumer, Producer, RingBuffer};

/// Messages in a ring, at most; more than ever are under way.
const SLOTS: usize = 4096;
/// Memory that messages of one replica share, as those of a host do.
const ENCODING_BYTES: usize = 8 << 10;

/// All rings, as one thread uses them that is all replicas in turn.
pub(crate) struct Rings {
    replicas: usize,
    /// From `a` to `b`, at `a * replicas + b`.
    into: Vec<Producer<Bytes>>,
    out_of: Vec<Consumer<Bytes>>,
    /// Where to look next: everybody has its turn.
    turn: usize,
    /// As hosts do, each takes memory for many messages at a time.
    encoders: Vec<Encoder>,
}

impl Rings {
    pub(crate) fn new(replicas: usize) -> Rings {
        let pairs = (0..replicas * replicas).map(|_| RingBuffer::new(SLOTS));
        let (into, out_of) = pairs.unzip();
        Rings {
            replicas,
            into,
            out_of,
            turn: 0,
            encoders: (0..replicas)
                .map(|_| Encoder::with_capacity(ENCODING_BYTES))
                .collect(),
        }
    }

    pub(crate) fn send(&mut self, from: usize, to: Peers, message: &impl Written) {
        message.write(&mut self.encoders[from]);
        let message = self.encoders[from].take_bytes();
        for peer in (0..self.replicas).filter(|peer| *peer != from) {
            if to == Peers::All || to == Peers::One(ReplicaId(peer as u16 + 1)) {
                let ring = &mut self.into[from * self.replicas + peer];
                ring.push(message.clone()).expect("there is room");
            }
        }
    }

    /// The next ring with a message, and to whom it leads.
    pub(crate) fn next(&mut self) -> Option<(usize, usize)> {
        for _ in 0..self.out_of.len() {
            let at = self.turn;
            self.turn = (at + 1) % self.out_of.len();
            if !self.out_of[at].is_empty() {
                return Some((at, at % self.replicas));
            }
        }
        None
    }

    /// The message at the end of a ring, and from whom it is.
    pub(crate) fn take(&mut self, ring: usize) -> (ReplicaId, Bytes) {
        let from = ReplicaId((ring / self.replicas) as u16 + 1);
        (from, self.out_of[ring].pop().expect("it is not empty"))
    }
}
