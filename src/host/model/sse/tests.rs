//! Each rule of the standard's parsing algorithm, and its laws.

use super::*;
use proptest::prelude::*;

fn read(chunks: &[&[u8]]) -> Vec<(String, String)> {
    let (mut parser, mut events) = (SseParser::default(), Vec::new());
    for chunk in chunks {
        parser.push(chunk, &mut events).unwrap();
    }
    events.into_iter().map(|event| (event.name, event.data)).collect()
}

fn data(text: &str) -> Vec<String> {
    read(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
}

#[test]
fn an_event_ends_with_a_blank_line() {
    assert_eq!(data("data: one\n\ndata: two\n\ndata: three\n"), ["one", "two"]);
}

#[test]
fn lines_end_with_lf_cr_or_both() {
    assert_eq!(data("data: a\n\ndata: b\r\rdata: c\r\n\r\ndata: d\n\r\n"), ["a", "b", "c", "d"]);
}

#[test]
fn a_crlf_cut_between_two_chunks_is_one_line_end() {
    assert_eq!(read(&[b"data: a\r", b"\ndata: b\r", b"", b"\n\r", b"\n"]), [pair("", "a\nb")]);
}

#[test]
fn data_lines_are_joined() {
    assert_eq!(data("data: a\ndata:\ndata:  b\n\n"), ["a\n\n b"]);
}

#[test]
fn comments_and_other_fields_are_passed_over() {
    assert_eq!(data(": keep-alive\n\nid: 7\nretry: 100\nfoo\ndata: x\n:\n\n"), ["x"]);
}

#[test]
fn a_byte_order_mark_is_passed_over_once() {
    assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\n"), ["a"]);
    assert_eq!(read(&[b"\xEF", b"\xBB", b"\xBFdata: a\n\n"]), [pair("", "a")]);
}

#[test]
fn an_event_has_a_name_until_it_is_complete() {
    assert_eq!(read(&[b"event: error\ndata: x\n\ndata: y\n\n"]), [pair("error", "x"), pair("", "y")]);
}

#[test]
fn a_name_alone_is_no_event() {
    assert_eq!(read(&[b"event: ping\n\ndata: x\n\n"]), [pair("", "x")]);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(read(&[b"data: a\xFFb\n\n"]), [pair("", "a\u{fffd}b")]);
}

#[test]
fn the_last_event_may_lack_its_end() {
    let (mut parser, mut events) = (SseParser::default(), Vec::new());
    parser.push(b"data: [DONE]", &mut events).unwrap();
    assert_eq!(events, []);
    assert_eq!(parser.finish().map(|event| event.data).as_deref(), Some("[DONE]"));
}

#[test]
fn json_between_the_events_is_kept_on_one_line_or_several() {
    let strays = |text: &str| {
        let (mut parser, mut events) = (SseParser::default(), Vec::new());
        parser.push(text.as_bytes(), &mut events).unwrap();
        parser.finish();
        (parser.strays(), events.len())
    };
    assert_eq!(strays("data: x\n\n{\"error\": 1}\ndata: y\n\n"), (vec!["{\"error\": 1}\n".to_owned()], 2));
    assert_eq!(strays("[{\n  \"error\": 1\n}]"), (vec!["[{\n  \"error\": 1\n}]\n".to_owned()], 0));
    assert_eq!(strays(": {}\nfoo\nid: {}\n\"a\": {}\n"), (vec![], 0));
    let field = strays("error: {\"code\":500}\n");
    assert_eq!(field, (vec!["{\"error\":{\"code\":500}}\n".to_owned()], 0));
    assert_eq!(strays("error: broken\nerror\n"), (vec![], 0));
    assert_eq!(strays(&"{\n".repeat(100_000)).0.len(), 1);
    assert_eq!(strays(&"{}\n".repeat(100_000)).0.len(), MAX_STRAYS);
}

#[test]
fn an_event_that_grows_without_end_is_refused() {
    let (mut parser, mut events) = (SseParser::with_limit(2048), Vec::new());
    parser.push(b"data: small\n\ndata: ", &mut events).unwrap();
    let error = (0..).find_map(|_| parser.push(&[b'x'; 100], &mut events).err()).unwrap();
    assert_eq!(error.to_string(), "one event of the stream is larger than 2 KiB");
    assert_eq!(events.len(), 1);
    assert!(parser.push(b"\n\ndata: more\n\n", &mut events).is_err(), "nothing is read after the failure");
    assert!(parser.line.len() <= 2048);
}

#[test]
fn many_small_data_lines_count_together() {
    let (mut parser, mut events) = (SseParser::with_limit(2048), Vec::new());
    let text = "data: 0123456789\n".repeat(300);
    assert!(parser.push(text.as_bytes(), &mut events).is_err());
}

/// The standard's algorithm, written down word by word: the whole stream is decoded, then cut into lines.
fn by_the_book(stream: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(stream).into_owned();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut name, mut data) = (Vec::new(), String::new(), String::new());
    // What follows the last line end is no line yet.
    let lines = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    for line in lines.split('\n').take(if text.contains('\n') { usize::MAX } else { 0 }) {
        if line.is_empty() {
            if let Some(data) = data.strip_suffix('\n') {
                events.push((name.clone(), data.to_owned()));
            }
            name.clear();
            data.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut name),
            "data" => data = data + value + "\n",
            _ => {}
        }
    }
    events
}

