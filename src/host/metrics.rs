//! Counters, gauges and histograms of runs, folded from what the interpreter counts and the host measures.

mod meter;
#[cfg(feature = "otlp")]
pub(super) mod otlp;
mod prometheus;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::engine::Metric;

use self::meter::MetricKind;
pub use self::meter::{MetricId, MetricUnit};

/// The most series of one metric; a model may make up names of tools without end.
const MAX_SERIES: usize = 1000;
/// What all labels of the series beyond that are.
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
    series: Mutex<SeriesMap>,
}

type SeriesMap = BTreeMap<MetricId, SeriesList>;

/// Series sorted by the values of their labels, which are in the order the metric names them.
// A map by texts could not be asked without making each text: each request of a gateway adds to nine series.
#[derive(Debug, Default)]
struct SeriesList {
    all: Vec<(Vec<String>, MetricSeries)>,
    /// Where the one is that was added to last: mostly the next one, too.
    last: usize,
}

/// The labels of one series; one without a value is left out.
pub type LabelSet = BTreeMap<&'static str, String>;

/// The metrics at one moment, by name and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetricsSnapshot {
    /// What only grows.
    pub counters: Vec<CounterSnapshot>,
    /// What goes up and down.
    pub gauges: Vec<GaugeSnapshot>,
    /// What is distributed.
    pub histograms: Vec<HistogramSnapshot>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterSnapshot {
    /// The metric.
    pub name: MetricId,
    /// What it is about.
    pub labels: LabelSet,
    /// What the value is in.
    pub unit: MetricUnit,
    /// How many.
    pub value: u64,
}

/// One gauge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GaugeSnapshot {
    /// The metric.
    pub name: MetricId,
    /// What it is about.
    pub labels: LabelSet,
    /// What the value is in.
    pub unit: MetricUnit,
    /// The last value.
    pub value: u64,
}

/// One histogram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistogramSnapshot {
    /// The metric.
    pub name: MetricId,
    /// What it is about.
    pub labels: LabelSet,
    /// What the values are in.
    pub unit: MetricUnit,
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The least of them.
    pub min: u64,
    /// The greatest of them.
    pub max: u64,
    /// For each upper bound, how many values are not above it.
    pub buckets: Vec<HistogramBucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HistogramBucket {
    /// The upper bound.
    pub le: u64,
    /// How many values are not above it.
    pub count: u64,
}

#[derive(Debug)]
enum MetricSeries {
    Counter(u64),
    Gauge(u64),
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
        self.put(metric.name.into(), &[&metric.subject], metric.value, times);
    }

    /// Adds a value to the series with these labels, in the order the metric names them.
    pub(super) fn add(&self, meter: MetricId, labels: &[&str], value: u64) {
        debug_assert_eq!(labels.len(), meter.labels().len(), "{meter:?}");
        self.put(meter, labels, value, 1);
    }

    fn put(&self, meter: MetricId, labels: &[&str], value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let mut all = self.lock();
        let known = all.entry(meter).or_default();
        let others;
        let (mut labels, mut place) = (labels, known.find(labels));
        if place.is_err() && known.all.len() >= MAX_SERIES {
            others = vec![OTHER; labels.len()];
            labels = &others;
            place = known.find(labels);
        }
        let place = place.unwrap_or_else(|place| {
            let labels = labels.iter().copied().map(str::to_owned).collect();
            known.all.insert(place, (labels, MetricSeries::of(meter)));
            place
        });
        known.last = place;
        if let Some((_, series)) = known.all.get_mut(place) {
            series.add(value, times);
        }
    }

    /// The metrics as they are now.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let mut snapshot = MetricsSnapshot::default();
        for (&name, all) in self.lock().iter() {
            let unit = name.unit();
            for (values, series) in &all.all {
                let labels = name.labels().iter().copied().zip(values.iter().cloned());
                let labels: LabelSet = labels.filter(|(_, value)| !value.is_empty()).collect();
                match series {
                    &MetricSeries::Counter(value) => {
                        snapshot.counters.push(CounterSnapshot { name, labels, unit, value });
                    }
                    &MetricSeries::Gauge(value) => {
                        snapshot.gauges.push(GaugeSnapshot { name, labels, unit, value });
                    }
                    MetricSeries::Histogram(histogram) => {
                        snapshot.histograms.push(histogram.snapshot(name, labels));
                    }
                }
            }
        }
        snapshot
    }

    /// The metrics in Prometheus' text format.
    pub fn prometheus(&self) -> String {
        self.snapshot().to_prometheus()
    }

    fn lock(&self) -> MutexGuard<'_, SeriesMap> {
        // Counting never stops half way: what a panicking thread left is whole.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeriesList {
    /// Where the series with these labels is, or would be.
    fn find(&self, labels: &[&str]) -> Result<usize, usize> {
        if self.all.get(self.last).is_some_and(|(known, _)| known == labels) {
            return Ok(self.last);
        }
        self.all.binary_search_by(|(known, _)| known.iter().map(String::as_str).cmp(labels.iter().copied()))
    }
}

