//! Reads the size of the context window and of the request from the messages of providers.

use super::sentence::{holds, with_number};

/// The maximum distance of a number from its marker, in bytes.
// A number further away belongs to another part of the sentence.
const NEAR: usize = 24;

/// A known sentence: it contains `told`, and the numbers follow the markers. Without markers it has no number. The
/// number after `plus` is added to the size.
struct KnownSentence {
    told: &'static str,
    limit: &'static [&'static str],
    size: &'static [&'static str],
    plus: Option<&'static str>,
}

/// Every known sentence contains one of these words.
// The words are found quickly and most messages contain none, so the list of sentences is seldom searched.
const SPEAK_OF: [&str; 5] = ["token", "context", "prompt", "too large", LENGTH];
const LENGTH: &str = "length";

/// A number before these words is not the size of a request.
// "8192 output tokens" is the limit of the reply; as the size of the request it would spoil the token calibration.
const NO_SIZE: &[&str] = &["output tokens", "characters"];

/// Sentences with the word "length": one search for the word excludes all of them.
// The sentences come from published errors; the comments name their providers.
const OF_LENGTH: &[KnownSentence] = &[
    // OpenAI and compatible servers, vLLM, OpenRouter.
    KnownSentence {
        told: "maximum context length is ",
        limit: &["maximum context length is "],
        size: &[
            "for a total of at least ",
            "resulted in ",
            "you requested ",
            "your request has ",
            "prompt contains ",
        ],
        plus: None,
    },
    // SGLang, and servers that put the number into parentheses.
    KnownSentence {
        told: "maximum context length of ",
        limit: &["maximum context length of "],
        size: &["you requested a total of "],
        plus: None,
    },
    KnownSentence {
        told: "model's maximum context length (",
        limit: &["maximum context length ("],
        size: &["input length ("],
        plus: None,
    },
    KnownSentence {
        told: "longer than the model's context length",
        limit: &["model's context length "],
        size: &["the input "],
        plus: None,
    },
    KnownSentence {
        told: "tokens) exceeds the maximum allowed length",
        limit: &["maximum allowed length "],
        size: &["input length "],
        plus: None,
    },
    // vLLM.
    KnownSentence {
        told: "model's context length is only ",
        limit: &["context length is only "],
        size: &["you passed "],
        plus: Some("and requested "),
    },
    KnownSentence {
        told: "longer than the maximum model length of ",
        limit: &["maximum model length of "],
        size: &["prompt (length "],
        plus: None,
    },
    // xAI, Cerebras.
    KnownSentence {
        told: "maximum prompt length is ",
        limit: &["maximum prompt length is "],
        size: &["request contains "],
        plus: None,
    },
    KnownSentence {
        told: "current length is ",
        limit: &["while limit is "],
        size: &["current length is "],
        plus: None,
    },
    // Fireworks.
    KnownSentence {
        told: "model maximum context length: ",
        limit: &["maximum context length: "],
        size: &["prompt is too long: "],
        plus: None,
    },
    // LM Studio.
    KnownSentence {
        told: "is loaded with context length of ",
        limit: &["is loaded with context length of "],
        size: &["keep the first "],
        plus: None,
    },
    // Cohere.
    KnownSentence {
        told: "maximum context length: ",
        limit: &["maximum context length: "],
        size: &[],
        plus: None,
    },
    // Qwen.
    KnownSentence { told: "range of input length should be ", limit: &["[1, "], size: &[], plus: None },
];

