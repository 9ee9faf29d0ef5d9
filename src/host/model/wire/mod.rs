//! The chat-completions wire format: what is written to a model and read from it.
//!
//! Few fields are typed; everything else a provider sends is kept in `extra` and goes back with the message. Reading
//! is lenient about what providers do differently (missing ids, arguments as an object, content in parts) and
//! strict about what would change the meaning.

mod lenient;
mod message;
mod reply;
mod request;
mod stream;

pub(crate) use message::{ChatMessage, Content};
pub(crate) use reply::read_body;
pub(crate) use request::{ChatRequest, Sampling};
pub(crate) use stream::{Assembly, Progress};
