//! Servers of tools, as the agent file names them: a command to start, or an address.

use std::ops::Deref;

use indexmap::IndexMap;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::{AgentFile, MOST_NAME, START, headers};
use crate::host::header_entry::HeaderEntry;
use crate::policy::decode::{Decode, DecodedDocument, NodeReader, SchemaOf, Spanned, record};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, Span};
use crate::time::Nanos;

record! {
    /// A server of tools that speaks the Model Context Protocol: `command` or `url` says how it is reached.
    #[part(true)]
    pub(crate) struct McpEntry {
        /// The program and its arguments; it speaks on its standard input and output. No shell is involved unless it is
        /// the program.
        /// Example: `["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]`
        pub command: Option<Spanned<Vec<String>>>,
        /// Where it is, if it is reached over HTTP.
        /// Example: `https://tools.example.org/mcp`
        pub url: Option<Spanned<String>>,
        /// Variables of its environment, besides those every program sees.
        /// Example: `{"LOG_LEVEL": "error"}`
        pub env: Option<Spanned<IndexMap<String, String>>>,
        /// Variables of this process that are passed on to it.
        /// Example: `["GITHUB_TOKEN"]`
        pub pass_env: Option<Spanned<Vec<String>>>,
        /// The folder it runs in; the path starts at this file's folder, which is also the default.
        /// Example: `data`
        pub cwd: Option<Spanned<String>>,
        /// Further headers of its requests. What is secret is not written here but where it is: `{env: NAME}` or
        /// `{file: PATH}`.
        /// Example: `{"authorization": {"env": "TOOLS_AUTHORIZATION"}}`
        pub headers: IndexMap<String, HeaderEntry> = IndexMap::new(),
        /// Prefix of the names of its tools. Left out: the server's name and `__`.
        /// Example: `fs_`
        pub prefix: Option<Spanned<String>>,
        /// The longest it may take to start, and to list its tools.
        /// Example: `1m`
        pub start_timeout: Nanos = Nanos::from_secs(30),
        /// How long its processes have, once asked to end, before they are killed.
        /// Example: `500ms`
        pub grace: Nanos = Nanos::from_secs(2),
        /// The most bytes of a result that are kept.
        /// Example: `65536`
        pub max_output: u32 = 1_048_576,
    }
}

impl McpEntry {
    /// Prefix of the names of the tools of the server of that name.
    pub(crate) fn prefix_for(&self, name: &str) -> String {
        self.prefix.as_ref().map_or_else(|| format!("{name}__"), |prefix| prefix.value.clone())
    }

    /// The variables that are set for the server, and the names of those that are passed on to it.
    pub(super) fn environment(&self) -> (IndexMap<String, String>, Vec<String>) {
        let env = self.env.as_ref().map(|env| env.value.clone()).unwrap_or_default();
        (env, self.pass_env.as_ref().map(|names| names.value.clone()).unwrap_or_default())
    }
}

/// Servers by their names. `mcp: {servers: {NAME: …}}` is the same as `mcp: {NAME: …}`, for who is used to that from clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct McpServers {
    entries: IndexMap<String, McpEntry>,
    /// The keys above those of the servers.
    above: &'static [&'static str],
}

impl McpServers {
    /// Where a key below that of the servers is written: `["fs", "command"]`; the start of the file if it is not there.
    pub(crate) fn place(document: &DecodedDocument<AgentFile>, path: &[&str]) -> Span {
        AgentFile::key(document, &Self::path(document, path))
    }

    fn path<'a>(document: &DecodedDocument<AgentFile>, path: &[&'a str]) -> Vec<&'a str> {
        [document.value.mcp.above, path].concat()
    }
}

