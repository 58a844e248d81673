//! Ports of this machine that nobody listens on.

use std::net::{Ipv4Addr, TcpListener};

/// The first of `count` consecutive ports that are free now, below those the kernel hands out.
pub fn free_ports(count: u16) -> Result<u16, String> {
    for _ in 0..ATTEMPTS {
        let base = fastrand::u16(PORTS.start..PORTS.end - count);
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if (base..base + count).all(free) {
            return Ok(base);
        }
    }
    Err(format!(
        "no {count} free ports in a row between {} and {}",
        PORTS.start, PORTS.end
    ))
}

const PORTS: std::ops::Range<u16> = 12_000..32_000;
const ATTEMPTS: u32 = 100;
