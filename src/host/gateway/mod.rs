//! The gateway: requests of any SDK, relayed to models under a policy.
//!
//! Each request is a turn of one [`Guard`](super::Guard), which all requests of a process share: a model that was given up for one is passed
//! over for the others, and budgets of retries are one. Nothing is decided here. The bytes of requests and answers pass as
//! they are; until the first content of an answer is out, the policy may have the request sent again.

#[cfg(feature = "serve")]
mod answer;
#[cfg(feature = "serve")]
mod classify;
mod dialect;
#[cfg(feature = "serve")]
mod error;
#[cfg(feature = "serve")]
mod layer;
#[cfg(feature = "serve")]
mod models;
#[cfg(feature = "serve")]
mod progress;
#[cfg(feature = "serve")]
mod relay;
#[cfg(feature = "serve")]
mod request;
#[cfg(feature = "serve")]
mod routes;
#[cfg(feature = "serve")]
mod turn;
#[cfg(feature = "serve")]
mod wording;

#[cfg(feature = "serve")]
pub(crate) use self::answer::{GatewayAnswer, GatewayBody};
pub(crate) use self::dialect::GatewayDialect;
#[cfg(feature = "serve")]
pub(crate) use self::error::GatewayError;
#[cfg(feature = "serve")]
pub(crate) use self::layer::{GatewayPolicyError, gateway_policy};
#[cfg(feature = "serve")]
pub(crate) use self::models::GatewayModel;
#[cfg(feature = "serve")]
pub(crate) use self::relay::{Gateway, GatewayRequest};
#[cfg(feature = "serve")]
pub(crate) use self::request::RequestBody;
#[cfg(feature = "serve")]
pub(crate) use self::routes::{Route, RouteTable};
