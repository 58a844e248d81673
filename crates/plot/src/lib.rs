//! Pictures for reports.
//!
//! Plain SVG, written by hand: bars, lines and words need no library. [`Svg`] is a sheet to draw
//! on, [`Chart`] a page of bar diagrams on logarithmic scales.

mod bars;
mod svg;

pub use bars::{Chart, Group, Panel, Series};
pub use svg::{Svg, escape};
