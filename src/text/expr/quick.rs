//! Expressions of a few plain signs, such as `args.qty <= 500`: what nearly all policies have. The usual parser of the language
//! library builds tables at its first use, which costs millions of instructions; its second one builds none, but accepts more
//! than it should and explains mistakes differently. So it reads what both read alike, and nothing else.

use cel::common::ast::IdedExpr;
use cel::parser::PrattParser;

/// The signs that mean the same to both parsers, wherever they stand.
const PLAIN: &str = " \t\n()[],.<>=!&|+*%";

/// The expression of a text that was scanned. `None`: the usual parser has to read it, or say what is wrong with it.
pub(super) fn read(text: &str) -> Option<IdedExpr> {
    is_plain(text).then(|| PrattParser::new().parse(text).ok()).flatten()
}

/// Whether there is nothing in it that the two parsers do not read alike: no minus, no choice, no map, no comment, no escaped
/// sign, and numbers in decimal notation only.
fn is_plain(text: &str) -> bool {
    let mut rest = text;
    // The sign before `rest`, blanks left out.
    let mut before = ' ';
    while let Some(next) = rest.chars().next() {
        let length = match next {
            // Two of them cancel each other out, and are counted differently.
            '!' if before == '!' => return false,
            c if PLAIN.contains(c) => 1,
            '\'' | '"' => match string(rest, next) {
                Some(length) => length,
                None => return false,
            },
            c if c.is_ascii_digit() && before != '.' => match number(rest) {
                Some(length) => length,
                None => return false,
            },
            c if c.is_ascii_alphabetic() || c == '_' => match name(rest) {
                Some(length) => length,
                None => return false,
            },
            _ => return false,
        };
        let (token, left) = rest.split_at_checked(length).unwrap_or((rest, ""));
        before = token.chars().next_back().filter(|c| !c.is_ascii_whitespace()).unwrap_or(before);
        rest = left;
    }
    true
}

/// The bytes of a string in one pair of quotes, without an escape or a line break.
fn string(rest: &str, quote: char) -> Option<usize> {
    let inside = rest.get(1..)?;
    let end = inside.find([quote, '\\', '\n', '\r'])?;
    let after = inside.get(end..)?.strip_prefix(quote)?;
    // Three quotes open a string of another kind.
    (!after.starts_with(quote)).then(|| end.saturating_add(2))
}

/// The bytes of a number such as `12` or `1.5`.
fn number(rest: &str) -> Option<usize> {
    let digits =
        |text: &str| text.len().saturating_sub(text.trim_start_matches(|c: char| c.is_ascii_digit()).len());
    let whole = digits(rest);
    let after = rest.get(whole..)?;
    let (length, after) = match after.strip_prefix('.').map(|fraction| (digits(fraction), fraction)) {
        None => (whole, after),
        Some((0, _)) => return None,
        Some((places, fraction)) => (whole.saturating_add(places).saturating_add(1), fraction.get(places..)?),
    };
    (!after.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).then_some(length)
}

/// The bytes of a name that is no prefix of a string.
fn name(rest: &str) -> Option<usize> {
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    (!after.starts_with(['\'', '"'])).then(|| rest.len().saturating_sub(after.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the usual parser makes of it, in the way in which expressions are compiled.
    fn usual(text: &str) -> Option<IdedExpr> {
        let parser = super::super::env().parser().max_recursion_depth(super::super::PARSER_DEPTH);
        parser.parse(text).ok()
    }

    fn read_alike(text: &str) -> Result<(), TestCaseError> {
        if super::super::scan::scan(text).is_ok()
            && let Some(mine) = read(text)
        {
            prop_assert_eq!(Some(mine), usual(text), "{}", text);
        }
        Ok(())
    }

    /// Expressions as people write them, now and then with a mistake.
    fn expressions() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            4 => r"(args|event|output|x)(\.(qty|a_1|for|in|true|B)){0,2}",
            2 => r"(0|1|7|007|500|1\.5|12\.25|1e3|0x1F|2u|1\.|\.5|9999999999999999999999)",
            2 => r#"('[a-zé€ ."]{0,5}'|"[a-zé ']{0,5}"|''''|"""a"""|r'a'|'a\\n')"#,
            1 => r"(true|false|null|in|while|\.args|args\.\.a|_)",
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let two = (inner.clone(), inner.clone());
            let operator = r"( ?(==|!=|<|<=|>|>=|\|\||&&|\+|\*|%|-|/) ?| in |\n&& |,)";
            prop_oneof![
                4 => (inner.clone(), operator, inner.clone()).prop_map(|(a, sign, b)| format!("{a}{sign}{b}")),
                1 => ("(!|!!|! !|-|has|size|\\.size|for|f) ?", inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
                1 => ("(!|!!|-|\\+| )", inner.clone()).prop_map(|(sign, a)| format!("{sign}{a}")),
                1 => (two.clone(), r"(contains|matches|all|map|exists|exists_one|filter|while|in)", "(x, |x,|)", ",?")
                    .prop_map(|((a, b), f, first, last)| format!("{a}.{f}({first}{b}{last})")),
                1 => (two.clone(), ",?").prop_map(|((a, b), last)| format!("[{a}, {b}{last}]")),
                1 => two.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
                1 => two.prop_map(|(a, b)| format!("{a} ? {b} : {{{a}: {b}}}")),
                1 => inner.prop_map(|a| format!("(({a}))")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_read_here_the_usual_parser_reads_alike(text in expressions()) {
            read_alike(&text)?;
        }

        #[test]
        fn nor_do_other_texts_differ(text in r#"([-a-c0-2.,!=<>&|+*/%()\[\]{}?:'"\\ x_é\n\t]|in|has|args|true|&&|\|\||==){0,12}"#) {
            read_alike(&text)?;
        }
    }

    #[test]
    fn a_long_expression_is_accepted_or_refused_as_the_usual_parser_does() {
        for length in [6, 31, 32, 60, 63, 64, 90, 96, 97, 150, 200] {
            for text in [
                format!("args{}", ".a".repeat(length)),
                format!("1{}", "+1".repeat(length)),
                format!("true{}", "&&true".repeat(length)),
                format!("args{}", "[0]".repeat(length)),
                format!("{}1{}", "(".repeat(length), ")".repeat(length)),
                format!("{}1{}", "[".repeat(length), "]".repeat(length)),
                format!("size({})", "1,".repeat(length) + "1"),
            ] {
                read_alike(&text).unwrap();
            }
        }
    }

    #[test]
    fn what_policies_say_is_read_here() {
        for text in [
            "event",
            "event.feedback",
            "args.a_1.B",
            "1",
            "slice <= 20",
            "args.quantity <= 500.5",
            "args.currency != 'USD'",
            "output.rate == 'live' || has(output.note)",
            "!(args.name.contains(\"ü\") && size(args.list) > 2)",
            "args.list.all(x, x in ['a', 'b'])",
            "args['a b'].c == true",
        ] {
            assert!(read(text).is_some(), "{text}");
        }
    }
}
