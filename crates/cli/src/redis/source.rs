//! The Redis or Valkey whose data is brought over: how it is reached, what it is, and what it answers.

use crate::Failure;
use bytes::{Bytes, BytesMut};
use clap::Args;
use quorate_redis_process::{Flavour, ServerVersion};
use quorate_resp::{Reply, encode_request};
use quorate_tls::{ClientFiles, Connection, Connector, TlsError};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What an address begins with where TLS is spoken.
const TLS: &str = "rediss://";
/// What an address may begin with otherwise.
const PLAIN: &str = "redis://";
/// How long a connection, or an answer, may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest file of a password, in bytes.
const PASSWORD_BYTES_MAX: usize = 64 << 10;

/// Where the other server is, and how one proves oneself there.
#[derive(Args, Clone, Debug)]
pub(super) struct SourceOptions {
    /// The Redis or Valkey whose data is brought over, which has to be a master; TLS is spoken to rediss://HOST:PORT,
    /// and if certificates are given
    #[arg(long, value_name = "HOST:PORT")]
    from: String,

    /// The user of that server, who may do everything that a replica does: +psync +replconf +info +ping, and
    /// +client|pause +client|unpause for the cutover [default: the default user]
    #[arg(long, value_name = "NAME", requires = "from_password_file")]
    from_user: Option<String>,

    /// A file with the password for that server
    #[arg(long, value_name = "FILE")]
    from_password_file: Option<PathBuf>,

    /// The authorities of that server's certificate, in PEM [default: those of this system]
    #[arg(long, value_name = "FILE")]
    from_cacert: Option<PathBuf>,

    /// The certificate to show to that server, in PEM
    #[arg(long, value_name = "FILE", requires = "from_key")]
    from_cert: Option<PathBuf>,

    /// The private key of --from-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "from_cert")]
    from_key: Option<PathBuf>,

    /// Take whatever certificate that server shows
    #[arg(long)]
    from_insecure_skip_tls_verify: bool,
}

/// A password, which nothing shows.
#[derive(Clone)]
struct Password(String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// How the server is dialled whose data is brought over.
#[derive(Debug)]
pub(super) struct SourceAddress {
    /// `host:port`, for people as well.
    pub(super) place: String,
    tls: Option<Connector>,
    user: Option<String>,
    password: Option<Password>,
}

/// Why it does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// Somebody has to do something.
    Fatal(String),
    /// Another attempt may work.
    Broken(String),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        let (Trouble::Fatal(why) | Trouble::Broken(why)) = trouble;
        Failure::Failed(why)
    }
}

/// What the server says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SourceInfo {
    /// The family and the version of the server, in two numbers.
    pub(super) version: (Flavour, ServerVersion),
    /// The replication id.
    pub(super) id: String,
    /// The offset of its stream.
    pub(super) offset: u64,
}

/// A connection to the server, as its user.
pub(super) struct Source {
    pub(super) connection: Connection,
    pub(super) input: BytesMut,
    place: String,
}

impl SourceOptions {
    /// Reads the files, and looks whether the address is one.
    pub(super) fn open(&self) -> Result<SourceAddress, Failure> {
        let (place, wants_tls) = match self.from.strip_prefix(TLS) {
            Some(place) => (place, true),
            None => (self.from.strip_prefix(PLAIN).unwrap_or(&self.from), false),
        };
        let is_place = place
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !is_place {
            let given = &self.from;
            return Err(Failure::Usage(format!(
                "--from {given:?} is not of the form host:port, {PLAIN}host:port or {TLS}host:port"
            )));
        }
        let wants_tls = wants_tls
            || self.from_cacert.is_some()
            || self.from_cert.is_some()
            || self.from_insecure_skip_tls_verify;
        let tls = wants_tls.then(|| {
            Connector::new(ClientFiles {
                authorities: self.from_cacert.clone(),
                certificate: self.from_cert.clone().zip(self.from_key.clone()),
                takes_all: self.from_insecure_skip_tls_verify,
                ..ClientFiles::default()
            })
        });
        let tls = tls
            .transpose()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let password = self.from_password_file.as_ref().map(|path| {
            let of_file = |why: &dyn fmt::Display| {
                Failure::Usage(format!("--from-password-file {}: {why}", path.display()))
            };
            let text = std::fs::read_to_string(path).map_err(|error| of_file(&error))?;
            let text = text.trim_end_matches(['\r', '\n']);
            match text.len() {
                0 => Err(of_file(&"it is empty")),
                PASSWORD_BYTES_MAX.. => Err(of_file(&"it is too long for a password")),
                _ => Ok(Password(text.to_owned())),
            }
        });
        Ok(SourceAddress {
            place: place.to_owned(),
            tls,
            user: self.from_user.clone(),
            password: password.transpose()?,
        })
    }
}

