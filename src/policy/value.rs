//! Policies as `serde_yaml` values.

use super::Policy;
use crate::text::Report;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_policy() {
        let value: serde_yaml::Value =
            serde_yaml::from_str("version: 1\ntools: {search: {retry: {max_attempts: 2}}}").unwrap();
        let policy = Policy::from_value(&value).unwrap();
        assert_eq!(policy.tool("search").retry.max_attempts.value.limit(), Some(2));
        let mistaken: serde_yaml::Value = serde_yaml::from_str("version: 1\ntols: {}").unwrap();
        insta::assert_snapshot!(Policy::from_value(&mistaken).unwrap_err(), @"(value):2:1: error[P0101]: unknown field `tols` (did you mean `tools`?)");
    }
}
