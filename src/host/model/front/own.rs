//! Options that every request may have and that some servers refuse all the same. What was refused is left out, and named, of the
//! requests that follow.

use serde_json::{Map, Value};

use super::GatewayDialect;
use super::fields::LeftOut;
use super::request::{AnswerForm, FrontRequest};
use crate::host::model::dropped::{place_at, remove};
use crate::host::model::refusals::{RefusedOptions, SentOption};

/// An option of the neutral form.
#[derive(Clone, Copy)]
enum OwnOption {
    TopP,
    Stop,
    OneCall,
    Form,
}

/// An option, where a body has it, and what refusals call it there.
type OwnPlace = (OwnOption, &'static [&'static str], &'static [&'static str]);

const TOP_P: OwnPlace = (OwnOption::TopP, &["top_p"], &["top_p"]);
const ONE_CALL: OwnPlace = (OwnOption::OneCall, &["parallel_tool_calls"], &["parallel_tool_calls"]);

/// Where that dialect has them.
const fn places(dialect: Option<GatewayDialect>) -> &'static [OwnPlace] {
    match dialect {
        Some(GatewayDialect::Chat) => &[
            TOP_P,
            ONE_CALL,
            (OwnOption::Stop, &["stop"], &["stop"]),
            (OwnOption::Form, &["response_format"], &["response_format"]),
        ],
        Some(GatewayDialect::Responses) => {
            &[TOP_P, ONE_CALL, (OwnOption::Form, &["text.format"], &["text.format"])]
        }
        Some(GatewayDialect::Messages) => &[
            TOP_P,
            (OwnOption::Stop, &["stop_sequences"], &["stop_sequences"]),
            // "'claude-3-haiku-20240307' does not support output format."
            (OwnOption::Form, &["output_config.format"], &["output_config.format", "output_format"]),
        ],
        Some(GatewayDialect::Gemini) => &[
            (OwnOption::TopP, &["generationConfig.topP"], &["topP"]),
            (OwnOption::Stop, &["generationConfig.stopSequences"], &["stopSequences"]),
            (
                OwnOption::Form,
                &["generationConfig.responseMimeType", "generationConfig.responseJsonSchema"],
                // "JSON mode is not enabled for models/gemma-3-27b-it".
                &["responseMimeType", "responseJsonSchema", "json_mode"],
            ),
        ],
        // The one that no client speaks is Bedrock's.
        None => &[
            (OwnOption::TopP, &["inferenceConfig.topP"], &["topP", "top_p"]),
            (OwnOption::Stop, &["inferenceConfig.stopSequences"], &["stopSequences", "stop_sequences"]),
            (
                OwnOption::Form,
                &["outputConfig.textFormat"],
                &["textFormat", "outputConfig", "output_config.format"],
            ),
        ],
    }
}

impl FrontRequest {
    /// Takes those out of a body that the server does not take, and names them. Says which are sent. `tempered`: whether the body
    /// says a temperature.
    pub(super) fn leave_out_refused(
        &self,
        (dialect, tempered): (Option<GatewayDialect>, bool),
        refused: &RefusedOptions,
        body: &mut Map<String, Value>,
        left_out: &mut LeftOut,
    ) -> Vec<SentOption> {
        let mut all = Vec::new();
        for (option, at, names) in places(dialect) {
            let at: Vec<Vec<&str>> = at.iter().map(|place| place.split('.').collect()).collect();
            if at.iter().all(|place| place_at(body, place).is_none()) {
                continue;
            }
            let beside = self.beside(*option, tempered);
            let sent = names.iter().map(|name| (*name, beside.clone()));
            let is_refused = |(name, beside): &SentOption| {
                refused.has(&(*name, None)) || refused.has(&(*name, beside.clone()))
            };
            if !sent.clone().any(|option| is_refused(&option)) {
                all.extend(sent);
                continue;
            }
            for place in at {
                remove(body, &place);
            }
            left_out.add(self.own_name(*option));
        }
        all
    }

    /// What an option may be refused for alone: "`temperature` and `top_p` cannot both be specified for this model", "This
    /// `response_format` type is unavailable now", "Function calling with a response mime type: 'application/json' is unsupported".
    fn beside(&self, option: OwnOption, tempered: bool) -> Option<String> {
        let words = match option {
            OwnOption::TopP if tempered => "temperature",
            OwnOption::TopP | OwnOption::Stop | OwnOption::OneCall => return None,
            OwnOption::Form => match (&self.form, self.tools.is_empty()) {
                (AnswerForm::Schema { .. }, true) => "schema",
                (AnswerForm::Schema { .. }, false) => "schema with tools",
                (_, true) => "json",
                (_, false) => "json with tools",
            },
        };
        Some(words.to_owned())
    }

    /// What the client calls an option.
    const fn own_name(&self, option: OwnOption) -> &'static str {
        match option {
            OwnOption::TopP => self.field_names.top_p,
            OwnOption::Stop => self.field_names.stop,
            OwnOption::OneCall => self.field_names.one_call,
            OwnOption::Form => self.field_names.form,
        }
    }
}
