//! The allocator, and when it gives memory back.
//!
//! A leader of large values frees hundreds of megabytes in a second. Left to itself the allocator keeps
//! what is free for as long as that, which is more than all values in memory; to give it back at once
//! would cost as many page faults.

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// The global allocator of the programs: a request is some dozens of small allocations in the gRPC stack, which
/// were a quarter of the CPU time of a put.
pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay`, which the bindings have no name for.
const PURGE_DELAY: mi_option_t = 15;
/// How long free memory is kept, in ms.
const KEPT_MS: i64 = 100;

/// Has free memory given back soon, unless the environment says otherwise
/// (`MIMALLOC_PURGE_DELAY`). To be called before there are other threads.
#[allow(unsafe_code, reason = "the allocator's options have no safe setter")]
pub fn give_back_soon() {
    // SAFETY: it sets a number inside the allocator, and no other thread runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, KEPT_MS) };
}
