//! How large the windows of the models are: asked of their servers before the run.

use std::time::Duration;

use futures_util::future::join_all;

use crate::context::ModelCatalogue;
use crate::engine::KnownWindow;
use crate::host::{WindowPages, WindowQuestion, known_window};
use crate::policy::{ContextWindow, Policy};

/// The longest all servers together may take to answer.
const LONGEST: Duration = Duration::from_secs(2);

/// What is asked before the run.
pub(super) struct WindowQuestions {
    policy: Policy,
    file: Option<ModelCatalogue>,
    asked: Vec<AskedModel>,
}

/// A model, and the question to its server, if it is asked.
struct AskedModel {
    name: String,
    model: String,
    most: Option<u32>,
    question: Option<WindowQuestion>,
}

impl WindowQuestions {
    pub(super) const fn new(policy: Policy, file: Option<ModelCatalogue>) -> Self {
        Self { policy, file, asked: Vec::new() }
    }

    /// Adds a model by the name of the agent file and its name on the server, with the most tokens its file grants a reply.
    /// What the policy says is not asked.
    pub(super) fn add(
        &mut self,
        name: &str,
        model: &str,
        most: Option<u32>,
        question: Option<WindowQuestion>,
    ) {
        let unknown = self.policy.model(name).context_window.value == ContextWindow::Unknown;
        let question = question.filter(|_| unknown);
        self.asked.push(AskedModel { name: name.to_owned(), model: model.to_owned(), most, question });
    }

    /// The windows, as far as anybody knows them.
    pub(super) async fn answers(self) -> Vec<(String, KnownWindow)> {
        let Self { policy, file, asked } = self;
        let pages = WindowPages::default();
        let answers = asked.into_iter().map(async |AskedModel { name, model, most, question }| {
            let told = match question {
                Some(question) => question.ask(LONGEST, &pages).await,
                None => None,
            };
            let known = known_window(&policy.model(&name), told, file.as_ref(), &model);
            tracing::debug!(model = name, known = ?known, "window of the model");
            let own = most.map(u64::from);
            known.map(|known| {
                let output = [known.output, own].into_iter().flatten().min();
                (name, KnownWindow { output, ..known })
            })
        });
        join_all(answers).await.into_iter().flatten().collect()
    }
}
