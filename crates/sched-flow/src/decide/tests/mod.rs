//! The decisions alone, without messages or threads.
