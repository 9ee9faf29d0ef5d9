//! Counters and histograms of a run, folded from what the interpreter counts.

mod prometheus;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::engine::{Metric, MetricName};

/// Upper bounds of the buckets of delays, in nanoseconds: 10 ms to 10 minutes.
const DELAY_BUCKETS: &[u64] = &[
    10_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
    120_000_000_000,
    300_000_000_000,
    600_000_000_000,
];
/// Upper bounds of the buckets of attempts.
const ATTEMPT_BUCKETS: &[u64] = &[1, 2, 3, 4, 5, 7, 10, 20];
/// The most subjects of one metric; a model may make up names of tools without end.
const MAX_SUBJECTS: usize = 1000;
/// What the subjects beyond that are counted as.
const OTHER: &str = "other";

/// The metrics of a process, to be shared by its runs.
///
/// ```
/// use unfazed::engine::{Metric, MetricName};
/// use unfazed::host::Metrics;
///
/// let metrics = Metrics::new();
/// metrics.record(&Metric { name: MetricName::ValidationRetryTotal, subject: "tool search".into(), value: 1 });
/// assert!(metrics.prometheus().contains(r#"validation_retry_total{subject="tool search"} 1"#));
/// ```
#[derive(Debug, Default)]
pub struct Metrics {
    series: Mutex<BTreeMap<MetricName, BTreeMap<String, Series>>>,
}

/// The metrics at one moment, by name and subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetricsSnapshot {
    /// What only grows.
    pub counters: Vec<CounterSnapshot>,
    /// What is distributed.
    pub histograms: Vec<HistogramSnapshot>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterSnapshot {
    /// The metric.
    pub name: MetricName,
    /// What it is about.
    pub subject: String,
    /// How many.
    pub value: u64,
}

/// One histogram. Delays are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistogramSnapshot {
    /// The metric.
    pub name: MetricName,
    /// What it is about.
    pub subject: String,
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The least of them.
    pub min: u64,
    /// The greatest of them.
    pub max: u64,
    /// For each upper bound, how many values are not above it.
    pub buckets: Vec<Bucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The upper bound.
    pub le: u64,
    /// How many values are not above it.
    pub count: u64,
}

#[derive(Debug)]
enum Series {
    Counter(u64),
    Histogram(Histogram),
}

#[derive(Debug)]
struct Histogram {
    bounds: &'static [u64],
    /// One count for each bound; values above the last are in `count` alone.
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one measurement.
    pub fn record(&self, metric: &Metric) {
        self.record_many(metric, 1);
    }

    /// Adds the same measurement so many times.
    pub fn record_many(&self, metric: &Metric, times: u64) {
        if times == 0 {
            return;
        }
        let mut all = self.lock();
        let subjects = all.entry(metric.name).or_default();
        let known = subjects.len() < MAX_SUBJECTS || subjects.contains_key(&metric.subject);
        let subject = if known { metric.subject.as_str() } else { OTHER };
        if let Some(series) = subjects.get_mut(subject) {
            series.add(metric.value, times);
        } else {
            let mut series = Series::of(metric.name);
            series.add(metric.value, times);
            subjects.insert(subject.to_owned(), series);
        }
    }

    /// The metrics as they are now.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let mut snapshot = MetricsSnapshot::default();
        for (&name, subjects) in self.lock().iter() {
            for (subject, series) in subjects {
                let subject = subject.clone();
                match series {
                    Series::Counter(value) => {
                        snapshot.counters.push(CounterSnapshot { name, subject, value: *value });
                    }
                    Series::Histogram(histogram) => {
                        snapshot.histograms.push(histogram.snapshot(name, subject));
                    }
                }
            }
        }
        snapshot
    }

    /// The metrics in Prometheus' text format.
    pub fn prometheus(&self) -> String {
        prometheus::render(&self.snapshot())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<MetricName, BTreeMap<String, Series>>> {
        // Counting never stops half way: what a panicking thread left is whole.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Series {
    fn of(name: MetricName) -> Self {
        match name {
            MetricName::ValidationRetryTotal
            | MetricName::ReducerErrorTotal
            | MetricName::BudgetExhaustedTotal => Self::Counter(0),
            MetricName::RetryDelaySeconds => Self::Histogram(Histogram::new(DELAY_BUCKETS)),
            MetricName::RetryAttempts => Self::Histogram(Histogram::new(ATTEMPT_BUCKETS)),
        }
    }

    fn add(&mut self, value: u64, times: u64) {
        match self {
            Self::Counter(sum) => *sum = sum.saturating_add(value.saturating_mul(times)),
            Self::Histogram(histogram) => histogram.add(value, times),
        }
    }
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    fn add(&mut self, value: u64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(times);
        }
        self.count = self.count.saturating_add(times);
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn snapshot(&self, name: MetricName, subject: String) -> HistogramSnapshot {
        let buckets = self.bounds.iter().zip(&self.counts).scan(0, |below, (&le, count)| {
            *below += count;
            Some(Bucket { le, count: *below })
        });
        HistogramSnapshot {
            name,
            subject,
            count: self.count,
            sum: self.sum,
            min: self.min,
            max: self.max,
            buckets: buckets.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: MetricName, subject: &str, value: u64) -> Metric {
        Metric { name, subject: subject.to_owned(), value }
    }

    #[test]
    fn counters_add_up_by_subject() {
        let metrics = Metrics::new();
        for subject in ["tool a", "output", "tool a"] {
            metrics.record(&metric(MetricName::ValidationRetryTotal, subject, 1));
        }
        let counted: Vec<_> = metrics.snapshot().counters.into_iter().map(|c| (c.subject, c.value)).collect();
        assert_eq!(counted, [("output".to_owned(), 1), ("tool a".to_owned(), 2)]);
    }

    #[test]
    fn a_histogram_knows_its_bounds_and_its_extremes() {
        let metrics = Metrics::new();
        for attempts in [1, 3, 3, 50] {
            metrics.record(&metric(MetricName::RetryAttempts, "output", attempts));
        }
        let histogram = metrics.snapshot().histograms.remove(0);
        assert_eq!((histogram.count, histogram.sum, histogram.min, histogram.max), (4, 57, 1, 50));
        let counts: Vec<_> = histogram.buckets.iter().map(|bucket| (bucket.le, bucket.count)).collect();
        assert_eq!(counts, [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3), (7, 3), (10, 3), (20, 3)]);
    }

    #[test]
    fn made_up_subjects_do_not_grow_without_end() {
        let metrics = Metrics::new();
        for n in 0..5000 {
            metrics.record(&metric(MetricName::ReducerErrorTotal, &format!("tool {n}"), 1));
        }
        let counters = metrics.snapshot().counters;
        assert_eq!(counters.len(), MAX_SUBJECTS + 1);
        let other = counters.iter().find(|counter| counter.subject == OTHER).unwrap();
        assert_eq!(other.value, 4000);
    }

    #[test]
    fn a_snapshot_is_plain_data() {
        let metrics = Metrics::new();
        metrics.record(&metric(MetricName::ReducerErrorTotal, "slice", 2));
        let json = serde_json::to_value(metrics.snapshot()).unwrap();
        assert_eq!(json["counters"][0]["name"], "reducer_error_total");
        assert_eq!(json["counters"][0]["value"], 2);
    }
}
