//! Images and documents, those of a task and those of a tool: each model is shown what its dialect takes, and reads that there is
//! something that it is not shown otherwise.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use unfazed::engine::{ContentPart, Envelope, Event, Outcome, ToolOutcome, ToolSpec, content_text};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedServer};
use unfazed::host::{
    Agent, AttachmentError, BoxFuture, HttpModel, ModelConfig, Observer, Provider, RunTask, StopSwitch,
    TaskAttachment, Tool, ToolInput, Tools,
};
use unfazed::policy::Policy;
use unfazed::session::Message;

use super::pairs::DIALECTS;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nof the task";
const PDF: &[u8] = b"%PDF-1.7 of the task";
const GIF: &[u8] = b"GIF89a of the tool";

/// A tool that answers with an image.
struct Camera(ToolSpec);

impl Camera {
    fn new() -> Self {
        let (name, parameters) = ("camera".to_owned(), json!({"type": "object"}));
        Self(ToolSpec { name, description: String::new(), parameters, effect: None })
    }
}

impl Tool for Camera {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let (kind, media_type) = ("image".to_owned(), "image/gif".to_owned());
            let handle = input.aside.keep(&media_type, GIF.to_vec()).await;
            let image = ContentPart::Binary { kind, media_type, bytes: 18, handle };
            let data = content_text([ContentPart::Text("Seen:".into()), image]).into();
            ToolOutcome::Ok { data }
        })
    }
}

/// Keeps what the replies of models came with in words.
#[derive(Debug, Default)]
struct SaidNotes(Vec<String>);

impl Observer for SaidNotes {
    fn event(&mut self, envelope: &Envelope) {
        if let Event::ModelResponded { reply, .. } = &envelope.event {
            self.0.extend(reply.notes.iter().cloned());
        }
    }
}

fn task() -> RunTask {
    let png = TaskAttachment::new("photo.png", PNG).unwrap();
    let pdf = TaskAttachment::new("report.pdf", PDF).unwrap();
    let attachments = vec![png, pdf];
    RunTask { run: "run-1".into(), task: "what is it?".into(), attachments, ..RunTask::default() }
}

fn agent(model: HttpModel) -> Agent {
    let policy = "version: 1\nmodels: {'*': {retry: {backoff: {kind: constant, delay: 1ms, jitter: none}}}}";
    let policy = Policy::from_yaml("policy.yaml", policy).unwrap();
    Agent::new(policy).model("main", model).tools(Tools::new().with(Camera::new()))
}

async fn serving(entries: impl IntoIterator<Item = ScriptEntry>) -> ScriptedServer {
    ScriptedServer::start(Script::new("s.yaml", entries), 0).await.unwrap()
}

fn bodies(server: &ScriptedServer) -> Vec<String> {
    server.requests().into_iter().map(|request| request.body.to_string()).collect()
}

#[tokio::test]
async fn every_dialect_is_shown_what_it_takes() {
    let [png, pdf, gif] = [PNG, PDF, GIF].map(|bytes| STANDARD.encode(bytes));
    for (dialect, made) in DIALECTS {
        let server = serving([ScriptEntry::call("camera", "{}"), ScriptEntry::text("A fox.")]).await;
        let report = agent(made(&server.base_url(), true)).run(task()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Answered { text: "A fox.".into() }, "{dialect}");
        let bodies = bodies(&server);
        let shows = |at: usize, what: &str| bodies[at].contains(what);
        assert!(shows(0, &png) && !shows(0, &gif), "{dialect}: {}", bodies[0]);
        assert!(
            shows(1, &png) && shows(1, &gif) && !shows(1, "image/gif, 18 bytes"),
            "{dialect}: {}",
            bodies[1]
        );
        // Bedrock has other rules for documents.
        let is_shown = dialect != "converse";
        assert_eq!(shows(1, &pdf), is_shown, "{dialect}: {}", bodies[1]);
        assert_eq!(shows(1, "report.pdf, application/pdf, 20 bytes: not shown"), !is_shown, "{dialect}");
        // The conversation is text, so logs and sizes know nothing else.
        let Message::User { text, .. } = &report.messages[0] else { panic!("the task") };
        let begins =
            "what is it?\n\n[image photo.png, image/png, 19 bytes: not shown, kept under the handle \"a-";
        assert!(text.starts_with(begins), "{text}");
    }
}