const OTHERS: &[KnownSentence] = &[
    // Azure.
    KnownSentence { told: "request body too large for ", limit: &["max size: "], size: &[], plus: None },
    // Mistral.
    KnownSentence {
        told: "too large for model with ",
        limit: &["too large for model with "],
        size: &["contains "],
        plus: None,
    },
    // Anthropic.
    KnownSentence {
        told: "prompt is too long: ",
        limit: &[" > "],
        size: &["prompt is too long: "],
        plus: None,
    },
    KnownSentence {
        told: "exceed context limit: ",
        limit: &[" > "],
        size: &["exceed context limit: "],
        plus: None,
    },
    // Gemini.
    KnownSentence {
        told: "exceeds the maximum number of tokens allowed",
        limit: &["maximum number of tokens allowed"],
        size: &["token count ", "token count is "],
        plus: None,
    },
    // Bedrock.
    KnownSentence {
        told: "too many input tokens",
        limit: &["max input tokens: "],
        size: &["request input token count: "],
        plus: None,
    },
    // llama.cpp.
    KnownSentence {
        told: "exceeds the available context size",
        limit: &["available context size "],
        size: &["request "],
        plus: None,
    },
    // LM Studio.
    KnownSentence {
        told: "n_ctx",
        limit: &["n_ctx: ", "n_ctx "],
        size: &["n_keep: ", "n_keep "],
        plus: None,
    },
    // GitHub Copilot.
    KnownSentence {
        told: "prompt token count of ",
        limit: &["exceeds the limit of "],
        size: &["prompt token count of "],
        plus: None,
    },
    // Text Generation Inference.
    KnownSentence {
        told: "`inputs` tokens + `max_new_tokens` must be <= ",
        limit: &["must be <= "],
        size: &["given: "],
        plus: Some("`inputs` tokens and "),
    },
    // Cohere.
    KnownSentence {
        told: "tokens in the prompt cannot exceed ",
        limit: &["cannot exceed "],
        size: &["received "],
        plus: None,
    },
    KnownSentence {
        told: "must have less than ",
        limit: &["must have less than "],
        size: &["given: "],
        plus: None,
    },
    // Azure.
    KnownSentence {
        told: "input tokens exceed the configured limit of ",
        limit: &["configured limit of "],
        size: &["resulted in "],
        plus: None,
    },
    // Moonshot.
    KnownSentence {
        told: "exceeded model token limit",
        limit: &["token limit: "],
        size: &["requested: "],
        plus: None,
    },
    // SiliconFlow.
    KnownSentence {
        told: "max_seq_len (",
        limit: &["max_seq_len ("],
        size: &["prompt_tokens (", "max_total_tokens ("],
        plus: None,
    },
    // watsonx.
    KnownSentence {
        told: "cannot exceed the total tokens limit ",
        limit: &["total tokens limit "],
        size: &["number of input tokens "],
        plus: None,
    },
    // Cloudflare.
    KnownSentence {
        told: "context window limit (",
        limit: &["context window limit ("],
        size: &["maximum output tokens ("],
        plus: None,
    },
    // Groq sends this for a single request that exceeds the tokens per minute (429): waiting does not help.
    KnownSentence { told: "request too large for ", limit: &["limit "], size: &["requested "], plus: None },
];

/// The limit and the size in a message.
pub(super) fn read(message: &str) -> (Option<u64>, Option<u64>) {
    // Most failures contain no digit or none of the words, and end here.
    let Some(text) = with_number(message).filter(|text| SPEAK_OF.iter().any(|word| holds(text, word))) else {
        return (None, None);
    };
    let of_length = if holds(&text, LENGTH) { OF_LENGTH } else { &[] };
    let mut sentences = of_length.iter().chain(OTHERS);
    let Some(sentence) = sentences.find(|sentence| holds(&text, sentence.told)) else {
        return (None, None);
    };
    let first = |markers: &[&str]| {
        markers.iter().find_map(|marker| near(&text, marker).filter(|(_, unit)| !is_no_size(unit)))
    };
    let size = first(sentence.size).map(|(size, _)| size);
    let plus = sentence.plus.and_then(|marker| near(&text, marker)).map_or(0, |(plus, _)| plus);
    // A window of zero is invalid; the size is useful without the limit.
    let limit = first(sentence.limit).map(|(limit, _)| limit).filter(|limit| *limit > 0);
    (limit, size.and_then(|size| size.checked_add(plus)))
}

/// The number close after a marker, and the text after it; `a + b` yields the sum.
fn near<'t>(text: &'t str, marker: &str) -> Option<(u64, &'t str)> {
    let (_, rest) = text.split_once(marker)?;
    let start = rest.find(|c: char| c.is_ascii_digit()).filter(|start| *start <= NEAR)?;
    // Negative numbers occur where a server subtracts ("at least 1, got -186", vLLM).
    if rest.get(..start)?.ends_with('-') {
        return None;
    }
    let (first, rest) = number(rest.get(start..)?)?;
    // Anthropic writes `179413 + 32768 > 200000`: the request plus the tokens reserved for the reply.
    match rest.strip_prefix(" + ").and_then(number) {
        Some((second, rest)) => Some((first.checked_add(second)?, rest)),
        None => Some((first, rest)),
    }
}

