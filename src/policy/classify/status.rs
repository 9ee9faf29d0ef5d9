//! The statuses that a row names.

use core::fmt;
use core::str::FromStr;

use super::ErrorTableError;
use crate::text::excerpt;

/// One status, or all of a hundred: `429`, `5xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusPattern {
    /// This status.
    Exact(u16),
    /// Every status with this first digit.
    Hundred(u8),
}

impl StatusPattern {
    /// Whether `status` is meant.
    pub fn matches(self, status: u16) -> bool {
        match self {
            Self::Exact(exact) => status == exact,
            Self::Hundred(hundred) => status / 100 == u16::from(hundred),
        }
    }
}

impl FromStr for StatusPattern {
    type Err = ErrorTableError;

    fn from_str(text: &str) -> Result<Self, ErrorTableError> {
        // RFC 9110, section 15: three digits, of which the first is 1 to 5. `parse` alone also takes `+429` and
        // `0429`.
        let exact = text.parse::<u16>().ok().filter(|status| (100..=599).contains(status) && text.len() == 3);
        let hundred = text.strip_suffix("xx").and_then(|digit| digit.parse::<u8>().ok());
        let hundred = hundred.filter(|digit| (1..=5).contains(digit) && text.len() == 3).map(Self::Hundred);
        exact.map(Self::Exact).or(hundred).ok_or_else(|| ErrorTableError {
            message: format!("`{}` is not an HTTP status", excerpt(text, 40)),
            help: Some("write a status such as `429`, or a hundred of them such as `5xx`".to_owned()),
        })
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(status) => write!(f, "{status}"),
            Self::Hundred(hundred) => write!(f, "{hundred}xx"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_status_is_shown_cut_if_it_is_long() {
        let refused = "4".repeat(100).parse::<StatusPattern>().unwrap_err();
        assert_eq!(refused.message, format!("`{}…` is not an HTTP status", "4".repeat(40)));
    }

    #[test]
    fn a_status_is_a_number_or_a_hundred() {
        for text in ["429", "5xx"] {
            assert_eq!(text.parse::<StatusPattern>().unwrap().to_string(), text);
        }
        for text in ["", "42", "600", "9xx", "0xx", "5XX", "55xx", "+5xx", "+429", "xx", "4x", "-1"] {
            assert!(text.parse::<StatusPattern>().is_err(), "{text}");
        }
    }
}
