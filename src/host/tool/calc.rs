//! Arithmetic on decimal numbers, exact as long as the numbers stay within 38 digits.

use serde_json::Value;

use super::ToolError;

/// The longest expression that is looked at.
pub(super) const MAX_CHARS: usize = 1000;
/// The deepest nesting of parentheses and signs.
const MAX_DEPTH: u32 = 64;
/// The most decimals of a result that has no end.
const DECIMALS: usize = 15;

/// The value of `expression`: a number, or text if a JSON number cannot hold all of its digits.
pub(super) fn evaluate(expression: &str) -> Result<Value, ToolError> {
    if expression.chars().count() > MAX_CHARS {
        return Err(ToolError::invalid_args(format!(
            "the expression is longer than {MAX_CHARS} characters; split it"
        )));
    }
    let mut parser = CalcParser { chars: expression.chars().collect(), at: 0, depth: 0 };
    let value = parser.sum()?;
    if parser.peek().is_some() {
        return Err(parser.expected("an operator or the end"));
    }
    let digits = value.to_decimal().ok_or_else(too_large)?;
    let number = serde_json::from_str::<Value>(&digits).ok().filter(|number| same_digits(number, &digits));
    Ok(number.unwrap_or(Value::String(digits)))
}

/// Whether JSON keeps every digit of the number.
fn same_digits(number: &Value, digits: &str) -> bool {
    let written = number.to_string();
    written == digits
}

/// A fraction in lowest terms; the denominator is positive.
#[derive(Clone, Copy)]
struct ExactFraction {
    over: i128,
    under: i128,
}

struct CalcParser {
    chars: Vec<char>,
    at: usize,
    depth: u32,
}

