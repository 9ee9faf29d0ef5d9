//! What every place that keeps sessions must do, shown of each. A folder is always there; `PostgreSQL` is started where it
//! is installed, on a port and a folder of its own, and stopped again. `.ci/run` installs it and runs this:
//!
//! ```text
//! cargo test --test host -- --ignored stores::
//! ```
//!
//! `UNFAZED_POSTGRES_BIN` names the folder of its programs, if they are not where Debian puts them.

#[cfg(feature = "postgres")]
mod away;
#[cfg(feature = "postgres")]
mod command;
#[cfg(feature = "postgres")]
mod example;
#[cfg(feature = "postgres")]
mod gateways;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod server;
#[cfg(feature = "postgres")]
mod shared;
mod suite;

/// Each behaviour of the suite as a test of each place.
macro_rules! every_store {
    ($($behaviour:ident)*) => {
        mod jsonl {
            $(#[test]
            fn $behaviour() {
                super::suite::$behaviour(&super::suite::Folder::new());
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgresql {
            $(#[test]
            #[ignore = "it needs PostgreSQL: see the top of the file"]
            fn $behaviour() {
                super::suite::$behaviour(&super::server::Database::new());
            })*
        }
    };
}

every_store! {
    the_contract_is_kept
    a_session_reads_back_as_it_was_written
    an_id_is_taken_once
    a_session_that_is_not_there_is_said
    one_writer_at_a_time
    what_cannot_be_read_again_is_not_written
    a_title_that_was_given_stays_and_the_log_is_not_touched
    sessions_are_listed_with_what_is_known_the_last_one_first
    text_is_found_in_what_was_said_in_capital_letters_or_not
    a_session_that_is_deleted_leaves_nothing
    the_states_kept_last_are_there
    the_log_is_shown_line_by_line_when_it_is_opened
    a_run_that_broke_off_goes_on_elsewhere_with_the_same_state
    a_breaker_of_the_session_is_open_on_the_next_host
    many_hosts_write_many_sessions_at_once
}
