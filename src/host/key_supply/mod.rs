//! Where keys come from that expire: what a command prints, and a file that others write anew.

mod command;
mod file;
mod text;

pub use command::CommandKey;
pub use file::FileKey;
