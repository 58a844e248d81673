//! Where metrics are kept: in a recorder that writes a Prometheus page, or, in a build without one, nowhere.

#[cfg(not(feature = "metrics-page"))]
pub(super) use absent::PageRecorder;
#[cfg(feature = "metrics-page")]
pub(super) use page::PageRecorder;

#[cfg(feature = "metrics-page")]
mod page {
    use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
    use std::ops::Deref;

    /// Upper bounds of latency buckets in seconds: from a few microseconds to ten seconds, three per decade.
    const LATENCY_BUCKETS: [f64; 20] = [
        5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1,
        0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ];

    /// A recorder, and the handle that writes its page.
    pub(in super::super) struct PageRecorder {
        recorder: PrometheusRecorder,
        handle: PrometheusHandle,
    }

    impl PageRecorder {
        pub(in super::super) fn new() -> PageRecorder {
            let builder = PrometheusBuilder::new()
                .set_buckets(&LATENCY_BUCKETS)
                .unwrap_or_else(|error| unreachable!("the buckets are not empty: {error}"));
            let recorder = builder.build_recorder();
            PageRecorder {
                handle: recorder.handle(),
                recorder,
            }
        }

        /// The text of the page.
        pub(in super::super) fn render(&self) -> String {
            self.handle.render()
        }

        /// Merges the samples of histograms into their buckets.
        pub(in super::super) fn run_upkeep(&self) {
            self.handle.run_upkeep();
        }
    }

    impl Deref for PageRecorder {
        type Target = PrometheusRecorder;

        fn deref(&self) -> &PrometheusRecorder {
            &self.recorder
        }
    }
}

#[cfg(not(feature = "metrics-page"))]
mod absent {
    use metrics::NoopRecorder;
    use std::ops::Deref;

    /// A recorder whose metrics count nothing.
    pub(in super::super) struct PageRecorder(NoopRecorder);

    impl PageRecorder {
        pub(in super::super) fn new() -> PageRecorder {
            PageRecorder(NoopRecorder)
        }

        /// The text of an empty page.
        pub(in super::super) fn render(&self) -> String {
            String::new()
        }

        /// Merges nothing: there are no samples.
        pub(in super::super) fn run_upkeep(&self) {}
    }

    impl Deref for PageRecorder {
        type Target = NoopRecorder;

        fn deref(&self) -> &NoopRecorder {
            &self.0
        }
    }
}
