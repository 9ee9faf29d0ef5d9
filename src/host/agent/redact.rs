//! What nobody may see: it is taken out at the door, before it becomes an event. So the session is decided again as it was
//! decided first.

use std::sync::Arc;

use secrecy::SecretString;

use super::Agent;
use crate::host::RenewedKey;
use crate::host::redact::SecretRedactor;

impl Agent {
    /// Takes these values out of everything that becomes an event: replies of models, outcomes of tools, the task.
    /// So they reach neither the session nor logs, observers or the model.
    #[must_use]
    pub fn redact(mut self, values: impl IntoIterator<Item = SecretString>) -> Self {
        self.redactor = Arc::new(self.redactor.instead(values));
        self
    }

    /// Takes the keys that come from there out, too, each from when on it is known.
    #[must_use]
    pub fn redact_renewed<'a>(mut self, keys: impl IntoIterator<Item = &'a RenewedKey>) -> Self {
        let learned = keys.into_iter().map(RenewedKey::learned);
        self.redactor = Arc::new(SecretRedactor::clone(&self.redactor).learning(learned));
        self
    }

    /// Whether what only has the form of a secret is taken out too: keys of well-known services, passwords in addresses,
    /// private keys. It is, unless this says otherwise.
    #[must_use]
    pub fn redact_forms(mut self, forms: bool) -> Self {
        self.redactor = Arc::new(SecretRedactor::clone(&self.redactor).with_forms(forms));
        self
    }
}