impl CalcParser {
    fn sum(&mut self) -> Result<ExactFraction, ToolError> {
        let mut left = self.product()?;
        while let Some(sign @ ('+' | '-')) = self.peek() {
            self.at += 1;
            let right = self.product()?;
            let right = if sign == '+' { Some(right) } else { right.negated() };
            left = right.and_then(|right| left.plus(right)).ok_or_else(too_large)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<ExactFraction, ToolError> {
        let mut left = self.operand()?;
        while let Some(sign @ ('*' | '/')) = self.peek() {
            self.at += 1;
            let right = self.operand()?;
            if sign == '/' && right.over == 0 {
                return Err(ToolError::failed("division by zero"));
            }
            let right = if sign == '/' { right.inverted() } else { Some(right) };
            left = right.and_then(|right| left.times(right)).ok_or_else(too_large)?;
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<ExactFraction, ToolError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ToolError::invalid_args(format!("the expression is nested deeper than {MAX_DEPTH}")));
        }
        let value = match self.peek() {
            Some('-') => {
                self.at += 1;
                self.operand()?.negated().ok_or_else(too_large)?
            }
            Some('+') => {
                self.at += 1;
                self.operand()?
            }
            Some('(') => {
                self.at += 1;
                let value = self.sum()?;
                if self.peek() != Some(')') {
                    return Err(self.expected("an operator or `)`"));
                }
                self.at += 1;
                value
            }
            Some('0'..='9' | '.') => self.number()?,
            _ => return Err(self.expected("a number or `(`")),
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<ExactFraction, ToolError> {
        let (mut over, mut under, mut point, mut digits) = (0_i128, 1_i128, false, 0);
        while let Some(&c) = self.chars.get(self.at) {
            match c.to_digit(10) {
                Some(digit) => {
                    digits += 1;
                    over = over
                        .checked_mul(10)
                        .and_then(|n| n.checked_add(i128::from(digit)))
                        .ok_or_else(too_large)?;
                    if point {
                        under = under.checked_mul(10).ok_or_else(too_large)?;
                    }
                }
                None if c == '.' && !point => point = true,
                None => break,
            }
            self.at += 1;
        }
        if digits == 0 {
            return Err(self.expected("a digit"));
        }
        ExactFraction::new(over, under).ok_or_else(too_large)
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn expected(&self, what: &str) -> ToolError {
        let found = self.chars.get(self.at).map_or("the end".to_owned(), |c| format!("`{c}`"));
        ToolError::invalid_args(format!("expected {what} at character {}, found {found}", self.at + 1))
    }
}

impl ExactFraction {
    fn new(over: i128, under: i128) -> Option<Self> {
        let divisor = i128::try_from(gcd(over.unsigned_abs(), under.unsigned_abs())).ok()?;
        let (over, under) = (over.checked_div(divisor)?, under.checked_div(divisor)?);
        if under < 0 {
            return Some(Self { over: over.checked_neg()?, under: under.checked_neg()? });
        }
        Some(Self { over, under })
    }

    fn negated(self) -> Option<Self> {
        Some(Self { over: self.over.checked_neg()?, ..self })
    }

    fn inverted(self) -> Option<Self> {
        Self::new(self.under, self.over)
    }

    fn plus(self, other: Self) -> Option<Self> {
        let left = self.over.checked_mul(other.under)?;
        let right = other.over.checked_mul(self.under)?;
        Self::new(left.checked_add(right)?, self.under.checked_mul(other.under)?)
    }

    fn times(self, other: Self) -> Option<Self> {
        // Shortened crosswise first, so that the products stay small.
        let (a, b) = (Self::new(self.over, other.under)?, Self::new(other.over, self.under)?);
        Self::new(a.over.checked_mul(b.over)?, a.under.checked_mul(b.under)?)
    }

    /// All digits if they end, else rounded half up to [`DECIMALS`].
    fn to_decimal(self) -> Option<String> {
        let under = self.under.unsigned_abs();
        let mut whole = self.over.unsigned_abs() / under;
        let mut rest = self.over.unsigned_abs() % under;
        let most = decimals(under).unwrap_or(DECIMALS);
        let mut digits = Vec::new();
        while rest != 0 && digits.len() < most {
            rest = rest.checked_mul(10)?;
            digits.push(u8::try_from(rest / under).ok()?);
            rest %= under;
        }
        if rest >= under.div_ceil(2) && rest != 0 {
            whole = round_up(&mut digits, whole)?;
        }
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let sign = if self.over < 0 && (whole != 0 || !digits.is_empty()) { "-" } else { "" };
        let point = if digits.is_empty() { "" } else { "." };
        let digits: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        Some(format!("{sign}{whole}{point}{digits}"))
    }
}

/// How many decimals a fraction over `under` has, if they end.
fn decimals(mut under: u128) -> Option<usize> {
    let (mut twos, mut fives) = (0, 0);
    while under.is_multiple_of(2) {
        under /= 2;
        twos += 1;
    }
    while under.is_multiple_of(5) {
        under /= 5;
        fives += 1;
    }
    (under == 1).then_some(twos.max(fives))
}

/// Adds one to the last digit; the new whole part.
fn round_up(digits: &mut [u8], whole: u128) -> Option<u128> {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return Some(whole);
        }
        *digit = 0;
    }
    whole.checked_add(1)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

fn too_large() -> ToolError {
    ToolError::failed("the numbers have too many digits for exact arithmetic; round them first")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn said(expression: &str) -> String {
        evaluate(expression).unwrap_err().to_string()
    }

    #[test]
    fn arithmetic_is_exact() {
        for (expression, value) in [
            ("1", json!(1)),
            ("0.1 + 0.2", json!(0.3)),
            ("2 + 3 * 4", json!(14)),
            ("(2 + 3) * -4", json!(-20)),
            ("10 - 4 - 3", json!(3)),
            ("12 / 4 / 3", json!(1)),
            ("19.99 * 3", json!(59.97)),
            (".5 + 5.", json!(5.5)),
            ("1 / 3", json!(0.333_333_333_333_333)),
            ("2 / 3", json!(0.666_666_666_666_667)),
            ("1 - 0.999999999999999999", json!("0.000000000000000001")),
            ("-1 / 100000000000000003", json!(0)),
            ("9007199254740993 + 0", json!(9_007_199_254_740_993_i64)),
            ("100000000000 * 100000000000", json!("10000000000000000000000")),
        ] {
            assert_eq!(evaluate(expression).unwrap(), value, "{expression}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        for (expression, message) in [
            ("", "invalid_args: expected a number or `(` at character 1, found the end"),
            ("2 +", "invalid_args: expected a number or `(` at character 4, found the end"),
            ("2 x 3", "invalid_args: expected an operator or the end at character 3, found `x`"),
            ("(2", "invalid_args: expected an operator or `)` at character 3, found the end"),
            (". + 1", "invalid_args: expected a digit at character 2, found ` `"),
            ("1 / (2 - 2)", "execution_error: division by zero"),
        ] {
            assert_eq!(said(expression), message);
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert!(said(&"9".repeat(60)).contains("too many digits"));
        assert!(said(&"(".repeat(900)).contains("nested deeper than 64"));
        assert!(said(&"1+".repeat(900)).contains("longer than 1000 characters"));
    }

    proptest! {
        #[test]
        fn sums_of_whole_numbers_are_those_of_the_machine(a in any::<i32>(), b in any::<i32>(), c in 1..i32::MAX) {
            let (a, b, c) = (i64::from(a), i64::from(b), i64::from(c));
            prop_assert_eq!(evaluate(&format!("{a} - {b} + {c}")).unwrap(), json!(a - b + c));
            prop_assert_eq!(evaluate(&format!("{a} * {c} / {c}")).unwrap(), json!(a));
        }

        #[test]
        fn no_text_panics(text in "[-+*/(). 0-9a]{0,60}") {
            let _ = evaluate(&text);
        }
    }
}
