//! The cluster that data is brought to: where it stands, and what is ordered there.

use super::source::Trouble;
use super::{Common, OWN, PAGE};
use crate::Failure;
use crate::endpoints::Asked;
use quorate_core::Wire;
use quorate_redis_effects::{Command, Follows, Import, REPLICATION_ID_BYTES};
use quorate_redis_process::{Flavour, ServerVersion};
use quorate_server::first_url;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a replica may take for one command.
const ORDERED_WITHIN: Duration = Duration::from_secs(5);
/// The pauses between two attempts.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_millis(500);
/// How often it is said that nobody takes a command.
const SAY_AGAIN: Duration = Duration::from_secs(5);
/// How long a replica that did not answer is not asked again, if others answer: it may be frozen, and each look at it
/// would last as long as an answer may.
const SILENT: Duration = Duration::from_secs(10);
/// What is told of clusters that have no stream which another server's could go into.
const NO_STREAM: &str = "which cannot follow a running server: follow it with a cluster of another kind (quorate up \
                         --face redis, with or without --redis-server)";
/// How often it is tried to begin an epoch where others do so, too.
const BEGIN_TRIES: usize = 8;

/// Where a replica says that the stream stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    pub(super) epoch: u64,
    pub(super) len: u64,
    pub(super) import: Option<Import>,
    /// Whether this replica serves clients.
    pub(super) is_executing: bool,
    /// What its server does not have yet.
    lag: u64,
    /// The replica that says so, as a place in `urls`.
    place: usize,
    version: Option<(Flavour, ServerVersion)>,
    /// Whether the data is in the replica's own store.
    is_own: bool,
    /// Why its own store could not carry out what the other server did.
    pub(super) failure: Option<String>,
}

/// What keeps the data of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeper {
    /// Real servers, of this version at least.
    Servers(Flavour, ServerVersion),
    /// Quorate's own store.
    Own,
}

impl Keeper {
    /// The version that commands of an import name.
    fn version(self) -> quorate_redis_effects::ServerVersion {
        match self {
            Keeper::Servers(flavour, version) => of_effects((flavour, version)),
            Keeper::Own => OWN_VERSION,
        }
    }
}

/// The version whose commands Quorate's own store carries out.
const OWN_VERSION: quorate_redis_effects::ServerVersion = quorate_redis_effects::ServerVersion {
    flavour: quorate_redis_effects::Flavour::Redis,
    number: (7, 0, 0),
};

/// What a command came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ordered {
    /// An epoch began, at this length of the stream.
    Begun { epoch: u64, len: u64 },
    /// The command is part of the stream, or of its state.
    Accepted,
    /// The stream is not where the command needs it to be.
    Elsewhere { epoch: u64, len: u64 },
    /// The epoch of the command is over.
    Void,
}

/// The replicas of a cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    asked: Asked,
    urls: Vec<String>,
    /// The one that is given the next command.
    first: usize,
    /// When replicas did not answer, by their place in `urls`.
    silent: RefCell<BTreeMap<usize, Instant>>,
}

impl Cluster {
    pub(super) fn open(common: &Common) -> Result<Cluster, Failure> {
        let asked = common.endpoints.open()?;
        let status = asked.first_status_page()?;
        let urls = status.members.iter();
        Ok(Cluster {
            asked,
            urls: urls
                .map(|member| first_url(&member.client_url).to_owned())
                .filter(|url| !url.is_empty())
                .collect(),
            first: 0,
            silent: RefCell::default(),
        })
    }

    /// The replicas in two parts: those to ask first, and those that did not answer a moment ago.
    fn likely_first(&self) -> (Vec<usize>, Vec<usize>) {
        let silent = self.silent.borrow();
        let is_silent = |at: &usize| silent.get(at).is_some_and(|since| since.elapsed() < SILENT);
        (0..self.urls.len()).partition(|at| !is_silent(at))
    }

