//! From an agent file to a gateway.

use std::collections::BTreeMap;

use super::error::AgentFileError;
use super::gateway_error::GatewayFileError;
use super::gateway_watch::GatewayWatch;
use super::named::NamedAgent;
use super::routes::LimitedKeys;
use super::secrets::{NamedSecrets, ServerAccess};
use super::servers::AgentServers;
use super::{AgentFile, ModelEntry};
use crate::ErrorCause;
use crate::host::gateway::{Gateway, GatewayModel, GatewayPolicyError, RouteTable, RunLimit, gateway_policy};
use crate::host::policy_files::FileStamps;
use crate::host::scripted::{Script, ScriptedServer};
use crate::host::server_certificate::{CertificateWatch, ServerCertificate};
use crate::host::{LivePolicy, ModelConfig, ModelFacts, PolicyFiles, Provider};
use crate::policy::{Loader, Policy};
use crate::text::{Code, Diagnostic, Report};

/// How long requests in flight may take to end where no file says it.
const DEMO_DRAIN: core::time::Duration = core::time::Duration::from_secs(1);

/// A gateway that is made of a file.
pub(crate) struct FileGateway {
    pub(crate) gateway: Gateway,
    pub(crate) keys: LimitedKeys,
    /// How long requests in flight may take to end.
    pub(crate) drain: core::time::Duration,
    /// What connections are secured with; `None`: they are not.
    pub(crate) tls: Option<(CertificateWatch, ServerCertificate)>,
    /// The scripts that stand for models.
    pub(crate) servers: AgentServers,
    /// Looks whether the file has changed; `None`: there is none.
    pub(crate) watch: Option<GatewayWatch>,
}

impl FileGateway {
    /// The gateway to these scripts, under a policy that is named and read. They are started.
    ///
    /// # Errors
    /// The policy has mistakes, or a script cannot be served.
    pub(crate) async fn scripted(
        policy: (String, Vec<u8>),
        loader: &Loader,
        scripts: Vec<(String, Script)>,
        routes: RouteTable,
    ) -> Result<Self, GatewayFileError> {
        let names = scripts.iter().map(|(name, _)| name.as_str());
        let policy = gateway_policy(&mut PolicyFiles::new(), loader, vec![policy], names)?;
        let (mut models, mut servers) = (BTreeMap::new(), AgentServers::default());
        for (name, script) in scripts {
            let model = GatewayModel::default().facts(ModelFacts {
                provider: "scripted".to_owned(),
                model: script.model.clone(),
                price: None,
            });
            let model = scripted(model, &name, (script, 0), &mut servers).await;
            let model = model.map_err(|error| AgentFileError::model(&name, error))?;
            models.insert(name, model);
        }
        let gateway = Gateway::new(LivePolicy::new(policy), models, routes, 0);
        Ok(Self { gateway, keys: LimitedKeys::default(), drain: DEMO_DRAIN, tls: None, servers, watch: None })
    }
}

impl NamedAgent {
    /// The gateway to the models of the file. Scripts are started; nothing else is asked yet. The file has routes.
    ///
    /// # Errors
    /// Keys that are missing, models and certificates that cannot be used, and a policy that bounds a run.
    pub(crate) async fn gateway(self) -> Result<FileGateway, GatewayFileError> {
        let file = &self.file.value;
        let routed = file.routed_models();
        let tls = self.tls().transpose().map_err(AgentFileError::from)?;
        let (policy, seen) = self.gateway_policy()?;
        let live = LivePolicy::new(policy);
        let watch = GatewayWatch::new(self.path.clone(), self.loader.clone(), live.clone(), seen);
        let mut secrets = NamedSecrets::read(&self.file, self.folder()).map_err(AgentFileError::from)?;
        let (mut models, mut servers) = (BTreeMap::new(), AgentServers::default());
        for (name, entry) in file.models.iter().filter(|(name, _)| routed.contains(&name.as_str())) {
            let model = self.gateway_model(name, entry, secrets.take(name), &mut servers).await;
            models.insert(name.clone(), model.map_err(|error| AgentFileError::model(name, error))?);
        }
        let gateway = Gateway::new(live, models, file.route_table(), file.seed);
        Ok(FileGateway {
            gateway,
            keys: LimitedKeys::of(&self.file),
            drain: file.stop.of_gateway().into(),
            tls,
            servers,
            watch: Some(watch),
        })
    }

