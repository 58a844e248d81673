//! What a replica without data asks its peers before it may speak, and what they answer.

use super::addresses::Addresses;
use super::contacts::Contacts;
use super::handshake::Identity;
use super::incarnations::Incarnations;
use super::opening::Opening;
use crate::meta::{Meta, ReplicaState};
use quorate_core::{ClusterId, Decoder, Encoder, Epoch, Incarnation, ReplicaId, Wire, WireError};

/// As much as two epochs and a list of addresses take.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// The question of a replica without data: how far is the other one, and what does it know of this one?
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JoinQuestion {
    /// The cluster of the one who asks.
    pub(crate) cluster: ClusterId,
    /// The replica id of the one who asks.
    pub(crate) from: ReplicaId,
    /// The replica that is believed to be asked.
    pub(crate) to: ReplicaId,
    /// A number that this start of it has drawn, from wire version 3 on: it is to be told where the peers of the
    /// one that answers are, and recognises a question of its own.
    pub(crate) asker: Option<u64>,
}

/// The answer to a [`JoinQuestion`]: what one replica says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JoinAnswer {
    /// The cluster of the replica that answers.
    pub(crate) cluster: ClusterId,
    /// The id of the replica that answers.
    pub(crate) from: ReplicaId,
    /// How far the replica is on its way to its first word.
    pub(crate) stage: Stage,
    /// The newest epoch, where it runs and that is not the first.
    pub(crate) newest: Option<Epoch>,
}

/// How far a replica is on its way to its first word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The replica has no data, and was not told that the cluster is new.
    Empty,
    /// The replica has no data, was told that the cluster is new, and has agreed to nothing.
    Joining {
        /// The incarnation it would begin in.
        incarnation: Incarnation,
        /// The digest of its epoch, with incarnations zero.
        config: u64,
    },
    /// The replica will begin in this epoch, which names everybody's incarnation, or not at all.
    Confirmed {
        /// The incarnation it would begin in.
        incarnation: Incarnation,
        /// The digest of that epoch.
        digest: u64,
    },
    /// The replica runs.
    Begun {
        /// The first epoch.
        epoch: Epoch,
        /// The latest incarnation of the one who asks, if it ever came back.
        later: Option<Incarnation>,
        /// Where its peers are, the one who asks among them, if it was asked for that.
        addresses: Option<Addresses>,
    },
}

impl Opening for JoinQuestion {
    const MAGIC: [u8; 8] = *b"QUORJOIN";
}

impl Opening for JoinAnswer {
    const MAGIC: [u8; 8] = JoinQuestion::MAGIC;
    const BYTES_MAX: usize = ANSWER_BYTES_MAX;
}

impl Identity {
    /// The answer of a replica that runs.
    pub(super) fn answer(
        &self,
        question: &JoinQuestion,
        incarnations: &Incarnations,
        contacts: &Contacts,
    ) -> JoinAnswer {
        JoinAnswer {
            cluster: self.cluster,
            from: self.me,
            stage: Stage::Begun {
                epoch: self.epoch.clone(),
                later: incarnations.later(question.from),
                addresses: question.asker.map(|_| contacts.addresses()),
            },
            newest: contacts.newest(),
        }
    }
}

impl Stage {
    /// Of a replica that does not run yet.
    pub(crate) fn of(meta: Option<&Meta>) -> Stage {
        let Some(meta) = meta else {
            return Stage::Empty;
        };
        let (incarnation, digest) = (meta.incarnation, meta.epoch.digest());
        match meta.state {
            ReplicaState::Joining => Stage::Joining {
                incarnation,
                config: digest,
            },
            ReplicaState::Confirmed => Stage::Confirmed {
                incarnation,
                digest,
            },
            ReplicaState::Bootstrapped | ReplicaState::Lost | ReplicaState::Started => {
                Stage::Begun {
                    epoch: meta.epoch.clone(),
                    later: None,
                    addresses: None,
                }
            }
        }
    }
}

impl Wire for JoinQuestion {
    fn encode(&self, out: &mut Encoder) {
        self.cluster.encode(out);
        self.from.encode(out);
        self.to.encode(out);
        if let Some(asker) = self.asker {
            out.u64(asker);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(JoinQuestion {
            cluster: ClusterId::decode(input)?,
            from: ReplicaId::decode(input)?,
            to: ReplicaId::decode(input)?,
            asker: match input.remaining() {
                0 => None,
                _ => Some(input.u64()?),
            },
        })
    }
}

impl Wire for JoinAnswer {
    fn encode(&self, out: &mut Encoder) {
        self.cluster.encode(out);
        self.from.encode(out);
        self.stage.encode(out);
        // Programs that know of one epoch only take no more.
        if let Some(newest) = &self.newest {
            newest.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(JoinAnswer {
            cluster: ClusterId::decode(input)?,
            from: ReplicaId::decode(input)?,
            stage: Stage::decode(input)?,
            newest: match input.remaining() {
                0 => None,
                _ => Some(Epoch::decode(input)?),
            },
        })
    }
}

impl Wire for Stage {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Stage::Empty => out.u8(0),
            Stage::Joining {
                incarnation,
                config,
            } => {
                out.u8(1);
                incarnation.encode(out);
                out.u64(*config);
            }
            Stage::Confirmed {
                incarnation,
                digest,
            } => {
                out.u8(2);
                incarnation.encode(out);
                out.u64(*digest);
            }
            Stage::Begun {
                epoch,
                later,
                addresses,
            } => {
                out.u8(if addresses.is_none() { 3 } else { 4 });
                epoch.encode(out);
                later.encode(out);
                if let Some(addresses) = addresses {
                    addresses.encode(out);
                }
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Stage::Empty,
            1 => Stage::Joining {
                incarnation: Incarnation::decode(input)?,
                config: input.u64()?,
            },
            2 => Stage::Confirmed {
                incarnation: Incarnation::decode(input)?,
                digest: input.u64()?,
            },
            tag @ (3 | 4) => Stage::Begun {
                epoch: Epoch::decode(input)?,
                later: Option::decode(input)?,
                addresses: match tag {
                    3 => None,
                    _ => Some(Addresses::decode(input)?),
                },
            },
            tag => return Err(WireError::Tag("stage", tag)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::tests::meta;

    #[test]
    fn every_stage_reads_back_as_written_and_no_bytes_panic() {
        let mut meta = meta(1);
        let states = [
            None,
            Some(ReplicaState::Joining),
            Some(ReplicaState::Confirmed),
            Some(ReplicaState::Lost),
        ];
        for state in states {
            let stage = Stage::of(state.map(|state| {
                meta.state = state;
                &meta
            }));
            let answer = JoinAnswer {
                cluster: ClusterId(7),
                from: ReplicaId(2),
                stage,
                newest: None,
            };
            let mut told = answer.clone();
            if let Stage::Begun { addresses, .. } = &mut told.stage {
                *addresses = Some(Addresses(vec![(ReplicaId(1), "a:1".to_owned())]));
            }
            assert_eq!(JoinAnswer::from_bytes(told.to_bytes()), Ok(told));
            let bytes = answer.to_bytes();
            let later = JoinAnswer {
                newest: Some(meta.epoch.clone()),
                ..answer.clone()
            };
            assert_eq!(JoinAnswer::from_bytes(bytes.clone()), Ok(answer));
            assert_eq!(JoinAnswer::from_bytes(later.to_bytes()), Ok(later));
            for end in 0..bytes.len() {
                assert!(JoinAnswer::from_bytes(bytes.slice(..end)).is_err());
            }
        }
    }
}
