//! Traces and metrics for a collector of OpenTelemetry, over OTLP as `http/protobuf`.
//!
//! The environment says where they go, by the variables that OpenTelemetry gives all programs; `docs/telemetry.md` lists those that
//! are read. Where it names no collector nothing is exported, and nothing is paid for it.
//!
//! ```
//! use std::sync::Arc;
//! use tracing_subscriber::layer::SubscriberExt;
//! use unfazed::host::otlp::Otlp;
//! use unfazed::host::{Guard, ToolError};
//! use unfazed::policy::Policy;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let otlp = Otlp::from_env()?;
//! // With whatever else the program subscribes to; `init()` in its place does so for the whole process.
//! let subscriber = tracing_subscriber::registry().with(otlp.layer());
//! let _subscribed = tracing::subscriber::set_default(subscriber);
//!
//! let guard = Guard::new(Policy::builtin());
//! let counted = guard.clone();
//! otlp.export_metrics(move || counted.metrics());
//! guard.tool("search").call((), |(), _| async { Ok::<_, ToolError>("found") }).await?;
//!
//! // What is not exported yet is now, unless the collector takes longer than a second.
//! otlp.end().await;
//! # Ok(())
//! # }
//! ```

mod collector;
mod figures;
mod settings;
mod spans;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, Key};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

pub use self::settings::OtlpError;

use self::collector::{Collector, CollectorReach, LATE};
use self::figures::{CollectorFigures, MetricsSource};
use self::settings::OtlpSettings;
use self::spans::CollectorSpans;
use super::metrics::MetricsSnapshot;
use super::telemetry::spans::TARGET;

/// Who makes the spans and metrics.
const SCOPE: &str = "unfazed";
/// The longest that the end waits for the collector.
const LAST: Duration = Duration::from_secs(1);

/// Exports traces and metrics.
pub struct Otlp {
    spans: Option<SdkTracerProvider>,
    figures: Option<Arc<CollectorFigures>>,
    /// The metrics that are exported, and the task that does so.
    source: Mutex<Option<(MetricsSource, tokio::task::AbortHandle)>>,
    interval: Duration,
    reach: Arc<CollectorReach>,
    runtime: Arc<OnceLock<Handle>>,
}

impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (traces, metrics) = (self.spans.is_some(), self.figures.is_some());
        f.debug_struct("Otlp").field("traces", &traces).field("metrics", &metrics).finish_non_exhaustive()
    }
}

impl Otlp {
    /// As the environment says. Requests are made on the tokio runtime that this, or [`export_metrics`](Self::export_metrics), is
    /// called in.
    ///
    /// # Errors
    /// A variable cannot be read, or asks for what is not here.
    pub fn from_env() -> Result<Self, OtlpError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The same, with the variables that say where telemetry goes from elsewhere than the environment. Which traces are sampled, who
    /// exports, and how many spans are sent at once is the environment's in any case.
    ///
    /// # Errors
    /// Those of [`from_env`](Self::from_env).
    pub fn from_variables(find: impl Fn(&str) -> Option<String>) -> Result<Self, OtlpError> {
        let OtlpSettings { traces, metrics, interval } = OtlpSettings::read(&find)?;
        let (reach, runtime) = (Arc::new(CollectorReach::default()), Arc::new(OnceLock::new()));
        let collector = |to| Collector::new(to, Arc::clone(&reach));
        let traces = traces.map(collector).transpose()?;
        let metrics = metrics.map(collector).transpose()?;
        let resource = if traces.is_some() || metrics.is_some() {
            resource()
        } else {
            Resource::builder_empty().build()
        };
        let figures = metrics.map(|collector| Arc::new(CollectorFigures::new(collector, &resource)));
        let spans = traces.map(|collector| {
            let spans = CollectorSpans::new(collector, Arc::clone(&runtime));
            SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource).build()
        });
        let otlp = Self { spans, figures, source: Mutex::default(), interval, reach, runtime };
        otlp.here();
        Ok(otlp)
    }

    /// What of the environment is not obeyed, and what to write there: an unknown sampler of traces, if traces are exported.
    pub fn ignored(&self) -> Option<OtlpError> {
        self.spans.as_ref()?;
        settings::check_sampler(&|name| std::env::var(name).ok()).err()
    }

    /// Whether anything is exported.
    pub const fn is_on(&self) -> bool {
        self.spans.is_some() || self.figures.is_some()
    }

    /// What a subscriber of `tracing` needs for traces to be exported; `None`: none are.
    ///
    /// Logs need not have the spans that it takes: they are at level `debug` under the target `unfazed::gen_ai`.
    pub fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let scope = InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.spans.as_ref()?.tracer_with_scope(scope))
            // What conventions do not know is left out.
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false);
        let ours = Targets::new().with_target(TARGET, LevelFilter::DEBUG);
        Some(layer.with_filter(ours).boxed())
    }

    /// Exports the metrics that `snapshot` finds, from time to time and at the end; in the place of others, if there were. Must be called in
    /// a tokio runtime.
    pub fn export_metrics(&self, snapshot: impl Fn() -> MetricsSnapshot + Send + Sync + 'static) {
        self.here();
        let Some((figures, runtime)) = self.figures.as_ref().zip(self.runtime.get()) else { return };
        let source: MetricsSource = Arc::new(snapshot);
        let keeping = runtime.spawn(Arc::clone(figures).keep(Arc::clone(&source), self.interval));
        let mut known = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, before)) = known.replace((source, keeping.abort_handle())) {
            before.abort();
        }
    }

    /// Exports what is left. A collector that is late is not waited for longer than a second.
    pub async fn end(self) {
        self.reach.end(LAST);
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        let figures = async {
            if let Some(((source, keeping), figures)) = source.zip(self.figures.as_ref()) {
                keeping.abort();
                figures.send(&source).await;
            }
        };
        let spans = async {
            // The SDK waits on the thread that asks for it.
            if let Some(spans) = self.spans {
                drop(tokio::task::spawn_blocking(move || spans.shutdown_with_timeout(LAST)).await);
            }
        };
        if tokio::time::timeout(LAST, futures_util::future::join(figures, spans)).await.is_err() {
            self.reach.is_away(LATE);
        }
    }

    /// Takes the runtime that it is called in for requests, if there is none yet.
    fn here(&self) {
        if let Ok(handle) = Handle::try_current() {
            self.runtime.get_or_init(|| handle);
        }
    }
}

/// Who exports: as the environment says, or `unfazed`.
fn resource() -> Resource {
    let resource = Resource::builder().build();
    let named = resource
        .get(&Key::new("service.name"))
        .is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if named { resource } else { Resource::builder().with_service_name(SCOPE).build() }
}
