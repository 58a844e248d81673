//! What two replicas tell each other before the first frame: the dialler sends a hello, and the
//! acceptor answers with a welcome.

use super::incarnations::Incarnations;
use super::opening::Opening;
use quorate_core::{
    Boot, ClusterId, Decoder, Encoder, Epoch, Group, Incarnation, ReplicaId, Wire, WireError,
};
use quorate_host::SupportedVersions;

const TEXT_BYTES_MAX: usize = 512;

/// Everything a handshake compares, as this replica has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// The cluster of this replica.
    pub cluster: ClusterId,
    /// The id of this replica.
    pub me: ReplicaId,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// The boot of the sender's process.
    pub boot: Boot,
    /// The wire versions that this replica speaks.
    pub supported: SupportedVersions,
    /// What this replica says of itself, if it speaks a wire version that has it.
    pub about: Option<PeerInfo>,
    /// The log that this replica takes part in.
    pub group: Group,
    /// The first epoch: what all replicas must have agreed on before.
    pub epoch: Epoch,
    /// The digest of the first epoch.
    pub epoch_digest: u64,
}

impl Opening for Hello {
    const MAGIC: [u8; 8] = *b"QUORPEER";
}

impl Opening for Welcome {
    const MAGIC: [u8; 8] = Hello::MAGIC;
}

/// What a dialler says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    /// The dialler's cluster.
    pub cluster: ClusterId,
    /// The dialler's replica id.
    pub from: ReplicaId,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// This start of its process, by a number drawn for the receiver alone: the token of `call_back.rs`.
    pub boot: Boot,
    /// The replica that the dialler wants to reach.
    pub to: ReplicaId,
    /// The name of the dialler's protocol.
    pub protocol: String,
    /// The log that the dialler takes part in.
    pub group: Group,
    /// The number of the dialler's first epoch.
    pub epoch: u64,
    /// The digest of that.
    pub epoch_digest: u64,
    /// The kind of frames that the dialler wants to send.
    pub lane: Lane,
    /// What else it says of itself, from wire version 2 on.
    pub about: Option<PeerInfo>,
}

/// What a replica says of itself and nobody compares.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PeerInfo {
    /// The replica's name, for people.
    pub name: String,
    /// Where clients reach it, as a URL.
    pub client_url: String,
    /// The highest feature level that its program knows.
    pub level: u32,
}

/// The kind of frames that a connection carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Lane {
    /// Whatever is small, and the reports that the peer lives.
    Messages,
    /// Frames with bulk, which must not hold up the others.
    Bulk,
    /// No frames: datagrams are taken while it lasts.
    Datagrams,
}

/// A peer, and what one of the connections with it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeerLane {
    /// The peer at the other end.
    pub(crate) peer: ReplicaId,
    /// What the connection carries.
    pub(crate) lane: Lane,
}

/// The acceptor's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Welcome {
    /// The acceptor's number.
    pub from: ReplicaId,
    /// The acceptor's cluster.
    pub cluster: ClusterId,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// The boot of the sender's process.
    pub boot: Boot,
    /// Why it does not take the connection, if it does not.
    pub rejected: Option<Rejection>,
}

/// Why a connection is refused: a code for programs, a sentence for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rejection {
    /// The kind of refusal, for programs.
    pub code: RejectCode,
    /// The difference in words, with both values.
    pub text: String,
}

/// Kinds of refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RejectCode {
    /// No wire version that both speak.
    WireVersion,
    /// A replica of another cluster.
    Cluster,
    /// The hello was meant for another replica.
    Recipient,
    /// The dialler is no member of the group.
    UnknownReplica,
    /// A member, in another incarnation of its promises.
    Incarnation,
    /// A replica that runs another protocol.
    Protocol,
    /// Another epoch, or the same number with other content.
    Epoch,
    /// No datagrams are taken.
    Datagrams,
    /// A gateway's number, which another one has.
    Taken,
    /// The replica has no room for another gateway.
    TooMany,
}

const CODES: [RejectCode; 10] = [
    RejectCode::WireVersion,
    RejectCode::Cluster,
    RejectCode::Recipient,
    RejectCode::UnknownReplica,
    RejectCode::Incarnation,
    RejectCode::Protocol,
    RejectCode::Epoch,
    RejectCode::Datagrams,
    RejectCode::Taken,
    RejectCode::TooMany,
];

impl RejectCode {
    /// The code's name, as a label of metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RejectCode::WireVersion => "wire version",
            RejectCode::Cluster => "cluster",
            RejectCode::Recipient => "recipient",
            RejectCode::UnknownReplica => "unknown replica",
            RejectCode::Incarnation => "incarnation",
            RejectCode::Protocol => "protocol",
            RejectCode::Epoch => "epoch",
            RejectCode::Datagrams => "datagrams",
            RejectCode::Taken => "taken",
            RejectCode::TooMany => "too many",
        }
    }
}

