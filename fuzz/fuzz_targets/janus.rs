//! Any bytes give a program or problems; what compiles verifies, is the same after it was printed and read, and runs to an end under a small budget.
#![no_main]

mod run;

use bursar::janus::{Options, Program, ir};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Program::compile_bytes(bytes, &Options::new()) {
        Ok(program) => {
            let text = program.ir().to_string();
            let module = ir::parse("fuzz.qtjir", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
            assert_eq!(module, *program.ir(), "what is printed is what is read");
            ir::verify(module).unwrap_or_else(|refused| panic!("{refused}\n{text}"));
            run::run(&program);
        }
        Err(problems) => {
            assert!(problems.len() > 0);
            let text = problems.to_string();
            assert!(!text.is_empty() && !text.contains("bug of the compiler"), "{text}");
            problems.pretty(false);
        }
    }
});
