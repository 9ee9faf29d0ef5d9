//! What is done about a failure of some class, and which rules say so.

use core::fmt;

use serde_json::{Value, json};

use super::render::{LONGEST, layer, short};
use super::{LayerContribution, PolicyExplanation, RetryDelays};
use crate::policy::{ErrorClass, ErrorRow, FailureEvidence, LayerKind, Origin, Policy, RetryPolicy};
use crate::text::{Place, columns, padded};
use crate::time::Nanos;

/// What is done about a failure of some class.
#[derive(Clone, Debug)]
pub struct ErrorExplanation {
    /// Whose failure it is: ``tool `search` ``.
    pub subject: String,
    /// The class.
    pub class: ErrorClass,
    /// The row of the table that tells the class, and where it is written; `None`: the class was given.
    pub row: Option<(String, Place)>,
    /// What is done.
    pub action: ErrorAction,
    /// The rules that say so; the first decides.
    pub reasons: Vec<PlacedRule>,
    /// What is done once before the rules count, and the rule that says so.
    pub cure: Option<(RequestCure, PlacedRule)>,
    /// The least wait after the first attempt, where a wait is asked for.
    pub first_wait: Option<Nanos>,
    /// What is done when there is no further attempt, in words.
    pub then: &'static str,
    /// What is done if the run may have had side effects, in words; `None`: that makes no difference.
    pub if_acted: Option<String>,
    /// The waits, and the worst case; `None`: there is no further attempt.
    pub(crate) delays: Option<RetryDelays>,
    /// Layers that hold for some calls only, of which none is counted in: their conditions, and where each is written.
    pub conditional: Vec<(String, Place)>,
}

/// What is done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorAction {
    /// It is tried again.
    Retried,
    /// It is tried again if the tool certainly did not start, or says itself that it may run twice.
    RetriedIfHarmless,
    /// It is tried again if the tool certainly did not start.
    RetriedIfNotStarted,
    /// The model learns what is wrong, and asked again.
    Corrected,
    /// The request itself is at fault: it is not sent again as it is, whatever `retry_on` says.
    NotAsItIs,
    /// It is not tried again.
    NotRetried,
    /// It is never tried again, whatever `retry_on` says.
    NeverRetried,
}

/// What is done once about a request that a provider refused, before the rules of its class count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestCure {
    /// The conversation is reduced.
    Reduced,
    /// The history is repaired.
    Repaired,
}

/// A rule with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedRule {
    /// The rule: `retry.max_attempts`.
    pub path: String,
    /// What it says: `= 3`, `holds timeout`.
    pub says: String,
    /// The layer.
    pub layer: String,
    /// Where it is written.
    pub at: Place,
}

impl Policy {
    /// The row of the error table that tells the class of a failure; the built-in table has one for each.
    pub fn error_row(&self, evidence: &FailureEvidence<'_>) -> Option<(&ErrorRow, Place)> {
        let row = self.errors().classify(evidence)?;
        Some((row, self.place(row.origin)))
    }
}

impl PlacedRule {
    /// The rule of that path, as it was set there.
    pub(crate) fn of(policy: &Policy, path: &str, origin: Origin, says: String) -> Self {
        Self { path: path.to_owned(), says, layer: origin.scope.to_string(), at: policy.place(origin) }
    }
}

impl PolicyExplanation {
    /// What is done about a failure of that class.
    pub fn on_error(&self, class: ErrorClass) -> ErrorExplanation {
        let (action, reasons) = self.decision(class);
        // Corrections are turns of the model, which the worst case of a call does not count.
        let runs = match action {
            ErrorAction::NotRetried | ErrorAction::NeverRetried | ErrorAction::NotAsItIs => false,
            ErrorAction::Corrected => !self.is_about("tools"),
            _ => true,
        };
        ErrorExplanation {
            subject: self.subject.clone(),
            class,
            row: None,
            cure: None,
            first_wait: None,
            action,
            reasons,
            then: self.then(action, class),
            if_acted: action.minds_effects().then(|| self.if_acted()),
            delays: self
                .rules
                .as_ref()
                .filter(|_| runs)
                .map(|(retry, work)| RetryDelays::for_class(retry, *work, class)),
            conditional: self
                .conditional
                .iter()
                .filter(|layer| layer.holds.is_none())
                .map(|layer| (layer.when.clone(), layer.at.clone()))
                .collect(),
        }
    }

