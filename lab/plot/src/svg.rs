//! A sheet to draw on.

use std::fmt::Write;

/// A picture that is being drawn. Lengths are pixels, from the upper left corner.
pub struct Svg {
    out: String,
}

impl Svg {
    /// An empty white sheet; `style` holds the rules of the classes that are used on it, in CSS.
    #[must_use]
    pub fn new(width: f64, height: f64, style: &str) -> Svg {
        let out = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<style>
text {{ font-family: sans-serif; font-size: 12px; fill: #222 }}
{style}</style>
<rect width="100%" height="100%" fill="#fff"/>
"##
        );
        Svg { out }
    }

    /// Words that begin at a point, unless their class says otherwise.
    pub fn text(&mut self, (x, y): (f64, f64), class: &str, words: &str) {
        let words = escape(words);
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{words}</text>"#
        ));
    }

    /// Words that go up from a point.
    pub fn text_upwards(&mut self, (x, y): (f64, f64), class: &str, words: &str) {
        let words = escape(words);
        self.put(format_args!(
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" class="{class}">{words}</text>"#
        ));
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        ));
    }

    /// A straight line with a head at its end.
    pub fn arrow(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.line(from, to, class);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(f64::MIN_POSITIVE);
        let (ux, uy) = (dx / length, dy / length);
        let back = (to.0 - HEAD * ux, to.1 - HEAD * uy);
        let side = (HEAD / 3.0 * uy, HEAD / 3.0 * ux);
        self.put(format_args!(
            r#"<path d="M{:.1} {:.1} L{:.1} {:.1} L{:.1} {:.1} Z" class="{class}"/>"#,
            to.0,
            to.1,
            back.0 - side.0,
            back.1 + side.1,
            back.0 + side.0,
            back.1 - side.1
        ));
    }

    /// A filled circle.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        self.put(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius:.1}" fill="{fill}"/>"#
        ));
    }

    /// A filled rectangle from its upper left corner.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        self.put(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#
        ));
    }

    /// Begins a group of shapes that share a note, shown when a pointer rests on one of them.
    pub fn begin_noted(&mut self, note: &str) {
        let note = escape(note);
        self.put(format_args!("<g><title>{note}</title>"));
    }

    /// Ends the group begun last.
    pub fn end_noted(&mut self) {
        self.put(format_args!("</g>"));
    }

    /// The picture, as the text of a file.
    #[must_use]
    pub fn finish(self) -> String {
        self.out + "</svg>\n"
    }

    fn put(&mut self, shape: std::fmt::Arguments<'_>) {
        writeln!(self.out, "{shape}").expect("a String takes all that is written to it");
    }
}

/// Text as it may stand in the picture: what has a meaning there is taken from it.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Length of the head of an arrow.
const HEAD: f64 = 7.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_end_their_element() {
        let mut svg = Svg::new(10.0, 10.0, "");
        svg.text((1.0, 2.0), "name", "a < b & \"c\"");
        let picture = svg.finish();
        assert!(picture.contains(">a &lt; b &amp; &quot;c&quot;</text>"));
        assert!(picture.ends_with("</svg>\n"));
    }
}
