//! Before the first word: a replica without promises asks its peers whether it may be new.

mod cluster;
mod rule;

pub use rule::{JoinError, Rejoin};

use crate::error::ServerError;
use crate::folder::{Expected, Folder, bootstrap};
use crate::meta::Meta;
use crate::peer::call_back::CallBackAnswer;
use crate::peer::opening::{self, Caller, HandshakeError};
use crate::peer::pending::Pending;
use crate::peer::question::{Answer, Question, Stage};
use crate::run::random_u64;
use crate::security::{self, Connection, Door, Listener};
use quorate_core::{ClusterId, Epoch, Incarnation, ReplicaId};
use quorate_host::Spoken;
use rule::{Joiner, Next, Waiting};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// How long a peer may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two rounds of questions.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// A replica that has no promises to keep, and must find out whether it ever made any.
#[derive(Debug)]
pub struct Join {
    /// Where its data is to be.
    pub dir: PathBuf,
    /// What that data must turn out to be.
    pub expected: Expected,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Whether that is only a guess: a replica that is to be added to a cluster may not know which it is.
    pub is_guess: bool,
    /// The other replicas, and where their peer ports are.
    pub peers: Vec<(ReplicaId, String)>,
    /// The versions it speaks.
    pub spoken: Spoken,
    /// Whether it comes back as a new member, if it has lost its data, or as itself.
    pub rejoin: Rejoin,
    /// Its data, if it was told that the cluster is new; nothing is there otherwise.
    pub folder: Option<Folder>,
}

/// Asks the peers until it is known as what the replica may begin, and writes that down. The port
/// is the one for peers; it is left open.
///
/// # Errors
/// [`ServerError::Join`] when it will never be known, and whatever the folder says.
pub fn join(join: Join, port: &TcpListener) -> Result<Folder, ServerError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = Listener::new(port.try_clone()?, Door::Peer)?;
        join.run(&listener).await
    })
}

impl Join {
    async fn run(mut self, listener: &Listener) -> Result<Folder, ServerError> {
        let me = self.expected.replica;
        let spoken = self.spoken;
        let (tell, stage) = watch::channel(self.stage());
        let (mut last, pending) = (None, Pending::default());
        loop {
            let (heard, newest) = tokio::select! {
                heard = self.ask_all() => self.sort(heard)?,
                () = answer_all(listener, &pending, (self.cluster, me, spoken), &stage) => continue,
            };
            let joiner = Joiner {
                me,
                cluster: self.cluster,
                rejoin: self.rejoin,
                mine: self.folder.as_ref().map(|folder| folder.meta().clone()),
                heard,
                newest,
            };
            match joiner
                .next(now_ms(), random_u64()?)
                .map_err(ServerError::Join)?
            {
                Next::Wait(why) => say_once(why, &mut last),
                Next::Agree(meta) => {
                    self.write(meta)?;
                    tell.send_replace(self.stage());
                    continue;
                }
                Next::Begin(meta) => {
                    tracing::info!(incarnation = %meta.incarnation, state = ?meta.state, "may begin");
                    return self.finish(meta);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_PAUSE) => {}
                () = answer_all(listener, &pending, (self.cluster, me, spoken), &stage) => {}
            }
        }
    }

    fn stage(&self) -> Stage {
        Stage::of(self.folder.as_ref().map(Folder::meta))
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
        // Before a folder is written: peers may run something else than was asked for here.
        self.expected.check(&self.dir, &meta)?;
        self.write(meta)?;
        let folder = self.folder.take();
        Ok(folder.unwrap_or_else(|| unreachable!("it was written")))
    }

    /// What was answered by replicas of this cluster; a guess which that is gives way to them.
    fn sort(&mut self, answers: Answers) -> Result<Heard, ServerError> {
        let expected = (self.cluster, self.is_guess);
        self.cluster = cluster::of_peers(expected, self.expected.replica, &answers)
            .map_err(ServerError::Join)?;
        let told = answers
            .values()
            .flatten()
            .filter_map(|answer| answer.newest.clone());
        let newest = told.max_by_key(|epoch| epoch.number);
        let stage = |answer: Option<Answer>| answer.map(|answer| answer.stage);
        let heard = answers
            .into_iter()
            .map(|(peer, answer)| (peer, stage(answer)));
        Ok((heard.collect(), newest))
    }