impl Identity {
    /// The hello to a peer, with the token drawn for that.
    #[must_use]
    pub(crate) fn hello(&self, to: ReplicaId, lane: Lane, token: Boot) -> Hello {
        Hello {
            cluster: self.cluster,
            from: self.me,
            incarnation: self.incarnation,
            boot: token,
            to,
            protocol: self.epoch.protocol.clone(),
            group: self.group,
            epoch: self.epoch.number,
            epoch_digest: self.epoch_digest,
            lane,
            about: self.about.clone(),
        }
    }

    /// The answer to a hello, or to one in a wire version not spoken here.
    #[must_use]
    pub(crate) fn welcome(&self, rejected: Option<Rejection>) -> Welcome {
        Welcome {
            from: self.me,
            cluster: self.cluster,
            incarnation: self.incarnation,
            boot: self.boot,
            rejected,
        }
    }

    /// Whether frames of the replica that says `hello` may be taken if it is genuine, in an incarnation that goes on.
    pub(crate) fn judge(&self, hello: &Hello, is_peer: bool) -> Result<(), Rejection> {
        let reject = |code, text| Err(Rejection { code, text });
        if hello.cluster != self.cluster {
            let text = format!(
                "it is of cluster {}, I am of {}",
                hello.cluster, self.cluster
            );
            return reject(RejectCode::Cluster, text);
        }
        if hello.to != self.me {
            let text = format!("it looks for replica {}, I am {}", hello.to, self.me);
            return reject(RejectCode::Recipient, text);
        }
        if hello.from == self.me || !is_peer {
            let text = format!(
                "replica {} is not among my peers: a new one has to be added to the cluster first",
                hello.from
            );
            return reject(RejectCode::UnknownReplica, text);
        }
        if hello.protocol != self.epoch.protocol {
            let text = format!(
                "it runs protocol {:?}, I run {:?}",
                hello.protocol, self.epoch.protocol
            );
            return reject(RejectCode::Protocol, text);
        }
        let (its, mine) = (
            (hello.group, hello.epoch, hello.epoch_digest),
            (self.group, self.epoch.number, self.epoch_digest),
        );
        if its != mine {
            let text = format!(
                "it is in group {} epoch {} (digest {:016x}), I am in group {} epoch {} (digest \
                 {:016x}): members, parameters or durability differ",
                its.0, its.1, its.2, mine.0, mine.1, mine.2
            );
            return reject(RejectCode::Epoch, text);
        }
        Ok(())
    }

    /// Whether the answer comes from the replica that was dialled. A later incarnation of it is noted: it answers at
    /// its own address.
    pub(crate) fn judge_welcome(
        &self,
        to: ReplicaId,
        welcome: &Welcome,
        incarnations: &Incarnations,
    ) -> Result<(), Rejection> {
        if let Some(rejection) = &welcome.rejected {
            return Err(rejection.clone());
        }
        if (welcome.cluster, welcome.from) == (self.cluster, to) {
            return incarnations.admit(to, welcome.incarnation);
        }
        Err(Rejection {
            code: RejectCode::Recipient,
            text: format!(
                "replica {} of cluster {} answered where replica {to} was expected",
                welcome.from, welcome.cluster
            ),
        })
    }
}

impl Wire for Hello {
    fn encode(&self, out: &mut Encoder) {
        self.cluster.encode(out);
        self.from.encode(out);
        self.incarnation.encode(out);
        out.u64(self.boot.0);
        self.to.encode(out);
        out.string(&self.protocol);
        self.group.encode(out);
        out.varint(self.epoch);
        out.u64(self.epoch_digest);
        // Only programs that know of bulk ask for it, or say more.
        match (self.lane, &self.about) {
            (Lane::Messages, None) => {}
            (Lane::Messages, Some(_)) => out.u8(0),
            (Lane::Bulk, _) => out.u8(1),
            (Lane::Datagrams, _) => out.u8(2),
        }
        if let Some(about) = &self.about {
            about.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Hello {
            cluster: ClusterId::decode(input)?,
            from: ReplicaId::decode(input)?,
            incarnation: Incarnation::decode(input)?,
            boot: Boot(input.u64()?),
            to: ReplicaId::decode(input)?,
            protocol: input.string()?,
            group: Group::decode(input)?,
            epoch: input.varint()?,
            epoch_digest: input.u64()?,
            lane: match input.remaining() {
                0 => Lane::Messages,
                more => lane_of(input.u8()?, more)?,
            },
            about: match input.remaining() {
                0 => None,
                _ => Some(PeerInfo::decode(input)?),
            },
        })
    }
}

