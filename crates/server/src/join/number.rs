//! The number of a replica that knows its address only, as etcd's members do.

use super::{ANSWER_TIMEOUT, ask};
use crate::error::ServerError;
use crate::peer::join_question::{JoinQuestion, Stage};
use crate::run::random_u64;
use crate::tls::PeerSecurity;
use quorate_core::{ClusterId, ReplicaId};
use quorate_host::SupportedVersions;
use std::collections::BTreeMap;

/// What running replicas say of numbers and addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    /// Replicas and the addresses of their peer ports, `host:port`, as far as they were told.
    pub addresses: BTreeMap<ReplicaId, String>,
    /// Whether any replica runs at the addresses that were asked.
    pub is_running: bool,
}

impl Numbers {
    /// The replica whose peer port is at an address.
    #[must_use]
    pub fn at(&self, address: &str) -> Option<ReplicaId> {
        let mut all = self.addresses.iter();
        let found = all.find(|(_, known)| known.as_str() == address);
        found.map(|(id, _)| *id)
    }

    /// Takes what a replica at `address` answered. Where it is reached counts more than where others say that it is.
    fn take(&mut self, address: String, from: ReplicaId, stage: Stage) {
        let Stage::Begun { addresses, .. } = stage else {
            return;
        };
        self.is_running = true;
        for (id, told) in addresses.map_or_else(Vec::new, |told| told.0) {
            self.addresses.entry(id).or_insert(told);
        }
        self.addresses.insert(from, address);
    }
}

/// Asks once, at addresses of peer ports, which replicas have which numbers.
///
/// # Errors
/// Those of the operating system; who does not answer is no error.
pub fn find_numbers(
    addresses: &[String],
    supported: SupportedVersions,
    security: &PeerSecurity,
) -> Result<Numbers, ServerError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let question = JoinQuestion {
        // Running replicas answer whoever asks, whatever it takes itself and them for.
        cluster: ClusterId(0),
        from: ReplicaId(0),
        to: ReplicaId(0),
        asker: supported
            .asks_for_addresses()
            .then(random_u64)
            .transpose()?,
    };
    Ok(runtime.block_on(async {
        let mut asking = tokio::task::JoinSet::new();
        for address in addresses {
            let (address, question) = (address.clone(), question.clone());
            let security = security.clone();
            asking.spawn(async move {
                let answer = ask(&address, &question, supported, &security);
                let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
                Some((address, answer.ok()?.ok()?))
            });
        }
        let mut numbers = Numbers::default();
        while let Some(answered) = asking.join_next().await {
            if let Ok(Some((address, answer))) = answered {
                numbers.take(address, answer.from, answer.stage);
            }
        }
        numbers
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::tests::meta;
    use crate::peer::addresses::Addresses;

    fn begun(addresses: Option<&[(u16, &str)]>) -> Stage {
        let told = |list: &[(u16, &str)]| {
            let list = list.iter();
            Addresses(
                list.map(|(id, at)| (ReplicaId(*id), (*at).to_owned()))
                    .collect(),
            )
        };
        Stage::Begun {
            epoch: meta(1).epoch,
            later: None,
            addresses: addresses.map(told),
        }
    }

    #[test]
    fn numbers_are_what_running_replicas_say() {
        let mut numbers = Numbers::default();
        numbers.take("c:1".to_owned(), ReplicaId(9), Stage::Empty);
        assert_eq!(numbers, Numbers::default());
        let stage = begun(Some(&[(2, "b:1"), (4, "d:1")]));
        numbers.take("a:1".to_owned(), ReplicaId(1), stage);
        // An older program tells nothing, and is at another address than the first one said.
        numbers.take("b:2".to_owned(), ReplicaId(2), begun(None));
        let known = [(1, "a:1"), (2, "b:2"), (4, "d:1")];
        let known = known.map(|(id, at)| (ReplicaId(id), at.to_owned()));
        assert_eq!(numbers.addresses, known.into());
        assert!(numbers.is_running);
        assert_eq!(numbers.at("d:1"), Some(ReplicaId(4)));
        assert_eq!(numbers.at("c:1"), None);
    }
}