    /// What is done about a failure whose class that row of the error table tells.
    pub fn on_row(&self, row: &ErrorRow, at: Place) -> ErrorExplanation {
        let mut told = self.on_error(row.class);
        // A class that is not retried anyway, and one that the model corrects, need no other reason.
        let sent_again = told.action.runs_again();
        if row.request_at_fault && sent_again {
            told.action = ErrorAction::NotAsItIs;
            told.then = self.then(told.action, row.class);
            told.if_acted = None;
            told.delays = None;
            let says = "= true".to_owned();
            let path = "errors.request_at_fault".to_owned();
            let layer = row.origin.scope.to_string();
            told.reasons = self.stops(row.class, Some(PlacedRule { path, says, layer, at: at.clone() }));
        } else if let Some(wait) = row.wait.filter(|_| sent_again) {
            let says = format!("= {wait}, where the server does not say how long to wait");
            let (path, layer) = ("errors.wait".to_owned(), row.origin.scope.to_string());
            told.reasons.push(PlacedRule { path, says, layer, at: at.clone() });
        }
        ErrorExplanation { row: Some((row.matcher(), at)), ..told }
    }

    /// The same where the engine grants no attempt after the first one, for that reason. `elsewhere`: another model may be
    /// asked.
    pub(crate) fn on_stop(
        &self,
        told: ErrorExplanation,
        reason: Option<PlacedRule>,
        elsewhere: bool,
    ) -> ErrorExplanation {
        let (class, action) = (told.class, ErrorAction::NotRetried);
        let then = if elsewhere || !self.is_of_model() {
            self.then(action, class)
        } else {
            "no other model is called; `on_exhausted` decides"
        };
        let reasons = self.stops(class, reason);
        ErrorExplanation { action, then, reasons, if_acted: None, delays: None, ..told }
    }

    /// How failures are retried; `None`: the subject is not retried.
    pub(crate) fn retry(&self) -> Option<&RetryPolicy> {
        self.rules.as_ref().map(|(retry, _)| retry)
    }

    /// Whether it is about a model.
    pub(crate) fn is_of_model(&self) -> bool {
        self.is_about("models")
    }

    /// What is done about a class.
    pub(in crate::analysis) fn action(&self, class: ErrorClass) -> ErrorAction {
        self.decision(class).0
    }

    /// The same if there were attempts left after the first.
    pub(in crate::analysis) fn action_by_rules(&self, class: ErrorClass) -> ErrorAction {
        match self.action(class) {
            ErrorAction::NotRetried if self.is_retried(class) => ErrorAction::Retried,
            action => action,
        }
    }

    /// Where the rule is written that decides about a class.
    pub(in crate::analysis) fn deciding(&self, class: ErrorClass) -> Option<Place> {
        self.decision(class).1.into_iter().next().map(|reason| reason.at)
    }

    /// Whether a class is in the list of those that are retried, and nothing keeps it from being retried.
    fn is_retried(&self, class: ErrorClass) -> bool {
        self.holds("retry.retry_on", class)
            && !self.is("retry.enabled", &Value::Bool(false))
            && !self.is("retry.shadow", &Value::Bool(true))
    }

