//! Metrics in Prometheus' text format.

use std::fmt::{self, Write as _};

use super::{CounterSnapshot, HistogramSnapshot, MetricsSnapshot};
use crate::engine::MetricName;

/// The exposition of `snapshot`.
pub(super) fn render(snapshot: &MetricsSnapshot) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut text, snapshot);
    text
}

fn write(text: &mut String, snapshot: &MetricsSnapshot) -> fmt::Result {
    let mut last = None;
    for CounterSnapshot { name, subject, value } in &snapshot.counters {
        header(text, &mut last, *name, "counter")?;
        writeln!(text, "{}{{subject=\"{}\"}} {value}", name.name(), Escaped(subject))?;
    }
    for histogram in &snapshot.histograms {
        header(text, &mut last, histogram.name, "histogram")?;
        write_histogram(text, histogram)?;
    }
    Ok(())
}

fn write_histogram(text: &mut String, histogram: &HistogramSnapshot) -> fmt::Result {
    let (name, subject) = (histogram.name.name(), Escaped(&histogram.subject));
    let unit = Unit::of(histogram.name);
    for bucket in &histogram.buckets {
        let le = unit.of_value(bucket.le);
        writeln!(text, "{name}_bucket{{subject=\"{subject}\",le=\"{le}\"}} {}", bucket.count)?;
    }
    writeln!(text, "{name}_bucket{{subject=\"{subject}\",le=\"+Inf\"}} {}", histogram.count)?;
    writeln!(text, "{name}_sum{{subject=\"{subject}\"}} {}", unit.of_value(histogram.sum))?;
    writeln!(text, "{name}_count{{subject=\"{subject}\"}} {}", histogram.count)
}

/// Before the first line of each metric.
fn header(text: &mut String, last: &mut Option<MetricName>, name: MetricName, kind: &str) -> fmt::Result {
    if last.replace(name) == Some(name) {
        return Ok(());
    }
    let help = match name {
        MetricName::ValidationRetryTotal => "Retryable failures of validation.",
        MetricName::ReducerErrorTotal => "Reducers that failed.",
        MetricName::BudgetExhaustedTotal => "Ends of attempts because the retry budget was used up.",
        MetricName::RetryDelaySeconds => "Delays before a next attempt.",
        MetricName::RetryAttempts => "Attempts that a call, turn or report took in the end.",
    };
    let name = name.name();
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// What the values of a metric are exported in.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Number,
}

impl Unit {
    fn of(name: MetricName) -> Self {
        match name {
            MetricName::RetryDelaySeconds => Self::Seconds,
            MetricName::ValidationRetryTotal
            | MetricName::ReducerErrorTotal
            | MetricName::BudgetExhaustedTotal
            | MetricName::RetryAttempts => Self::Number,
        }
    }

    fn of_value(self, value: u64) -> String {
        match self {
            Self::Number => value.to_string(),
            Self::Seconds => {
                let digits = format!("{}.{:09}", value / 1_000_000_000, value % 1_000_000_000);
                digits.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        }
    }
}

/// The value of a label.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
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
    use crate::engine::Metric;
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
        insta::assert_snapshot!(metrics.prometheus());
    }
}
