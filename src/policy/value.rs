//! Policies as `serde_yaml` values, and effective policies as YAML.

use super::{Explanation, Policy, Report};

impl Policy {
    /// A policy of one value. Places are those of the value written as YAML, which the report shows.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn from_value(value: &serde_yaml::Value) -> Result<Self, Report> {
        // A value that cannot be written cannot be read either; the reader then says what it is not.
        let text = serde_yaml::to_string(value).unwrap_or_default();
        Self::from_yaml("(value)", &text)
    }
}

impl Explanation {
    /// The effective policy as a policy file, which says the same by itself.
    pub fn to_yaml(&self) -> String {
        let document = self.document();
        // Every JSON value can be written as YAML.
        let text = serde_yaml::to_string(&document).unwrap_or_default();
        // Policies refuse scalars that readers of YAML disagree on; JSON, which is YAML too, has none of them.
        if Policy::from_yaml("", &text).is_ok() { text } else { format!("{document:#}\n") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_policy() {
        let value: serde_yaml::Value =
            serde_yaml::from_str("version: 1\ntools: {search: {retry: {max_attempts: 2}}}").unwrap();
        let policy = Policy::from_value(&value).unwrap();
        assert!(policy.explain_tool("search").to_yaml().contains("max_attempts: 2"));
        let mistaken: serde_yaml::Value = serde_yaml::from_str("version: 1\ntols: {}").unwrap();
        insta::assert_snapshot!(Policy::from_value(&mistaken).unwrap_err(), @"(value):2:1: error[P0101]: unknown field `tols` (did you mean `tools`?)");
    }

    /// Also where text looks like something else to some reader of YAML.
    #[test]
    fn what_is_shown_as_yaml_is_a_policy() {
        let text = "version: 1\ntools: {'010': {retry: {max_attempts: 2}, messages: {failed: '12:30'}}}\noutput: {description: '1_000', tool: 'no'}\n";
        let policy = Policy::from_yaml("a.yaml", text).unwrap();
        for explained in [policy.explain_tool("010"), policy.explain_output().unwrap(), policy.explain_turn()]
        {
            let again = Policy::from_yaml("b.yaml", &explained.to_yaml()).unwrap();
            let again = match &*explained.subject {
                "the final report" => again.explain_output().unwrap(),
                "the loop of turns" => again.explain_turn(),
                _ => again.explain_tool("010"),
            };
            assert_eq!(again.effective(), explained.effective());
        }
    }
}
