//! The members of a cluster by their names, and the numbers that these have here.
//!
//! etcd calls members by name and by URL, Quorate by number. A new cluster numbers its members in the order of their
//! names, so that all of them do so alike; what came of that is kept beside a member's data, for names to mean the same
//! in every later start.

use super::urls::{self, Url};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The most members that a list may name.
const MEMBERS_MAX: usize = 256;
/// What the data of a replica may be done to by others.
const OWNER_ONLY: u32 = 0o700;
/// The name of the file beside a member's data.
const FILE: &str = "initial-cluster";

/// The members of a cluster, each with its URLs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roster {
    pub(crate) members: BTreeMap<String, Vec<Url>>,
    /// Whether the numbers follow the URLs, because names are not known.
    is_by_url: bool,
}

/// A member with the number that it has here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(crate) url: String,
}

impl Roster {
    /// Reads a list of the form `NAME=URL,NAME=URL`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of(text: &str) -> Result<Roster, String> {
        let mut roster: BTreeMap<String, Vec<Url>> = BTreeMap::new();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (name, url) = item.split_once('=').unwrap_or((item, ""));
            let url = urls::list("initial-cluster", url)?;
            if url.is_empty() {
                return Err(format!("--initial-cluster: empty URL given for {name:?}"));
            }
            roster.entry(name.to_owned()).or_default().extend(url);
            if roster.len() > MEMBERS_MAX {
                return Err(format!(
                    "--initial-cluster: more than {MEMBERS_MAX} members"
                ));
            }
        }
        let mut all: Vec<&Url> = roster.values().flatten().collect();
        all.sort();
        if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!(
                "--initial-cluster {text:?} has duplicate url {}",
                pair[0]
            ));
        }
        roster.values_mut().for_each(|urls| urls.sort());
        Ok(Roster::by_name(roster))
    }

    /// Members whose names all others know as well.
    pub(crate) fn by_name(members: BTreeMap<String, Vec<Url>>) -> Roster {
        Roster {
            members,
            is_by_url: false,
        }
    }

    /// Members whose names are known to themselves alone.
    pub(crate) fn by_url(members: BTreeMap<String, Vec<Url>>) -> Roster {
        Roster {
            members,
            is_by_url: true,
        }
    }

    /// The members with the numbers that a new cluster gives them. A member is reached at the first of its URLs.
    pub(crate) fn numbered(&self) -> Vec<Numbered> {
        let members = self.members.iter();
        let mut members: Vec<_> = members
            .filter_map(|(name, urls)| Some((urls.first()?, name)))
            .collect();
        if self.is_by_url {
            members.sort();
        }
        let numbered = members.into_iter().zip(1..);
        let numbered = numbered.map(|((url, name), number)| Numbered {
            number,
            name: name.clone(),
            url: url.to_string(),
        });
        numbered.collect()
    }
}

/// The list as `quorate serve` reads it.
pub(crate) fn by_number(members: &[Numbered]) -> String {
    let items = members
        .iter()
        .map(|member| format!("{}={}", member.number, member.url));
    items.collect::<Vec<_>>().join(",")
}

/// What a start before this one kept; `None` if there is nothing that can be read.
pub(crate) fn load(dir: &Path) -> Option<Vec<Numbered>> {
    let text = fs::read_to_string(path(dir)).ok()?;
    let mut members = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        members.push(Numbered {
            number: words.next()?.parse().ok()?,
            url: words.next()?.to_owned(),
            name: words.next()?.to_owned(),
        });
    }
    (members.len() <= MEMBERS_MAX && !members.is_empty()).then_some(members)
}

/// Keeps the numbers for later starts. They are on disk when this returns.
pub(crate) fn store(dir: &Path, members: &[Numbered]) -> Result<(), String> {
    let mut text =
        "# The members that this one began with: number, URL for peers, name.\n".to_owned();
    for Numbered { number, name, url } in members {
        text.push_str(&format!("{number} {url} {name}\n"));
    }
    let written = write(dir, &text);
    written.map_err(|error| format!("cannot write {}: {error}", path(dir).display()))
}

fn write(dir: &Path, text: &str) -> io::Result<()> {
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(OWNER_ONLY).create(dir)?;
    let new = dir.join(format!("{FILE}.new"));
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path(dir))?;
    File::open(dir)?.sync_all()
}

fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: u16, name: &str, url: &str) -> Numbered {
        Numbered {
            number,
            name: name.to_owned(),
            url: url.to_owned(),
        }
    }

    #[test]
    fn members_are_numbered_by_their_names_however_they_are_listed() {
        let lists = [
            "b=http://b:2380,a=http://a:2380,c=http://c:2,c=http://c:1",
            "c=http://c:1,a=http://a:2380,c=http://c:2,b=http://b:2380,",
        ];
        for list in lists {
            let members = Roster::of(list).unwrap().numbered();
            assert_eq!(
                by_number(&members),
                "1=http://a:2380,2=http://b:2380,3=http://c:1"
            );
            assert_eq!(members[1].name, "b");
        }
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused() {
        for (list, why) in [
            ("a=http://h:1,b=http://h:1", "has duplicate url http://h:1"),
            ("a=http://h:1,a=http://h:1", "has duplicate url http://h:1"),
            ("a", "empty URL given for \"a\""),
            ("a=,b=http://h:1", "empty URL given for \"a\""),
            ("a=h:1", "URL scheme must be"),
        ] {
            let said = Roster::of(list).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let many: String = (0..=MEMBERS_MAX)
            .map(|n| format!("m{n}=http://h{n}:1,"))
            .collect();
        assert!(Roster::of(&many).unwrap_err().contains("more than 256"));
    }

    #[test]
    fn what_is_kept_is_read_again_and_what_is_damaged_is_not() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("not/there");
        assert_eq!(load(&dir), None);
        let members = [
            numbered(1, "a name", "http://a:1"),
            numbered(4, "", "http://b:1"),
        ];
        store(&dir, &members).unwrap();
        store(&dir, &members).unwrap();
        assert_eq!(load(&dir).as_deref(), Some(&members[..]));
        for text in ["", "# nothing\n", "x http://a:1 a\n", "1 http://a:1\n"] {
            fs::write(path(&dir), text).unwrap();
            assert_eq!(load(&dir), None, "{text:?}");
        }
    }
}
