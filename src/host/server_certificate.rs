//! The certificate of a server and its private key, from PEM files that may be renewed while it serves.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError as Invalid, RootCertStore};

use super::file_error;
use super::policy_files::FileStamp;
use super::read_file::read_file;

/// The most bytes of one of the files. A chain takes a few thousand.
const MOST: u64 = 1 << 20;

/// Where a certificate and its private key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    /// The certificate of the server, and behind it those of who issued it.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// A certificate with its private key. It has no `Debug`.
pub(crate) struct ServerCertificate {
    pub(crate) certified: Arc<CertifiedKey>,
    path: PathBuf,
}

/// Why a certificate cannot be used. Nothing of the private key is in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("cannot read the certificate {}: {}", path.display(), file_error(source))]
    CertificateUnread { path: PathBuf, source: io::Error },
    #[error("cannot read the private key {}: {}", path.display(), file_error(source))]
    KeyUnread { path: PathBuf, source: io::Error },
    #[error("{} has no certificate in PEM form", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} has no private key in PEM form without a passphrase", .0.display())]
    NoKey(PathBuf),
    #[error("the certificate {} cannot be used: {source}", path.display())]
    BadCertificate { path: PathBuf, source: rustls::Error },
    #[error("the private key {} is of no kind that TLS uses", .0.display())]
    BadKey(PathBuf),
    #[error("the private key {} does not belong to the certificate {}", .0.key.display(), .0.certificate.display())]
    Mismatch(CertificateFiles),
    #[error("the certificate {} has expired: it was valid until {until}", path.display())]
    Expired { path: PathBuf, until: String },
    #[error("the certificate {} is not valid before {from}", path.display())]
    TooEarly { path: PathBuf, from: String },
}

/// The files, looked at again while the server runs.
pub(crate) struct CertificateWatch {
    files: CertificateFiles,
    seen: [Option<FileStamp>; 2],
    has_changed: bool,
}

impl CertificateFiles {
    /// Reads both. Whether it is valid today, [`ServerCertificate::valid`] says.
    ///
    /// # Errors
    /// They cannot be read, or not be used together.
    pub(crate) fn read(&self) -> Result<ServerCertificate, CertificateError> {
        self.certified(self.chain()?, self.private_key()?)
    }

    /// All that is wrong with them at that time.
    pub(crate) fn problems(&self, now: SystemTime) -> Vec<CertificateError> {
        let wrong = match (self.chain(), self.private_key()) {
            (Ok(chain), Ok(key)) => [self.certified(chain, key).and_then(|held| held.valid(now)).err(), None],
            (chain, key) => [chain.err(), key.err()],
        };
        wrong.into_iter().flatten().collect()
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let path = &self.certificate;
        let chain = read_file(path, MOST)
            .map_err(|source| CertificateError::CertificateUnread { path: path.clone(), source })?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
        let no_certificate = || CertificateError::NoCertificate(path.clone());
        chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(no_certificate)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, CertificateError> {
        let path = &self.key;
        let pem = read_file(path, MOST)
            .map_err(|source| CertificateError::KeyUnread { path: path.clone(), source })?;
        // What the reader says of a mistake may repeat the line.
        PrivateKeyDer::from_pem_slice(&pem).map_err(|_| CertificateError::NoKey(path.clone()))
    }

    fn certified(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<ServerCertificate, CertificateError> {
        let provider = provider();
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|_| CertificateError::BadKey(self.key.clone()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // Whether they match cannot be said of every kind of key.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Ok(ServerCertificate { certified: Arc::new(certified), path: self.certificate.clone() })
            }
            Err(rustls::Error::InconsistentKeys(_)) => Err(CertificateError::Mismatch(self.clone())),
            Err(source) => Err(CertificateError::BadCertificate { path: self.certificate.clone(), source }),
        }
    }

    fn stamps(&self) -> [Option<FileStamp>; 2] {
        [&self.certificate, &self.key].map(|path| FileStamp::of(path))
    }
}

impl ServerCertificate {
    /// Whether clients take it at that time, as far as its dates say.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn valid(&self, at: SystemTime) -> Result<(), CertificateError> {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let path = || self.path.clone();
        let bad = |source| CertificateError::BadCertificate { path: path(), source };
        let end_entity = self.certified.end_entity_cert().map_err(bad)?;
        let parsed = ParsedCertificate::try_from(end_entity).map_err(bad)?;
        // Its dates are looked at first. That nobody is trusted here to have issued it says nothing.
        let verified = rustls::client::verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &RootCertStore::empty(),
            &[],
            UnixTime::since_unix_epoch(at),
            provider().signature_verification_algorithms.all,
        );
        match verified {
            Err(rustls::Error::InvalidCertificate(Invalid::ExpiredContext { not_after, .. })) => {
                Err(CertificateError::Expired { path: path(), until: date(not_after) })
            }
            Err(rustls::Error::InvalidCertificate(Invalid::NotValidYetContext { not_before, .. })) => {
                Err(CertificateError::TooEarly { path: path(), from: date(not_before) })
            }
            _ => Ok(()),
        }
    }
}