impl Deref for McpServers {
    type Target = IndexMap<String, McpEntry>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl Decode for McpServers {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let below = below_servers(node);
        let above: &[&str] = if below.is_some() { &["mcp", "servers"] } else { &["mcp"] };
        Decode::decode(below.unwrap_or(node), reader).map(|entries| Self { entries, above })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let servers = generator.subschema_for::<SchemaOf<IndexMap<String, McpEntry>>>();
        let named = json_schema!({
            "description": "The same servers, a level further down.",
            "examples": [{"fs": {"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]}}],
            "allOf": [servers],
        });
        let below = json_schema!({
            "type": "object", "properties": {"servers": named}, "required": ["servers"], "additionalProperties": false,
        });
        json_schema!({"anyOf": [servers, below]})
    }
}

/// The servers, if they are under `servers`. A server can have that name itself: then it has `command` or `url`, which are no mappings.
fn below_servers(node: &YamlNode) -> Option<&YamlNode> {
    let is_mapping = |node: &YamlNode| matches!(node.data, YamlData::Map(_));
    let YamlData::Map(entries) = &node.data else { return None };
    let [(key, servers)] = &**entries else { return None };
    let YamlData::Map(named) = &servers.data else { return None };
    (&*key.name == "servers" && named.iter().all(|(_, server)| is_mapping(server))).then_some(servers)
}

/// What is wrong with the server of that name.
pub(super) fn problems(
    document: &DecodedDocument<AgentFile>,
    name: &str,
    entry: &McpEntry,
) -> Vec<Diagnostic> {
    let at = McpServers::place(document, &[name]);
    let wrong = |at: Span, message: String| Diagnostic::error(Code::BAD_VALUE, at, message);
    let mut problems =
        headers::problems(document, &McpServers::path(document, &[name, "headers"]), headers_of(entry));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let prefix = entry.prefix_for(name);
    if prefix.len() >= MOST_NAME || !prefix.chars().all(allowed) {
        let at = entry.prefix.as_ref().map_or(at, |prefix| prefix.span);
        let problem = wrong(at, format!("providers refuse names of tools that begin with `{prefix}`"));
        problems
            .push(problem.help("use letters, digits, `_` and `-`, less than 64 of them; or set `prefix`"));
    }
    // What is there and cannot be read was reported already.
    let unread =
        |field: &str| document.lost().any(&[field]) && McpServers::place(document, &[name, field]) != START;
    match (&entry.command, &entry.url) {
        (None, None) if unread("command") || unread("url") => {}
        (None, None) if !document.lost().any(&["McpEntry"]) => {
            let problem = wrong(at, format!("nothing says how MCP server `{name}` is reached"));
            problems.push(problem.help("write `command: [npx, ...]` or `url: https://...`"));
        }
        (Some(_), Some(url)) => {
            let message = "a server is reached by `command` or by `url`, not by both".to_owned();
            problems.push(wrong(url.span, message).help("remove one of them"));
        }
        _ => {}
    }
    if let Some(command) = &entry.command {
        if command.value.first().is_none_or(|program| program.trim().is_empty()) {
            let problem = wrong(command.span, "the command is empty".into());
            problems.push(problem.help("write the program and its arguments: `[npx, -y, some-server]`"));
        }
        if let Some(first) = entry.headers.keys().next() {
            let at = McpServers::place(document, &[name, "headers", first]);
            problems.push(wrong(at, "a server that is a command gets no headers".into()).help("use `env`"));
        }
    }
    if let Some(url) = &entry.url {
        problems.extend(url_problem(url));
        let of_commands = [
            ("env", entry.env.as_ref().map(|env| env.span)),
            ("pass_env", entry.pass_env.as_ref().map(|env| env.span)),
            ("cwd", entry.cwd.as_ref().map(|cwd| cwd.span)),
        ];
        for (field, span) in of_commands {
            if let Some(span) = span {
                problems.push(wrong(
                    span,
                    format!("`{field}` is of no use to a server that is reached by `url`"),
                ));
            }
        }
    }
    problems
}

fn headers_of(entry: &McpEntry) -> impl Iterator<Item = (&str, &HeaderEntry)> {
    entry.headers.iter().map(|(name, entry)| (name.as_str(), entry))
}

fn url_problem(url: &Spanned<String>) -> Option<Diagnostic> {
    let wrong = |message: String| Diagnostic::error(Code::BAD_VALUE, url.span, message);
    match reqwest::Url::parse(url.value.trim()) {
        Err(error) => {
            let problem = wrong(format!("`url` is not a URL ({error})"));
            Some(problem.help("write it like `https://tools.example.org/mcp`"))
        }
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            Some(wrong(format!("`url` starts with `{}:`; only http and https are spoken", url.scheme())))
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            let problem = wrong("`url` holds a user name or password".into());
            Some(problem.help("put the key into `headers`, as `{env: NAME}`"))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(mcp: &str) -> String {
        let text = format!("version: 1\nmodels: {{m: {{api: scripted, script: s.yaml}}}}\nmcp:{mcp}");
        AgentFile::read("agent.yaml", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_server_is_a_command_or_an_address() {
        let text = "version: 1\nmodels: {m: {api: scripted, script: s.yaml}}\nmcp:\n  \
                    fs: {command: [npx, server], env: {A: b}, cwd: data}\n  \
                    web: {url: 'https://example.org/mcp', headers: {authorization: {env: TOKEN}}, prefix: ''}\n";
        let file = AgentFile::read("agent.yaml", text.as_bytes()).unwrap().value;
        assert_eq!(file.mcp["fs"].prefix_for("fs"), "fs__");
        assert_eq!(file.mcp["web"].prefix_for("web"), "");
        assert_eq!(file.mcp["fs"].start_timeout, Nanos::from_secs(30));
    }

    #[test]
    fn servers_may_stand_under_servers() {
        let of = |mcp: &str| {
            let file =
                AgentFile::read("agent.yaml", format!("version: 1\nmcp: {mcp}\n").as_bytes()).unwrap().value;
            file.mcp.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(of("{servers: {fs: {command: [a]}, web: {url: 'http://x/'}}}"), ["fs", "web"]);
        assert_eq!(of("{servers: {command: [a], env: {A: b}}}"), ["servers"]);
        assert_eq!(of("{servers: {command: [a]}, fs: {command: [b]}}"), ["servers", "fs"]);
        insta::assert_snapshot!(mistakes("\n  servers:\n    odd: {command: [a], headers: {x-a: b}}\n    none: {}\n"), @r"
        agent.yaml:5:35: error[P0104]: a server that is a command gets no headers
        agent.yaml:6:5: error[P0104]: nothing says how MCP server `none` is reached
        ");
    }

    #[test]
    fn mistakes_are_told_with_their_places() {
        insta::assert_snapshot!(mistakes("
  none: {}
  both: {command: [a], url: 'http://x/'}
  empty: {command: []}
  ftp: {url: 'ftp://x/', env: {A: b}}
  secret: {url: 'http://x/', headers: {authorization: Bearer abc}}
  odd: {command: [a], headers: {x-a: b}, prefix: 'a.b'}
"), @r"
        agent.yaml:4:3: error[P0104]: nothing says how MCP server `none` is reached
        agent.yaml:5:29: error[P0104]: a server is reached by `command` or by `url`, not by both
        agent.yaml:6:20: error[P0104]: the command is empty
        agent.yaml:7:14: error[P0104]: `url` starts with `ftp:`; only http and https are spoken
        agent.yaml:7:31: error[P0104]: `env` is of no use to a server that is reached by `url`
        agent.yaml:8:40: error[P0104]: header `authorization` holds a secret, and secrets are never written into the file
        agent.yaml:9:33: error[P0104]: a server that is a command gets no headers
        agent.yaml:9:50: error[P0104]: providers refuse names of tools that begin with `a.b`
        ");
    }

    #[test]
    fn what_says_how_a_server_is_reached_and_cannot_be_read_is_not_missed_too() {
        insta::assert_snapshot!(mistakes("
  bad: {command: [yes]}
  odd: {url: [a]}
  none: {}
"), @r"
        agent.yaml:4:19: error[P0006]: `yes` is read differently by different YAML readers
        agent.yaml:5:14: error[P0103]: expected a string, found a list
        agent.yaml:6:3: error[P0104]: nothing says how MCP server `none` is reached
        ");
    }
}
