//! From the name that a client asks for to the models that are asked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::answer::GatewayAnswer;
use super::board::{Decision, GatewayBoard, RequestFacts};
use super::endpoint::GatewayEndpoint;
use super::error::GatewayError;
use super::models::{GatewayModel, GuardedModels};
use super::quota::{BYTES_OF_A_TOKEN, KeyCharge, KeyLedger, KeyRefusal, KeyRules, SpentRecord};
use super::request::RequestBody;
use super::routes::{Route, RouteTable};
use super::sharing::GatewaySharing;
use super::status::{GatewayStatus, KeyStatus, TargetStatus};
use super::turn::{self, RelayedCall};
use crate::host::LivePolicy;
use crate::host::clock::Clock;
use crate::host::guard::{Guard, GuardConfig};
use crate::host::metrics::MetricsSnapshot;
use crate::host::model::front::GatewayDialect;
use crate::host::model::front::{FrontCall, Unconvertible};
use crate::host::model::relay::{RelayKind, passed_on};
use crate::host::reached::ReachedState;
#[cfg(feature = "otlp")]
use crate::host::telemetry::otel;
use crate::host::telemetry::spans;
use crate::policy::Selector;

/// Requests of any SDK, relayed to models under a policy.
pub(crate) struct Gateway {
    behind: Arc<GuardedModels>,
    routes: RouteTable,
    /// What keys have used.
    ledger: Arc<Mutex<KeyLedger>>,
    clock: Clock,
    board: Arc<GatewayBoard>,
    /// What it shares with other gateways, if it does.
    sharing: Option<GatewaySharing>,
}

/// A request of a client that may make it.
pub(crate) struct GatewayRequest<'a> {
    pub(crate) endpoint: GatewayEndpoint,
    /// The name of the client's key; empty: keys are not taken.
    pub(crate) client: &'a str,
    pub(crate) body: RequestBody,
    pub(crate) headers: &'a HeaderMap,
    /// Whether the client may use the route of that name.
    pub(crate) may: &'a (dyn Fn(&str) -> bool + Send + Sync),
}

/// Where a request goes.
struct RequestRoute {
    /// The name of its route.
    name: String,
    /// The models, in order of preference.
    targets: Vec<String>,
    /// The request for models that speak another dialect, if some of them do.
    front: Option<FrontCall>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("guard", &self.behind.guard)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway to these models. `policy` is one of [`gateway_policy`]. Must be made inside a tokio runtime.
    pub(crate) fn new(
        policy: LivePolicy,
        models: BTreeMap<String, GatewayModel>,
        routes: RouteTable,
        seed: u64,
    ) -> Self {
        let facts = models.iter().filter_map(|(name, model)| Some((name, model.facts.clone()?)));
        let board = Arc::new(GatewayBoard::new(models.keys()));
        let told = Arc::clone(&board);
        let config = GuardConfig::new(policy.clone()).targets(models.keys()).seed(seed);
        let config = config.on_attempt(move |attempt| told.attempt(attempt));
        let config = facts.fold(config, |config, (name, facts)| config.facts(name, facts));
        let behind = Arc::new(GuardedModels {
            guard: Guard::new(config),
            models,
            policy,
            declarations: Arc::default(),
            cut: CancellationToken::new(),
        });
        Self { behind, routes, ledger: Arc::default(), clock: Clock::system(), board, sharing: None }
    }

    /// Shares with the gateways of that name what keys use and what is found of providers. While `port` is away, each uses
    /// what it knows.
    #[must_use]
    pub(crate) fn share(mut self, port: ReachedState, name: &str) -> Self {
        let own = (&self.behind, &self.ledger);
        self.sharing = Some(GatewaySharing::new(port, name, own, self.clock));
        self
    }

    /// Shares with the other gateways, as long as it is polled.
    pub(crate) async fn keep_shared(self: Arc<Self>) {
        if let Some(sharing) = &self.sharing {
            sharing.keep().await;
        }
    }

