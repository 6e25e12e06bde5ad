//! JSON texts become values, and values JSON texts.
//!
//! Room: interface.

use serde::{Serialize, de::DeserializeOwned};

use super::try_map;
use crate::{message::Payload, node::NodeSpec};

/// Parses each `String` as JSON. One that is not JSON, or does not fit the type, is an error of the node.
///
/// ```
/// use bursar::flow::{Harness, json_in};
///
/// let mut node = Harness::new(json_in::<(String, f64)>());
/// node.send("in", r#"["celsius", 20.5]"#.to_string())?;
/// assert_eq!(node.take::<(String, f64)>("out"), [("celsius".to_string(), 20.5)]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn json_in<T: Payload + DeserializeOwned>() -> NodeSpec {
    try_map(|text: String| serde_json::from_str::<T>(&text))
}

/// Writes each value as JSON, a `String` without line breaks.
///
/// ```
/// use bursar::flow::{Harness, json_out};
///
/// let mut node = Harness::new(json_out::<Vec<u32>>());
/// node.send("in", vec![1u32, 2])?;
/// assert_eq!(node.take::<String>("out"), ["[1,2]"]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn json_out<T: Payload + Serialize>() -> NodeSpec {
    try_map(|value: T| serde_json::to_string(&value))
}
