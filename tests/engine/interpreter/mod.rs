//! The interpreter, event by event, in a time that the test tells.

mod batches;
mod breakers;
mod drive;
mod histories;
mod laws;
mod loops;
mod models;
mod outputs;
mod proposals;
mod reducers;
mod tools;
