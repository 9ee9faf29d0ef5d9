//! Metrics in the messages of OTLP: the same as in Prometheus' text, and those of OpenTelemetry's conventions under its names.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

use super::{HistogramSnapshot, LabelSet, MetricId, MetricUnit, MetricsSnapshot};

/// From when to when values were counted, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(in crate::host) struct CountedTime {
    pub(in crate::host) start: u64,
    pub(in crate::host) end: u64,
}

/// The metrics of a snapshot. What grows has been added up since `start`.
pub(in crate::host) fn exported(snapshot: &MetricsSnapshot, time: CountedTime) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for counter in &snapshot.counters {
        let point = number(counter.name, &counter.labels, counter.value, time);
        let data = data_of(&mut metrics, counter.name, || {
            Data::Sum(Sum {
                data_points: Vec::new(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            })
        });
        if let Some(Data::Sum(sum)) = data {
            sum.data_points.push(point);
        }
    }
    for gauge in &snapshot.gauges {
        let point = number(gauge.name, &gauge.labels, gauge.value, time);
        let data = data_of(&mut metrics, gauge.name, || Data::Gauge(Gauge::default()));
        if let Some(Data::Gauge(gauge)) = data {
            gauge.data_points.push(point);
        }
    }
    for histogram in &snapshot.histograms {
        let data = data_of(&mut metrics, histogram.name, || {
            Data::Histogram(Histogram { data_points: Vec::new(), aggregation_temporality: CUMULATIVE })
        });
        if let Some(Data::Histogram(all)) = data {
            all.data_points.push(distribution(histogram, time));
        }
    }
    metrics
}

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// The points of a metric: snapshots have those of one after each other.
fn data_of(metrics: &mut Vec<Metric>, id: MetricId, new: impl FnOnce() -> Data) -> Option<&mut Data> {
    if metrics.last().is_none_or(|last| last.name != name(id)) {
        let (description, unit) = (id.definition().help.to_owned(), unit(id).to_owned());
        metrics.push(Metric {
            name: name(id).to_owned(),
            description,
            unit,
            metadata: Vec::new(),
            data: Some(new()),
        });
    }
    metrics.last_mut()?.data.as_mut()
}

fn number(id: MetricId, labels: &LabelSet, value: u64, time: CountedTime) -> NumberDataPoint {
    let value = match id.unit() {
        MetricUnit::Number => Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX)),
        MetricUnit::Nanoseconds | MetricUnit::Picodollars => Value::AsDouble(shown(id, value)),
    };
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: time.start,
        time_unix_nano: time.end,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

fn distribution(histogram: &HistogramSnapshot, time: CountedTime) -> HistogramDataPoint {
    let HistogramSnapshot { name, labels, count, sum, min, max, buckets, .. } = histogram;
    // Each bucket has what is not in those before it, and one more what is above all bounds.
    let up_to = buckets.iter().map(|bucket| bucket.count).chain([*count]);
    let below = [0].into_iter().chain(buckets.iter().map(|bucket| bucket.count));
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: time.start,
        time_unix_nano: time.end,
        count: *count,
        sum: Some(shown(*name, *sum)),
        bucket_counts: up_to.zip(below).map(|(up_to, below)| up_to.saturating_sub(below)).collect(),
        explicit_bounds: buckets.iter().map(|bucket| shown(*name, bucket.le)).collect(),
        min: Some(shown(*name, *min)),
        max: Some(shown(*name, *max)),
        ..HistogramDataPoint::default()
    }
}

/// A value in the unit that it is exported in.
#[expect(clippy::cast_precision_loss, reason = "OTLP has no other numbers with decimals")]
fn shown(id: MetricId, value: u64) -> f64 {
    value as f64 / 10_f64.powi(i32::try_from(id.definition().decimals).unwrap_or(i32::MAX))
}

fn attributes(labels: &LabelSet) -> Vec<KeyValue> {
    let text = |text: &String| AnyValue { value: Some(any_value::Value::StringValue(text.clone())) };
    let labels = labels.iter();
    labels
        .map(|(label, value)| KeyValue {
            key: attribute(label).to_owned(),
            value: Some(text(value)),
            ..KeyValue::default()
        })
        .collect()
}