    /// Tells the others what keys have used at last.
    pub(crate) async fn tell_used(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.quota.tell().await;
        }
    }

    /// Ends the answers in flight when it fires: each says so in its dialect.
    pub(crate) fn cut(&self) -> &CancellationToken {
        &self.behind.cut
    }

    /// The routes.
    pub(crate) const fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// What was counted so far.
    pub(crate) fn metrics(&self) -> MetricsSnapshot {
        self.behind.guard.metrics()
    }

    /// What happens in it now.
    pub(crate) fn status(&self) -> GatewayStatus {
        let (policy, view) = (self.behind.policy.current(), self.board.view());
        let target = |(name, model): (&String, &GatewayModel)| {
            let rules = policy.model(name);
            let standing = self.behind.guard.state(|state| state.model_standing(name, &rules, view.now));
            TargetStatus::of((name, model), (&policy, &rules), standing, &view)
        };
        let targets = self.behind.models.iter().map(target).collect();
        let keys = self.ledger().standings(view.now).iter().map(KeyStatus::of).collect();
        GatewayStatus::of(view, &policy, targets, keys)
    }

    /// Takes other limits of keys for the requests that come from now on.
    pub(crate) fn set_key_rules(&self, rules: KeyRules) {
        self.ledger().set_rules(rules);
    }

    /// Takes what keys have spent before.
    pub(crate) fn restore_spent(&self, record: SpentRecord) {
        match &self.sharing {
            Some(sharing) => sharing.quota.restore(record),
            None => self.ledger().restore(record),
        }
    }

    /// What of it has to survive the process, if that has changed since the last time.
    pub(crate) fn spent(&self) -> Option<SpentRecord> {
        match &self.sharing {
            Some(sharing) => sharing.quota.unshared(),
            None => self.ledger().changed(),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, KeyLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges a key with a request, if it has limits.
    async fn charge(&self, request: &GatewayRequest<'_>) -> Result<Option<KeyCharge>, KeyRefusal> {
        // As it is estimated elsewhere; what the provider says corrects it.
        let bytes = u64::try_from(request.body.bytes().len()).unwrap_or(u64::MAX);
        let (key, estimate) = (request.client, bytes.div_ceil(BYTES_OF_A_TOKEN));
        let since = match &self.sharing {
            Some(sharing) => sharing.quota.begin(key, estimate).await?,
            None => self.ledger().begin(key, estimate, self.clock.now())?,
        };
        Ok(since.map(|since| KeyCharge::new(&self.ledger, self.clock, key, (since, estimate))))
    }

    /// Answers a request. An answer that is dropped is cancelled, up to the model's server.
    pub(crate) async fn answer(&self, request: GatewayRequest<'_>) -> GatewayAnswer {
        let span = spans::request(request.endpoint.path, request.client);
        #[cfg(feature = "otlp")]
        otel::within(&span, &|name| Some(request.headers.get(name)?.to_str().ok()?.to_owned()));
        let dialect = request.endpoint.dialect;
        let answer = tokio::select! {
            biased;
            answer = self.answer_within(request).instrument(span.clone()) => answer,
            () = self.behind.cut.cancelled() => GatewayAnswer::cut_off(dialect),
        };
        spans::responded(&span, answer.status.as_u16());
        answer
    }

    /// A request was refused before it was read.
    pub(crate) fn turned_away(&self) {
        self.board.refused(None);
    }

    async fn answer_within(&self, request: GatewayRequest<'_>) -> GatewayAnswer {
        let RequestRoute { targets, front, name } = match self.route(&request) {
            Ok(route) => route,
            Err(error) => {
                self.board.refused(None);
                return GatewayAnswer::refused(request.endpoint.dialect, &error);
            }
        };
        let charge = match self.charge(&request).await {
            Ok(charge) => charge,
            Err(refusal) => {
                let now = self.clock.now();
                let model = shown(request.body.model());
                self.board.refused(Some(Decision::refused(request.client, model, &refusal, now)));
                return GatewayAnswer::over_limit(request.endpoint.dialect, &refusal, now);
            }
        };
        let GatewayRequest { endpoint, client, body, headers, .. } = request;
        let facts = RequestFacts {
            client: client.to_owned(),
            model: shown(body.model()),
            route: name,
            dialect: endpoint.dialect.name(),
            stream: body.stream(),
        };
        let ticket = GatewayBoard::open(&self.board, facts);
        let call = RelayedCall { endpoint, body, headers: passed_on(headers), targets, front };
        turn::relay(&self.behind, call, ticket, charge).await
    }

    /// Where the request goes.
    fn route(&self, request: &GatewayRequest<'_>) -> Result<RequestRoute, GatewayError> {
        let name = request.body.model();
        let route = self.routes.find(name, request.may).ok_or_else(|| self.no_route(request))?;
        let speaks = |model: &&String| {
            self.behind
                .models
                .get(*model)
                .is_some_and(|model| model.speaks.contains_key(&request.endpoint.dialect))
        };
        let own: Vec<String> = route.models.iter().filter(speaks).cloned().collect();
        let to =
            |targets, front| Ok(RequestRoute { targets, front, name: route.pattern.as_str().to_owned() });
        if own.len() == route.models.len() {
            return to(own, None);
        }
        match front(request) {
            Some(Ok(front)) => {
                let refused = |model: &&String| {
                    let speaks = self.behind.models.get(*model).map(|model| &model.speaks);
                    front.refused_by(speaks.and_then(|speaks| speaks.keys().next().copied()))
                };
                let takes = |model: &&String| own.contains(*model) || refused(model).is_none();
                let targets: Vec<String> = route.models.iter().filter(takes).cloned().collect();
                match route.models.iter().find_map(|model| refused(&model)) {
                    Some(error) if targets.is_empty() => Err(GatewayError::bad_request(error.to_string())),
                    _ => to(targets, Some(front)),
                }
            }
            // Who speaks the dialect can say it.
            _ if !own.is_empty() => to(own, None),
            Some(Err(error)) => Err(GatewayError::bad_request(error.to_string())),
            None => Err(self.other_dialect(request, route)),
        }
    }

    fn no_route(&self, request: &GatewayRequest<'_>) -> GatewayError {
        let known: Vec<&str> = self.routes.names(request.may).map(Selector::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("no route is named `{}`; there are: {known}", shown(request.body.model()));
        GatewayError::new(StatusCode::NOT_FOUND, "model_not_found", message)
    }

    fn other_dialect(&self, request: &GatewayRequest<'_>, route: &Route) -> GatewayError {
        let models = route.models.iter().filter_map(|model| self.behind.models.get(model));
        let mut spoken: Vec<GatewayDialect> = models.flat_map(|model| model.speaks.keys().copied()).collect();
        spoken.sort_unstable();
        spoken.dedup();
        let paths: Vec<&str> = spoken.into_iter().map(GatewayEndpoint::of_answers).collect();
        let message = format!(
            "the models of the route `{}` do not speak `{}`, and such requests are not converted; send them to {}",
            route.pattern.as_str(),
            request.endpoint.dialect.name(),
            if paths.is_empty() { "another route".to_owned() } else { paths.join(" or ") },
        );
        GatewayError::new(StatusCode::BAD_REQUEST, "dialect_not_served", message)
    }
}

/// A name that a client has made up, as far as it is shown.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

/// The request for models that speak another dialect; `None`: such requests are not converted.
fn front(request: &GatewayRequest<'_>) -> Option<Result<FrontCall, Unconvertible>> {
    let GatewayEndpoint { dialect, kind, .. } = request.endpoint;
    if kind != RelayKind::Answer {
        return None;
    }
    Some(request.body.front(dialect))
}
