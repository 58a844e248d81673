//! The `meta` file: who a replica is. Text for people, with a checksum for the machine.
//!
//! ```text
//! # Identity of a Quorate replica. Written by the program: do not edit.
//! magic = "quorate-meta"
//! format = 1
//! cluster = "<32 hex digits>"
//! ...
//! # crc32c = <8 hex digits, over every byte before this line>
//! ```
//!
//! The first three lines and the last keep their meaning in every future format, so that an older
//! program can say what it found.

use quorate_core::{ClusterId, Durability, Epoch, Group, Incarnation, Member, ReplicaId, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format this program writes, and the newest it reads.
pub const META_FORMAT: u32 = 1;

const MAGIC: &str = "quorate-meta";
const HEAD: &str = "# Identity of a Quorate replica. Written by the program: do not edit.\n";
const CHECKSUM: &str = "# crc32c = ";

/// How far a replica has come, and so what it may have promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaState {
    /// In a new cluster: it has not heard of all others yet and has never spoken. The incarnations
    /// in its epoch are all zero.
    Joining,
    /// The replica has agreed, for ever, to begin with exactly the incarnations in its epoch or not at all; it has
    /// never spoken.
    Confirmed,
    /// The replica may begin, and has never spoken.
    Bootstrapped,
    /// A former incarnation may have spoken, and what it promised is gone.
    Lost,
    /// The replica may have spoken: its log holds its promises.
    Started,
}

impl ReplicaState {
    /// Whether it is settled as what the replica begins.
    #[must_use]
    pub fn may_begin(self) -> bool {
        !matches!(self, ReplicaState::Joining | ReplicaState::Confirmed)
    }
}

/// A replica's identity, and the configuration it was bootstrapped with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The replica's cluster.
    pub cluster: ClusterId,
    /// The replica's number.
    pub replica: ReplicaId,
    /// The replica's incarnation.
    pub incarnation: Incarnation,
    /// The incarnation under which epochs behind the first list it, if it may have another than there: an earlier
    /// one where it lost its promises and makes up for that within the epoch.
    pub listed_as: Option<Incarnation>,
    /// How far the replica has come.
    pub state: ReplicaState,
    /// The log that the replica takes part in.
    pub group: Group,
    /// The group's first epoch.
    pub epoch: Epoch,
}

/// Why the text of a meta file means nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetaError {
    /// The content is not what was written.
    Corrupt(String),
    /// A newer program wrote it.
    Newer(u32),
}

#[derive(Serialize, Deserialize)]
struct Text {
    magic: String,
    format: u32,
    cluster: String,
    replica: u16,
    incarnation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "known_as")]
    listed_as: Option<String>,
    state: ReplicaState,
    group: u32,
    epoch: EpochText,
}

#[derive(Serialize, Deserialize)]
struct EpochText {
    number: u64,
    first_slot: u64,
    protocol: String,
    durability: DurabilityText,
    // A string: TOML's integers are signed.
    seed: String,
    #[serde(default)]
    params: BTreeMap<String, String>,
    members: Vec<MemberText>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DurabilityText {
    Disk,
    Memory,
}

#[derive(Serialize, Deserialize)]
struct MemberText {
    id: u16,
    incarnation: String,
}

/// What every format begins with.
#[derive(Deserialize)]
struct Head {
    magic: String,
    format: u32,
}

impl Meta {
    /// What a member of a new cluster's first epoch begins with, who knows all the others.
    #[must_use]
    pub fn bootstrapped(cluster: ClusterId, me: Member, epoch: Epoch) -> Meta {
        Meta {
            cluster,
            replica: me.id,
            incarnation: me.incarnation,
            listed_as: None,
            state: ReplicaState::Bootstrapped,
            group: Group(0),
            epoch,
        }
    }

    /// Whether this is what `wanted` would begin, maybe in another incarnation.
    pub(crate) fn begins_as(&self, wanted: &Meta) -> bool {
        *self
            == Meta {
                incarnation: self.incarnation,
                ..wanted.clone()
            }
    }

    /// The content of the meta file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let body = toml::to_string(&Text::from(self))
            .unwrap_or_else(|error| unreachable!("a meta file is always valid TOML: {error}"));
        seal(&format!("{HEAD}{body}"))
    }

    /// Reads a file's content.
    pub fn from_text(text: &str) -> Result<Meta, MetaError> {
        let corrupt = |why: String| MetaError::Corrupt(why);
        verify(text).map_err(MetaError::Corrupt)?;
        let head: Head = toml::from_str(text).map_err(|error| corrupt(first_line(&error)))?;
        if head.magic != MAGIC {
            return Err(corrupt(format!("its magic is {:?}", head.magic)));
        }
        if head.format > META_FORMAT {
            return Err(MetaError::Newer(head.format));
        }
        let text: Text = toml::from_str(text).map_err(|error| corrupt(first_line(&error)))?;
        Meta::try_from(text).map_err(MetaError::Corrupt)
    }
}

/// Adds the line that lets a damaged file be found.
pub(crate) fn seal(text: &str) -> String {
    let checksum = crc_fast::crc32_iscsi(text.as_bytes());
    format!("{text}{CHECKSUM}{checksum:08x}\n")
}

