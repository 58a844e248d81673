//! Before the first word: a replica without promises asks its peers whether it may be new.

mod cluster;
mod inquiry;
mod number;
mod rule;

pub use number::{Numbers, find_numbers};
pub use rule::{JoinError, Rejoin};

use crate::error::ServerError;
use crate::folder::{Expected, Folder, bootstrap};
use crate::meta::Meta;
use crate::peer::call_back::CallBackAnswer;
use crate::peer::join_question::{JoinAnswer, JoinQuestion, Stage};
use crate::peer::opening::{self, Caller, HandshakeError};
use crate::peer::pending::Pending;
use crate::run::random_u64;
use crate::security::{self, Connection, Door, Listener};
use crate::tls::PeerSecurity;
use inquiry::{Answered, Answers, Inquiry, InquiryStep};
use quorate_core::{Catalogue, ClusterId, Incarnation, ReplicaId};
use quorate_host::SupportedVersions;
use rule::{JoinStep, JoinWait};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// The longest time a peer may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two rounds of questions.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// A replica that has no promises to keep, and must find out whether it ever made any.
#[derive(Debug)]
pub struct Join {
    /// The folder that the replica's data goes into.
    pub dir: PathBuf,
    /// What the data in the folder must turn out to be.
    pub expected: Expected,
    /// The replica's cluster.
    pub cluster: ClusterId,
    /// Whether that is only derived from a token and an address list: a cluster that runs may be another one.
    pub is_guess: bool,
    /// Whether the replica was told that the cluster is new.
    pub is_new: bool,
    /// The address at which the others reach the replica: `host:port`.
    pub address: String,
    /// Other replicas, and where their peer ports are: where to ask.
    pub peers: Vec<(ReplicaId, String)>,
    /// What connections between replicas begin with.
    pub security: PeerSecurity,
    /// The wire versions that the replica speaks.
    pub supported: SupportedVersions,
    /// Whether it comes back as a new member, if it has lost its data, or as itself.
    pub rejoin: Rejoin,
    /// The replica's data folder, if it was told that the cluster is new; nothing is there otherwise.
    pub folder: Option<Folder>,
    /// The protocols of this program: they say how many members a quorum may lack.
    pub catalogue: &'static dyn Catalogue,
}

/// What a replica begins with that had no promises.
#[derive(Debug)]
pub struct Joined {
    /// The data folder of the replica.
    pub folder: Folder,
    /// Where the others are: those of its list, and the members that the others told of.
    pub peers: Vec<(ReplicaId, String)>,
}

/// Asks the peers until it is known as what the replica may begin, and writes that down. The ports
/// are those for peers; they are left open.
///
/// # Errors
/// [`ServerError::Join`] when it will never be known, and whatever the folder says. A folder in which nothing was
/// agreed on yet holds no replica afterwards.
pub fn join(join: Join, ports: &[TcpListener]) -> Result<Joined, ServerError> {
    join_unless(join, ports, std::future::pending())
}

/// Asks as [`join`] does, until `abandoned` is done, when nobody waits for it any more; the folder is then as after a
/// kill.
///
/// # Errors
/// Those of [`join`], and [`ServerError::Core`] when it was abandoned.
pub fn join_unless(
    join: Join,
    ports: &[TcpListener],
    abandoned: impl Future<Output = ()>,
) -> Result<Joined, ServerError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let ports = ports.iter().map(TcpListener::try_clone);
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let listener = Listener::of_all(ports, Door::Peer)?;
        tokio::select! {
            joined = Asking::new(join)?.run(&listener) => joined,
            () = abandoned => Err(ServerError::Core("nobody waits for the start".to_owned())),
        }
    })
}

/// A replica while it asks.
struct Asking {
    dir: PathBuf,
    expected: Expected,
    supported: SupportedVersions,
    security: PeerSecurity,
    folder: Option<Folder>,
    inquiry: Inquiry,
    /// A number by which it recognises its own questions.
    asker: u64,
    /// Whether one of them came back to it.
    hears_itself: Arc<AtomicBool>,
    /// The replica's stage, for peers that ask.
    tell: watch::Sender<Stage>,
    /// Handshakes of peers that are about to ask.
    pending: Pending,
}

impl Asking {
    fn new(join: Join) -> Result<Asking, ServerError> {
        Ok(Asking {
            asker: random_u64()?,
            hears_itself: Arc::default(),
            tell: watch::Sender::new(stage(join.folder.as_ref())),
            pending: Pending::default(),
            inquiry: Inquiry {
                me: join.expected.replica,
                address: join.address,
                scheme: join.security.scheme(),
                cluster: join.cluster,
                is_guess: join.is_guess,
                is_new: join.is_new,
                rejoin: join.rejoin,
                list: join.peers,
                catalogue: join.catalogue,
                followed: BTreeSet::new(),
            },
            dir: join.dir,
            expected: join.expected,
            supported: join.supported,
            security: join.security,
            folder: join.folder,
        })
    }

