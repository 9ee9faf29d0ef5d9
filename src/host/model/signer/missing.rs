//! Why there are no credentials, in words, and whether another attempt may find some. The errors are those of crates that cannot be
//! named here, so what they say tells them apart.

use std::error::Error;
use std::iter::successors;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_types::error::ErrorMetadata;

use crate::engine::Failure;
use crate::host::model::failure::{cause, cut_off};
use crate::host::redact::SecretRedactor;
use crate::policy::{ErrorClass, Policy};

/// What the SDK calls a service that was not reached, or did not answer as it should.
const UNREACHED: [&str; 4] = [
    "dispatch failure",
    "request has timed out",
    "response error",
    "an IO error occurred communicating with IMDS",
];
/// What stands before the status where a container or an instance refuses.
const STATUS: [&str; 2] = ["StatusCode(", "(code: "];
/// How the SDK begins to say that a process failed, and what comes before what that wrote to standard error.
const PROCESS: &str = "external process";
const ENDED: &str = "exited with code ";
const STDERR: &str = ". Stderr:";
/// What follows the name of a profile that is not there. It begins the same way where one lacks a key.
const UNDEFINED: &str = "` was not defined: could not find";

/// Why there are no credentials. Whether another attempt may find some depends on who was asked, and on the answer. `profile`: whose
/// credentials the agent wants.
pub(super) fn missing(error: &CredentialsError, profile: Option<&str>) -> Failure {
    if let Some((code, said)) = answered(error) {
        let message = format!("the credentials for AWS were refused with `{code}`: {said}");
        let refusal = Failure { kind: Some(code), message, ..Failure::default() };
        // What no table knows is no answer of a model: who gives credentials has said no.
        let is_known = refusal.classified(&Policy::builtin()).class != ErrorClass::ModelError;
        return if is_known { refusal } else { refused(refusal.message) };
    }
    let why = SecretRedactor::default().with_forms(true).text(cause(error));
    // What a process wrote is no answer of a service.
    if !why.contains(PROCESS) && may_pass(error) {
        let why = brief(&why);
        return cut_off(format!("the credentials for AWS did not come: {why}"));
    }
    refused(format!("there are no credentials for AWS: {}", reason(error, &why, profile)))
}

/// A request that is not sent, as nobody can sign it. The table of errors says what class that is.
pub(super) fn refused(message: String) -> Failure {
    Failure { kind: Some("CredentialsNotLoaded".to_owned()), message, ..Failure::default() }
}

/// Why there are none, and what to do.
fn reason(error: &CredentialsError, why: &str, profile: Option<&str>) -> String {
    let named =
        profile.map_or_else(|| "the profile".to_owned(), |profile| format!("the profile `{profile}`"));
    if let Some((_, lacking)) = why.split_once("feature(s) enabled: ") {
        let what = if lacking.starts_with("sso") { "single sign-on (SSO)" } else { "a login session" };
        let wanted = profile.unwrap_or("NAME");
        return format!(
            "{named} has {what}, which is not read; name another profile, with `credential_process = aws configure \
             export-credentials --profile {wanted}`"
        );
    }
    if why.contains(PROCESS) {
        // What it wrote to standard error may have the credentials in it.
        let ended = why.split_once(ENDED).and_then(|(_, ended)| ended.split_once(STDERR));
        let ended = ended.map_or("it printed no credentials that can be read", |(ended, _)| ended);
        return format!("the `credential_process` of {named} failed ({ended}); run its command to see why");
    }
    if let Some((missing, _)) = why.split_once("profile `").and_then(|(_, named)| named.split_once(UNDEFINED))
    {
        return format!(
            "there is no profile `{missing}` in the files of AWS (`~/.aws/config` and `~/.aws/credentials`)"
        );
    }
    match (error, profile) {
        (CredentialsError::CredentialsNotLoaded(_), Some(_)) => {
            format!(
                "{named} is not in the files of AWS (`~/.aws/config` and `~/.aws/credentials`), or has none"
            )
        }
        (_, Some(_)) => format!("{named} gives none ({})", brief(why)),
        (_, None) => format!(
            "{}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a `profile`, or give the model an `api_key` of Bedrock",
            brief(why)
        ),
    }
}

