//! Effective policies as YAML.

use super::PolicyExplanation;
use crate::policy::Policy;

impl PolicyExplanation {
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