    async fn run(mut self, listener: &Listener) -> Result<Joined, ServerError> {
        match self.decide(listener).await {
            Ok((meta, peers)) => Ok(Joined {
                folder: self.finish(meta)?,
                peers,
            }),
            Err(error) => {
                if let (ServerError::Join(_), Some(folder)) = (&error, self.folder.take()) {
                    folder.discard_unless_agreed()?;
                }
                Err(error)
            }
        }
    }

    /// Asks until it is known what to begin with, and where the others are.
    async fn decide(
        &mut self,
        listener: &Listener,
    ) -> Result<(Meta, Vec<(ReplicaId, String)>), ServerError> {
        let mut last = None;
        loop {
            let answers = tokio::select! {
                answers = self.ask_all() => answers,
                () = self.answer_all(listener) => continue,
            };
            let mine = self.folder.as_ref().map(Folder::meta);
            let hears_itself = self.hears_itself.load(Ordering::Relaxed);
            let random = random_u64()?;
            let step = self
                .inquiry
                .decide(mine, hears_itself, &answers, now_ms(), random);
            match step.map_err(ServerError::Join)? {
                InquiryStep::AskMore => continue,
                InquiryStep::Decided(JoinStep::Wait(why), _) => say_once(why, &mut last),
                InquiryStep::Decided(JoinStep::Agree(meta), _) => {
                    self.write(meta)?;
                    self.tell.send_replace(stage(self.folder.as_ref()));
                    continue;
                }
                InquiryStep::Decided(JoinStep::Begin(meta), found) => {
                    // Before a folder is written: peers may run something else than was asked for here.
                    self.expected.check(&self.dir, &meta)?;
                    tracing::info!(
                        cluster = %meta.cluster, incarnation = %meta.incarnation, state = ?meta.state, "may begin"
                    );
                    if self.inquiry.is_no_member(&found) {
                        tracing::warn!(
                            "replica {} is no member of cluster {}: it becomes one once it has caught up if it was \
                             added, and otherwise has to be added first: quorate cluster add --peer-url {}",
                            self.inquiry.me,
                            found.cluster,
                            self.inquiry.url()
                        );
                    }
                    return Ok((meta, self.inquiry.places(&found, &answers)));
                }
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_PAUSE) => {}
                () = self.answer_all(listener) => {}
            }
        }
    }

    fn write(&mut self, meta: Meta) -> Result<(), ServerError> {
        match &mut self.folder {
            Some(folder) => folder.record(meta)?,
            None => {
                bootstrap(&self.dir, &meta)?;
                self.folder = Some(Folder::open(&self.dir, &self.expected)?);
            }
        }
        Ok(())
    }

    fn finish(mut self, meta: Meta) -> Result<Folder, ServerError> {
        self.write(meta)?;
        let folder = self.folder.take();
        Ok(folder.unwrap_or_else(|| unreachable!("it was written")))
    }

    /// Sends one question to every address at once, and collects the answers.
    async fn ask_all(&self) -> Answers {
        let mut asking = tokio::task::JoinSet::new();
        let supported = self.supported;
        for (peer, address) in self.inquiry.targets() {
            let question = JoinQuestion {
                cluster: self.inquiry.cluster,
                from: self.inquiry.me,
                to: *peer,
                asker: supported.asks_for_addresses().then_some(self.asker),
            };
            let (address, security) = (address.clone(), self.security.clone());
            asking.spawn(async move {
                let answer = ask(&address, &question, supported, &security);
                let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer)
                    .await
                    .ok()?
                    .ok()?;
                Some(Answered { address, answer })
            });
        }
        let mut answers = Answers::new();
        while let Some(answered) = asking.join_next().await {
            let Ok(Some(answered)) = answered else {
                continue;
            };
            // An address may be another replica's by now. Of two that have a number, the one that runs counts.
            let runs = |one: &Answered| matches!(one.answer.stage, Stage::Begun { .. });
            let from = answered.answer.from;
            if runs(&answered) || !answers.get(&from).is_some_and(runs) {
                answers.insert(from, answered);
            }
        }
        answers
    }

    /// Answers the questions of others for as long as it is polled. Peers that run already and want to
    /// send frames come again later.
    async fn answer_all(&self, listener: &Listener) {
        let (cluster, from) = (self.inquiry.cluster, self.inquiry.me);
        loop {
            let (connection, caller) = listener.accept().await;
            let place = self.pending.begin(caller.ip());
            let answer = JoinAnswer {
                cluster,
                from,
                stage: self.tell.borrow().clone(),
                newest: None,
            };
            let (supported, asker) = (self.supported, self.asker);
            let hears_itself = Arc::clone(&self.hears_itself);
            let security = self.security.clone();
            tokio::spawn(async move {
                // Whoever gets no answer asks again.
                let reply = async {
                    let secured = security.accept(connection, caller).await;
                    let mut connection = secured.map_err(HandshakeError::Security)?;
                    reply(&mut connection, &answer, supported, asker).await
                };
                let heard = tokio::select! {
                    heard = tokio::time::timeout(ANSWER_TIMEOUT, reply) => heard,
                    () = place.gives_way() => return,
                };
                if let Ok(Ok(Heard::Itself)) = heard {
                    hears_itself.store(true, Ordering::Relaxed);
                }
            });
        }
    }
}