impl SourceAddress {
    /// A connection on which requests are answered in the name of the user.
    pub(super) async fn connect(&self) -> Result<Source, Trouble> {
        let place = &self.place;
        let broken = |why: &dyn fmt::Display| Trouble::Broken(format!("{place}: {why}"));
        let dialled = timeout(ANSWER_WITHIN, TcpStream::connect(place)).await;
        let tcp = dialled.map_err(|_| broken(&"no connection in time"))?;
        let tcp = tcp.map_err(|error| broken(&error))?;
        tcp.set_nodelay(true).map_err(|error| broken(&error))?;
        let connection = match &self.tls {
            None => Connection::from(tcp),
            Some(tls) => {
                let host = place.rsplit_once(':').map_or(&place[..], |(host, _)| host);
                let hands = tls.connect(tcp, host).await;
                hands.map_err(|error| match error {
                    // A server that ends, or has only begun.
                    TlsError::Closed | TlsError::Timeout | TlsError::Io(_) => broken(&error),
                    _ => Trouble::Fatal(format!("{place}: {error}")),
                })?
            }
        };
        let mut source = Source {
            connection,
            input: BytesMut::new(),
            place: place.clone(),
        };
        if let Some(Password(password)) = &self.password {
            let words: Vec<&str> = (["AUTH"].into_iter())
                .chain(self.user.as_deref())
                .chain([&password[..]])
                .collect();
            source.ask_well(&words).await?;
        }
        Ok(source)
    }
}

impl Source {
    /// The answer to a request.
    pub(super) async fn ask(&mut self, words: &[&str]) -> Result<Reply, Trouble> {
        self.send(words).await?;
        let answered = timeout(ANSWER_WITHIN, self.next()).await;
        answered.unwrap_or_else(|_| {
            let what = words.first().copied().unwrap_or_default();
            Err(self.broken(&format!("no answer to {what} in time")))
        })
    }

    /// Sends a request whose answer is read elsewhere.
    pub(super) async fn send(&mut self, words: &[&str]) -> Result<(), Trouble> {
        let mut text = Vec::new();
        encode_request(words, &mut text);
        let sent = async {
            self.connection.write_all(&text).await?;
            self.connection.flush().await
        };
        sent.await.map_err(|error| self.broken(&error))
    }

    /// A request that is answered without an error.
    pub(super) async fn ask_well(&mut self, words: &[&str]) -> Result<Reply, Trouble> {
        match self.ask(words).await? {
            Reply::Error(why) => Err(self.refused(words.first().copied(), &why)),
            reply => Ok(reply),
        }
    }

    /// What an error of the server means: what it says of its state may pass.
    pub(super) fn refused(&self, what: Option<&str>, why: &str) -> Trouble {
        let what = what.unwrap_or_default();
        let text = format!("{}: it answers {what} with: {why}", self.place);
        let passes = ["LOADING", "BUSY", "MASTERDOWN", "NOMASTERLINK", "TRYAGAIN"];
        match passes.iter().any(|word| why.starts_with(word)) {
            true => Trouble::Broken(text),
            false => Trouble::Fatal(text),
        }
    }

    pub(super) fn broken(&self, why: &dyn fmt::Display) -> Trouble {
        Trouble::Broken(format!("{}: {why}", self.place))
    }

    /// Reads more of what the server sends.
    pub(super) async fn more(&mut self) -> Result<(), Trouble> {
        match self.connection.read_buf(&mut self.input).await {
            Ok(0) => Err(self.broken(&"it closed the connection")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.broken(&error)),
        }
    }

    async fn next(&mut self) -> Result<Reply, Trouble> {
        loop {
            match Reply::take(&mut self.input) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) if self.input.len() < ANSWER_BYTES_MAX => self.more().await?,
                Ok(None) | Err(_) => {
                    let place = &self.place;
                    return Err(Trouble::Fatal(format!(
                        "{place}: that is no Redis and no Valkey: what it answers is not RESP"
                    )));
                }
            }
        }
    }

    /// The next line, without its end; empty ones, which only show that the server is alive, are left out.
    pub(super) async fn line(&mut self, within: Duration) -> Result<Bytes, Trouble> {
        loop {
            while self.input.first() == Some(&b'\n') {
                drop(self.input.split_to(1));
            }
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line = self.input.split_to(end + 1).freeze();
                return Ok(line.slice(..line.len() - 1 - usize::from(line.ends_with(b"\r\n"))));
            }
            if self.input.len() > 1024 {
                return Err(self.broken(&"a line without an end"));
            }
            let read = timeout(within, self.more()).await;
            read.unwrap_or_else(|_| Err(self.broken(&"it says nothing")))?;
        }
    }

    /// What the server says of itself, if one can follow it.
    pub(super) async fn info(&mut self) -> Result<SourceInfo, Trouble> {
        let reply = self.ask_well(&["INFO"]).await?;
        let text = reply.text().unwrap_or_default();
        let fields = fields(&text).map_err(|why| Trouble::Fatal(format!("{}: {why}", self.place)));
        let (info, is_loading) = fields?;
        match is_loading {
            true => Err(self.broken(&"it loads its data")),
            false => Ok(info),
        }
    }
}

