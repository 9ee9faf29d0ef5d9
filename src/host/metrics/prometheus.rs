//! Metrics in Prometheus' text format.

use std::fmt::{self, Write as _};

use super::meter::MetricKind;
use super::{CounterSnapshot, GaugeSnapshot, HistogramSnapshot, LabelSet, MetricId, MetricsSnapshot};

/// The exposition of `snapshot`.
pub(super) fn render(snapshot: &MetricsSnapshot) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut text, snapshot);
    text
}

fn write(text: &mut String, snapshot: &MetricsSnapshot) -> fmt::Result {
    let mut last = None;
    for CounterSnapshot { name, labels, value, .. } in &snapshot.counters {
        header(text, &mut last, *name)?;
        writeln!(text, "{}{} {}", name.name(), BracedLabels(labels, None), ShownNumber(*name, *value))?;
    }
    for GaugeSnapshot { name, labels, value, .. } in &snapshot.gauges {
        header(text, &mut last, *name)?;
        writeln!(text, "{}{} {}", name.name(), BracedLabels(labels, None), ShownNumber(*name, *value))?;
    }
    for histogram in &snapshot.histograms {
        header(text, &mut last, histogram.name)?;
        write_histogram(text, histogram)?;
    }
    Ok(())
}

fn write_histogram(text: &mut String, histogram: &HistogramSnapshot) -> fmt::Result {
    let HistogramSnapshot { name: meter, labels, count, sum, .. } = histogram;
    let name = meter.name();
    for bucket in &histogram.buckets {
        let le = ShownNumber(*meter, bucket.le).to_string();
        writeln!(text, "{name}_bucket{} {}", BracedLabels(labels, Some(&le)), bucket.count)?;
    }
    writeln!(text, "{name}_bucket{} {count}", BracedLabels(labels, Some("+Inf")))?;
    writeln!(text, "{name}_sum{} {}", BracedLabels(labels, None), ShownNumber(*meter, *sum))?;
    writeln!(text, "{name}_count{} {count}", BracedLabels(labels, None))
}

/// Before the first line of each metric.
fn header(text: &mut String, last: &mut Option<MetricId>, meter: MetricId) -> fmt::Result {
    if last.replace(meter) == Some(meter) {
        return Ok(());
    }
    let definition = meter.definition();
    let (name, help) = (definition.name, definition.help);
    let kind = match definition.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram(_) => "histogram",
    };
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// A value of a metric, in the unit it is shown in. Exact: no float comes near it.
struct ShownNumber(MetricId, u64);

impl fmt::Display for ShownNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(meter, value) = self;
        let decimals = meter.definition().decimals;
        let one = 10_u64.pow(decimals);
        write!(f, "{}", value / one)?;
        let rest = value % one;
        if rest > 0 {
            let digits = format!("{rest:0width$}", width = decimals as usize);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// Labels, and the upper bound of a bucket after them.
struct BracedLabels<'a>(&'a LabelSet, Option<&'a str>);

impl fmt::Display for BracedLabels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(labels, le) = self;
        let labels = labels.iter().map(|(name, value)| (*name, value.as_str()));
        for (number, (name, value)) in labels.chain(le.map(|le| ("le", le))).enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            write!(f, "{before}{name}=\"{}\"", EscapedLabel(value))?;
        }
        let any = le.is_some() || !self.0.is_empty();
        if any { f.write_str("}") } else { Ok(()) }
    }
}

/// The value of a label.
struct EscapedLabel<'a>(&'a str);

impl fmt::Display for EscapedLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Metric, MetricName};
    use crate::host::Metrics;

    #[test]
    fn the_exposition() {
        let metrics = Metrics::new();
        for (name, subject, value) in [
            (MetricName::ValidationRetryTotal, "tool search", 3),
            (MetricName::ValidationRetryTotal, "a \"quoted\\\nname\"", 1),
            (MetricName::RetryDelaySeconds, "model main", 1_500_000_000),
            (MetricName::RetryDelaySeconds, "model main", 700_000_000_000),
            (MetricName::RetryAttempts, "output", 2),
        ] {
            metrics.record(&Metric { name, subject: subject.to_owned(), value });
        }
        metrics.add(MetricId::LlmCost, &["main", "openai", "gpt-5"], 1_250_000_000_007);
        metrics.add(MetricId::LlmLatency, &["main", "openai", "gpt-5", "success"], 12_500_000);
        metrics.add(MetricId::ContextRemaining, &["main", "openai", "gpt-5"], 1200);
        metrics.add(MetricId::FinalReportTurns, &[], 4);
        insta::assert_snapshot!(metrics.prometheus());
    }
}