/// The stage of a replica that does not run yet.
fn stage(folder: Option<&Folder>) -> Stage {
    Stage::of(folder.map(Folder::meta))
}

async fn ask(
    address: &str,
    question: &JoinQuestion,
    supported: SupportedVersions,
    security: &PeerSecurity,
) -> Result<JoinAnswer, HandshakeError> {
    let dialled = security::dial(address, security).await;
    let mut connection = dialled.map_err(HandshakeError::Io)?;
    opening::send(&mut connection, question, supported)
        .await
        .map_err(HandshakeError::Io)?;
    let answer = opening::receive(&mut connection, supported).await;
    answer.map(|(answer, _)| answer)
}

/// A question that was answered: this replica's own, or another's.
enum Heard {
    Another,
    Itself,
}

async fn reply(
    connection: &mut Connection,
    answer: &JoinAnswer,
    supported: SupportedVersions,
    asker: u64,
) -> Result<Heard, HandshakeError> {
    let mut heard = Heard::Another;
    let sent = match opening::receive_caller(connection, supported).await? {
        Caller::Asking(question) if question.to == answer.from => {
            if question.asker != Some(asker) {
                opening::send(connection, answer, supported).await
            } else {
                heard = Heard::Itself;
                Ok(())
            }
        }
        // This start has said hello to nobody: whoever was told so was told by somebody else.
        Caller::CallingBack(_) => {
            opening::send(connection, &CallBackAnswer { is_mine: false }, supported).await
        }
        _ => Ok(()),
    };
    sent.map(|()| heard).map_err(HandshakeError::Io)
}

/// Says what is waited for when that changes, not at every round.
fn say_once(why: JoinWait, last: &mut Option<JoinWait>) {
    if last.as_ref() != Some(&why) {
        tracing::warn!("{why}");
        *last = Some(why);
    }
}

/// An incarnation that begins now, of which nobody has heard.
pub(crate) fn fresh_incarnation() -> std::io::Result<Incarnation> {
    Ok(rule::later_incarnation(&[], None, now_ms(), random_u64()?))
}

/// The wall clock: it numbers incarnations, and need not be right.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::call_back::CallBack;
    use crate::security::bind;
    use quorate_core::Boot;

    /// Scenario: somebody says hello in the name of a replica that has lost its data, and its peer calls back.
    #[tokio::test]
    async fn a_replica_that_has_not_begun_disowns_what_is_said_in_its_name() {
        let port = bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap().to_string();
        let listener = Listener::new(port, Door::Peer).unwrap();
        let (cluster, me, supported) = (ClusterId(5), ReplicaId(2), SupportedVersions::SHIPPED);
        let asking = Asking::new(Join {
            dir: PathBuf::new(),
            expected: Expected::any(me),
            cluster,
            is_guess: true,
            is_new: false,
            address: address.clone(),
            peers: Vec::new(),
            supported,
            security: PeerSecurity::default(),
            rejoin: Rejoin::NewMember,
            folder: None,
            catalogue: &quorate_protocols::Registered,
        })
        .unwrap();
        tokio::spawn(async move { asking.answer_all(&listener).await });
        let asked = CallBack {
            cluster,
            from: ReplicaId(1),
            to: me,
            incarnation: fresh_incarnation().unwrap(),
            token: Boot(7),
        };
        let dialled = security::dial(&address, &PeerSecurity::default()).await;
        let mut connection = dialled.unwrap();
        opening::send(&mut connection, &asked, supported)
            .await
            .unwrap();
        let (answer, _) = opening::receive::<CallBackAnswer>(&mut connection, supported)
            .await
            .unwrap();
        assert!(!answer.is_mine);
    }
}
