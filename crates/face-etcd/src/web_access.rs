//! What is served besides gRPC, and to whom.

use std::collections::BTreeSet;

/// The word for everything.
pub(crate) const ANY: &str = "*";

/// Names of which one has to be said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowList(BTreeSet<String>);

impl Default for AllowList {
    fn default() -> Self {
        AllowList::new([])
    }
}

impl AllowList {
    /// These names; all, if there is none or one of them is `*`.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        AllowList(names.into_iter().collect())
    }

    pub(crate) fn allows_any(&self) -> bool {
        self.0.is_empty() || self.0.contains(ANY)
    }

    pub(crate) fn allows(&self, name: &str) -> bool {
        self.allows_any() || self.0.contains(name)
    }
}

/// What is served besides gRPC, and to whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebAccess {
    /// Whether the services are served in JSON.
    pub json: bool,
    /// Pages that may read answers, by their origin (`https://example.org`).
    pub origins: AllowList,
    /// Names that this server may be called by.
    pub hosts: AllowList,
}

impl Default for WebAccess {
    fn default() -> Self {
        WebAccess {
            json: true,
            origins: AllowList::default(),
            hosts: AllowList::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_allow_what_they_name_or_everything() {
        let list = |names: &[&str]| AllowList::new(names.iter().map(|name| (*name).to_owned()));
        assert!(AllowList::default().allows("a") && list(&["b", "*"]).allows("a"));
        let named = list(&["http://a:1"]);
        assert!(named.allows("http://a:1"));
        assert!(!named.allows("http://a") && !named.allows("") && !named.allows("HTTP://A:1"));
    }
}