/// Checks the last line against everything before it.
pub(crate) fn verify(text: &str) -> Result<(), String> {
    let at = text.rfind(CHECKSUM).ok_or("its checksum line is missing")?;
    let (body, end) = text.split_at(at);
    let sealed = seal(body);
    if text == sealed {
        return Ok(());
    }
    let [found, written] = [&sealed[at..], end].map(|line| line[CHECKSUM.len()..].trim_end());
    Err(format!("its checksum is {found} and should be {written}"))
}

fn first_line(error: &toml::de::Error) -> String {
    error
        .message()
        .lines()
        .next()
        .unwrap_or("not TOML")
        .to_owned()
}

impl From<&Meta> for Text {
    fn from(meta: &Meta) -> Text {
        Text {
            magic: MAGIC.to_owned(),
            format: META_FORMAT,
            cluster: meta.cluster.to_string(),
            replica: meta.replica.0,
            incarnation: meta.incarnation.to_string(),
            listed_as: meta.listed_as.map(|life| life.to_string()),
            state: meta.state,
            group: meta.group.0,
            epoch: EpochText {
                number: meta.epoch.number,
                first_slot: meta.epoch.first_slot.0,
                protocol: meta.epoch.protocol.clone(),
                durability: match meta.epoch.durability {
                    Durability::Disk => DurabilityText::Disk,
                    Durability::Memory => DurabilityText::Memory,
                },
                seed: format!("{:016x}", meta.epoch.seed),
                params: meta.epoch.params.clone(),
                members: meta
                    .epoch
                    .members
                    .iter()
                    .map(|member| MemberText {
                        id: member.id.0,
                        incarnation: member.incarnation.to_string(),
                    })
                    .collect(),
            },
        }
    }
}

impl TryFrom<Text> for Meta {
    type Error = String;

    fn try_from(text: Text) -> Result<Meta, String> {
        let members = text
            .epoch
            .members
            .iter()
            .map(|member| {
                Ok(Member {
                    id: ReplicaId(member.id),
                    incarnation: Incarnation(wide(&member.incarnation)?),
                })
            })
            .collect::<Result<Vec<_>, String>>()?;
        Ok(Meta {
            cluster: ClusterId(wide(&text.cluster)?),
            replica: ReplicaId(text.replica),
            incarnation: Incarnation(wide(&text.incarnation)?),
            listed_as: match &text.listed_as {
                Some(life) => Some(Incarnation(wide(life)?)),
                None => None,
            },
            state: text.state,
            group: Group(text.group),
            epoch: Epoch {
                number: text.epoch.number,
                first_slot: Slot(text.epoch.first_slot),
                members,
                protocol: text.epoch.protocol,
                durability: match text.epoch.durability {
                    DurabilityText::Disk => Durability::Disk,
                    DurabilityText::Memory => Durability::Memory,
                },
                seed: u64::from_str_radix(&text.epoch.seed, 16)
                    .map_err(|_| format!("{:?} is not a seed", text.epoch.seed))?,
                params: text.epoch.params,
            },
        })
    }
}

fn wide(text: &str) -> Result<u128, String> {
    u128::from_str_radix(text, 16).map_err(|_| format!("{text:?} is not 32 hexadecimal digits"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn meta(replica: u16) -> Meta {
        let members = (1..=3)
            .map(|id| Member {
                id: ReplicaId(id),
                incarnation: Incarnation(u128::from(id) << 100 | 7),
            })
            .collect::<Vec<_>>();
        Meta {
            cluster: ClusterId(0xabcd << 64),
            replica: ReplicaId(replica),
            incarnation: members[usize::from(replica) - 1].incarnation,
            listed_as: None,
            state: ReplicaState::Bootstrapped,
            group: Group(0),
            epoch: Epoch {
                number: 1,
                first_slot: Slot(0),
                members,
                protocol: "rabia".into(),
                durability: Durability::Disk,
                seed: u64::MAX - 5,
                params: [("window".to_owned(), "4".to_owned())].into(),
            },
        }
    }

    #[test]
    fn a_meta_file_reads_back_as_written() {
        let mut meta = meta(2);
        assert_eq!(Meta::from_text(&meta.to_text()), Ok(meta.clone()));
        meta.state = ReplicaState::Started;
        meta.epoch.durability = Durability::Memory;
        meta.epoch.params.clear();
        meta.listed_as = Some(Incarnation(3 << 70));
        assert_eq!(Meta::from_text(&meta.to_text()), Ok(meta));
    }

    #[test]
    fn any_changed_byte_is_found() {
        let text = meta(1).to_text();
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else {
                continue;
            };
            assert!(
                matches!(Meta::from_text(&changed), Err(MetaError::Corrupt(_))),
                "byte {at} changed and nobody noticed:\n{changed}"
            );
        }
        assert!(Meta::from_text(&text[..text.len() / 2]).is_err());
        assert!(Meta::from_text("").is_err());
    }

    #[test]
    fn a_newer_format_is_named_whatever_else_it_holds() {
        let body = format!("{HEAD}magic = \"{MAGIC}\"\nformat = 9\nnews = [1, 2]\n");
        let text = format!(
            "{body}{CHECKSUM}{:08x}\n",
            crc_fast::crc32_iscsi(body.as_bytes())
        );
        assert_eq!(Meta::from_text(&text), Err(MetaError::Newer(9)));
    }
}
