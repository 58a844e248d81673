//! A secret that all replicas of a cluster share, by which both ends of a connection prove that they are of it.
//!
//! The dialler sends `magic [8] | nonce [32]`, the acceptor `nonce [32] | proof [32]`, the dialler `proof [32]`. A
//! proof is an HMAC with SHA-256 over who proves, both nonces, and what names the connection, if it is encrypted:
//! whoever stands between two ends and encrypts towards each by itself cannot pass proofs on. On a plain connection he
//! can, and can read and change what follows.

use quorate_tls::{Connection, TlsError};
use ring::hmac;
use rustix::rand::{GetRandomFlags, getrandom};
use std::path::Path;
use std::{fmt, fs, io};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What a dialler that has the secret begins with.
pub(super) const MAGIC: [u8; 8] = *b"QUORAUTH";
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
/// Shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 16;
const SECRET_BYTES_MAX: usize = 4096;

const DIALLER: &[u8] = b"quorate peer dialler";
const ACCEPTOR: &[u8] = b"quorate peer acceptor";

/// A secret of a cluster.
pub struct PeerSecret(hmac::Key);

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret")
    }
}

impl PeerSecret {
    /// Reads a secret from a file; white space around it does not count.
    ///
    /// # Errors
    /// A file that cannot be read, and a secret that is too short or too long.
    pub fn read(path: &Path) -> Result<PeerSecret, TlsError> {
        let wrong = |why: String| TlsError::File {
            path: path.to_owned(),
            why,
        };
        let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let secret = text.trim_ascii();
        match secret.len() {
            SECRET_BYTES_MIN..=SECRET_BYTES_MAX => Ok(PeerSecret::of(secret)),
            count => Err(wrong(format!(
                "the secret has {count} bytes, and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} are wanted: make one with \
                 head -c 32 /dev/urandom | base64"
            ))),
        }
    }

    pub(super) fn of(secret: &[u8]) -> PeerSecret {
        PeerSecret(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    fn proof(&self, exchange: &Exchange, who: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, &exchange.text(who))
    }

    fn verify(&self, exchange: &Exchange, who: &[u8], proof: &[u8]) -> Result<(), TlsError> {
        let verified = hmac::verify(&self.0, &exchange.text(who), proof);
        verified.map_err(|_| {
            let why = "the other side does not have the secret of this cluster: compare --peer-secret-file";
            TlsError::Refused(why.to_owned())
        })
    }

    /// Proves that this end has the secret, and has the other one prove it.
    pub(super) async fn dial(&self, connection: &mut Connection) -> Result<(), TlsError> {
        let mine = nonce()?;
        send(connection, &[&MAGIC, &mine]).await?;
        let theirs = receive::<NONCE_BYTES>(connection).await?;
        let proof = receive::<PROOF_BYTES>(connection).await?;
        let exchange = Exchange::of(connection, mine, theirs)?;
        self.verify(&exchange, ACCEPTOR, &proof)?;
        send(connection, &[self.proof(&exchange, DIALLER).as_ref()]).await
    }

    /// As [`PeerSecret::dial`], at the other end.
    pub(super) async fn accept(&self, connection: &mut Connection) -> Result<(), TlsError> {
        if receive::<8>(connection).await? != MAGIC {
            let why = "it does not prove that it has the secret of this cluster: give it --peer-secret-file";
            return Err(TlsError::Refused(why.to_owned()));
        }
        let theirs = receive::<NONCE_BYTES>(connection).await?;
        let mine = nonce()?;
        let exchange = Exchange::of(connection, theirs, mine)?;
        let proof = self.proof(&exchange, ACCEPTOR);
        send(connection, &[&mine, proof.as_ref()]).await?;
        let proof = receive::<PROOF_BYTES>(connection).await?;
        self.verify(&exchange, DIALLER, &proof)
    }
}

/// What proofs are about.
struct Exchange {
    of_dialler: [u8; NONCE_BYTES],
    of_acceptor: [u8; NONCE_BYTES],
    /// What both ends know of an encrypted connection, and nobody else.
    channel: Vec<u8>,
}

impl Exchange {
    fn of(
        connection: &Connection,
        of_dialler: [u8; NONCE_BYTES],
        of_acceptor: [u8; NONCE_BYTES],
    ) -> Result<Exchange, TlsError> {
        Ok(Exchange {
            of_dialler,
            of_acceptor,
            channel: connection.channel_name()?,
        })
    }

    fn text(&self, who: &[u8]) -> Vec<u8> {
        [who, &self.of_dialler, &self.of_acceptor, &self.channel].concat()
    }
}

fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom(&mut nonce[..], GetRandomFlags::empty())?;
    Ok(nonce)
}