    /// What replicas say that answer: all of them, but those that are known to be silent.
    fn standings(&self) -> Result<Vec<Standing>, Trouble> {
        let (likely, silent) = self.likely_first();
        match self.standings_of(&likely) {
            Err(Trouble::Broken(_)) if !silent.is_empty() => self.standings_of(&silent),
            standings => standings,
        }
    }

    fn standings_of(&self, places: &[usize]) -> Result<Vec<Standing>, Trouble> {
        let mut found = Vec::new();
        let mut why = "the cluster has no replica that can be asked".to_owned();
        for place in places {
            let url = &self.urls[*place];
            let told = self.asked.find(url, PAGE);
            match told {
                Ok(_) => self.silent.borrow_mut().remove(place),
                Err(_) => self.silent.borrow_mut().insert(*place, Instant::now()),
            };
            match told {
                Ok(Some(text)) => {
                    let standing = standing(&text);
                    let standing =
                        standing.map_err(|why| Trouble::Fatal(format!("{url}: {why}")))?;
                    found.push(Standing {
                        place: *place,
                        ..standing
                    });
                }
                Ok(None) => return Err(Trouble::Fatal(too_old(url))),
                Err(error) => why = error,
            }
        }
        match found.is_empty() {
            true => Err(Trouble::Broken(why)),
            false => Ok(found),
        }
    }

    /// Where the stream stands, as the replica says that is furthest.
    pub(super) fn standing(&self) -> Result<Standing, Trouble> {
        let standings = self.standings()?;
        let furthest = standings
            .into_iter()
            .max_by_key(|standing| (standing.epoch, standing.len));
        furthest.ok_or_else(|| Trouble::Broken("no replica answers".to_owned()))
    }

    /// Whether a replica serves clients, in an epoch or a later one.
    pub(super) fn is_served(&self, epoch: u64) -> bool {
        let standings = self.standings().unwrap_or_default();
        standings
            .iter()
            .any(|standing| standing.is_executing && standing.epoch >= epoch)
    }

    /// The most that a replica's server does not have yet.
    pub(super) fn lag(&self) -> u64 {
        let standings = self.standings().unwrap_or_default();
        standings
            .iter()
            .map(|standing| standing.lag)
            .max()
            .unwrap_or(0)
    }

    /// Turns to the replica whose server has most of the stream: it gets the next command, and the one that gets the
    /// cutover serves clients first. Returns the bytes that its server does not have yet; `None` if no replica answers.
    pub(super) fn turn_to_nearest(&mut self) -> Option<u64> {
        let standings = self.standings().unwrap_or_default();
        let nearest = standings.iter().min_by_key(|standing| standing.lag)?;
        self.first = nearest.place;
        Some(nearest.lag)
    }

    /// What keeps the data: where those are servers, with the oldest version among them.
    pub(super) fn keeper(&self) -> Result<Keeper, Trouble> {
        let standings = self.standings()?;
        if standings.iter().any(|standing| standing.is_own) {
            return Ok(Keeper::Own);
        }
        let versions = standings.iter().filter_map(|standing| standing.version);
        let oldest = versions.min();
        oldest
            .map(|(flavour, version)| Keeper::Servers(flavour, version))
            .ok_or_else(|| Trouble::Fatal("no replica says which server it runs".to_owned()))
    }

    /// Writes an RDB of everything to `out`.
    pub(super) fn download(&self, out: &mut impl std::io::Write) -> Result<(), Failure> {
        self.asked.download("/redis/rdb", out)
    }

