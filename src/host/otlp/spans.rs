//! Spans on their way to a collector.

use std::sync::{Arc, OnceLock};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prost::Message;
use tokio::runtime::Handle;

use super::collector::Collector;

/// Sends the spans that the SDK has collected.
#[derive(Debug)]
pub(super) struct CollectorSpans {
    collector: Arc<Collector>,
    resource: ResourceAttributesWithSchema,
    /// Where requests are made: the SDK's own thread is no place for them.
    runtime: Arc<OnceLock<Handle>>,
}

impl CollectorSpans {
    pub(super) fn new(collector: Collector, runtime: Arc<OnceLock<Handle>>) -> Self {
        Self { collector: Arc::new(collector), resource: ResourceAttributesWithSchema::default(), runtime }
    }
}

impl SpanExporter for CollectorSpans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let failed = |why: String| OTelSdkError::InternalFailure(why);
        let runtime = self.runtime.get().ok_or_else(|| failed("there is no tokio runtime".to_owned()))?;
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let message = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let collector = Arc::clone(&self.collector);
        let sent = runtime.spawn(async move { collector.send(message).await }).await;
        sent.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}
