//! Metrics on their way to a collector.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::Message;

use super::collector::Collector;
use crate::host::metrics::MetricsSnapshot;
use crate::host::metrics::otlp::{CountedTime, exported};

/// Where the metrics of the process are.
pub(super) type MetricsSource = Arc<dyn Fn() -> MetricsSnapshot + Send + Sync>;

/// Sends metrics as they are.
#[derive(Debug)]
pub(super) struct CollectorFigures {
    collector: Collector,
    resource: ResourceAttributesWithSchema,
    start: u64,
}

impl CollectorFigures {
    pub(super) fn new(collector: Collector, resource: &opentelemetry_sdk::Resource) -> Self {
        Self { collector, resource: resource.into(), start: now() }
    }

    /// Sends them again and again.
    pub(super) async fn keep(self: Arc<Self>, source: MetricsSource, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            self.send(&source).await;
        }
    }

    /// Sends them once. What does not arrive is in the next ones.
    pub(super) async fn send(&self, source: &MetricsSource) {
        let metrics = exported(&source(), CountedTime { start: self.start, end: now() });
        if metrics.is_empty() {
            return;
        }
        let scope = InstrumentationScope {
            name: super::SCOPE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }];
        let resource = Resource { attributes: self.resource.attributes.0.clone(), ..Resource::default() };
        let schema_url = self.resource.schema_url.clone().unwrap_or_default();
        let metrics = ResourceMetrics { resource: Some(resource), scope_metrics, schema_url };
        let message = ExportMetricsServiceRequest { resource_metrics: vec![metrics] }.encode_to_vec();
        // The collector has said so.
        drop(self.collector.send(message).await);
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
