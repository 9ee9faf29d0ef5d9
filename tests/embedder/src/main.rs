//! The largest expressions and templates a policy may have are read, and evaluated, on a thread of the usual 2 MiB, of which
//! some is used already. What is larger is an error, and no overflow of the stack.

use std::thread;

use serde_json::json;
use unfazed::policy::Policy;
use unfazed::text::Expr;

/// What a thread has, without what its caller may have used.
const STACK: usize = (2 << 20) - (512 << 10);

fn main() {
    let expressions = |count: usize| {
        let nested = |open: &str, inner: &str, close: &str| {
            format!("{}{inner}{}", open.repeat(count), close.repeat(count))
        };
        [
            nested("(", "args.a == 1", ")"),
            nested("!(", "args.a == 1", ")"),
            nested("[", "args.a", "]") + " != []",
            nested("{'a': ", "args.a", "}") + " != {}",
            nested("string(", "args.a", ")") + " == '1'",
            nested("size([", "args.a", "])") + " == 1",
            nested("args.b.exists(x, x == ", "1", ")"),
            nested("(args.a == 1 && ", "args.a == 1", ")"),
            nested("(args.a == 1 ? ", "true", " : false)"),
            nested("(args.a + 1 + 1 + 1 > 1) && (", "args.a == 1", ")"),
            format!("args.a{} > 0", " + 1".repeat(count)),
            format!("args.a > 0{}", " == true".repeat(count)),
            format!("args.a == 1{}", " && args.a == 1".repeat(count)),
            format!("{}true", "args.a == 1 ? true : ".repeat(count)),
            format!("args{} == 1", ".a".repeat(count)),
            format!("args.a in [1{}]", ", 1".repeat(count)),
            nested(&format!("({}", "1 + ".repeat(32 / count.max(1))), "1", ")") + " > 0",
        ]
    };
    let tried = thread::Builder::new().stack_size(STACK).spawn(move || {
        let (mut taken, mut refused) = (0, 0);
        let vars = json!({"args": {"a": 1, "b": [1, 2]}});
        for text in (0..70).flat_map(expressions) {
            match Expr::parse(&text, &["args"]) {
                Ok(expression) => {
                    taken += 1;
                    let _ = expression.eval(vars.as_object().unwrap());
                }
                Err(_) => refused += 1,
            }
        }
        (taken, refused)
    });
    let (taken, refused) = tried.unwrap().join().unwrap();
    assert!(taken > 200 && refused > 200, "{taken} taken, {refused} refused");
    let policies = thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for count in [5, 10, 100, 400] {
            let when = format!("{}args.a == 1{}", "(".repeat(count), ")".repeat(count));
            let template = format!("{}x{}", "{% if tool %}".repeat(count), "{% endif %}".repeat(count));
            let policy = format!(
                "version: 1\ntools: {{a: {{calls: [{{when: '{when}', retry: {{max_attempts: 2}}}}], messages: {{failed: '{template}'}}}}}}\n"
            );
            assert_eq!(Policy::from_yaml("policy.yaml", &policy).is_ok(), count == 5, "{count}");
        }
    });
    policies.unwrap().join().unwrap();
    println!("{taken} expressions are evaluated and {refused} refused on {} KiB", STACK >> 10);
}
