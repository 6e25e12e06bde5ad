//! What runs leave behind: the journal, what earlier runs teach about the next one, and reports.
//!
//! Room: surface. Writes and reads files; decides nothing.
#![forbid(unsafe_code)]