    /// Why its policy can be none of a gateway, if the file has routes.
    pub(crate) fn gateway_problem(&self) -> Option<Report> {
        let limited = !self.file.value.routes.is_empty();
        let error = limited.then(|| self.gateway_policy().err()).flatten()?;
        // What else is wrong with the files was said already.
        let GatewayPolicyError::RunLimits(limits) = error else { return None };
        let at = AgentFile::key(&self.file, &["routes"]);
        let problem = |limit: &RunLimit| {
            Diagnostic::error(Code::CONTRADICTION, at, limit.to_string())
                .help("or put `routes` into a file with a policy of its own")
        };
        Some(self.file.report(limits.iter().map(problem)))
    }

    /// The policy, and what its files were when they were read.
    pub(super) fn gateway_policy(&self) -> Result<(Policy, FileStamps), GatewayPolicyError> {
        let mut files = PolicyFiles::new();
        let models = self.file.value.models.keys().map(String::as_str);
        let named = files.read_all(&self.policy_paths()).map_err(GatewayPolicyError::from)?;
        let policy = gateway_policy(&mut files, &self.loader, named, models)?;
        Ok((policy, files.into_stamps()))
    }

    async fn gateway_model(
        &self,
        name: &str,
        entry: &ModelEntry,
        ServerAccess { key, renewed, headers }: ServerAccess,
        servers: &mut AgentServers,
    ) -> Result<GatewayModel, ErrorCause> {
        let facts = ModelFacts { price: self.price(name), ..entry.facts(name) };
        let model = GatewayModel::default().facts(facts);
        match entry {
            ModelEntry::Api(api) => {
                let config = ModelConfig { api_key: key, renewed_key: renewed, headers, ..api.config() };
                model.speaking(config)
            }
            ModelEntry::Scripted(entry) => {
                let script = self.scripts.get(name).cloned();
                let script = script.ok_or_else(|| ErrorCause::new("its script was not read"))?;
                scripted(model, name, (script, entry.port), servers).await
            }
        }
    }
}

/// The model, as a script that is served at that port.
async fn scripted(
    model: GatewayModel,
    name: &str,
    (script, port): (Script, u16),
    servers: &mut AgentServers,
) -> Result<GatewayModel, ErrorCause> {
    let server = ScriptedServer::start(script, port).await?;
    let base_url = server.base_url();
    servers.scripted.push(server);
    let speaking = |model: GatewayModel, provider| {
        model.speaking(ModelConfig { base_url: base_url.clone(), ..ModelConfig::new(provider, name) })
    };
    Provider::SPOKEN_BY_CLIENTS.into_iter().try_fold(model, speaking)
}

impl AgentFile {
    /// The models that a route leads to.
    fn routed_models(&self) -> Vec<&str> {
        self.routes.values().flat_map(|models| &models.0).map(|model| &*model.value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;

    #[test]
    fn requests_have_longer_to_end_than_runs_unless_the_file_says_how_long() {
        let times = |stop: &str| {
            let text = format!("version: 1\nmodels: {{m: {{api: scripted, script: s.yaml}}}}\n{stop}");
            let stop = AgentFile::read("gateway.yaml", text.as_bytes()).unwrap().value.stop;
            (stop.of_run(), stop.of_gateway())
        };
        assert_eq!(times(""), (Nanos::from_secs(5), Nanos::from_secs(60)));
        assert_eq!(times("stop: {drain: 9s}"), (Nanos::from_secs(9), Nanos::from_secs(9)));
    }
}
