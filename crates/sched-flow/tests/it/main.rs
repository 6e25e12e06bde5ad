//! Flows as users run them: every test on both drivers.

mod basics;
