//! A small document of its own, and every way to get it wrong.

use indexmap::IndexMap;
use insta::assert_snapshot;
use serde_json::json;

use super::*;

record! {
    /// A house.
    struct House {
        /// What it is called.
        name: String,
        floors: u32 = 1,
        lit: bool = false,
        /// The rooms.
        rooms: IndexMap<String, Room> = IndexMap::new(),
        r#type: Option<Style>,
    }
}

union! {
    /// A room.
    enum Room by kind {
        /// For cooking.
        Kitchen = "kitchen" {
            /// How many.
            stoves: u32,
        },
        /// For sleeping.
        Bedroom = "bedroom" {
            beds: Patch<u32>,
        },
    }
}

choice! {
    enum Style {
        Brick = "brick",
        Timber = "timber",
    }
}

fn lines(numbers: Range<usize>, line: impl Fn(usize) -> String) -> String {
    numbers.map(line).collect::<Vec<_>>().concat()
}

fn mistakes(text: &str) -> String {
    read::<House>("house.yaml", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_document_is_read() {
    let text = "name: Elm\nrooms:\n  a: {kind: kitchen, stoves: 2}\n  b: {kind: bedroom, beds: null}\ntype: timber\n";
    let house = read::<House>("house.yaml", text.as_bytes()).unwrap().value;
    assert_eq!((house.name.as_str(), house.floors, house.lit), ("Elm", 1, false));
    assert_eq!(house.r#type, Some(Style::Timber));
    assert!(matches!(house.rooms["a"], Room::Kitchen { stoves: 2 }));
    assert!(matches!(house.rooms["b"], Room::Bedroom { beds: Patch::Null(_) }));
}

#[test]
fn all_mistakes_are_reported_at_once_by_the_form_that_is_meant() {
    assert_snapshot!(mistakes(
        "nme: x\nfloors: '2'\nlit: yes\nrooms:\n  a: {kind: kitchn}\n  b: {kind: kitchen, stoves: -1, beds: 2}\n  c: {stoves: 1}\n  d: 7\ntype: brik\n"
    ), @r#"
    house.yaml:1:1: error[P0101]: unknown field `nme` (did you mean `name`?)
    house.yaml:2:9: error[P0103]: expected a whole number, found string "2"
    house.yaml:3:6: error[P0103]: expected `true` or `false`, found string "yes"
    house.yaml:5:6: error[P0102]: missing field `stoves` (`stoves` is required here)
    house.yaml:5:13: error[P0104]: unknown value `kitchn` (did you mean `kitchen`?)
    house.yaml:6:30: error[P0105]: number `-1` is out of range (must be at least 0)
    house.yaml:6:34: error[P0101]: unknown field `beds`
    house.yaml:7:6: error[P0102]: missing field `kind` (`kind` says which form this is)
    house.yaml:8:6: error[P0103]: expected a mapping, found number `7`
    house.yaml:9:7: error[P0104]: unknown value `brik` (did you mean `brick`?)
    "#);
}

#[test]
fn a_list_in_the_place_of_a_mapping_is_rewritten_by_its_names() {
    let help = |rooms: &str| {
        let text = format!("name: Elm\nrooms: {rooms}\n");
        let report = read::<House>("house.yaml", text.as_bytes()).unwrap_err();
        report.diagnostics()[0].help.join("; ")
    };
    let keys = "names are keys here: write `hall: {...}`";
    assert_eq!(help("[{beds: 2, name: hall, kind: bedroom}, {name: b}]"), keys);
    assert_eq!(help("[hall, b]"), keys);
    assert_eq!(
        help("[{a: {kind: bedroom, beds: 1}}]"),
        "write no `- ` and no `[…]`: each entry is `name: value`"
    );
}

#[test]
fn a_form_under_another_key_is_known_by_its_value() {
    let text = "name: Elm\nrooms:\n  a: {type: kitchen, stoves: 1}\n";
    let fix = read::<House>("house.yaml", text.as_bytes()).unwrap_err().diagnostics()[0].fix.clone();
    assert_eq!(fix.unwrap().text, "kind");
    assert_snapshot!(mistakes("name: Elm\nrooms:\n  a: {type: kitchen, stoves: 1}\n  b: {type: cellar}\n"), @"
    house.yaml:3:7: error[P0101]: unknown field `type`
    house.yaml:4:6: error[P0102]: missing field `kind` (`kind` says which form this is)
    ");
}

#[test]
fn people_see_the_text_with_carets_and_the_repair() {
    let report = read::<House>("house.yaml", b"name: Elm\nfloors: '2'\n# a comment\nlit: on\nlit: true\n")
        .unwrap_err();
    assert_snapshot!(report.human(false));
}

#[test]
fn machines_get_json() {
    let report = read::<House>("house.yaml", b"name: x\ntype: brik\n").unwrap_err();
    insta::assert_json_snapshot!(report.to_json());
}

#[test]
fn the_schema_is_closed_and_told_apart_by_the_tag() {
    insta::assert_json_snapshot!(schema::<House>());
}

#[test]
fn what_the_schema_says_is_what_the_reader_does() {
    let schema = schema::<House>();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (document, good) in [
        (json!({"name": "x"}), true),
        (json!({"name": "x", "rooms": {"a": {"kind": "bedroom", "beds": null}}}), true),
        (json!({"name": "x", "type": "brick"}), true),
        (json!({}), false),
        (json!({"name": 1}), false),
        (json!({"name": "x", "type": null}), false),
        (json!({"name": "x", "roms": {}}), false),
        (json!({"name": "x", "rooms": {"a": {"kind": "attic"}}}), false),
        (json!({"name": "x", "rooms": {"a": {"kind": "kitchen"}}}), false),
        (json!({"name": "x", "rooms": {"a": {"kind": "kitchen", "stoves": 1, "beds": 1}}}), false),
    ] {
        assert_eq!(validator.is_valid(&document), good, "schema: {document}");
        assert_eq!(read::<House>("x", document.to_string().as_bytes()).is_ok(), good, "reader: {document}");
    }
}

#[test]
fn bad_yaml_is_told_with_its_place() {
    assert_snapshot!(mistakes(
        "a: 1\na: 2\n<<: {}\n1: x\nfloors:\nlit: 010\nname: !x y\nrooms: {a: , b: 0x1F}\n"
    ));
    assert_snapshot!(mistakes("name: x\nrooms:\n\ta: 1\n"));
    assert_snapshot!(mistakes("name: [x\n"));
    assert_snapshot!(mistakes("name: x\n---\nname: y\n"));
    assert_snapshot!(mistakes("# nothing\n"));
    assert_snapshot!(mistakes("a: &a [*a]\n"));
    assert_snapshot!(mistakes("a: *nowhere\n"));
    assert_snapshot!(mistakes("? [a, b]\n: x\nrooms: [a, , b]\n"));
}

#[test]
fn text_that_is_not_utf_8_is_told_with_its_place() {
    let told = |bytes: &[u8]| read::<House>("house.yaml", bytes).unwrap_err().human(false);
    assert_snapshot!(told(b"name: caf\xe9\n"));
    assert_snapshot!(told(b"\xff\xfen\0"));
    assert!(
        read::<House>("house.yaml", "\u{feff}name: x\n".as_bytes()).is_ok(),
        "a byte order mark is skipped"
    );
}

#[test]
fn a_place_inside_a_string_is_found_where_it_can_be() {
    let place = |text: &str, range: Range<usize>| {
        let mut sources = Sources::new();
        let mut findings = Findings::default();
        let (id, node) = yaml::load(&mut sources, findings.problems_mut(), "x", text.as_bytes());
        let node = node.unwrap().get("a").unwrap().clone();
        let YamlData::Text(value) = &node.data else { panic!("{node:?}") };
        let text = sources.get(id).unwrap().text();
        let span = NodeReader::new(text, &mut findings).inside(node.span, value, Some(range));
        text[span.range()].to_owned()
    };
    assert_eq!(place("a: one two\n", 4..7), "two");
    assert_eq!(place("a: 'one two'\n", 4..7), "two");
    assert_eq!(place("a: |\n  one\n  two\nb: 1\n", 4..7), "two");
    assert_eq!(place("a: 'it''s two'\n", 5..8), "'it''s two'", "escapes hide the place");
    assert_eq!(place("a: >\n  one\n  two\n", 4..7), "one\n  two", "folding too");
}

#[test]
fn hostile_text_ends_quickly_with_one_clear_error() {
    let deep = "[".repeat(100_000);
    let block = lines(0..1_500, |i| format!("{}a:\n", " ".repeat(i)));
    let bomb =
        format!("a0: &a0 [x, x]\n{}", lines(1..40, |i| format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1)));
    let long = format!("s: &s '{}'\nl: [{}]\n", "x".repeat(1 << 20), "*s,".repeat(1000));
    let tower = format!("a0: &a0 [x]\n{}", lines(1..90, |i| format!("a{i}: &a{i} [*a{}]\n", i - 1)));
    let big = "a: 1\n".repeat(1 << 20);
    let maps = "{a: ".repeat(50_000);
    for (text, code) in [
        (deep, Code::TOO_DEEP),
        (block, Code::TOO_DEEP),
        (bomb, Code::TOO_LARGE),
        (long, Code::TOO_LARGE),
        (tower, Code::TOO_DEEP),
        (big, Code::TOO_LARGE),
        (maps, Code::TOO_DEEP),
    ] {
        let report = read::<House>("house.yaml", text.as_bytes()).unwrap_err();
        let codes: Vec<Code> = report.diagnostics().iter().map(|d| d.code).collect();
        assert_eq!(codes, [code], "{}", &text[..text.len().min(40)]);
    }
}

#[test]
fn a_hundred_problems_are_shown_and_the_rest_is_counted() {
    let text = lines(0..90_000, |i| format!("key{i}: 1\n"));
    let report = read::<House>("house.yaml", text.as_bytes()).unwrap_err();
    assert_eq!(report.diagnostics().len(), 100);
    assert_eq!(report.more(), 89_901);
    assert!(report.to_string().ends_with("and 89901 more"));
}
