//! The first start of a node: who it is, and whether it may be new.

use crate::error::StartError;
use crate::options::Options;
use quorate_core::{Epoch, Incarnation, Member, ReplicaId, Slot};
use quorate_server::{
    Expected, Folder, Join, Meta, PeerSecurity, Rejoin, ReplicaState, SupportedVersions, bootstrap,
    holds_data, join_unless,
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::net::TcpListener;

/// The data folder of a node that may begin, and the addresses of the other members.
pub(crate) struct Place {
    pub(crate) folder: Folder,
    pub(crate) others: Vec<(ReplicaId, String)>,
}

/// The place of a node all of whose peers are in this process: it has nobody to ask.
pub(crate) fn alone(options: &Options) -> Result<Place, StartError> {
    let dir = &options.folder;
    if !holds_data(dir).map_err(StartError::new)? {
        let Some(drawn) = options.begins else {
            return Err(StartError::new(format!(
                "{} holds nothing of node {}, and other nodes of its cluster have run: a node that lost its folder \
                 has forgotten its promises. Bring the folder back; if the cluster never ran, remove the others, too",
                dir.display(),
                options.me
            )));
        };
        let incarnation = |id: ReplicaId| Incarnation(drawn.0.wrapping_add(u128::from(id.0)));
        let epoch = epoch(options, incarnation);
        let me = Member {
            id: options.me,
            incarnation: incarnation(options.me),
        };
        let meta = Meta::bootstrapped(options.cluster_id(), me, epoch);
        bootstrap(dir, &meta).map_err(StartError::new)?;
    }
    Ok(Place {
        folder: Folder::open(dir, &expected(options)).map_err(StartError::new)?,
        others: options.others(),
    })
}

/// The place of a node whose peers are elsewhere: without promises of its own, it asks them. Blocks until they have
/// answered, or until `abandoned` is done.
pub(crate) fn asking(
    options: &Options,
    security: PeerSecurity,
    port: TcpListener,
    abandoned: impl Future<Output = ()>,
) -> Result<Place, StartError> {
    let dir = &options.folder;
    let others = options.others();
    let wanted = match options.joins {
        true => None,
        false => Some(first_meta(options)?),
    };
    if !holds_data(dir).map_err(StartError::new)?
        && let Some(meta) = &wanted
    {
        bootstrap(dir, meta).map_err(StartError::new)?;
    }
    let folder = match wanted.is_none() && !holds_data(dir).map_err(StartError::new)? {
        true => None,
        false => Folder::open_or_begin(dir, &expected(options), wanted.as_ref())
            .map_err(StartError::new)?,
    };
    match folder {
        Some(folder) if folder.meta().state.may_begin() => Ok(Place { folder, others }),
        folder => {
            let asked = Join {
                dir: dir.clone(),
                expected: expected(options),
                cluster: options.cluster_id(),
                is_guess: false,
                is_new: !options.joins,
                address: options.members[&options.me].clone(),
                peers: others,
                security,
                supported: SupportedVersions::SHIPPED,
                rejoin: Rejoin::NewMember,
                folder,
                catalogue: options.catalogue,
            };
            let joined = join_unless(asked, &[port], abandoned)?;
            Ok(Place {
                folder: joined.folder,
                others: joined.peers,
            })
        }
    }
}

fn expected(options: &Options) -> Expected {
    Expected {
        cluster: Some(options.cluster_id()),
        ..Expected::any(options.me)
    }
}

/// What a member of a new cluster begins with before it has heard of the others.
fn first_meta(options: &Options) -> Result<Meta, StartError> {
    let own = random_incarnation().map_err(StartError::new)?;
    let is_alone = options.members.len() == 1;
    let epoch = epoch(options, |_| match is_alone {
        true => own,
        false => Incarnation::default(),
    });
    let me = Member {
        id: options.me,
        incarnation: own,
    };
    Ok(Meta {
        state: match is_alone {
            true => ReplicaState::Bootstrapped,
            false => ReplicaState::Joining,
        },
        ..Meta::bootstrapped(options.cluster_id(), me, epoch)
    })
}

fn epoch(options: &Options, incarnation: impl Fn(ReplicaId) -> Incarnation) -> Epoch {
    let member = |id: &ReplicaId| Member {
        id: *id,
        incarnation: incarnation(*id),
    };
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: options.members.keys().map(member).collect(),
        protocol: options.protocol.to_owned(),
        durability: options.durability.core(),
        seed: options.cluster_id().0 as u64,
        params: options.params.clone(),
    }
}

pub(crate) fn random_incarnation() -> std::io::Result<Incarnation> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(Incarnation(u128::from_le_bytes(bytes)))
}