/// What a text of `INFO` tells, and whether the server loads its data.
fn fields(text: &str) -> Result<(SourceInfo, bool), String> {
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    if field("quorate_version").is_some() {
        return Err(
            "it is Quorate's own store, which has no stream to follow: export it to a file"
                .to_owned(),
        );
    }
    let valkey = field("valkey_version").map(|version| (Flavour::Valkey, version));
    let redis = field("redis_version").map(|version| (Flavour::Redis, version));
    let version = valkey.or(redis).and_then(|(flavour, version)| {
        let version: ServerVersion = version.parse().ok()?;
        Some((flavour, ServerVersion::new(version.major, version.minor, 0)))
    });
    let Some(version) = version else {
        return Err("it does not say which version of Redis or Valkey it is".to_owned());
    };
    if field("cluster_enabled") == Some("1") {
        return Err(
            "it is a node of a Redis Cluster, which has only a part of the data".to_owned(),
        );
    }
    if field("role") != Some("master") {
        let (host, port) = (field("master_host"), field("master_port"));
        return Err(format!(
            "it is a replica: follow its master, {}:{}",
            host.unwrap_or("?"),
            port.unwrap_or("?")
        ));
    }
    let offset = field("master_repl_offset").and_then(|offset| offset.parse().ok());
    let (Some(id), Some(offset)) = (field("master_replid"), offset) else {
        return Err("it does not say where its replication stream stands".to_owned());
    };
    let info = SourceInfo {
        version,
        id: id.to_owned(),
        offset,
    };
    Ok((info, field("loading") == Some("1")))
}

/// Whether a server of the one version loads what one of the other has, and follows its stream.
pub(super) fn follows(ours: (Flavour, ServerVersion), theirs: (Flavour, ServerVersion)) -> bool {
    // What Valkey began from.
    let fork = ServerVersion::new(7, 2, u16::MAX);
    match (ours.0, theirs.0) {
        (Flavour::Valkey, Flavour::Redis) => theirs.1 <= fork,
        (Flavour::Redis, Flavour::Valkey) => false,
        _ => theirs.1 <= ours.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: &str = "redis_version:7.2.4\r\nvalkey_version:8.1.8\r\nloading:0\r\nrole:master\r\n\
                          master_replid:abc\r\nmaster_repl_offset:17\r\ncluster_enabled:0\r\n";

    #[test]
    fn a_source_is_a_master_that_has_all_of_its_data() {
        let (info, is_loading) = fields(MASTER).unwrap();
        assert_eq!(info.version, (Flavour::Valkey, ServerVersion::new(8, 1, 0)));
        assert_eq!((&info.id[..], info.offset, is_loading), ("abc", 17, false));
        assert!(fields(&MASTER.replace("loading:0", "loading:1")).unwrap().1);
        for (was, is, says) in [
            (
                "role:master",
                "role:slave\r\nmaster_host:a\r\nmaster_port:1",
                "its master, a:1",
            ),
            ("cluster_enabled:0", "cluster_enabled:1", "Redis Cluster"),
            ("valkey_version:8.1.8", "quorate_version:0.1.0", "export it"),
            ("master_replid:abc", "", "where its replication stream"),
        ] {
            let why = fields(&MASTER.replace(was, is)).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        assert!(fields("hello").unwrap_err().contains("which version"));
    }

    #[test]
    fn servers_follow_those_that_are_no_newer() {
        let redis = |major, minor| (Flavour::Redis, ServerVersion::new(major, minor, 0));
        let valkey = |major, minor| (Flavour::Valkey, ServerVersion::new(major, minor, 0));
        assert!(follows(redis(7, 0), redis(6, 2)) && follows(redis(7, 0), redis(7, 0)));
        assert!(!follows(redis(7, 0), redis(7, 2)) && !follows(redis(8, 2), valkey(8, 0)));
        assert!(follows(valkey(8, 0), redis(7, 2)) && !follows(valkey(8, 0), redis(7, 4)));
        assert!(!follows(valkey(8, 0), valkey(8, 1)));
    }

    #[test]
    fn no_password_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "hunter2\n").unwrap();
        let options = SourceOptions {
            from: "localhost:6379".to_owned(),
            from_user: None,
            from_password_file: Some(file),
            from_cacert: None,
            from_cert: None,
            from_key: None,
            from_insecure_skip_tls_verify: false,
        };
        let address = options.open().unwrap();
        assert!(!format!("{options:?} {address:?}").contains("hunter2"));
        assert_eq!(address.password.as_ref().unwrap().0, "hunter2");
        let options = SourceOptions {
            from: "localhost".to_owned(),
            ..options
        };
        assert!(matches!(options.open(), Err(Failure::Usage(_))));
    }
}
