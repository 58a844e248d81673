//! Whether a hello comes from the replica that it names.
//!
//! Peers do not authenticate each other yet, so anybody can say "I am replica 2, in a later incarnation". Nobody is
//! taken at his word: the replica that receives a hello *calls back* at the address where it knows the sender to be,
//! and asks whether that hello is the sender's own. Until the answer is yes, no frame is taken from the connection,
//! it takes no other connection's place, and no incarnation is noted.
//!
//! A hello carries a *token* for that: a number drawn at each start for each peer, told to nobody but who answers where
//! the peer is dialled. A token that was found to be genuine once is not asked about again.
//!
//! Whoever can answer at a member's own address, or read what is sent there, is that member as far as anybody can tell.
//!
//! Programs from before call-backs end the connection without an answer. Their hellos are taken if they name the
//! incarnation in which the peer is known already; a later incarnation is learned by dialling them. Nobody believes
//! that they know a feature level above [`OLDER_LEVEL_MAX`].

use super::PeerContext;
use super::handshake::{Hello, PeerInfo, RejectCode, Rejection};
use super::opening::{self, HandshakeError, Opening};
use crate::security;
use quorate_core::{Boot, ClusterId, Decoder, Encoder, Incarnation, ReplicaId, Wire, WireError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

/// How long a call-back may take.
const CALL_BACK_TIMEOUT: Duration = Duration::from_secs(2);
/// The highest feature level that a program without call-backs can know.
const OLDER_LEVEL_MAX: u32 = 2;

/// Asks a replica whether a hello that named it as the sender is its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallBack {
    /// The cluster of the one who asks.
    pub(crate) cluster: ClusterId,
    /// The number of the one who asks.
    pub(crate) from: ReplicaId,
    /// The replica that the hello named as its sender.
    pub(crate) to: ReplicaId,
    /// The incarnation that the hello named.
    pub(crate) incarnation: Incarnation,
    /// The token in the hello.
    pub(crate) token: Boot,
}

/// The answer to a [`CallBack`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallBackAnswer {
    /// Whether the hello is genuine.
    pub(crate) is_mine: bool,
}

impl Opening for CallBack {
    const MAGIC: [u8; 8] = *b"QUORCALL";
}

impl Opening for CallBackAnswer {
    const MAGIC: [u8; 8] = CallBack::MAGIC;
}

impl Wire for CallBack {
    fn encode(&self, out: &mut Encoder) {
        self.cluster.encode(out);
        self.from.encode(out);
        self.to.encode(out);
        self.incarnation.encode(out);
        out.u64(self.token.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(CallBack {
            cluster: ClusterId::decode(input)?,
            from: ReplicaId::decode(input)?,
            to: ReplicaId::decode(input)?,
            incarnation: Incarnation::decode(input)?,
            token: Boot(input.u64()?),
        })
    }
}

impl Wire for CallBackAnswer {
    fn encode(&self, out: &mut Encoder) {
        out.u8(u8::from(self.is_mine));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            bit @ 0..2 => Ok(CallBackAnswer { is_mine: bit == 1 }),
            tag => Err(WireError::Tag("answer to a call-back", tag)),
        }
    }
}

/// What was found out about the hellos of one peer.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// Incarnation and token of the last hello that the peer said to be its own.
    genuine: Mutex<Option<(Incarnation, Boot)>>,
    /// Held during a call-back, so that a flood of hellos makes one at a time.
    turn: AsyncMutex<()>,
    /// Whether the peer has answered a call-back since it was dialled last.
    answers: AtomicBool,
}

impl Origin {
    /// The peer was dialled: its program may be another one than before.
    pub(super) fn dialled(&self) {
        self.answers.store(false, Ordering::Relaxed);
    }

    fn is_genuine(&self, hello: &Hello) -> bool {
        *self.genuine() == Some((hello.incarnation, hello.boot))
    }

    fn genuine(&self) -> MutexGuard<'_, Option<(Incarnation, Boot)>> {
        self.genuine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_answered(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    /// The peer says that a hello is its own.
    fn note_genuine(&self, hello: &Hello) {
        *self.genuine() = Some((hello.incarnation, hello.boot));
        self.answers.store(true, Ordering::Relaxed);
    }
}

/// What an older program may say of itself.
fn of_older_program(about: PeerInfo) -> PeerInfo {
    PeerInfo {
        level: about.level.min(OLDER_LEVEL_MAX),
        ..about
    }
}

/// What came of a call-back.
enum Outcome {
    /// The peer says whether the hello is its own.
    Answered(bool),
    /// The connection ended without an answer, as one to an older program does.
    Ended,
    /// Nobody was reached in time.
    Unreached(String),
}

impl PeerContext {
    /// The answer to a call-back.
    pub(super) fn answer_call_back(&self, asked: &CallBack) -> CallBackAnswer {
        let me = &self.identity;
        let named = (asked.cluster, asked.to, asked.incarnation);
        CallBackAnswer {
            is_mine: named == (me.cluster, me.me, me.incarnation)
                && self.contacts.has_token(asked.from, asked.token),
        }
    }

