//! The certificate that an agent file names for `unfazed serve`.

use std::path::Path;
use std::time::SystemTime;

use super::named::NamedAgent;
use super::{AgentFile, TlsEntry};
use crate::host::server_certificate::{
    CertificateError, CertificateFiles, CertificateWatch, ServerCertificate,
};
use crate::policy::decode::DecodedDocument;
use crate::text::{Code, Diagnostic, Report};

impl TlsEntry {
    /// Its files. Paths start at `folder`.
    fn files(&self, folder: &Path) -> CertificateFiles {
        CertificateFiles {
            certificate: folder.join(&self.certificate.value),
            key: folder.join(&self.key.value),
        }
    }

    fn problem(&self, error: &CertificateError) -> Diagnostic {
        let (span, code) = match error {
            CertificateError::CertificateUnread { .. } => (self.certificate.span, Code::UNKNOWN_NAME),
            CertificateError::KeyUnread { .. } => (self.key.span, Code::UNKNOWN_NAME),
            CertificateError::Mismatch(_) => (self.key.span, Code::CONTRADICTION),
            error if error.is_of_key() => (self.key.span, Code::BAD_VALUE),
            _ => (self.certificate.span, Code::BAD_VALUE),
        };
        Diagnostic::error(code, span, error.to_string()).help(error.help())
    }
}

impl NamedAgent {
    /// The certificate that the file names, which may have expired; `None`: it names none.
    pub(super) fn tls(&self) -> Option<Result<(CertificateWatch, ServerCertificate), Report>> {
        let entry = self.file.value.tls.as_ref()?;
        let opened = CertificateWatch::open(entry.files(self.folder()));
        Some(opened.map_err(|error| self.file.report(vec![entry.problem(&error)])))
    }
}

/// What is wrong today with the certificate that a file names. `path` is where the file is.
pub(crate) fn tls_report(path: &Path, file: &DecodedDocument<AgentFile>) -> Option<Report> {
    let entry = file.value.tls.as_ref()?;
    let files = entry.files(path.parent().unwrap_or(Path::new("")));
    let wrong = files.problems(SystemTime::now());
    (!wrong.is_empty()).then(|| file.report(wrong.iter().map(|error| entry.problem(error))))
}
