//! A queue of jobs in one process, for three workers of which one dies: every job is done, and is finished once.
//!
//! A worker leases a job for a time. If it does not finish it until then, a timer puts the job back, under a new token;
//! the one who was too slow is told so.

use quorate::{Applied, Cluster, StateMachine, Timer, decode, encode};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(200);

/// Jobs that wait, and jobs that are leased, by token.
#[derive(Default, Serialize, Deserialize)]
struct Jobs {
    waiting: VecDeque<String>,
    leased: BTreeMap<u64, String>,
    finished: Vec<String>,
    #[serde(skip)]
    timers: Vec<Timer<Command>>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Command {
    Add(String),
    Lease,
    Finish(u64),
    /// The lease with this token has ended.
    PutBack(u64),
}

#[derive(PartialEq, Debug, Serialize, Deserialize)]
enum Reply {
    Done,
    Leased(u64, String),
    Nothing,
    TooLate,
}

impl Jobs {
    fn count_down(&mut self, token: u64) {
        self.timers.push(Timer::Start {
            id: token,
            after: LEASE,
            command: Command::PutBack(token),
        });
    }

    fn end_lease(&mut self, token: u64) -> Option<String> {
        self.timers.push(Timer::Stop { id: token });
        self.leased.remove(&token)
    }
}

impl StateMachine for Jobs {
    type Command = Command;
    type Reply = Reply;
    type Query = ();
    type Answer = Vec<String>;

    fn apply(&mut self, at: &Applied, command: Command) -> Reply {
        match command {
            Command::Add(job) => self.waiting.push_back(job),
            Command::Lease => {
                let Some(job) = self.waiting.pop_front() else {
                    return Reply::Nothing;
                };
                self.leased.insert(at.token, job.clone());
                self.count_down(at.token);
                return Reply::Leased(at.token, job);
            }
            Command::Finish(token) => match self.end_lease(token) {
                Some(job) => self.finished.push(job),
                None => return Reply::TooLate,
            },
            Command::PutBack(token) => {
                let job = self.end_lease(token);
                self.waiting.extend(job);
            }
        }
        Reply::Done
    }

    fn query(&self, (): &()) -> Vec<String> {
        self.finished.clone()
    }

    fn save(&self) -> Vec<u8> {
        encode(self).expect("names and numbers always have a form")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        let mut jobs: Jobs = decode(bytes).map_err(|error| error.to_string())?;
        for token in jobs.leased.keys().copied().collect::<Vec<_>>() {
            jobs.count_down(token);
        }
        Ok(jobs)
    }

    fn take_timers(&mut self) -> Vec<Timer<Command>> {
        std::mem::take(&mut self.timers)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: jobs FOLDER")?;
    let mut cluster = Cluster::<Jobs>::start(3, folder.as_ref(), |node| node).await?;
    let first = cluster.node(1).ok_or("node 1 is missing")?;
    for number in 1..=6 {
        first.submit(Command::Add(format!("job {number}"))).await?;
    }
    // This worker leases a job, and is never heard of again; nor is its replica for a while.
    println!("lost: {:?}", first.submit(Command::Lease).await?);
    cluster.stop_node(1).await?;
    let mut finished = 0;
    while finished < 6 {
        let worker = 2 + finished % 2;
        let node = cluster.node(worker).ok_or("a node is missing")?;
        // A client asks again where a leader was lost, and has one job for that.
        let mut client = node.client().await?;
        match client.submit(&Command::Lease).await? {
            Reply::Leased(token, job) => {
                let reply = client.submit(&Command::Finish(token)).await?;
                println!("worker {worker}, {job}: {reply:?}");
                finished += u16::from(reply == Reply::Done);
            }
            _ => tokio::time::sleep(LEASE / 4).await,
        }
    }
    cluster.start_node(1).await?;
    let first = cluster.node(1).ok_or("node 1 is missing")?;
    let finished = first.query(()).await?;
    println!("finished: {}", finished.join(", "));
    Ok(cluster.stop().await?)
}
