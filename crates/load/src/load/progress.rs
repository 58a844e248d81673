//! A progress bar, on a terminal only and rarely enough not to show in the figures.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::session::Session;
use quorate_tooling::units::show_count;

/// A progress bar being drawn, if there is a terminal to draw on.
pub(super) struct Progress {
    shown: Option<(ProgressBar, JoinHandle<()>)>,
}

/// Starts drawing how far a phase of `duration` or of `total` operations has come.
pub(super) fn start(
    session: &Arc<Session>,
    duration: Option<Duration>,
    total: Option<u64>,
) -> Progress {
    if !std::io::stderr().is_terminal() {
        return Progress { shown: None };
    }
    let length = total
        .or(duration.map(|duration| duration.as_millis() as u64))
        .unwrap_or(0);
    let style = ProgressStyle::with_template("{wide_bar} {msg} per second  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style);
    let task = tokio::spawn(draw(bar.clone(), session.clone(), total.is_some()));
    Progress {
        shown: Some((bar, task)),
    }
}

impl Progress {
    /// Removes the bar.
    pub(super) fn stop(self) {
        if let Some((bar, task)) = self.shown {
            task.abort();
            bar.finish_and_clear();
        }
    }
}

async fn draw(bar: ProgressBar, session: Arc<Session>, by_count: bool) {
    let (started, before) = (Instant::now(), session.completed.load(Relaxed));
    let mut last = before;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = session.completed.load(Relaxed);
        let passed = match by_count {
            true => now - before,
            false => started.elapsed().as_millis() as u64,
        };
        bar.set_position(passed);
        bar.set_message(show_count((now - last) as f64 / INTERVAL.as_secs_f64()));
        last = now;
    }
}

const INTERVAL: Duration = Duration::from_millis(500);