impl CertificateError {
    /// Whether the file of the key has the mistake.
    pub(crate) const fn is_of_key(&self) -> bool {
        matches!(self, Self::KeyUnread { .. } | Self::NoKey(_) | Self::BadKey(_) | Self::Mismatch(_))
    }

    /// What to do.
    pub(crate) const fn help(&self) -> &'static str {
        match self {
            Self::CertificateUnread { .. } | Self::KeyUnread { .. } => {
                "paths start at the folder of this file"
            }
            Self::NoCertificate(_) | Self::BadCertificate { .. } => {
                "it begins with `-----BEGIN CERTIFICATE-----`: the server's own certificate, then those of its issuers"
            }
            Self::NoKey(_) => "it begins with `-----BEGIN PRIVATE KEY-----`",
            Self::BadKey(_) => "use ECDSA with P-256 or P-384, Ed25519, or RSA with 2048 bits or more",
            Self::Mismatch(_) => {
                "the server's own certificate is the first of its file; name the key it was made for"
            }
            Self::Expired { .. } => "renew it; a server that runs takes the new one by itself",
            Self::TooEarly { .. } => "look at the clock of this machine, or wait",
        }
    }
}

impl CertificateWatch {
    /// Reads the files, and remembers what they were.
    ///
    /// # Errors
    /// They cannot be used.
    pub(crate) fn open(files: CertificateFiles) -> Result<(Self, ServerCertificate), CertificateError> {
        let seen = files.stamps();
        let certificate = files.read()?;
        Ok((Self { files, seen, has_changed: false }, certificate))
    }

    /// Reads the files if they have changed since the last look but one: programs that renew them write one after the other.
    /// `None`: they have not.
    ///
    /// # Errors
    /// They cannot be used, or are not valid now. It is said once for each change.
    pub(crate) fn poll(&mut self) -> Option<Result<ServerCertificate, CertificateError>> {
        let now = self.files.stamps();
        if now != self.seen {
            (self.seen, self.has_changed) = (now, true);
            return None;
        }
        core::mem::take(&mut self.has_changed).then(|| {
            let certificate = self.files.read()?;
            certificate.valid(SystemTime::now())?;
            Ok(certificate)
        })
    }
}

/// The provider is for this server only: the default of the process belongs to the embedding program.
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// A time as people read it.
fn date(at: UnixTime) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at.as_secs()));
    at.map_or_else(|| "a date far away".to_owned(), |at| humantime::format_rfc3339_seconds(at).to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn made() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/serve/certificates")
    }

    fn files(certificate: &str, key: &str) -> CertificateFiles {
        CertificateFiles { certificate: made().join(certificate), key: made().join(key) }
    }

    #[test]
    fn files_that_are_no_pair_are_refused_in_words() {
        assert!(files("first.pem", "first.key").read().is_ok());
        for (certificate, key, said, is_of_key) in [
            ("first.pem", "second.key", "does not belong to the certificate", true),
            ("none.pem", "first.key", "cannot read the certificate", false),
            ("first.pem", "none.key", "cannot read the private key", true),
            ("first.key", "first.key", "has no certificate in PEM form", false),
            ("first.pem", "first.pem", "has no private key in PEM form", true),
        ] {
            let error = files(certificate, key).read().err().unwrap();
            assert!(error.to_string().contains(said) && error.is_of_key() == is_of_key, "{error}");
        }
    }

    #[test]
    fn no_error_shows_what_is_in_the_file_of_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(made().join("first.key")).unwrap();
        let secret = text.lines().nth(1).unwrap();
        for broken in [
            format!("-----BEGIN PRIVATE {secret}\n"),
            format!("-----BEGIN PRIVATE KEY-----\n{secret}!\n-----END PRIVATE KEY-----\n"),
            format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n"),
            format!("-----BEGIN PRIVATE KEY-----\n{secret}\n"),
        ] {
            let key = folder.path().join("broken.key");
            std::fs::write(&key, &broken).unwrap();
            let error = CertificateFiles { key, ..files("first.pem", "") }.read().err().unwrap();
            assert!(error.is_of_key(), "{error}");
            assert!(!format!("{error} {error:?}").contains(secret.get(..20).unwrap()), "{error:?}");
        }
    }

    #[test]
    fn its_dates_are_looked_at() {
        let certificate = files("first.pem", "first.key").read().ok().unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let said = |seconds| certificate.valid(at(seconds)).map_err(|error| error.to_string());
        assert_eq!(said(1_800_000_000), Ok(()));
        let early = said(1_500_000_000).unwrap_err();
        assert!(early.ends_with("is not valid before 2020-01-01T00:00:00Z"), "{early}");
        let late = said(5_000_000_000).unwrap_err();
        assert!(late.ends_with("has expired: it was valid until 2120-01-01T00:00:00Z"), "{late}");
    }
}