    /// In the order of the engine's checks.
    fn decision(&self, class: ErrorClass) -> (ErrorAction, Vec<PlacedRule>) {
        if self.is_never(class) {
            return (ErrorAction::NeverRetried, self.stops(class, self.list("retry.never_retry", class)));
        }
        if self.is("retry.enabled", &Value::Bool(false)) {
            return (ErrorAction::NotRetried, self.stops(class, self.value("retry.enabled")));
        }
        let listed = self.list("retry.retry_on", class);
        if !self.holds("retry.retry_on", class) {
            return (ErrorAction::NotRetried, self.stops(class, listed));
        }
        if self.is("retry.shadow", &Value::Bool(true)) {
            return (ErrorAction::NotRetried, self.stops(class, self.value("retry.shadow")));
        }
        let mut reasons: Vec<PlacedRule> = listed.into_iter().collect();
        let action = self.repeats(class);
        if action.minds_effects() {
            reasons.extend(["effect", "on_uncertain_effect"].into_iter().filter_map(|path| self.value(path)));
        }
        reasons.extend(self.own(class, "max_attempts"));
        let corrects = action == ErrorAction::Corrected || (self.is_of_model() && class.is_of_reply());
        if action != ErrorAction::NotRetried {
            let backoff = || self.own(class, "backoff");
            reasons.extend(if corrects { self.value("retry.correction_backoff") } else { backoff() });
        }
        reasons.extend(self.ends(class, self.together.clone()));
        (action, reasons)
    }

    /// What is done about a class that is retried.
    fn repeats(&self, class: ErrorClass) -> ErrorAction {
        let is_effect = |effect: &str| self.is("effect", &Value::from(effect));
        if self.once(class) {
            ErrorAction::NotRetried
        } else if self.is_about("output") || (self.is_about("tools") && corrected(class)) {
            ErrorAction::Corrected
        } else if is_effect("unknown") {
            ErrorAction::RetriedIfHarmless
        } else if is_effect("non_idempotent") {
            ErrorAction::RetriedIfNotStarted
        } else {
            ErrorAction::Retried
        }
    }

    /// What is done about a run that may have had side effects.
    fn if_acted(&self) -> String {
        let rule = self.get("on_uncertain_effect").map(|held| &held.value);
        let field = |name: &str| rule.and_then(|rule| rule.get(name)).and_then(Value::as_str);
        match (field("kind"), field("tool")) {
            (Some("ask"), _) => "a person is asked whether it may run again".to_owned(),
            (Some("verify"), Some(tool)) => {
                format!(
                    "`{tool}` is run to verify the effect; if the effect stays unknown, the model is informed"
                )
            }
            _ => "the model is informed".to_owned(),
        }
    }

    /// A class that is not retried. What a tool fails with is then reported to the model, whatever `on_exhausted` says.
    fn stops(&self, class: ErrorClass, reason: Option<PlacedRule>) -> Vec<PlacedRule> {
        let then = (!self.is_about("tools")).then(|| self.ends(class, None));
        reason.into_iter().chain(then.into_iter().flatten()).collect()
    }

    /// The rules for when there is no further attempt, with the one by which all models have the same attempts.
    fn ends(&self, class: ErrorClass, together: Option<PlacedRule>) -> impl Iterator<Item = PlacedRule> {
        let abort = self.list("no_fallback_on", class).filter(|_| self.holds("no_fallback_on", class));
        [abort, together, self.value("on_exhausted")].into_iter().flatten()
    }

    /// Of the loop of turns: the rule by which models are called in turns, if one does.
    pub(super) fn counts_together(&self) -> Option<PlacedRule> {
        let together = |said: &PlacedRule| ["= attempt", "= skip", "= rotate"].contains(&&*said.says);
        let advance = self.value("targets.fallback").filter(together)?;
        Some(PlacedRule { path: "turn.targets.fallback".to_owned(), ..advance })
    }

