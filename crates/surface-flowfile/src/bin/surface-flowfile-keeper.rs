//! The tests' keeper.
//!
//! Room: driver.
//!
//! A program that uses the crate is its own keeper, as the command is; a test program cannot be.
#![forbid(unsafe_code)]

fn main() {
    mech_process::keeper::main()
}
