//! `unfazed models`: what is known of models by their names.

use std::path::Path;

use serde_json::Value;

use crate::command;

fn models(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = command::unfazed(folder, &[&["models"], args].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn a_name_is_shown_with_the_entries_that_it_falls_under() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = models(folder.path(), &["openai/GPT-4.1-mini-2025-04-14"]);
    insta::assert_snapshot!(said, @r#"
    openai/GPT-4.1-mini-2025-04-14
      window    1047576 tokens, of a reply at most 32768
                entry `gpt-4.1`, from LiteLLM 1.110.2, 2026-11-26
      price     input 0.4, output 1.6, cache_read 0.1; US dollars per million tokens
                entry `gpt-4.1-mini-2025-04-14`, from LiteLLM 1.110.2, 2026-11-26
      overhead  3 tokens for a request, 12 more with tools
                from "How to count tokens with tiktoken", OpenAI cookbook, 2026-11
    "#);
    assert_eq!(code, 0);
    // What is believed of every newer Claude has its own source, and what is only assumed has none.
    let (_, said) = models(folder.path(), &["claude-foo-9"]);
    insta::assert_snapshot!(said, @r#"
    claude-foo-9
      window    1000000 tokens, of a reply at most 128000
                entry `claude`, from Anthropic, "Models overview", 2026-11-23
      overhead  3 tokens for a request, 346 more with tools
                assumed: what its provider adds is not documented
    "#);
    // A price is not that of a model which is called alike.
    let (_, said) = models(folder.path(), &["gpt-4.1-mini-of-somebody"]);
    assert!(said.contains("entry `gpt-4.1`") && !said.contains("US dollars"), "{said}");
}

#[test]
fn the_models_with_a_text_in_their_names_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = models(folder.path(), &["PT-4.1-nano"]);
    insta::assert_snapshot!(said, @"
    model                     window  reply  input  output
    gpt-4.1-nano             1047576  32768    0.1     0.4
    gpt-4.1-nano-2025-04-14  1047576  32768    0.1     0.4

    2 models; windows and replies in tokens, input and output in US dollars per million tokens
    ");
    assert_eq!(code, 0);
    let (code, said) = models(folder.path(), &["no-such-model"]);
    assert_eq!(
        (code, said.as_str()),
        (3, "no model is called like `no-such-model`; `unfazed models` lists all\n")
    );
    let (code, said) = models(folder.path(), &["--format", "json"]);
    let document: Value = serde_json::from_str(&said).unwrap();
    let listed = document["models"].as_array().unwrap();
    assert!(code == 0 && document["asked"].is_null() && listed.len() > 500, "{}", listed.len());
    for model in listed {
        // Each value says where it is from, and of which day.
        let sources = [&model["limits"], &model["price"]].into_iter().filter(|part| part.is_object());
        for part in sources {
            assert!(part["source"].as_str().is_some_and(|source| source.contains(", 20")), "{model}");
        }
    }
}

#[test]
fn entries_of_the_user_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let own = "version: 1\nmodels: [{names: [gpt-4.1], window: 5000}, {names: [house], window: 9000}]\n";
    std::fs::write(folder.path().join("models.yaml"), own).unwrap();
    let (_, said) = models(folder.path(), &["gpt-4.1-nano", "--models", "models.yaml", "--format", "json"]);
    let asked = serde_json::from_str::<Value>(&said).unwrap()["asked"].take();
    assert_eq!((&asked["limits"]["window"], &asked["limits"]["source"]), (&5000.into(), &Value::Null));
    assert_eq!(asked["price"]["price"]["input"], 100_000);
    let (code, said) = models(folder.path(), &["house", "--models", "models.yaml"]);
    assert!(code == 0 && said.contains("9000"), "{said}");

    let litellm = r#"{"gpt-4.1-nano": {"max_input_tokens": 700, "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05}}"#;
    std::fs::write(folder.path().join("models.json"), litellm).unwrap();
    let (_, said) = models(folder.path(), &["gpt-4.1-nano", "--models", "models.json"]);
    assert!(said.contains("700 tokens") && said.contains("input 2.5, output 10"), "{said}");

    std::fs::write(folder.path().join("broken.yaml"), "version: 1\nmodels: [{names: [a], windw: 5}]\n")
        .unwrap();
    let (code, said) = models(folder.path(), &["--models", "broken.yaml"]);
    assert!(code == 1 && said.contains("broken.yaml:2:23") && said.contains("did you mean"), "{said}");
    let (code, said) = models(folder.path(), &["--models", "nowhere.json"]);
    assert!(code == 2 && said.contains("cannot read nowhere.json"), "{said}");
}