    /// What is done when there is no further attempt.
    fn then(&self, action: ErrorAction, class: ErrorClass) -> &'static str {
        let stops =
            matches!(action, ErrorAction::NotRetried | ErrorAction::NeverRetried | ErrorAction::NotAsItIs);
        if self.is_about("models") {
            return self.then_of_model(stops, class);
        }
        match stops {
            true if self.is_about("tools") && !self.once(class) => "the model is informed and continues",
            true => "`on_exhausted` decides",
            false => "after the last attempt `on_exhausted` decides",
        }
    }

    /// What is done when there is no further attempt at a model: what `engine/machine/model_turn/exhausted.rs` decides, in words.
    fn then_of_model(&self, stops: bool, class: ErrorClass) -> &'static str {
        if !stops && self.together.as_ref().is_some_and(|advance| advance.says == "= rotate") {
            return if self.holds("no_fallback_on", class) {
                "after the last attempt no other model is called; `on_exhausted` decides"
            } else {
                "after `turn.targets.attempts` of them, or rather than waiting longer than `fallback_after`, the next model of the agent is called; after the last one `on_exhausted` decides"
            };
        }
        let together = self.together.as_ref().filter(|advance| advance.says != "= rotate");
        let last = self.holds("no_fallback_on", class) || (together.is_some() && self.has_one(class));
        let rotates = together.is_some_and(|advance| advance.says == "= attempt");
        match (stops, last || (!stops && together.is_some() && !rotates)) {
            (true, true) => "no other model is called; `on_exhausted` decides",
            (true, false) => {
                "the next model of the agent is called; if there is none, `on_exhausted` decides"
            }
            (false, _) if rotates => {
                "each further attempt is at the next model of the agent; after the last one `on_exhausted` decides"
            }
            (false, true) => "after the last attempt no other model is called; `on_exhausted` decides",
            (false, false) => {
                "after the last attempt the next model of the agent is called; if there is none, `on_exhausted` decides"
            }
        }
    }

    fn is_about(&self, kind: &str) -> bool {
        self.path.first().is_some_and(|first| first == kind)
    }

    /// Whether a failure of a class leaves no other attempt.
    fn has_one(&self, class: ErrorClass) -> bool {
        self.own(class, "max_attempts").is_some_and(|own| own.says == "= 1")
    }

    /// Whether the first failure of a class that is retried uses up the attempts.
    fn once(&self, class: ErrorClass) -> bool {
        self.has_one(class) && self.is_retried(class) && !self.is_never(class)
    }

    fn is_never(&self, class: ErrorClass) -> bool {
        self.holds("retry.never_retry", class)
    }

    /// A rule of the class itself, or the one that holds for all.
    fn own(&self, class: ErrorClass, field: &str) -> Option<PlacedRule> {
        self.value(&format!("retry.by_class.{class}.{field}"))
            .or_else(|| self.value(&format!("retry.{field}")))
    }

    fn is(&self, path: &str, value: &Value) -> bool {
        self.get(path).is_some_and(|held| held.value == *value)
    }

    fn holds(&self, path: &str, class: ErrorClass) -> bool {
        self.get(path).is_some_and(|held| lists(&held.value, class))
    }

    fn value(&self, path: &str) -> Option<PlacedRule> {
        let held = self.get(path)?;
        let says = format!("= {}", short(&held.value, LONGEST));
        let won = held.contributions.iter().find(|said| said.won && said.set.is_some());
        let layer = match won {
            Some(won) if held.scope != LayerKind::Limit => layer(won),
            _ => held.scope.to_string(),
        };
        Some(PlacedRule { path: path.to_owned(), says, layer, at: held.at.clone() })
    }

    /// The layer that put the class into a list, or that left it out.
    fn list(&self, path: &str, class: ErrorClass) -> Option<PlacedRule> {
        let held = self.get(path)?;
        let says = if lists(&held.value, class) { "holds" } else { "does not hold" };
        let says = format!("{says} {class}");
        let before = held.capped_from.as_ref();
        if before.is_some_and(|before| lists(before, class) != lists(&held.value, class)) {
            let layer = held.scope.to_string();
            return Some(PlacedRule { path: path.to_owned(), says, layer, at: held.at.clone() });
        }
        let speaks = |said: &LayerContribution| match &said.set {
            Some(Value::Array(_)) => true,
            Some(edit) => {
                ["add", "remove"].iter().any(|key| edit.get(key).is_some_and(|list| lists(list, class)))
            }
            None => false,
        };
        let said = held.contributions.iter().find(|said| said.won && speaks(said))?;
        Some(PlacedRule { path: path.to_owned(), says, layer: layer(said), at: said.at.clone() })
    }
}

fn lists(list: &Value, class: ErrorClass) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|held| held == class.name()))
}

/// Whether the model has to try again, and not the tool.
const fn corrected(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall)
}

