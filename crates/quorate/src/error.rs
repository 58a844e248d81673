//! What a program does about a request that came to nothing.

use quorate_server::{Failure, ServerError};
use std::fmt;

/// Why a request has no result, by what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// Nothing was done, and the same may work a moment later, or on another node.
    Retry(String),
    /// Nothing was done, and asking again will not help.
    Refused(String),
    /// The command may have been done, or be done later. A [`Client`](crate::Client) may ask again under the same
    /// number; whoever else asks again may have it done twice.
    Unknown(String),
}

impl Error {
    pub(crate) fn of_submit(failure: Failure) -> Error {
        let why = failure.to_string();
        match failure {
            Failure::Overloaded | Failure::NotServing => Error::Retry(why),
            Failure::TooLarge | Failure::Stopped | Failure::NoSpace | Failure::Corrupt => {
                Error::Refused(why)
            }
            Failure::Timeout | Failure::Stopping => Error::Unknown(why),
        }
    }

    /// Nothing is ever done by a query.
    pub(crate) fn of_query(failure: Failure) -> Error {
        match Error::of_submit(failure) {
            Error::Unknown(why) if failure == Failure::Stopping => Error::Refused(why),
            Error::Unknown(why) => Error::Retry(why),
            known => known,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Retry(why) => write!(f, "{why}; nothing was done, try again"),
            Error::Refused(why) => write!(f, "{why}; nothing was done"),
            Error::Unknown(why) => write!(f, "{why}; it may have been done, or be done later"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a node does not start, or has ended: what is wrong, where, and what to do.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(why: impl fmt::Display) -> StartError {
        StartError(why.to_string())
    }
}

impl From<ServerError> for StartError {
    fn from(error: ServerError) -> Self {
        StartError::new(error)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}
