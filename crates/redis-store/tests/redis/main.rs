//! What the store answers: as Redis did in recorded conversations, as a Redis does that runs beside it, and the same
//! whatever way a state came about.
//!
//! `REDIS_SERVER=PATH cargo test -p quorate-redis-store --test redis -- --include-ignored` asks a Redis 7.0 as well;
//! with `QUORATE_RECORD=1` its replies become those of the recorded conversations.

mod alike;
mod conversations;
mod differential;
mod expiry;
mod followed;
mod generate;
mod laws;
mod ours;
mod server;
mod transactions;
mod users;