/// Without the answer in full that follows its status.
fn brief(why: &str) -> &str {
    let status = why.find(STATUS[1]).map(|at| at + STATUS[1].len());
    let end = status.and_then(|at| why[at..].find(')').map(|end| at + end + 1));
    &why[..end.unwrap_or(why.len())]
}

/// The code of a refusal by the service that gives credentials, and what it says. Their errors are those of crates that cannot be
/// named here: one that they do not know has its code as data, any other begins with the name of its type.
fn answered(error: &CredentialsError) -> Option<(String, String)> {
    let innermost = links(error.source()?).last()?;
    if let Some(unknown) = innermost.downcast_ref::<ErrorMetadata>() {
        return Some((unknown.code()?.to_owned(), unknown.message().unwrap_or("no reason").to_owned()));
    }
    let shown = innermost.to_string();
    let (name, said) = shown.split_once(": ").unwrap_or((&shown, "no reason"));
    let is_name = name.ends_with("Exception") && name.chars().all(|c| c.is_ascii_alphanumeric());
    is_name.then(|| (name.to_owned(), said.to_owned()))
}

/// Whether another attempt may find some: whoever gives them was not reached, did not answer in time, or failed itself.
fn may_pass(error: &CredentialsError) -> bool {
    if matches!(error, CredentialsError::ProviderTimedOut(_)) {
        return true;
    }
    let said: Vec<String> = links(error).map(ToString::to_string).collect();
    // An answer of the token service without a code comes from who stands before it. An instance says `forbidden` instead of a status.
    let is_forbidden = said.last().is_some_and(|last| last.starts_with("request forbidden"));
    let is_answer = said.iter().any(|said| said == "service error") && !is_forbidden;
    is_answer
        || said.iter().any(|said| UNREACHED.contains(&said.as_str()) || status(said).is_some_and(is_passing))
}

/// Whether who answers with that status may answer otherwise later.
const fn is_passing(status: u16) -> bool {
    status >= 500 || status == 429
}

