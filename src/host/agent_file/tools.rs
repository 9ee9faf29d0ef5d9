//! The tools that an agent file names itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ToolEntry;
use super::named::NamedAgent;
use crate::engine::{RunFacts, ToolOutcome, ToolSpec};
use crate::host::{
    BackgroundProcesses, BoxFuture, ProcessConfig, ProcessTool, Tool, ToolInput, Tools, builtin,
};

impl NamedAgent {
    /// The tools that the file itself names; those of its servers are known when they have been started.
    pub fn tools(&self) -> Tools {
        let file = &self.file.value;
        let most = usize::try_from(file.background.max.get()).unwrap_or(usize::MAX);
        let processes = BackgroundProcesses::new(most);
        file.tools.iter().filter_map(|(name, entry)| tool(name, entry, self, &processes)).collect()
    }

    /// The folder a program runs in: one from the folder of the file, or that folder.
    pub(super) fn working_dir(&self, dir: Option<&str>) -> PathBuf {
        let folder = self.folder();
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        dir.map_or_else(|| here.to_path_buf(), |dir| here.join(dir))
    }
}

/// The tool; `None` for a built-in one that does not exist, which the check of the file has refused.
fn tool(
    name: &str,
    entry: &ToolEntry,
    agent: &NamedAgent,
    processes: &BackgroundProcesses,
) -> Option<Arc<dyn Tool>> {
    match entry {
        ToolEntry::Builtin { name: which } => {
            let which = which.as_ref().map_or(name, |which| which.value.as_str());
            let tool = builtin(which).or_else(|| processes.tool(which))?;
            let spec = ToolSpec { name: name.to_owned(), ..tool.spec().clone() };
            Some(if tool.spec().name == name { tool } else { Arc::new(RenamedTool { spec, tool }) })
        }
        ToolEntry::Process {
            command,
            working_dir,
            env,
            pass_env,
            arguments,
            stdin,
            output,
            max_output,
            timeout,
            on_timeout,
            grace,
            linger,
            keep_running,
            ..
        } => {
            let mut config = ProcessConfig::new(entry.spec(name)?, command.value.clone())
                .working_dir(agent.working_dir(working_dir.as_deref()))
                .env(env.clone())
                .pass_env(pass_env.iter().cloned())
                .arguments(arguments.iter().map(|argument| argument.0.clone()))
                .output(*output)
                .max_output(usize::try_from(*max_output).unwrap_or(usize::MAX))
                .on_timeout(on_timeout.as_ref().map(|what| what.value).unwrap_or_default())
                .grace((*grace).into())
                .linger((*linger).into())
                .background(processes.clone())
                .keep_running(keep_running.as_ref().is_some_and(|keep| keep.value));
            if let Some(stdin) = stdin {
                config = config.stdin(*stdin);
            }
            if let Some(timeout) = timeout {
                config = config.timeout(timeout.value.into());
            }
            Some(Arc::new(ProcessTool::new(config)))
        }
    }
}

/// A tool under another name.
struct RenamedTool {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

impl Tool for RenamedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        self.tool.run(input)
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        self.tool.settled()
    }

    fn run_told<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
        self.tool.run_told(input)
    }
}