async fn send(connection: &mut Connection, parts: &[&[u8]]) -> Result<(), TlsError> {
    connection.write_all(&parts.concat()).await?;
    Ok(connection.flush().await?)
}

async fn receive<const BYTES: usize>(connection: &mut Connection) -> Result<[u8; BYTES], TlsError> {
    let mut bytes = [0; BYTES];
    match connection.read_exact(&mut bytes).await {
        Ok(_) => Ok(bytes),
        Err(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                let why = "the other side closed the connection while secrets were compared: compare \
                           --peer-secret-file";
                Err(TlsError::Refused(why.to_owned()))
            }
            _ => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_tls::{
        Acceptor, AllowedNames, ClientFiles, Connector, Parameters, ServerFiles, self_signed,
    };
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    /// A dialler's and an acceptor's end.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        (dialled, listener.accept().await.unwrap().0)
    }

    /// What both ends come to, each with its secret.
    async fn compare(
        secrets: [&str; 2],
        mut dialler: Connection,
        mut acceptor: Connection,
    ) -> [Result<(), String>; 2] {
        let [one, two] = secrets.map(|secret| PeerSecret::of(secret.as_bytes()));
        let dial = async move {
            one.dial(&mut dialler)
                .await
                .map_err(|error| error.to_string())
        };
        let accept = async move {
            let accepted = timeout(Duration::from_secs(10), two.accept(&mut acceptor)).await;
            accepted
                .expect("it ends")
                .map_err(|error| error.to_string())
        };
        let (dialled, accepted) = tokio::join!(tokio::spawn(dial), tokio::spawn(accept));
        [dialled.unwrap(), accepted.unwrap()]
    }

    #[tokio::test]
    async fn both_ends_prove_that_they_have_the_secret() {
        let (dialler, acceptor) = pair().await;
        let both = compare(
            ["a long secret", "a long secret"],
            dialler.into(),
            acceptor.into(),
        );
        assert_eq!(both.await, [Ok(()), Ok(())]);
        let (dialler, acceptor) = pair().await;
        let differ = compare(
            ["a long secret", "another one"],
            dialler.into(),
            acceptor.into(),
        );
        let [dialled, accepted] = differ.await;
        assert!(
            dialled
                .unwrap_err()
                .contains("does not have the secret of this cluster")
        );
        assert!(
            accepted
                .unwrap_err()
                .contains("closed the connection while secrets were compared")
        );
    }

    /// The two ends of an encrypted connection, by a certificate that nobody knows.
    async fn encrypted() -> (Connection, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = self_signed(dir.path(), &["localhost".to_owned()], 1).unwrap();
        let acceptor = Acceptor::new(ServerFiles {
            certificate,
            key,
            authorities: None,
            revoked: None,
            allowed: AllowedNames::default(),
            parameters: Parameters::default(),
            languages: &[],
        });
        let connector = Connector::new(ClientFiles {
            takes_all: true,
            ..ClientFiles::default()
        });
        let (acceptor, connector) = (acceptor.unwrap(), connector.unwrap());
        let (dialled, accepted) = pair().await;
        let (dialled, accepted) = tokio::join!(
            connector.connect(dialled, "localhost"),
            acceptor.accept(accepted)
        );
        (dialled.unwrap(), accepted.unwrap())
    }

    /// Scenario: somebody answers the dialler, dials the acceptor, and passes on what they say, without the secret.
    #[tokio::test]
    async fn proofs_that_are_passed_on_prove_nothing() {
        let (dialler, acceptor) = encrypted().await;
        let both = compare(["a long secret", "a long secret"], dialler, acceptor);
        assert_eq!(both.await, [Ok(()), Ok(())]);
        let ((dialler, mut near), (mut far, acceptor)) = (encrypted().await, encrypted().await);
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        let [dialled, accepted] =
            compare(["a long secret", "a long secret"], dialler, acceptor).await;
        assert!(dialled.is_err() && accepted.is_err());
    }

    #[test]
    fn a_secret_is_read_without_the_space_around_it_and_shown_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "  short \n").unwrap();
        let error = PeerSecret::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("has 5 bytes") && !error.contains("short"),
            "{error}"
        );
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let read = PeerSecret::read(&path).unwrap();
        assert_eq!(format!("{read:?}"), "PeerSecret");
        let same = hmac::sign(&PeerSecret::of(b"0123456789abcdef").0, b"text");
        assert_eq!(hmac::sign(&read.0, b"text").as_ref(), same.as_ref());
    }
}