    /// Has a command ordered, by whichever replica takes it, however long that takes. It may be ordered twice.
    pub(super) fn order(&mut self, command: &Command) -> Result<Ordered, Trouble> {
        let body = command.to_bytes();
        let (mut pause, mut said) = (AGAIN, Instant::now());
        loop {
            let place = self.place();
            let url = &self.urls[place];
            let answered = self
                .asked
                .post_bytes_at(url, "/redis/import", &body, ORDERED_WITHIN);
            let why = match answered {
                Ok((200, text)) => match ordered(&text) {
                    Some(Some(ordered)) => {
                        self.first = place;
                        return Ok(ordered);
                    }
                    // It is to be sent again.
                    Some(None) => String::new(),
                    None => text,
                },
                Ok((404, _)) => return Err(Trouble::Fatal(too_old(url))),
                Ok((409, text)) => return Err(Trouble::Fatal(reason(&text))),
                Ok((_, text)) => reason(&text),
                Err(why) => {
                    self.silent.borrow_mut().insert(place, Instant::now());
                    why
                }
            };
            self.first = place + 1;
            if self.is_over(command) {
                return Ok(Ordered::Void);
            }
            if said.elapsed() > SAY_AGAIN {
                said = Instant::now();
                eprintln!("no replica takes what comes, trying again: {why}");
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(AGAIN_MAX);
        }
    }

    /// The replica that is given the next command: that which took the last one, or one behind it that is not silent.
    fn place(&self) -> usize {
        let (likely, _) = self.likely_first();
        let all = self.urls.len();
        let mut places = (self.first..self.first + all).map(|place| place % all);
        let place = places.find(|place| likely.contains(place));
        place.unwrap_or(self.first % all)
    }

    /// Whether the epoch of a piece of the stream is over, so that no replica takes it any more.
    fn is_over(&self, command: &Command) -> bool {
        let Command::Effects { epoch, .. } = command else {
            return false;
        };
        self.standing()
            .is_ok_and(|standing| standing.epoch > *epoch)
    }

    /// Whether the replicas know of imports: one that changes nothing is asked for.
    pub(super) fn check_level(&mut self, keeper: Keeper) -> Result<(), Trouble> {
        let nothing = Command::Import {
            over: u64::MAX,
            at: None,
            is_anew: false,
            version: keeper.version(),
        };
        self.order(&nothing).map(drop)
    }

    /// Why a piece of the stream was not taken, which belongs to an epoch.
    pub(super) fn why_not(&self, epoch: u64) -> Trouble {
        let standing = self.standing().ok();
        let standing = standing.filter(|standing| standing.epoch > epoch);
        match standing.and_then(|standing| standing.failure) {
            Some(why) => Trouble::Fatal(why),
            None => {
                Trouble::Broken("another import goes on, or clients are served already".to_owned())
            }
        }
    }

    /// Begins an epoch of an import at a length of the stream: its number.
    pub(super) fn begin(
        &mut self,
        standing: &Standing,
        is_anew: bool,
        keeper: Keeper,
    ) -> Result<u64, Trouble> {
        let (mut over, at) = (standing.epoch, standing.len);
        for _ in 0..BEGIN_TRIES {
            let import = Command::Import {
                over,
                at: Some(at),
                is_anew,
                version: keeper.version(),
            };
            match self.order(&import)? {
                Ordered::Begun { epoch, .. } => return Ok(epoch),
                // This one, whose answer was lost, or an executor that was asked for; unless clients are served by now.
                Ordered::Elsewhere { epoch, len } if len == at && epoch != over => {
                    if standing.import.is_some() && self.standing()?.import.is_none() {
                        break;
                    }
                    over = epoch;
                }
                _ => break,
            }
        }
        Err(Trouble::Broken(
            "something was written meanwhile, or another import goes on".to_owned(),
        ))
    }
}

fn of_effects(
    (flavour, version): (Flavour, ServerVersion),
) -> quorate_redis_effects::ServerVersion {
    quorate_redis_effects::ServerVersion {
        flavour: match flavour {
            Flavour::Redis => quorate_redis_effects::Flavour::Redis,
            Flavour::Valkey => quorate_redis_effects::Flavour::Valkey,
        },
        number: (version.major, version.minor, version.patch),
    }
}

fn too_old(url: &str) -> String {
    format!("{url}: it is of an older version, which knows nothing of imports into what it has")
}

/// What a page of a replica says, or why nothing can follow another server there.
fn standing(text: &str) -> Result<Standing, String> {
    let page: Value = serde_json::from_str(text)
        .map_err(|error| format!("what it says of its server is no JSON: {error}"))?;
    if page["epoch"].is_null() {
        return Err(format!(
            "its server carries out every command of the log (--redis-mode commands), {NO_STREAM}"
        ));
    }
    let number = |name: &str| page[name].as_u64().unwrap_or_default();
    let import = match page["import"].as_str() {
        Some("loading") => Some(Import::Loading),
        Some("following") => {
            let id = page["import_id"].as_str().unwrap_or_default();
            let id: [u8; REPLICATION_ID_BYTES] = (id.as_bytes().try_into())
                .map_err(|_| format!("the stream that it follows has the id {id:?}"))?;
            Some(Import::Following(Follows {
                id,
                source: number("import_source"),
                len: number("import_len"),
            }))
        }
        _ => None,
    };
    let is_own = page["role"] == OWN;
    Ok(Standing {
        epoch: number("epoch"),
        len: number("offset"),
        import,
        is_executing: page["role"] == "executing" || is_own && import.is_none(),
        lag: number("lag_bytes"),
        place: 0,
        version: page["server"].as_str().and_then(version),
        is_own,
        failure: page["failure"]
            .as_str()
            .filter(|_| is_own)
            .map(str::to_owned),
    })
}

/// The version in a line like `Redis 7.0.15 (/usr/bin/redis-server)`.
fn version(line: &str) -> Option<(Flavour, ServerVersion)> {
    let mut words = line.split(' ');
    let flavour = match words.next()? {
        "Redis" => Flavour::Redis,
        "Valkey" => Flavour::Valkey,
        _ => return None,
    };
    Some((flavour, words.next()?.parse().ok()?))
}

/// What an answer says that a command came to: nothing, if it is to be sent again.
fn ordered(text: &str) -> Option<Option<Ordered>> {
    let page: Value = serde_json::from_str(text).ok()?;
    let number = |name: &str| page[name].as_u64().unwrap_or_default();
    let (epoch, len) = (number("epoch"), number("len"));
    match page["outcome"].as_str()? {
        "begun" => Some(Some(Ordered::Begun { epoch, len })),
        "accepted" => Some(Some(Ordered::Accepted)),
        "elsewhere" => Some(Some(Ordered::Elsewhere { epoch, len })),
        "void" => Some(Some(Ordered::Void)),
        "beyond" => Some(None),
        _ => None,
    }
}

/// Why a command was not ordered.
fn reason(text: &str) -> String {
    let page: Option<Value> = serde_json::from_str(text).ok();
    let why = page.and_then(|page| page["why"].as_str().map(str::to_owned));
    why.unwrap_or_else(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_say_where_the_stream_stands() {
        let id = "a".repeat(REPLICATION_ID_BYTES);
        let text = format!(
            r#"{{"role":"following","server":"Valkey 8.1.8 (/bin/valkey-server)","epoch":3,"offset":90,"lag_bytes":4,
                "import":"following","import_id":"{id}","import_source":1000,"import_len":80}}"#
        );
        let found = standing(&text).unwrap();
        let Some(Import::Following(follows)) = found.import else {
            panic!("{found:?}");
        };
        assert_eq!((follows.source_at(90), follows.len_at(1010)), (1010, 90));
        assert_eq!((found.epoch, found.len, found.lag), (3, 90, 4));
        let version = ServerVersion::new(8, 1, 8);
        assert_eq!(found.version, Some((Flavour::Valkey, version)));
        assert!(standing("<html>").unwrap_err().contains("no JSON"));
        let commands = standing(r#"{"role":"commands","offset":90}"#);
        assert!(commands.unwrap_err().contains("--redis-mode commands"));
        assert_eq!(
            ordered(r#"{"outcome":"elsewhere","epoch":2,"len":5}"#),
            Some(Some(Ordered::Elsewhere { epoch: 2, len: 5 }))
        );
        assert_eq!(ordered(r#"{"outcome":"beyond"}"#), Some(None));
        assert_eq!(reason(r#"{"why":"because"}"#), "because");
    }
}