#[test]
fn every_rule_of_the_standard() {
    // Stream, and the names and data of its events.
    type Row = (&'static str, &'static [(&'static str, &'static str)]);
    let table: &[Row] = &[
        // The examples of the standard.
        ("data: YHOO\ndata: +2\ndata: 10\n\n", &[("", "YHOO\n+2\n10")]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
            &[("", "first event"), ("", "second event")],
        ),
        ("data\n\ndata\ndata\n\ndata:", &[("", ""), ("", "\n")]),
        ("data:test\n\ndata: test\n\n", &[("", "test"), ("", "test")]),
        // A byte order mark is no part of the first line, alone or not.
        ("\u{feff}data: x\n\n", &[("", "x")]),
        ("\u{feff}\ndata: x\n\n", &[("", "x")]),
        ("\u{feff}\u{feff}data: x\n\n", &[]),
        // Line ends: LF, CR, CRLF, and LF CR is two.
        ("data: x\r\r", &[("", "x")]),
        ("data: x\n\rdata: y\r\n\n", &[("", "x"), ("", "y")]),
        // An empty line without data forgets the name.
        ("event: a\n\ndata: x\n\n", &[("", "x")]),
        // A line that begins with a colon is a comment, whatever else it holds.
        (":data: x\n: OPENROUTER PROCESSING\n\n", &[]),
        // Only one space after the colon goes; a tab stays.
        ("data:  x\n\ndata:\tx\n\n", &[("", " x"), ("", "\tx")]),
        // Further colons belong to the value.
        ("data: a:b: c\n\n", &[("", "a:b: c")]),
        // Names of fields are compared letter by letter, blanks included.
        ("DATA: x\n data: x\ndata : x\n\n", &[]),
        // A field without a colon has an empty value.
        ("event: a\nevent\ndata\n\n", &[("", "")]),
        // The last name counts.
        ("event: a\nevent: b\ndata: x\n\n", &[("b", "x")]),
        // Other fields are passed over.
        ("id: 1\nretry: soon\nwhatever: x\ndata: x\n\n", &[("", "x")]),
        // An event that no empty line ends is none.
        ("data: x\n", &[]),
        ("data: x", &[]),
    ];
    for (stream, events) in table {
        let events: Vec<_> = events.iter().map(|(name, data)| pair(name, data)).collect();
        assert_eq!(read(&[stream.as_bytes()]), events, "{stream:?}");
        assert_eq!(by_the_book(stream.as_bytes()), events, "{stream:?}");
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes), events, "{stream:?}, byte by byte");
    }
}

#[test]
fn one_long_line_in_small_chunks_takes_linear_time() {
    let (mut parser, mut events) = (SseParser::default(), Vec::new());
    parser.push(b"data: ", &mut events).unwrap();
    for _ in 0..MAX_EVENT / 16 - 1 {
        parser.push(&[b'x'; 16], &mut events).unwrap();
    }
    parser.push(b"\n\n", &mut events).unwrap();
    assert_eq!(events.iter().map(|event| event.data.len()).collect::<Vec<_>>(), [MAX_EVENT - 16]);
}

/// Events, and whether the stream was refused in the end.
fn outcome(limit: usize, chunks: &[&[u8]]) -> (Vec<SseEvent>, bool) {
    let (mut parser, mut events) = (SseParser::with_limit(limit), Vec::new());
    let refused = chunks.iter().any(|chunk| parser.push(chunk, &mut events).is_err());
    (events, refused)
}

proptest! {
    #[test]
    fn any_bytes_in_any_chunks_are_read_by_the_book(
        pieces in prop::collection::vec(prop_oneof![
            prop::sample::select(vec![
                &b"data: "[..], b"data:", b"data", b"event: x", b"id: 1", b":", b" ", b"\xEF\xBB\xBF", b"\xEF\xBB", b"\xE2\x82",
                b"\xFF", b"\n", b"\n", b"\r", b"\r\n", b"\n\n",
            ]).prop_map(<[u8]>::to_vec),
            prop::collection::vec(any::<u8>(), 0..4),
        ], 0..60),
        size in 1_usize..40,
    ) {
        let stream = pieces.concat();
        let chunks: Vec<&[u8]> = stream.chunks(size).collect();
        prop_assert_eq!(read(&chunks), by_the_book(&stream));
    }

    #[test]
    fn the_limit_does_not_depend_on_the_chunks(
        lines in prop::collection::vec(prop::sample::select(vec!["data: xxxxxxxx", "event: yyyy", ": comment", "", "x"]), 0..20),
        end in prop::sample::select(vec!["\n", "\r", "\r\n"]),
        size in 1_usize..20,
    ) {
        let stream = lines.join(end).into_bytes();
        let chunks: Vec<&[u8]> = stream.chunks(size).collect();
        prop_assert_eq!(outcome(24, &chunks), outcome(24, &[&stream]));
    }

    #[test]
    fn the_cuts_between_chunks_do_not_matter(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "data: ", "data:", "data", "event: x", ":", " ", "a", "é", "\u{feff}", "\n", "\n", "\r", "\r\n", "\n\n",
        ]), 0..60),
        cuts in prop::collection::vec(0usize..200, 0..20),
    ) {
        let text = pieces.concat().into_bytes();
        let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        at.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in at {
            chunks.push(&text[from..cut]);
            from = cut;
        }
        chunks.push(&text[from..]);
        prop_assert_eq!(read(&chunks), read(&[&text]));
    }
}

#[test]
fn what_is_no_event_has_a_bound_between_two_events() {
    let comments = ": keep the line open\n".repeat(1024);
    let mut events = Vec::new();
    let (mut parser, mut failed) = (SseParser::default(), None);
    for _ in 0..1024 {
        failed = failed.or(parser.push(comments.as_bytes(), &mut events).err());
    }
    assert_eq!(failed.unwrap().to_string(), "more than 4096 KiB of the stream are no event");
    let mut parser = SseParser::default();
    for _ in 0..1024 {
        parser.push(comments.as_bytes(), &mut events).unwrap();
        parser.push(b"data: x\n\n", &mut events).unwrap();
    }
    assert_eq!(events.len(), 1024);
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}