impl ErrorAction {
    /// Whether it depends on what the run has done to the world.
    const fn minds_effects(self) -> bool {
        matches!(self, Self::RetriedIfHarmless | Self::RetriedIfNotStarted)
    }

    /// Whether the same request or call is made again.
    pub const fn runs_again(self) -> bool {
        matches!(self, Self::Retried | Self::RetriedIfHarmless | Self::RetriedIfNotStarted)
    }

    /// In words.
    const fn words(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::RetriedIfHarmless => {
                "retried if that does no harm: it certainly did not start, or the tool says it may run twice"
            }
            Self::RetriedIfNotStarted => "retried if it certainly did not start",
            Self::Corrected => "corrected: the model learns what is wrong, and asked again",
            Self::NotAsItIs => {
                "the request itself is at fault: not sent again as it is, whatever `retry_on` says"
            }
            Self::NotRetried => "not retried",
            Self::NeverRetried => "never retried, whatever `retry_on` says",
        }
    }
}

impl RequestCure {
    /// In words.
    const fn words(self) -> &'static str {
        match self {
            Self::Reduced => "the conversation is reduced, and the request sent again",
            Self::Repaired => "the history is repaired, and the request sent again",
        }
    }
}

impl fmt::Display for ErrorExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {}", self.class, self.subject)?;
        if let Some((matcher, at)) = &self.row {
            writeln!(f, "  told by the row {}  {at}", short(&matcher.as_str().into(), LONGEST))?;
        }
        if let Some((cure, rule)) = &self.cure {
            writeln!(f, "  first, once: {}", cure.words())?;
            writeln!(f, "      {}  {}  {}  {}", rule.path, rule.says, rule.layer, rule.at)?;
        }
        let after = if self.cure.is_some() { "if it fails again: " } else { "" };
        writeln!(f, "  {after}{}; {}", self.action.words(), self.then)?;
        if let Some(wait) = self.first_wait {
            writeln!(f, "  the first wait is at least {}", wait.rounded())?;
        }
        if let Some(then) = &self.if_acted {
            writeln!(f, "  if it may have had side effects: {then}")?;
        }
        let width =
            |cell: fn(&PlacedRule) -> &str| self.reasons.iter().map(|r| columns(cell(r))).max().unwrap_or(0);
        let (paths, says, layers) = (width(|r| &r.path), width(|r| &r.says), width(|r| &r.layer));
        for PlacedRule { path, says: said, layer, at } in &self.reasons {
            let (said, layer) = (padded(said, says), padded(layer, layers));
            writeln!(f, "      {path:paths$}  {said}  {layer}  {at}")?;
        }
        if let Some(delays) = &self.delays {
            write!(f, "\n{delays}")?;
        }
        if !self.conditional.is_empty() {
            writeln!(f, "\n  all of it for calls that none of these layers holds for")?;
        }
        for (when, at) in &self.conditional {
            writeln!(f, "      when {when} ({at})")?;
        }
        Ok(())
    }
}

impl ErrorExplanation {
    /// For people.
    pub fn human(&self) -> String {
        self.to_string()
    }

    /// For machines. `format` counts up when a field is removed or changes its meaning.
    pub fn to_json(&self) -> Value {
        let reason = |reason: &PlacedRule| json!({"path": reason.path, "says": reason.says, "layer": reason.layer, "at": reason.at});
        json!({
            "format": 1,
            "subject": self.subject,
            "class": self.class,
            "row": self.row.as_ref().map(|(matcher, at)| json!({"matches": matcher, "at": at})),
            "cure": self.cure.as_ref().map(|(cure, rule)| json!({"does": cure, "rule": reason(rule)})),
            "first_wait": self.first_wait.map(|wait| wait.to_string()),
            "action": self.action,
            "then": self.then,
            "if_acted": self.if_acted,
            "reasons": self.reasons.iter().map(reason).collect::<Vec<_>>(),
            "delays": self.delays.as_ref().map(RetryDelays::to_json),
            "conditional": self.conditional.iter().map(|(when, at)| json!({"when": when, "at": at})).collect::<Vec<_>>(),
        })
    }
}