/// The status that an error of a container or an instance names.
fn status(said: &str) -> Option<u16> {
    let (_, rest) = STATUS.iter().find_map(|before| said.split_once(before))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// An error, and its causes.
fn links<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |error: &&'e (dyn Error + 'static)| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(error: &CredentialsError) -> &'static str {
        missing(error, None).classified(&Policy::builtin()).class.name()
    }

    /// An error with a cause, as the SDK wraps them.
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Wrapped(&'static str, #[source] std::io::Error);

    fn wrapped(said: &'static str, inner: &'static str) -> CredentialsError {
        CredentialsError::unhandled(Wrapped(said, std::io::Error::other(inner)))
    }

    #[test]
    fn only_what_may_pass_is_worth_another_attempt() {
        assert_eq!(class(&CredentialsError::not_loaded("nothing there")), "auth_error");
        assert_eq!(class(&CredentialsError::invalid_configuration("no such profile")), "auth_error");
        assert_eq!(
            class(&CredentialsError::provider_timed_out(std::time::Duration::from_secs(1))),
            "network_error"
        );
        for (said, inner, expected) in [
            ("dispatch failure", "connection refused", "network_error"),
            ("request has timed out", "5 s", "network_error"),
            ("service error", "no XML", "network_error"),
            ("service error", "request forbidden: the instance gives none", "auth_error"),
            ("failed to construct request", "no region", "auth_error"),
        ] {
            assert_eq!(class(&wrapped(said, inner)), expected, "{said}: {inner}");
        }
        for (said, expected) in [
            ("Non-success status from HTTP credential provider: StatusCode(503)", "network_error"),
            ("Non-success status from HTTP credential provider: StatusCode(403)", "auth_error"),
            ("error response from IMDS (code: 500). Response { }", "network_error"),
            ("error response from IMDS (code: 403). Response { }", "auth_error"),
            ("failed to load credentials [InvalidRequest]: no", "auth_error"),
        ] {
            assert_eq!(class(&CredentialsError::provider_error(said)), expected, "{said}");
        }
        let file = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(class(&CredentialsError::provider_error(file)), "auth_error");
    }

    #[test]
    fn what_a_service_answers_has_the_class_of_its_code() {
        // As the token service answers, with a code that its crate knows and one that it does not.
        let answer = |code: &str| ErrorMetadata::builder().code(code).message("no").build();
        for (code, expected) in [
            ("AccessDenied", "permission_denied"),
            ("SignatureDoesNotMatch", "auth_error"),
            ("ValidationError", "auth_error"),
            ("Throttling", "rate_limit"),
            ("ServiceUnavailable", "overloaded"),
        ] {
            assert_eq!(class(&CredentialsError::provider_error(answer(code))), expected, "{code}");
        }
        for (code, expected) in [
            ("InvalidIdentityTokenException", "auth_error"),
            ("ExpiredTokenException", "auth_error"),
            ("IdpCommunicationErrorException", "overloaded"),
        ] {
            assert_eq!(class(&CredentialsError::provider_error(format!("{code}: no"))), expected, "{code}");
        }
    }

    #[test]
    fn what_to_do_is_said() {
        let built = |why: &str| {
            let why = format!("ProfileFile provider could not be built: {why}");
            missing(&CredentialsError::invalid_configuration(why), Some("agents")).message
        };
        let sso = built("This behavior requires following cargo feature(s) enabled: sso. ");
        assert!(sso.contains("`agents` has single sign-on (SSO), which is not read"), "{sso}");
        assert!(sso.contains("aws configure export-credentials --profile agents"), "{sso}");
        let login =
            built("This behavior requires following cargo feature(s) enabled: credentials-login. In order");
        assert!(login.contains("a login session"), "{login}");
        let other = built(
            "profile `base` was not defined: could not find source profile base referenced from agents",
        );
        assert!(other.contains("there is no profile `base` in"), "{other}");
        let lacking = built("profile `agents` was not defined: `aws_secret_access_key` was missing");
        assert!(lacking.contains("`agents` gives none (") && lacking.contains("was missing"), "{lacking}");
        let none = missing(&CredentialsError::not_loaded_no_source(), Some("agents")).message;
        assert!(none.contains("`agents` is not in the files of AWS"), "{none}");
        let refused =
            CredentialsError::provider_error("error response from IMDS (code: 403). Response { a }");
        let refused = missing(&refused, Some("agents")).message;
        assert!(refused.ends_with("`agents` gives none (error response from IMDS (code: 403))"), "{refused}");
    }

    /// By the SDK's own provider: should it ever say it in other words, this fails.
    #[cfg(unix)]
    #[tokio::test]
    async fn what_a_process_complains_of_is_not_shown() {
        use aws_config::credential_process::CredentialProcessProvider;
        use aws_credential_types::provider::ProvideCredentials;
        for (command, why) in [
            ("echo 'hush-hush (code: 503)' >&2; exit 3", "(exit status: 3)"),
            ("echo hush-hush", "(it printed no credentials that can be read)"),
        ] {
            let provider = CredentialProcessProvider::new(command.to_owned());
            let failure = missing(&provider.provide_credentials().await.unwrap_err(), Some("agents"));
            assert!(!failure.message.contains("hush"), "{}", failure.message);
            assert!(
                failure.message.contains(&format!("of the profile `agents` failed {why}; run")),
                "{}",
                failure.message
            );
            assert_eq!(failure.classified(&Policy::builtin()).class.name(), "auth_error");
        }
    }
}