    /// One question to everybody at once.
    async fn ask_all(&self) -> Answers {
        let mut asking = tokio::task::JoinSet::new();
        let mut heard = BTreeMap::new();
        for (peer, address) in &self.peers {
            heard.insert(*peer, None);
            let question = Question {
                cluster: self.cluster,
                from: self.expected.replica,
                to: *peer,
            };
            let (address, spoken) = (address.clone(), self.spoken);
            asking.spawn(async move {
                let answer =
                    tokio::time::timeout(ANSWER_TIMEOUT, ask(&address, &question, spoken)).await;
                (question.to, answer.ok().and_then(Result::ok))
            });
        }
        while let Some(Ok((peer, answer))) = asking.join_next().await {
            if let Some(answer) = answer.filter(|answer| answer.from == peer) {
                heard.insert(peer, Some(answer));
            }
        }
        heard
    }
}

/// What each peer answered, if it did.
type Answers = BTreeMap<ReplicaId, Option<Answer>>;
/// How far each peer is, and the newest epoch that any of them told of.
type Heard = (BTreeMap<ReplicaId, Option<Stage>>, Option<Epoch>);

async fn ask(address: &str, question: &Question, spoken: Spoken) -> Result<Answer, HandshakeError> {
    let mut connection = security::dial(address).await.map_err(HandshakeError::Io)?;
    opening::send(&mut connection, question, spoken)
        .await
        .map_err(HandshakeError::Io)?;
    let answer = opening::receive(&mut connection, spoken).await;
    answer.map(|(answer, _)| answer)
}

/// Answers the questions of others for as long as it is polled. Peers that run already and want to
/// send frames come again later.
async fn answer_all(
    listener: &Listener,
    pending: &Pending,
    (cluster, me, spoken): (ClusterId, ReplicaId, Spoken),
    stage: &watch::Receiver<Stage>,
) {
    loop {
        let (mut connection, from) = listener.accept().await;
        let place = pending.begin(from.ip());
        let answer = Answer {
            cluster,
            from: me,
            stage: stage.borrow().clone(),
            newest: None,
        };
        tokio::spawn(async move {
            // Whoever gets no answer asks again.
            let reply = reply(&mut connection, &answer, spoken);
            tokio::select! {
                _ = tokio::time::timeout(ANSWER_TIMEOUT, reply) => {}
                () = place.gives_way() => {}
            }
        });
    }
}

async fn reply(
    connection: &mut Connection,
    answer: &Answer,
    spoken: Spoken,
) -> Result<(), HandshakeError> {
    let sent = match opening::receive_caller(connection, spoken).await? {
        Caller::Asking(question) if question.to == answer.from => {
            opening::send(connection, answer, spoken).await
        }
        // This start has said hello to nobody: whoever was told so was told by somebody else.
        Caller::CallingBack(_) => {
            opening::send(connection, &CallBackAnswer { is_mine: false }, spoken).await
        }
        _ => Ok(()),
    };
    sent.map_err(HandshakeError::Io)
}

/// Says what is waited for when that changes, not at every round.
fn say_once(why: Waiting, last: &mut Option<Waiting>) {
    if last.as_ref() != Some(&why) {
        tracing::warn!("{why}");
        *last = Some(why);
    }
}

/// A life that begins now, of which nobody has heard.
pub(crate) fn fresh_life() -> std::io::Result<Incarnation> {
    Ok(rule::new_life(&[], now_ms(), random_u64()?))
}

/// The wall clock: it numbers lives, and need not be right.
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
        let (cluster, me, spoken) = (ClusterId(5), ReplicaId(2), Spoken::SHIPPED);
        tokio::spawn(async move {
            let (_, stage) = watch::channel(Stage::Empty);
            let pending = Pending::default();
            answer_all(&listener, &pending, (cluster, me, spoken), &stage).await;
        });
        let asked = CallBack {
            cluster,
            from: ReplicaId(1),
            to: me,
            incarnation: fresh_life().unwrap(),
            token: Boot(7),
        };
        let mut connection = security::dial(&address).await.unwrap();
        opening::send(&mut connection, &asked, spoken)
            .await
            .unwrap();
        let (answer, _) = opening::receive::<CallBackAnswer>(&mut connection, spoken)
            .await
            .unwrap();
        assert!(!answer.is_mine);
    }
}
