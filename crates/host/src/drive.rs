//! The one loop that drives a host, in a server as in the simulator and in tests.

use crate::host::{Effects, Host};
use quorate_core::{Application, Machine, Now, Seat};

/// When a driver is done with the effects that it performs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Performing waits for the disk and reports what was done: the host has turns until nothing follows any more, and
    /// only then does a piece of the work that it has put off.
    AtOnce,
    /// Performing only begins: what was done is an input of a later turn.
    Later,
}

/// Whoever drives a host: has a clock, and performs what the host wants done.
pub trait Driver {
    /// The protocol's machine.
    type Machine: Machine;
    /// The replicated application.
    type App: Application;
    /// Why the driver cannot go on.
    type Error;
    /// When effects are done that were performed.
    const PACE: Pace;

    /// The host, unless its process has ended.
    fn host(&mut self) -> Option<&mut Host<Self::Machine, Self::App>>;

    /// The readings of the driver's clocks.
    fn now(&mut self) -> Now;

    /// Whether the driver can write at the moment. One that cannot is given no flush.
    fn can_write(&self) -> bool {
        true
    }

    /// The machine's configuration for a seat in a new epoch, whose protocol and parameters may be new.
    ///
    /// # Errors
    /// The driver's own: it cannot run that epoch.
    fn configure(&mut self, seat: &Seat)
    -> Result<<Self::Machine as Machine>::Config, Self::Error>;

    /// Performs what the host wants done, all of it. Says whether the host may want more at once.
    ///
    /// # Errors
    /// The driver's own: it cannot go on.
    fn perform(
        &mut self,
        now: Now,
        effects: Effects<<Self::App as Application>::Answer>,
    ) -> Result<bool, Self::Error>;
}

/// Lets a host make of its inputs what follows from them, and its driver perform that. Says whether the host has put
/// off more: it wants another turn soon, without any input.
///
/// # Errors
/// The driver's own, at the first of its methods that fails.
pub fn drive<D: Driver>(driver: &mut D) -> Result<bool, D::Error> {
    match D::PACE {
        Pace::AtOnce => {
            settle(driver)?;
            let has_more = tidy(driver);
            let now = driver.now();
            if perform(driver, now)? {
                settle(driver)?;
            }
            Ok(has_more)
        }
        Pace::Later => {
            let now = driver.now();
            turn(driver, now)?;
            let has_more = tidy(driver);
            while perform(driver, now)? {}
            Ok(has_more)
        }
    }
}

/// Turns until nothing follows from what was performed.
fn settle<D: Driver>(driver: &mut D) -> Result<(), D::Error> {
    loop {
        let now = driver.now();
        let has_begun = turn(driver, now)?;
        if !perform(driver, now)? && !has_begun {
            return Ok(());
        }
    }
}

/// Ends a turn of the host. Says whether the machine of an epoch was started.
fn turn<D: Driver>(driver: &mut D, now: Now) -> Result<bool, D::Error> {
    let Some(host) = driver.host() else {
        return Ok(false);
    };
    host.turn(now);
    let Some(seat) = host.look().next_seat() else {
        return Ok(false);
    };
    let config = driver.configure(&seat)?;
    if let Some(host) = driver.host() {
        host.begin_epoch(now, seat, &config);
    }
    Ok(true)
}

fn tidy<D: Driver>(driver: &mut D) -> bool {
    driver.host().is_some_and(Host::tidy)
}

fn perform<D: Driver>(driver: &mut D, now: Now) -> Result<bool, D::Error> {
    let can_write = driver.can_write();
    let Some(host) = driver.host() else {
        return Ok(false);
    };
    let effects = match can_write {
        true => host.take_effects(now),
        false => host.take_effects_but_flush(),
    };
    driver.perform(now, effects)
}
