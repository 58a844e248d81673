//! What is done to a replica, and what it says of itself meanwhile.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::sleep_until;
use quorate_load::replicas::Replicas;
use quorate_tooling::scrape;

/// What is done to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Harm {
    /// Killed (SIGKILL), and started again
    Kill,
    /// Stopped (SIGSTOP) where it is
    Pause,
    /// Stopped nine tenths of the time, for 18 ms each: slow, and with delays that vary
    Slow,
    /// What replicas say to each other takes up to ten times as long, by chance; needs `--delay`
    Delays,
}

/// The replicas that are hurt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Victims {
    /// The leader there is
    Leader,
    /// One replica after the other
    Turn,
}

impl fmt::Display for Harm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        out.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Harm {
    /// Does it until a time, and undoes it.
    pub(super) fn strike(
        self,
        replicas: &mut Replicas,
        victim: usize,
        until: Instant,
        delay: Option<Duration>,
    ) -> Result<(), String> {
        match self {
            Harm::Kill => {
                replicas.kill(&[victim])?;
                sleep_until(until);
                replicas.start(&[victim])
            }
            Harm::Pause => {
                replicas.pause(victim)?;
                sleep_until(until);
                replicas.resume(victim)
            }
            Harm::Slow => {
                while Instant::now() < until {
                    replicas.pause(victim)?;
                    std::thread::sleep(STOPPED);
                    replicas.resume(victim)?;
                    std::thread::sleep(RUNNING);
                }
                Ok(())
            }
            Harm::Delays => {
                let (network, delay) = replicas.network().zip(delay).ok_or(NEEDS_DELAY)?;
                network.set(delay, delay * (TENFOLD - 1));
                sleep_until(until);
                network.set(delay, Duration::ZERO);
                Ok(())
            }
        }
    }
}

/// What the replicas say of themselves while a load runs.
#[derive(Debug)]
pub(super) struct Watching {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Duration, f64)>>,
}

impl Watching {
    /// Asks all again and again. One that does not answer soon does not count.
    pub(super) fn begin(figure: &str, endpoints: &[String], began: Instant) -> Watching {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, endpoints) = (Arc::clone(&is_over), endpoints.to_vec());
        let label = format!("figure=\"{figure}\"");
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !over.load(SeqCst) {
                let at = began.elapsed();
                let of = |url: &String| {
                    let page = scrape::get_within(url, "/metrics", ANSWER_WITHIN).ok()?;
                    Some(scrape::labelled(&page, "quorate_protocol", &label))
                };
                let values: Vec<f64> = endpoints.iter().filter_map(of).collect();
                if !values.is_empty() {
                    seen.push((at, values.iter().sum::<f64>() / values.len() as f64));
                }
                std::thread::sleep(EVERY);
            }
            seen
        });
        Watching { is_over, thread }
    }

    /// What was seen, and when since the load began.
    pub(super) fn end(self) -> Vec<(Duration, f64)> {
        self.is_over.store(true, SeqCst);
        self.thread.join().unwrap_or_default()
    }
}

/// How much longer what takes longest takes than what takes least, where delays vary.
const TENFOLD: u32 = 10;
pub(super) const NEEDS_DELAY: &str =
    "--fault delays needs --delay: how long what replicas say takes without it";
const STOPPED: Duration = Duration::from_millis(18);
const RUNNING: Duration = Duration::from_millis(2);
const EVERY: Duration = Duration::from_millis(50);
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
