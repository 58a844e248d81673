//! What people are told of an RDB that Quorate's own store does not take.

use quorate_redis_rdb::{Fault, RdbError};

/// What is wrong with a file for the own store, and what would help.
pub(crate) fn hinted(why: &RdbError) -> String {
    match why.fault {
        Fault::Refused(_) => format!(
            "{why}, which Quorate's own store does not have; a real server takes the file as it is (--redis-server)"
        ),
        _ => why.to_string(),
    }
}