/// Whether the words after a number show that it is not the size of the request.
fn is_no_size(unit: &str) -> bool {
    NO_SIZE.iter().any(|other| unit.trim_start().starts_with(other))
}

/// The number at the start of a text, with or without commas between thousands, and the text after it.
fn number(text: &str) -> Option<(u64, &str)> {
    let mut value = 0_u64;
    let mut end = 0_usize;
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(end) {
        // Some providers write "128,000"; a comma before anything but a digit ends the number.
        let comma = *byte == b',' && bytes.get(end.saturating_add(1)).is_some_and(u8::is_ascii_digit);
        if byte.is_ascii_digit() {
            value = value.checked_mul(10)?.checked_add(u64::from(byte.saturating_sub(b'0')))?;
        } else if !comma {
            break;
        }
        end = end.saturating_add(1);
    }
    (end > 0).then_some((value, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_looked_for_where_their_words_are() {
        assert!(OF_LENGTH.iter().all(|sentence| sentence.told.contains(LENGTH)));
        assert!(!OTHERS.iter().any(|sentence| sentence.told.contains(LENGTH)));
    }

    #[test]
    fn the_real_limit_and_size_are_read() {
        for (message, limit, size) in [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
                8192,
                9001,
            ),
            (
                "This model's maximum context length is 4097 tokens. However, you requested 4116 tokens (3860 in the messages, 256 in the completion).",
                4097,
                4116,
            ),
            (
                "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens",
                131_072,
                150_000,
            ),
            ("prompt is too long: 209303 tokens > 200000 maximum", 200_000, 209_303),
            (
                "input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000, decrease input length",
                200_000,
                212_181,
            ),
            (
                "The input token count (1,200,000) exceeds the maximum number of tokens allowed (1048576).",
                1_048_576,
                1_200_000,
            ),
            ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4096, 5000),
            (
                "request (13132 tokens) exceeds the available context size (4096 tokens), try increasing it",
                4096,
                13_132,
            ),
            (
                "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens",
                7866,
                10_136,
            ),
            ("greater than the context length (n_keep: 13055>= n_ctx: 4096). Try", 4096, 13_055),
            ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", 7424, 15_028),
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                32_768,
                40_000,
            ),
            (
                "Request too large for gpt-x in organization org-1 on tokens per min (TPM): Limit 30000, Requested 45000.",
                30_000,
                45_000,
            ),
            ("Too many input tokens. Max input tokens: 8192, request input token count: 9000", 8192, 9000),
            (
                "maximum context length is 4096 tokens. However, you requested 1000 output tokens and your prompt contains at least 3097 input tokens, for a total of at least 4097 tokens.",
                4096,
                4097,
            ),
            (
                "You passed 3097 input tokens and requested 1000 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3096 tokens.",
                4096,
                4097,
            ),
            ("prompt token count of 7500 exceeds the limit of 5000", 5000, 7500),
            (
                "`inputs` tokens + `max_new_tokens` must be <= 5000. Given: 4900 `inputs` tokens and 200 `max_new_tokens`",
                5000,
                5100,
            ),
            (
                "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4232.",
                4081,
                4232,
            ),
        ] {
            assert_eq!(read(message), (Some(limit), Some(size)), "{message}");
        }
    }

    #[test]
    fn characters_and_what_is_asked_for_as_output_are_no_size() {
        let message = "maximum context length is 40960 tokens. However, you requested 40960 output tokens and your prompt contains 12769 characters";
        assert_eq!(read(message), (Some(40_960), None));
        assert_eq!(read("context length is only 4096 tokens. You passed 99 characters"), (None, None));
        let message = "You passed 99 characters. However, the model's context length is only 4096 tokens.";
        assert_eq!(read(message), (Some(4096), None));
    }

    #[test]
    fn what_is_not_said_is_not_made_up() {
        for message in [
            "",
            "Context size has been exceeded.",
            "Rate limit reached: Limit 100, Requested 3",
            "maximum context length is unknown for this model; see page 7 of the manual that came with it 9",
            "prompt is too long: 99999999999999999999 tokens > 99999999999999999999 maximum",
            "This model's maximum context length is 0 tokens.",
            "This model's maximum context length is -5 tokens.",
        ] {
            assert_eq!(read(message), (None, None), "{message}");
        }
    }
}
