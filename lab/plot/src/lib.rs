//! Pictures for reports.
//!
//! Plain SVG, written by hand: bars, lines and words need no library. [`Svg`] is a sheet to draw
//! on, [`Chart`] a page of bar diagrams on logarithmic scales, [`Curves`] one of curves on even scales.

mod bars;
mod lines;
mod svg;

pub use bars::{Chart, Group, Panel, Series};
pub use lines::{Curves, Plot};
pub use svg::{Svg, escape};
