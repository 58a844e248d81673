//! One server: fed, asked, saved, until it is of no use any more.

use super::run::{Ended, Feeding};
use crate::limits::READ_BYTES;
use quorate_redis_commands::{Base, Broken, Done, Pipe};
use quorate_redis_process::{Control, ProcessError, ServerProcess};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

/// Requests that a server is given before it has answered.
const UNDER_WAY_MAX: usize = 1024;
/// Bytes for a server that wait to be written before it is given more.
const OUT_BYTES_MAX: usize = 1 << 20;
/// Bodies that are taken from the history at a time.
const ENTRIES_AT_ONCE: usize = 256;
/// Bytes of bodies since the last RDB after which there is a new one, unless that was longer.
const SAVED_AFTER_BYTES: u64 = 64 << 20;
/// How long a server may say nothing while it owes answers.
const HANG_MAX: Duration = Duration::from_secs(30);
/// The pause before a server is to save again that failed to.
const SAVE_AGAIN: Duration = Duration::from_secs(10);
/// The pause between two looks at whether a server has saved.
const SAVING_PAUSE: Duration = Duration::from_millis(20);

/// The end of a save: whether it went well.
type Saving = Pin<Box<dyn Future<Output = Result<(), ProcessError>>>>;

/// A server that runs, and how far it is.
struct Served {
    process: ServerProcess,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    pipe: Pipe,
    /// Bytes on their way to the server, and how many of them were taken.
    out: (Vec<u8>, usize),
    /// The position of the next body to give to it.
    fed: u64,
    /// Bodies that it has carried out.
    carried_out: u64,
    /// Reads that it was not given yet.
    reads: VecDeque<u64>,
    /// The RDB under way: its position and the digest of replies, and its end.
    save: Option<Save>,
    /// When the next save may begin, after one that failed.
    save_again: Instant,
    /// When it last said something, or had nothing to say.
    heard: Instant,
}

impl Served {
    /// Whether the server may be given more before it has answered and taken what it was given.
    fn has_room(&self) -> bool {
        let out_bytes = self.pipe.output_bytes() + self.out.0.len() - self.out.1;
        self.pipe.waiting() < UNDER_WAY_MAX && out_bytes < OUT_BYTES_MAX
    }
}

struct Save {
    base: Option<(u64, u64)>,
    end: Option<Saving>,
}

/// Something that a feed waits for.
enum Event {
    Changed,
    Came(io::Result<usize>),
    Went(io::Result<usize>),
    Saved(Result<(), ProcessError>),
    Ended(String),
    Hangs,
    Stop,
}

fn failed(why: impl ToString) -> Ended {
    Ended::Failed(why.to_string())
}

impl Feeding {
    /// Runs one server from its start to its end.
    pub(super) async fn serve(&mut self, stopping: &mut oneshot::Receiver<()>) -> Ended {
        let (base, installs) = (self.shared.base(), self.shared.installs());
        let started = tokio::select! {
            _ = &mut *stopping => return Ended::Stopped,
            started = self.start(&base) => started,
        };
        let mut served = match started {
            Ok(served) => served,
            Err(why) => return failed(why),
        };
        tracing::info!(
            pid = served.process.pid(),
            position = base.position,
            "the server takes commands"
        );
        let ended = loop {
            if self.shared.installs() != installs {
                break Ended::Replaced;
            }
            if let Err(why) = self.work(&mut served) {
                break failed(why);
            }
            match self.next(&mut served, stopping).await {
                Event::Changed => {}
                Event::Came(Ok(0)) => break failed("it closed its connection"),
                Event::Came(Ok(_)) => served.heard = Instant::now(),
                Event::Went(Ok(bytes)) => served.out.1 += bytes,
                Event::Came(Err(error)) | Event::Went(Err(error)) => break failed(error),
                Event::Saved(saved) => self.saved(&mut served, saved),
                Event::Ended(how) => break failed(how),
                Event::Hangs => break failed(format!("it has said nothing for {HANG_MAX:?}")),
                Event::Stop => break Ended::Stopped,
            }
        };
        served.process.kill().await;
        ended
    }

    async fn start(&mut self, base: &Base) -> Result<Served, ProcessError> {
        let placed = self.files.placed(&*base.rdb)?;
        let mut process = self.launcher.start(Some(&placed.path), None)?;
        drop(placed);
        process.ready().await?;
        let (from, to) = process.control().await?.into_stream().into_split();
        Ok(Served {
            process,
            from,
            to,
            pipe: Pipe::new(base.replies),
            out: (Vec::new(), 0),
            fed: base.position,
            carried_out: base.position,
            reads: self.unanswered().into(),
            save: None,
            save_again: Instant::now(),
            heard: Instant::now(),
        })
    }

