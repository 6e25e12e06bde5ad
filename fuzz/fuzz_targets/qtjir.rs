//! Any text is refused, or is a module that runs without a panic, and ends. What was not verified cannot run: `Program::from_ir` takes nothing else.
#![no_main]

mod run;

use bursar::janus::{Program, ir};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match ir::parse("fuzz.qtjir", &text) {
        Ok(module) => {
            let printed = module.to_string();
            let again = ir::parse("fuzz.qtjir", &printed).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
            assert_eq!(again, module, "what is printed is what is read");
            match ir::verify(module) {
                Ok(verified) => run::run(&Program::from_ir(verified, "fuzz.qtjir")),
                Err(refused) => assert!(!refused.to_string().is_empty()),
            }
        }
        Err(problems) => {
            assert!(problems.len() > 0 && !problems.to_string().is_empty());
            problems.pretty(false);
        }
    }
});