/// What OpenTelemetry's conventions call it, if they know it; else its name in Prometheus' text.
const fn name(id: MetricId) -> &'static str {
    match id {
        MetricId::GenAiOperationDuration => "gen_ai.client.operation.duration",
        MetricId::GenAiTokenUsage => "gen_ai.client.token.usage",
        MetricId::GenAiToolDuration => "gen_ai.execute_tool.duration",
        other => other.name(),
    }
}

/// The same for a label.
fn attribute(label: &'static str) -> &'static str {
    match label {
        "error_type" => "error.type",
        "gen_ai_operation_name" => "gen_ai.operation.name",
        "gen_ai_provider_name" => "gen_ai.provider.name",
        "gen_ai_request_model" => "gen_ai.request.model",
        "gen_ai_token_type" => "gen_ai.token.type",
        "gen_ai_tool_name" => "gen_ai.tool.name",
        other => other,
    }
}

/// The unit, in the case-sensitive form of UCUM.
fn unit(id: MetricId) -> &'static str {
    let MetricUnit::Number = id.unit() else {
        return match (id.unit(), id.definition().decimals) {
            (MetricUnit::Picodollars, _) => "USD",
            (_, 6) => "ms",
            _ => "s",
        };
    };
    match id {
        MetricId::LlmBytesIn | MetricId::LlmBytesOut | MetricId::ToolBytesIn | MetricId::ToolBytesOut => "By",
        MetricId::GenAiTokenUsage
        | MetricId::LlmPromptTokens
        | MetricId::LlmCompletionTokens
        | MetricId::LlmCacheReadTokens
        | MetricId::LlmCacheWriteTokens
        | MetricId::ContextRemaining => "{token}",
        _ => "1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Metrics;

    #[test]
    fn every_metric_has_one_name_and_the_unit_of_it() {
        let mut names: Vec<&str> = MetricId::ALL.iter().copied().map(name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MetricId::ALL.len());
        for id in MetricId::ALL {
            let (shown, unit) = (id.name(), unit(*id));
            assert_eq!(unit == "ms", shown.ends_with("_ms"), "{shown}");
            assert_eq!(unit == "s", shown.ends_with("_seconds"), "{shown}");
            assert_eq!(unit == "By", shown.contains("_bytes_"), "{shown}");
            assert_eq!(
                unit == "{token}",
                shown.contains("_tokens") || shown.contains("token_usage"),
                "{shown}"
            );
            assert!(id.labels().iter().all(|label| !attribute(label).starts_with("gen_ai_")), "{shown}");
        }
    }

    #[test]
    fn a_value_is_in_one_bucket_and_in_its_unit() {
        let metrics = Metrics::new();
        for ms in [5, 20, 400_000] {
            metrics.add(MetricId::GenAiToolDuration, &["search", ""], ms * 1_000_000);
        }
        metrics.add(MetricId::LlmCost, &["main", "", ""], 2_500_000_000_000);
        let exported = exported(&metrics.snapshot(), CountedTime { start: 1, end: 2 });
        let names: Vec<&str> = exported.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["ai_agent_llm_cost_usd_total", "gen_ai.execute_tool.duration"]);
        let Some(Data::Sum(cost)) = &exported[0].data else { panic!("{exported:?}") };
        assert_eq!(cost.data_points[0].value, Some(Value::AsDouble(2.5)));
        let Some(Data::Histogram(all)) = &exported[1].data else { panic!("{exported:?}") };
        let point = &all.data_points[0];
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), 3);
        assert_eq!(
            (point.bucket_counts[0], point.bucket_counts[1], point.bucket_counts.last()),
            (1, 1, Some(&1))
        );
        assert_eq!((point.count, point.explicit_bounds[0]), (3, 0.01));
        assert_eq!(point.attributes[0].key, "gen_ai.tool.name");
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
    }
}
