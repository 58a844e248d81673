//! The protocols that the programs of a simulated cluster have.

use quorate_core::Catalogue;
use quorate_protocols::{Protocol, ProtocolSet, Visitor, all_names, visit};

/// Names of protocols, and what epochs know of them.
#[derive(Clone, Debug)]
pub(crate) struct KnownProtocols {
    pub(crate) names: Vec<&'static str>,
    pub(crate) catalogue: &'static dyn Catalogue,
}

impl KnownProtocols {
    /// The protocols of a set.
    pub(crate) fn of<P: ProtocolSet>() -> KnownProtocols {
        KnownProtocols {
            names: P::names(),
            catalogue: P::CATALOGUE,
        }
    }
}

/// The rare branches of a protocol and of all registered ones: a cluster may go from one to another.
pub(crate) fn branches_with<P: Protocol>() -> Vec<&'static str> {
    struct Branches;
    impl Visitor for Branches {
        type Output = &'static [&'static str];
        fn visit<P: Protocol>(self) -> Self::Output {
            P::branches()
        }
    }
    let all = all_names().into_iter();
    let all = all.filter_map(|name| visit(name, Branches));
    all.chain([P::branches()]).flatten().copied().collect()
}
