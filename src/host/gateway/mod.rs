//! The gateway: requests of any SDK, relayed to models under a policy.
//!
//! Each request is a turn of one [`Guard`](super::Guard), which all requests of a process share: a model that was given up for one is passed
//! over for the others, and budgets of retries are one. Nothing is decided here. The bytes of requests and answers pass as
//! they are, but for a conversation that has to be repaired; until the first content of an answer is out, the policy may have the
//! request sent again.

mod answer;
mod board;
mod classify;
mod contract;
mod due;
mod endpoint;
mod error;
mod history;
mod layer;
mod models;
mod progress;
mod quota;
mod relay;
mod request;
mod routes;
mod said;
mod sharing;
mod status;
mod turn;
mod wording;

pub(crate) use self::answer::{GatewayAnswer, GatewayBody};
pub(crate) use self::endpoint::{GatewayEndpoint, PathCall};
pub(crate) use self::error::GatewayError;
pub(crate) use self::layer::{GatewayPolicyError, RunLimit, gateway_policy};
pub(crate) use self::models::GatewayModel;
pub(crate) use self::quota::{KeyBudget, KeyRule, KeyRules, Placed, SpentRecord};
pub(crate) use self::relay::{Gateway, GatewayRequest};
pub(crate) use self::request::RequestBody;
pub(crate) use self::routes::{Route, RouteTable};
pub(crate) use super::model::front::GatewayDialect;