impl Wire for PeerInfo {
    fn encode(&self, out: &mut Encoder) {
        for text in [&self.name, &self.client_url] {
            out.string(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
        }
        out.varint(u64::from(self.level));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let text = |input: &mut Decoder| match input.string()? {
            text if text.len() <= TEXT_BYTES_MAX => Ok(text),
            _ => Err(WireError::Range("what a replica says of itself")),
        };
        Ok(PeerInfo {
            name: text(input)?,
            client_url: text(input)?,
            level: u32::try_from(input.varint()?).map_err(|_| WireError::Range("feature level"))?,
        })
    }
}

/// The lane, with so many bytes left, this one included. Messages are named only by a newer version
/// that says more.
fn lane_of(tag: u8, bytes: usize) -> Result<Lane, WireError> {
    match tag {
        0 if bytes > 1 => Ok(Lane::Messages),
        1 => Ok(Lane::Bulk),
        2 => Ok(Lane::Datagrams),
        tag => Err(WireError::Tag("lane", tag)),
    }
}

impl Wire for Welcome {
    fn encode(&self, out: &mut Encoder) {
        self.from.encode(out);
        self.cluster.encode(out);
        self.incarnation.encode(out);
        out.u64(self.boot.0);
        self.rejected.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Welcome {
            from: ReplicaId::decode(input)?,
            cluster: ClusterId::decode(input)?,
            incarnation: Incarnation::decode(input)?,
            boot: Boot(input.u64()?),
            rejected: Option::decode(input)?,
        })
    }
}

impl Wire for Rejection {
    fn encode(&self, out: &mut Encoder) {
        let code = CODES
            .iter()
            .position(|code| *code == self.code)
            .unwrap_or_default();
        out.u8(code as u8);
        let end = self.text.floor_char_boundary(TEXT_BYTES_MAX);
        out.string(&self.text[..end]);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let tag = input.u8()?;
        let code = CODES
            .get(usize::from(tag))
            .copied()
            .ok_or(WireError::Tag("rejection", tag))?;
        Ok(Rejection {
            code,
            text: input.string()?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use quorate_core::Member;

    pub(crate) fn identity(me: u16) -> Identity {
        let members: Vec<_> = (1..=3)
            .map(|id| Member {
                id: ReplicaId(id),
                incarnation: Incarnation(u128::from(id) + 10),
            })
            .collect();
        Identity {
            cluster: ClusterId(99),
            me: ReplicaId(me),
            incarnation: members[usize::from(me) - 1].incarnation,
            boot: Boot(1000 + u64::from(me)),
            supported: SupportedVersions::SHIPPED,
            about: Some(PeerInfo {
                name: format!("replica-{me}"),
                client_url: format!("http://h{me}:2379"),
                level: 1,
            }),
            group: Group(0),
            epoch: Epoch {
                members,
                protocol: "rabia".into(),
                ..crate::meta::tests::meta(1).epoch
            },
            epoch_digest: 42,
        }
    }

    #[test]
    fn members_of_one_epoch_take_each_other() {
        let incarnations = Incarnations::of(&identity(1).epoch);
        let hello = identity(1).hello(ReplicaId(2), Lane::Messages, Boot(7));
        assert_eq!(Hello::from_bytes(hello.to_bytes()), Ok(hello.clone()));
        assert_eq!(identity(2).judge(&hello, true), Ok(()));
        let welcome = identity(2).welcome(None);
        assert_eq!(Welcome::from_bytes(welcome.to_bytes()), Ok(welcome.clone()));
        let judge = |to| identity(1).judge_welcome(ReplicaId(to), &welcome, &incarnations);
        assert_eq!(judge(2), Ok(()));
        assert!(judge(3).is_err());
    }

    #[test]
    fn each_difference_is_refused_by_its_own_code() {
        type Change = fn(&mut Hello);
        let cases: [(Change, RejectCode); 6] = [
            (|hello| hello.cluster = ClusterId(1), RejectCode::Cluster),
            (|hello| hello.to = ReplicaId(3), RejectCode::Recipient),
            (
                |hello| hello.from = ReplicaId(7),
                RejectCode::UnknownReplica,
            ),
            (
                |hello| hello.from = ReplicaId(2),
                RejectCode::UnknownReplica,
            ),
            (
                |hello| hello.protocol = "chora".into(),
                RejectCode::Protocol,
            ),
            (|hello| hello.epoch_digest = 0, RejectCode::Epoch),
        ];
        for (change, code) in cases {
            let incarnations = Incarnations::of(&identity(1).epoch);
            let mut hello = identity(1).hello(ReplicaId(2), Lane::Messages, Boot(7));
            change(&mut hello);
            let is_peer = identity(2).epoch.index_of(hello.from).is_some();
            let rejection = identity(2).judge(&hello, is_peer).unwrap_err();
            assert_eq!(rejection.code, code);
            let welcome = identity(2).welcome(Some(rejection.clone()));
            let back = Welcome::from_bytes(welcome.to_bytes()).unwrap();
            assert_eq!(
                identity(1).judge_welcome(ReplicaId(2), &back, &incarnations),
                Err(rejection)
            );
        }
    }
}
