//! What a panicking seed said. A machine or host that finds its own invariants broken panics, and
//! the seed that led there must be named even in builds that abort.

use std::cell::{Cell, RefCell};
use std::panic::PanicHookInfo;

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// This thread runs a seed from now on.
pub(crate) fn watch(seed: u64) {
    SEED.set(Some(seed));
    MESSAGE.take();
}

/// The seed is over: what it said if it panicked.
pub(crate) fn unwatch() -> String {
    SEED.set(None);
    MESSAGE.take()
}

/// Keeps what panicking seeds say instead of printing it. Where a panic aborts the process,
/// `last_words` is called with the seed and the message first.
pub(crate) fn install(last_words: impl Fn(u64, String) + Send + Sync + 'static) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| match SEED.get() {
        None => usual(info),
        Some(seed) if cfg!(panic = "abort") => last_words(seed, message(info)),
        Some(_) => {
            MESSAGE.replace(message(info));
        }
    }));
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let text = info.payload_as_str().unwrap_or("a panic without a message");
    let place = info
        .location()
        .map_or_else(String::new, |at| format!(" at {at}"));
    format!("{text}{place}")
}
