//! The scripted model: replies and faults from a file, in order or as they match. Without a network, and over
//! real HTTP on loopback.

#[cfg(feature = "scripted")]
mod anthropic;
#[cfg(feature = "scripted")]
mod chunks;
#[cfg(feature = "scripted")]
mod connection;
#[cfg(all(feature = "scripted", feature = "bedrock"))]
mod converse;
#[cfg(feature = "scripted")]
mod dialect;
mod document;
mod facts;
#[cfg(feature = "scripted")]
mod gemini;
mod history;
mod model;
mod render;
#[cfg(feature = "scripted")]
mod responses;
mod script;
#[cfg(feature = "scripted")]
mod server;

pub(crate) use document::ReplyFile;
pub use model::ScriptedModel;
pub(crate) use model::play;
pub(crate) use script::ScriptState;
pub use script::{
    ErrorReply, RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptFault, ScriptOutcome, ScriptedCall,
};
#[cfg(feature = "scripted")]
pub use server::{ScriptedServer, SeenRequest, ServeError};
