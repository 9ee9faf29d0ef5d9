//! Messages that speak of the session.

use crate::policy::Policy;

fn told(message: &str) -> String {
    let text = format!(
        "version: 1\nsession: {{slices: {{orders: {{initial: 0}}}}}}\nturn: {{messages: {{empty: \"{message}\"}}}}\n"
    );
    Policy::from_yaml("policy.yaml", &text).map_or_else(|report| report.to_string(), |_| "taken".to_owned())
}

#[test]
fn messages_read_slices_and_feedback_that_there_are() {
    for message in
        ["{{ slices.orders }} {{ feedback.latest.message }}", "{{ feedback.tools['a.b'].all | length }}"]
    {
        assert_eq!(told(message), "taken", "{message}");
    }
}

#[test]
fn a_slice_or_a_field_that_there_is_not_is_told_with_its_place() {
    insta::assert_snapshot!(told("{{ slices.order }}"), @"policy.yaml:3:30: error[P0201]: there is no slice `order` (did you mean `orders`?)");
    insta::assert_snapshot!(told("{{ slices.visits }}"), @"policy.yaml:3:30: error[P0201]: there is no slice `visits`");
    insta::assert_snapshot!(told("{{ feedback.lates.message }}"), @"policy.yaml:3:30: error[P0108]: `feedback` has no `lates`");
    insta::assert_snapshot!(told("{{ feedbak }}"), @"policy.yaml:3:30: error[P0108]: `feedbak` is not known here");
}

#[test]
fn the_message_of_a_check_knows_the_variables_of_its_expression_alone() {
    let text =
        "version: 1\ntools: {t: {validate: [{name: n, check: 'true', message: '{{ slices.feedback }}'}]}}\n";
    insta::assert_snapshot!(Policy::from_yaml("policy.yaml", text).unwrap_err(), @"policy.yaml:2:62: error[P0108]: `slices` is not known here");
}
