//! How large a program may be: each limit bounds memory or depth somewhere behind it.
//!
//! Room: values.

/// Bytes of a source file.
pub const SOURCE_BYTES_MAX: usize = 4 << 20;
/// Bytes of a module of QTJIR as text.
pub const IR_BYTES_MAX: usize = 64 << 20;
/// Letters of a name: messages repeat names.
pub const NAME_BYTES_MAX: usize = 255;
/// How deep blocks nest. The parser, the checker and the lowering recurse along this.
pub const NESTING_MAX: usize = 64;
/// How many `else if` follow one `if`. They nest in each other behind the parser.
pub const ELSE_IF_MAX: usize = 64;
/// How high the tree of an expression is: operators, parentheses, arguments.
pub const EXPRESSION_HEIGHT_MAX: usize = 128;
/// Functions of a program.
pub const FUNCTIONS_MAX: usize = 100_000;
/// Parameters of a function.
pub const PARAMETERS_MAX: usize = 64;
/// Registers of a function of the IR: parameters, variables and intermediate values.
pub const REGISTERS_MAX: usize = 1 << 16;
/// Instructions of a function of the IR. A `defer` is copied to every way out of its block, so this is more than lines.
pub const INSTRUCTIONS_MAX: usize = 1 << 20;
/// Cases of a `select`.
pub const SELECT_CASES_MAX: usize = 64;
/// Values that a channel holds.
pub const CHANNEL_CAPACITY_MAX: i64 = 1 << 20;
/// Nurseries that one task has open at a time.
pub const OPEN_NURSERIES_MAX: usize = 32;
/// Operations that a task may do after it was cancelled, to clean up.
pub const CLEANUP_OPS_MAX: u64 = 10_000;
/// Bytes that are printed for one operation; a line costs as many operations as it begins of them, and one at least.
pub const PRINTED_BYTES: u32 = 64;
/// Instructions of the IR of a program that becomes machine code; a larger one is interpreted.
pub const NATIVE_INSTRUCTIONS_MAX: usize = 1 << 20;
/// Instructions of the IR of one function of such a program: compiling takes more than in proportion to it.
pub const NATIVE_FUNCTION_MAX: usize = 1 << 16;
/// Registers times begins and ends of nurseries, of one function of such a program: what is written to memory there.
pub const NATIVE_SPILLS_MAX: usize = 1 << 18;