#[tokio::test]
async fn a_run_that_falls_back_shows_its_files_in_the_form_of_the_next_dialect() {
    let [png, pdf, gif] = [PNG, PDF, GIF].map(|bytes| STANDARD.encode(bytes));
    let policy = "version: 1\nmodels: {'*': {retry: {max_attempts: 1}}}\n";
    for (from, first) in DIALECTS {
        for (to, second) in DIALECTS {
            // The first one has called a tool by then, whose result has an image too.
            let gone = ScriptEntry::error(401, "authentication_error", "no such key").times(9);
            let one = serving([ScriptEntry::call("camera", "{}"), gone]).await;
            let other = serving([ScriptEntry::text("A fox.")]).await;
            let agent = Agent::new(Policy::from_yaml("policy.yaml", policy).unwrap())
                .model("one", first(&one.base_url(), true))
                .model("other", second(&other.base_url(), true))
                .tools(Tools::new().with(Camera::new()));
            let mut notes = SaidNotes::default();
            let report = agent.run_with(task(), &mut notes, None, StopSwitch::new()).await.unwrap();
            assert_eq!(report.outcome, Outcome::Answered { text: "A fox.".into() }, "{from} to {to}");
            let body = bodies(&other).remove(0);
            assert!(body.contains(&png) && body.contains(&gif), "{from} to {to}: {body}");
            let is_shown = to != "converse";
            assert_eq!(body.contains(&pdf), is_shown, "{from} to {to}: {body}");
            assert_eq!(body.contains("report.pdf, application/pdf, 20 bytes: not shown"), !is_shown);
            let named = notes.0.iter().filter(|note| note.contains("is not shown documents")).count();
            let expected = [from, to].iter().filter(|dialect| **dialect == "converse").count();
            assert_eq!(named, expected, "{from} to {to}: {notes:?}");
        }
    }
}

#[tokio::test]
async fn a_model_that_refuses_images_is_asked_without_them() {
    for (dialect, made) in DIALECTS {
        let refusal =
            ScriptEntry::error(400, "invalid_request_error", "This model does not support image input.");
        let server =
            serving([refusal, ScriptEntry::call("camera", "{}"), ScriptEntry::text("No idea.")]).await;
        let report = agent(made(&server.base_url(), false)).run(task()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Answered { text: "No idea.".into() }, "{dialect}");
        let bodies = bodies(&server);
        let images = [PNG, GIF].map(|bytes| STANDARD.encode(bytes));
        assert!(bodies[0].contains(&images[0]), "{dialect}");
        assert!(bodies[1].contains("image/png, 19 bytes: not shown"), "{dialect}: {}", bodies[1]);
        // It is remembered, and a document is another thing.
        for body in &bodies[1..] {
            assert!(images.iter().all(|image| !body.contains(image)), "{dialect}: {body}");
            assert_eq!(body.contains(&STANDARD.encode(PDF)), dialect != "converse", "{dialect}: {body}");
        }
    }
}

#[tokio::test]
async fn a_conversation_with_files_is_continued_with_the_new_ones() {
    for stream in [false, true] {
        let server = serving([ScriptEntry::call("camera", "{}"), ScriptEntry::text("A fox.")]).await;
        let model = HttpModel::new(ModelConfig {
            base_url: server.base_url(),
            stream,
            auto_previous_response_id: true,
            ..ModelConfig::new(Provider::RESPONSES, "scripted")
        });
        let report = agent(model.unwrap()).run(task()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Answered { text: "A fox.".into() });
        let body = bodies(&server).remove(1);
        assert!(body.contains(r#""previous_response_id":"resp_1""#), "{body}");
        assert!(body.contains(&STANDARD.encode(GIF)) && !body.contains(&STANDARD.encode(PNG)), "{body}");
    }
}

#[test]
fn only_what_models_can_be_shown_is_attached() {
    let unknown = TaskAttachment::new("a.png", b"text".as_slice()).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "`a.png` is neither an image (PNG, JPEG, GIF or WebP) nor a PDF, by its content"
    );
    let mut large = PNG.to_vec();
    large.resize(TaskAttachment::MOST_BYTES + 1, 0);
    let large = TaskAttachment::new("b.png", large).unwrap_err();
    assert!(matches!(large, AttachmentError::TooLarge { .. }), "{large}");
    assert_eq!(large.to_string(), "`b.png` has 10485761 bytes, and an attachment has at most 10 MiB");
}