    /// Finds out whether a hello is the peer's own, and notes the incarnation that a genuine one names. Returns what
    /// the peer says of itself.
    ///
    /// # Errors
    /// The hello is not genuine, or not known to be; or it names an incarnation that ended.
    pub(super) async fn verify(&self, hello: &Hello) -> Result<Option<PeerInfo>, Rejection> {
        let (peer, life) = (hello.from, hello.incarnation);
        self.incarnations.judge(peer, life)?;
        let Some((origin, address)) = self.contacts.origin(peer) else {
            return Err(reject(format!("replica {peer} is no peer any more")));
        };
        if !origin.is_genuine(hello) {
            let _turn = origin.turn.lock().await;
            // Another connection of the peer may have been called back meanwhile.
            if !origin.is_genuine(hello) {
                self.ask_sender(hello, &origin, &address).await?;
            }
        }
        self.incarnations.admit(peer, life)?;
        let about = hello.about.clone();
        Ok(match origin.is_genuine(hello) {
            true => about,
            false => about.map(of_older_program),
        })
    }

    /// Calls back the peer that a hello names. An older program, which does not answer, may have sent it.
    async fn ask_sender(
        &self,
        hello: &Hello,
        origin: &Origin,
        address: &str,
    ) -> Result<(), Rejection> {
        let (peer, life) = (hello.from, hello.incarnation);
        let asked = CallBack {
            cluster: self.identity.cluster,
            from: self.identity.me,
            to: peer,
            incarnation: life,
            token: hello.boot,
        };
        match call_back(address, &asked, self).await {
            Outcome::Answered(true) => {
                origin.note_genuine(hello);
                Ok(())
            }
            Outcome::Ended if origin.has_answered() => Err(denied(peer, address)),
            Outcome::Ended if self.incarnations.present(peer) == Some(life) => Ok(()),
            Outcome::Ended => {
                self.contacts.heard(peer);
                Err(unverified(peer, life, address))
            }
            Outcome::Answered(false) => Err(denied(peer, address)),
            Outcome::Unreached(why) => Err(unreached(peer, address, &why)),
        }
    }
}

/// Asks at an address whether a hello came from there.
async fn call_back(address: &str, asked: &CallBack, context: &PeerContext) -> Outcome {
    let supported = context.identity.supported;
    let call = async {
        let mut connection = match security::dial(address, &context.security).await {
            Ok(connection) => connection,
            Err(error) => return Outcome::Unreached(error.to_string()),
        };
        let answer = async {
            let sent = opening::send(&mut connection, asked, supported).await;
            sent.map_err(HandshakeError::Io)?;
            opening::receive::<CallBackAnswer>(&mut connection, supported).await
        };
        match answer.await {
            Ok((answer, _)) => Outcome::Answered(answer.is_mine),
            Err(_) => Outcome::Ended,
        }
    };
    let called = timeout(CALL_BACK_TIMEOUT, call).await;
    called.unwrap_or_else(|_| Outcome::Unreached("no answer in time".to_owned()))
}

fn reject(text: String) -> Rejection {
    Rejection {
        code: RejectCode::UnknownReplica,
        text,
    }
}

fn denied(peer: ReplicaId, address: &str) -> Rejection {
    reject(format!(
        "what answers at {address}, where replica {peer} is expected, did not send this hello: if it is genuine, correct \
         the address of replica {peer}, in --initial-cluster or with etcdctl member update"
    ))
}

fn unreached(peer: ReplicaId, address: &str, why: &str) -> Rejection {
    reject(format!(
        "replica {peer} is taken once it can be called back at {address} ({why}): check that its peer port listens \
         there and can be reached from here, or correct its address, with etcdctl member update"
    ))
}

fn unverified(peer: ReplicaId, life: Incarnation, address: &str) -> Rejection {
    Rejection {
        code: RejectCode::Incarnation,
        text: format!(
            "replica {peer} names the new incarnation {life}: it is taken in that once it was reached at {address}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::handshake::tests::identity;
    use super::super::handshake::{Identity, Lane, Welcome};
    use super::super::opening::Caller;
    use super::super::tests::{Replica, expect_frame, frame, pair, up};
    use super::*;
    use crate::join::fresh_incarnation;
    use crate::peer::frame::header;
    use crate::security::{Connection, bind};
    use crate::tls::PeerSecurity;
    use bytes::Bytes;
    use quorate_core::Member;
    use quorate_host::SupportedVersions;
    use std::sync::Arc;
    use tokio::io::AsyncWriteExt;

    const TWO: ReplicaId = ReplicaId(2);

    fn hello(life: Incarnation, lane: Lane) -> Hello {
        Hello {
            incarnation: life,
            ..identity(2).hello(ReplicaId(1), lane, Boot(7))
        }
    }

    /// Says hello at an address, and something that looks like a frame behind it.
    async fn say(address: &str, hello: &Hello) -> (Connection, Result<(), Rejection>) {
        let mut connection = security::dial(address, &PeerSecurity::default())
            .await
            .unwrap();
        let said = opening::send(&mut connection, hello, SupportedVersions::SHIPPED).await;
        said.unwrap();
        let (welcome, _) = opening::receive::<Welcome>(&mut connection, SupportedVersions::SHIPPED)
            .await
            .unwrap();
        let poison = Bytes::from_static(b"poison");
        let header = header(std::slice::from_ref(&poison)).unwrap();
        // Who was refused may find the connection closed.
        let _ = connection
            .write_all(&[&header[..], &poison[..]].concat())
            .await;
        (connection, welcome.rejected.map_or(Ok(()), Err))
    }

    fn life_of_two(replica: &Replica) -> Incarnation {
        let member = replica.links.latest_member(TWO);
        member
            .map(|Member { incarnation, .. }| incarnation)
            .unwrap()
    }

    /// Scenario: strangers say "I am replica 2", in its incarnation and in later ones, while it is connected.
    #[tokio::test]
    async fn a_false_hello_notes_nothing_and_disturbs_nobody() {
        let (mut one, mut two, address) = pair(identity(1), identity(2));
        up(&mut one).await;
        up(&mut two).await;
        let present = identity(2).incarnation;
        for life in [
            present,
            fresh_incarnation().unwrap(),
            Incarnation(u128::MAX),
        ] {
            for lane in [Lane::Messages, Lane::Bulk] {
                let (_, refused) = say(&address, &hello(life, lane)).await;
                assert!(refused.is_err(), "{life} on {lane:?}");
                assert_eq!(life_of_two(&one), present);
            }
        }
        two.links.send(vec![frame(b"the first that arrives")]);
        expect_frame(&mut one, b"the first that arrives").await;
    }

    #[tokio::test]
    async fn a_peer_in_a_later_life_is_called_back_and_taken() {
        let later = Identity {
            incarnation: fresh_incarnation().unwrap(),
            ..identity(2)
        };
        let life = later.incarnation;
        let (mut one, mut two, _) = pair(identity(1), later);
        up(&mut one).await;
        up(&mut two).await;
        assert_eq!(life_of_two(&one), life);
    }

    /// Scenario: nobody listens where the peer should be.
    #[tokio::test]
    async fn a_hello_from_whom_nobody_can_call_back_is_refused() {
        let closed = bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let port = bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap().to_string();
        let one = Replica::start((port, None), identity(1), (2, &closed.to_string()));
        let (_, refused) = say(&address, &hello(identity(2).incarnation, Lane::Messages)).await;
        let text = refused.unwrap_err().text;
        let said = format!("replica 2 is taken once it can be called back at {closed}");
        assert!(text.starts_with(&said), "{text}");
        assert!(one.links.about().is_empty());
    }

    /// A program without call-backs, which takes no connections before `opens`.
    async fn run_older_program(port: std::net::TcpListener, me: Identity, opens: Arc<AtomicBool>) {
        let listener = security::Listener::new(port, security::Door::Peer).unwrap();
        let mut taken = Vec::new();
        loop {
            let (connection, _) = listener.accept().await;
            let mut connection = Connection::from(connection);
            let caller = opening::receive_caller(&mut connection, me.supported).await;
            if let Ok(Caller::Peer(..)) = caller
                && opens.load(Ordering::Relaxed)
            {
                let welcome = me.welcome(None);
                opening::send(&mut connection, &welcome, me.supported)
                    .await
                    .unwrap();
                taken.push(connection);
            }
        }
    }

    /// Scenario: an older program calls in the incarnation it is known in, then in a later one.
    #[tokio::test]
    async fn a_later_life_of_an_older_program_is_learned_by_dialling_it() {
        let ports = [bind("127.0.0.1:0").unwrap(), bind("127.0.0.1:0").unwrap()];
        let [first, second] = ports
            .each_ref()
            .map(|port| port.local_addr().unwrap().to_string());
        let [port, its_port] = ports;
        let later = fresh_incarnation().unwrap();
        let restarted = Identity {
            incarnation: later,
            ..identity(2)
        };
        let opens = Arc::new(AtomicBool::new(false));
        tokio::spawn(run_older_program(its_port, restarted, Arc::clone(&opens)));
        let one = Replica::start((port, None), identity(1), (2, &second));

        let mut known = hello(identity(2).incarnation, Lane::Messages);
        known.about = known.about.map(|about| PeerInfo { level: 99, ..about });
        let (_stays, taken) = say(&first, &known).await;
        assert_eq!(taken, Ok(()));
        assert_eq!(one.links.about()[&TWO].level, OLDER_LEVEL_MAX);

        let (_, refused) = say(&first, &hello(later, Lane::Messages)).await;
        assert_eq!(refused.unwrap_err().code, RejectCode::Incarnation);
        assert_eq!(life_of_two(&one), identity(2).incarnation);
        opens.store(true, Ordering::Relaxed);
        let comes_back = async {
            while say(&first, &hello(later, Lane::Messages)).await.1.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), comes_back).await.unwrap();
        assert_eq!(life_of_two(&one), later);
    }
}
