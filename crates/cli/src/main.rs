//! `quorate`: state-machine replication with a choice of protocols, behind the etcd v3 API.

use quorate_tooling::allocator;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    allocator::give_back_soon();
    quorate_cli::run()
}
