//! What tests rely on: a failure is printed, with the seed; nothing waits for ever.

mod alone;
mod dice;
mod memory;
mod seeds;
mod until;

/// What a panic said.
fn said(body: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(body).expect_err("it fails");
    *panic.downcast::<String>().expect("with a message")
}