    /// Takes what came, and gives what is due.
    fn work(&mut self, served: &mut Served) -> Result<(), Broken> {
        while let Some(done) = served.pipe.next_done()? {
            match done {
                Done::Entry {
                    position,
                    origin,
                    replies,
                } => {
                    served.carried_out = position + 1;
                    if origin.boot == self.boot {
                        self.waiters.answer(origin.number, replies);
                    }
                }
                Done::Read { number, replies } => self.answer_read(number, replies),
                Done::Saving { position, replies } => {
                    if let Some(save) = &mut served.save {
                        save.base = Some((position, replies));
                    }
                }
            }
        }
        self.give(served);
        if served.out.0.len() == served.out.1 {
            served.out = (served.pipe.take_output(), 0);
        }
        if served.pipe.waiting() == 0 {
            served.heard = Instant::now();
        }
        let (taken, history_bytes) = (self.shared.len(), self.shared.history_bytes());
        self.board.change(|status| {
            status.is_serving = true;
            status.failure = None;
            (status.taken, status.history_bytes) = (taken, history_bytes);
            (status.carried_out, status.replies) = (served.carried_out, served.pipe.replies());
        });
        Ok(())
    }

    /// Gives the server reads whose time has come, bodies, and the order to save.
    fn give(&mut self, served: &mut Served) {
        while served.has_room() {
            let is_due = |number: &&u64| {
                (self.reads.get(number)).is_none_or(|read| read.after <= served.fed)
            };
            if let Some(number) = served.reads.front().filter(is_due).copied() {
                served.reads.pop_front();
                if let Some(read) = self.reads.get(&number) {
                    served.pipe.read(number, &read.request);
                }
                continue;
            }
            let entries = self
                .shared
                .from(served.fed, ENTRIES_AT_ONCE)
                .unwrap_or_default();
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                if !served.has_room() {
                    break;
                }
                if let Err(error) = served.pipe.entry(served.fed, &entry) {
                    tracing::error!("a body of the log cannot be read: {error}");
                }
                served.fed += 1;
            }
        }
        let is_wanted = self.rdb_wanted().is_some_and(|after| after <= served.fed);
        let base = self.shared.base();
        let is_due = self.shared.history_bytes() > SAVED_AFTER_BYTES.max(base.rdb.len());
        let may_save = served.save.is_none() && served.save_again <= Instant::now();
        if may_save && (is_wanted || is_due) {
            served.pipe.save(served.fed);
            served.save = Some(Save {
                base: None,
                end: None,
            });
        }
    }

    /// Waits until something happens.
    async fn next(&mut self, served: &mut Served, stopping: &mut oneshot::Receiver<()>) -> Event {
        if let Some(Save {
            base: Some(_),
            end: end @ None,
        }) = &mut served.save
        {
            match served.process.control().await {
                Ok(control) => *end = Some(Box::pin(until_saved(control))),
                Err(error) => return Event::Saved(Err(error)),
            }
        }
        let saving = served.save.as_mut().and_then(|save| save.end.as_mut());
        let saved = async {
            match saving {
                Some(end) => end.await,
                None => std::future::pending().await,
            }
        };
        let (out, taken) = (&served.out.0, served.out.1);
        let owes_answers = served.pipe.waiting() > 0;
        let input = served.pipe.input();
        input.reserve(READ_BYTES);
        tokio::select! {
            came = served.from.read_buf(input) => Event::Came(came),
            went = served.to.write(&out[taken..]), if taken < out.len() => Event::Went(went),
            () = self.changed.notified() => Event::Changed,
            Some(request) = self.requests.recv() => {
                served.reads.extend(self.take(request));
                served.reads.extend(self.take_all());
                Event::Changed
            }
            saved = saved => Event::Saved(saved),
            how = served.process.ended() => Event::Ended(how),
            () = sleep_until(served.heard + HANG_MAX), if owes_answers => Event::Hangs,
            _ = &mut *stopping => Event::Stop,
        }
    }

    /// A save has ended: its file takes the place of the last one.
    fn saved(&mut self, served: &mut Served, saved: Result<(), ProcessError>) {
        let base = served.save.take().and_then(|save| save.base);
        let rdb = saved.and_then(|()| Ok(self.files.take(&served.process.rdb())?));
        match (rdb, base) {
            (Ok(rdb), Some((position, replies))) => {
                self.hand_out(position, &rdb);
                self.board.change(|status| status.rdb_position = position);
                self.shared.rebase(Base {
                    rdb,
                    position,
                    replies,
                });
            }
            (Err(error), _) => {
                tracing::warn!("the server did not save its state: {error}");
                self.refuse_rdbs();
                served.save_again = Instant::now() + SAVE_AGAIN;
            }
            (Ok(_), None) => {}
        }
    }
}

/// Waits until a server has saved.
async fn until_saved(mut control: Control) -> Result<(), ProcessError> {
    while control.is_saving().await? {
        sleep(SAVING_PAUSE).await;
    }
    Ok(())
}
