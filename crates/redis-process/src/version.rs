//! The family and the version of a server, and the oldest that Quorate runs.

use std::fmt;
use std::str::FromStr;

/// A family of servers. Their files and their effects are their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Flavour {
    /// Redis, from 7.0 on.
    Redis,
    /// Valkey, from 8.0 on.
    Valkey,
}

impl Flavour {
    /// The name that people know it by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Redis => "Redis",
            Flavour::Valkey => "Valkey",
        }
    }

    /// The oldest version that Quorate runs.
    #[must_use]
    pub fn oldest(self) -> ServerVersion {
        match self {
            Flavour::Redis => ServerVersion::new(7, 0, 0),
            Flavour::Valkey => ServerVersion::new(8, 0, 0),
        }
    }
}

/// The version of a server: major, minor, patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ServerVersion {
    /// The first number of three.
    pub major: u16,
    /// The second number of three.
    pub minor: u16,
    /// The third number of three.
    pub patch: u16,
}

impl ServerVersion {
    /// A version of three numbers.
    #[must_use]
    pub const fn new(major: u16, minor: u16, patch: u16) -> ServerVersion {
        ServerVersion {
            major,
            minor,
            patch,
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for ServerVersion {
    type Err = ();

    /// Reads `7.0.15`, and `8.1.0-rc1` as 8.1.0.
    fn from_str(text: &str) -> Result<ServerVersion, ()> {
        let numbers = text.split(['-', '+']).next().unwrap_or(text);
        let mut parts = numbers.split('.').map(|part| part.parse::<u16>());
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => {
                Ok(ServerVersion::new(major, minor, patch))
            }
            _ => Err(()),
        }
    }
}

/// Reads the line that a server prints for `--version`, as in `Redis server v=7.0.15 sha=00000000:0 bits=64`.
pub(crate) fn parse_version_line(text: &str) -> Option<(Flavour, ServerVersion)> {
    let line = text.lines().next()?;
    let flavour = match line.split_whitespace().next()? {
        "Redis" => Flavour::Redis,
        "Valkey" => Flavour::Valkey,
        _ => return None,
    };
    let mut words = line.split_whitespace();
    let version = words.find_map(|word| word.strip_prefix("v="))?;
    Some((flavour, version.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_servers_print_them() {
        let redis =
            "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d\n";
        let valkey =
            "Valkey server v=8.1.0-rc1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1\n";
        let found = Some((Flavour::Redis, ServerVersion::new(7, 0, 15)));
        assert_eq!(parse_version_line(redis), found);
        let found = Some((Flavour::Valkey, ServerVersion::new(8, 1, 0)));
        assert_eq!(parse_version_line(valkey), found);
        for other in [
            "",
            "etcd Version: 3.5",
            "Redis server",
            "Redis server v=seven",
        ] {
            assert_eq!(parse_version_line(other), None, "{other:?}");
        }
    }

    #[test]
    fn versions_have_an_order() {
        assert!(ServerVersion::new(7, 0, 15) > ServerVersion::new(7, 0, 2));
        assert!(Flavour::Redis.oldest() > ServerVersion::new(6, 2, 14));
        assert!("7.0".parse::<ServerVersion>().is_err());
        assert_eq!(ServerVersion::new(9, 1, 2).to_string(), "9.1.2");
    }
}
