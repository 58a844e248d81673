//! Metrics that faces count by themselves, as lines of a Prometheus page.

use quorate_server::ProcessFigures;
use std::fmt::{Display, Write};

/// A page of metrics as it is put together.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Adds a counter without labels.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, [(Vec::new(), value)]);
    }

    /// Adds a gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help, [(Vec::new(), value)]);
    }

    /// Adds a gauge that is 1 and says something by its labels.
    pub fn info(&mut self, name: &str, help: &str, label: (&str, &str)) {
        self.family(name, "gauge", help, [(vec![label], 1)]);
    }

    /// Adds what the system says of the process, under the names that Prometheus' own libraries use.
    pub(crate) fn process(&mut self, figures: &ProcessFigures) {
        self.gauge(
            "process_resident_memory_bytes",
            "Memory of the process that is in RAM.",
            figures.resident_bytes as f64,
        );
        self.gauge(
            "process_virtual_memory_bytes",
            "Memory that the process has mapped.",
            figures.virtual_bytes as f64,
        );
        let cpu = [(Vec::new(), figures.cpu_seconds)];
        self.family(
            "process_cpu_seconds_total",
            "counter",
            "Time of all CPUs that the process used.",
            cpu,
        );
        self.gauge(
            "process_open_fds",
            "File descriptors that are open.",
            figures.descriptors as f64,
        );
        self.gauge(
            "process_max_fds",
            "File descriptors that may be open.",
            figures.descriptors_max as f64,
        );
        self.gauge(
            "process_start_time_seconds",
            "When the process began, in seconds since 1970.",
            figures.began_s,
        );
    }

    /// Adds a family of samples; nothing if there are none. Labels are words that need no quoting.
    pub fn family<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, impl Display)>,
    ) {
        let mut is_first = true;
        for (labels, value) in samples {
            if std::mem::take(&mut is_first) {
                let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
            }
            self.0.push_str(name);
            let mut open = '{';
            for (label, text) in &labels {
                let _ = write!(self.0, "{open}{label}=\"{text}\"");
                open = ',';
            }
            if !labels.is_empty() {
                self.0.push('}');
            }
            let _ = writeln!(self.0, " {value}");
        }
    }

    /// The lines of the page.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_lines_that_a_scrape_reads() {
        let mut page = Page::default();
        page.counter("puts_total", "Puts.", 3);
        page.info("version", "Its version.", ("server_version", "1.2"));
        page.family(
            "none",
            "gauge",
            "Nothing.",
            Vec::<(Vec<(&str, &str)>, u64)>::new(),
        );
        let sample = |name, value| (vec![("type", "x"), ("name", name)], value);
        page.family(
            "checks",
            "gauge",
            "Checks.",
            [sample("a", 0.5), sample("b", 1.0)],
        );
        let expected = "\
# HELP puts_total Puts.
# TYPE puts_total counter
puts_total 3
# HELP version Its version.
# TYPE version gauge
version{server_version=\"1.2\"} 1
# HELP checks Checks.
# TYPE checks gauge
checks{type=\"x\",name=\"a\"} 0.5
checks{type=\"x\",name=\"b\"} 1
";
        assert_eq!(page.into_text(), expected);
    }
}
