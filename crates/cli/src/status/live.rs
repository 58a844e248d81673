//! The live view: drawn in place, until a key or a signal ends it.

use crate::Failure;
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Shows what `look` makes, every `interval`, until told to stop.
pub(super) fn watch(interval: Duration, look: impl FnMut() -> String) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let failed =
        |error: io::Error| Failure::Failed(format!("the operating system refused: {error}"));
    let runtime = runtime.map_err(failed)?;
    let screen = Screen::take();
    let shown = runtime.block_on(show(interval, look, screen.is_some()));
    drop(screen);
    shown.map_err(failed)
}

async fn show(
    interval: Duration,
    mut look: impl FnMut() -> String,
    in_place: bool,
) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let key = quit_key();
    loop {
        let text = look();
        // Nobody reads any more, as `| head` does: that is an end like another.
        if draw(&text, in_place).is_err() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = key.notified() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

fn draw(text: &str, in_place: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if in_place {
        write!(out, "{HOME}")?;
        for line in text.lines() {
            write!(out, "{line}{CLEAR_LINE}\r\n")?;
        }
        write!(out, "q quits{CLEAR_LINE}{CLEAR_BELOW}")?;
    } else {
        writeln!(out, "{text}")?;
    }
    out.flush()
}

/// Notified when `q` was pressed. A thread waits for it, and ends with the process.
fn quit_key() -> Arc<Notify> {
    let pressed = Arc::new(Notify::new());
    let tell = Arc::clone(&pressed);
    std::thread::spawn(move || {
        let mut keys = io::stdin().lock().bytes().map_while(Result::ok);
        if keys.any(|key| matches!(key, b'q' | b'Q')) {
            tell.notify_one();
        }
    });
    pressed
}

/// A terminal that shows the view, and is given back as it was.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    /// `None` if standard output is no terminal.
    fn take() -> Option<Screen> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let before = termios::tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes
                .remove(LocalModes::ICANON | LocalModes::ECHO);
            // Keys are read once there are any: readiness says when.
            raw.special_codes[SpecialCodeIndex::VMIN] = 1;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw);
        }
        print!("{ENTER}");
        Some(Screen { before })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print!("{LEAVE}");
        let _ = io::stdout().flush();
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
