//! Lemmas that do not hold: a machine that finds its own invariants broken panics, and the steps
//! that led there must be told even in builds that abort.

use crate::host_model::Fault;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

/// The property that a panic breaks.
pub(crate) const INVARIANT: &str = "the protocol's lemmas";

thread_local! {
    static SEARCH: Cell<usize> = const { Cell::new(0) };
    static STEP: Cell<Option<u64>> = const { Cell::new(None) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Takes steps that may panic, and counts them: a search takes the same ones each time.
pub(crate) struct Guard {
    steps: u64,
    /// The step that is known to panic, and what it says: it is not taken.
    fatal: Option<(u64, String)>,
}

impl Guard {
    pub(crate) fn new(fatal: Option<(u64, String)>) -> Self {
        Guard { steps: 0, fatal }
    }

    /// Steps taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Takes a step; a panic is a fault.
    pub(crate) fn run<T>(&mut self, step: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        self.steps += 1;
        if let Some((_, what)) = self.fatal.take_if(|(at, _)| *at == self.steps) {
            return Err(Fault::new(INVARIANT, what));
        }
        STEP.set(Some(self.steps));
        let result = catch_unwind(AssertUnwindSafe(step));
        STEP.set(None);
        result.unwrap_or_else(|_| Err(Fault::new(INVARIANT, MESSAGE.take())))
    }
}

/// This thread is about to begin a search, of this number.
pub(crate) fn enter(search: usize) {
    SEARCH.set(search);
}

/// Keeps what panicking steps say instead of printing it. Where a panic aborts the process,
/// `last_words` is called with the numbers of search and step and the message first.
pub(crate) fn install(last_words: impl Fn(usize, u64, String) + Send + Sync + 'static) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| match STEP.get() {
        None => usual(info),
        Some(step) if cfg!(panic = "abort") => {
            last_words(SEARCH.get(), step, message(info));
        }
        Some(_) => {
            MESSAGE.replace(message(info));
        }
    }));
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let text = info.payload_as_str().unwrap_or("a panic without a message");
    let place = info.location();
    let place = place.map_or_else(String::new, |at| format!(" at {at}"));
    format!("{text}{place}")
}
