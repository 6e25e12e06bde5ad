//! A tree of processes: started, frozen, measured and ended as one.
//!
//! Room: mechanism. Knows processes, signals and control groups; knows nothing of jobs, graphs or priorities.
#![forbid(unsafe_code)]