impl MetricsSnapshot {
    /// In Prometheus' text format, version 0.0.4.
    pub fn to_prometheus(&self) -> String {
        prometheus::render(self)
    }
}

impl MetricSeries {
    fn of(meter: MetricId) -> Self {
        match meter.definition().kind {
            MetricKind::Counter => Self::Counter(0),
            MetricKind::Gauge => Self::Gauge(0),
            MetricKind::Histogram(bounds) => Self::Histogram(Histogram::new(bounds)),
        }
    }

    fn add(&mut self, value: u64, times: u64) {
        match self {
            Self::Counter(sum) => *sum = sum.saturating_add(value.saturating_mul(times)),
            Self::Gauge(last) => *last = value,
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

    fn snapshot(&self, name: MetricId, labels: LabelSet) -> HistogramSnapshot {
        let buckets = self.bounds.iter().zip(&self.counts).scan(0, |below, (&le, count)| {
            *below += count;
            Some(HistogramBucket { le, count: *below })
        });
        HistogramSnapshot {
            name,
            labels,
            unit: name.unit(),
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
    use crate::engine::MetricName;

    fn metric(name: MetricName, subject: &str, value: u64) -> Metric {
        Metric { name, subject: subject.to_owned(), value }
    }

    fn subject(counter: &CounterSnapshot) -> String {
        counter.labels["subject"].clone()
    }

    #[test]
    fn counters_add_up_by_subject() {
        let metrics = Metrics::new();
        for subject in ["tool a", "output", "tool a"] {
            metrics.record(&metric(MetricName::ValidationRetryTotal, subject, 1));
        }
        let counted: Vec<_> =
            metrics.snapshot().counters.into_iter().map(|c| (subject(&c), c.value)).collect();
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
        assert_eq!(counters.len(), MAX_SERIES + 1);
        let other = counters.iter().find(|counter| subject(counter) == OTHER).unwrap();
        assert_eq!(other.value, 4000);
    }

    #[test]
    fn a_snapshot_is_plain_data() {
        let metrics = Metrics::new();
        metrics.record(&metric(MetricName::ReducerErrorTotal, "slice", 2));
        let json = serde_json::to_value(metrics.snapshot()).unwrap();
        assert_eq!(json["counters"][0]["name"], "reducer_error_total");
        assert_eq!(json["counters"][0]["labels"]["subject"], "slice");
        assert_eq!(json["counters"][0]["value"], 2);
    }

    #[test]
    fn a_gauge_keeps_its_last_value_and_a_label_without_value_is_left_out() {
        let metrics = Metrics::new();
        for tokens in [700, 90] {
            metrics.add(MetricId::ContextRemaining, &["main", "", "gpt-5"], tokens);
        }
        let gauges = metrics.snapshot().gauges;
        assert_eq!(gauges.len(), 1);
        assert_eq!(gauges[0].value, 90);
        assert_eq!(gauges[0].labels.keys().copied().collect::<Vec<_>>(), ["model", "target"]);
    }
}
