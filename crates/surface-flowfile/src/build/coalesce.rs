//! How two messages become one on a full edge.
//!
//! Room: surface, pure.
//!
//! # Invariant
//! A merge that fails changes nothing: the edge then waits, as one that blocks, and neither message is lost.

use bursar::flow::NodeError;
use serde_json::{Number, Value};

use crate::plan::Coalesce;

/// A list on an edge grows no longer: after that its producer waits.
const LIST: usize = 10_000;

pub(crate) fn merge(how: Coalesce, queued: &mut Value, new: &Value) -> Result<(), NodeError> {
    match how {
        Coalesce::Last => *queued = new.clone(),
        Coalesce::Sum => *queued = Value::Number(sum(queued, new)?),
        Coalesce::List => match queued {
            Value::Array(list) if list.len() >= LIST => {
                return Err(NodeError::msg(format!("a list of {LIST} messages waits already")));
            }
            Value::Array(list) => list.push(new.clone()),
            other => *other = Value::Array(vec![other.take(), new.clone()]),
        },
        Coalesce::Merge => {
            let (Value::Object(queued), Value::Object(new)) = (queued, new) else {
                return Err(NodeError::msg("only objects can be merged"));
            };
            queued.extend(new.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
    }
    Ok(())
}

fn sum(a: &Value, b: &Value) -> Result<Number, NodeError> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64())
        && let Some(sum) = a.checked_add(b)
    {
        return Ok(sum.into());
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else {
        return Err(NodeError::msg("only numbers can be added"));
    };
    Number::from_f64(a + b).ok_or_else(|| NodeError::msg("the sum is beyond what a message can hold"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_that_fails_changes_nothing() {
        for how in [Coalesce::Sum, Coalesce::Merge] {
            let mut queued = json!("text");
            assert!(merge(how, &mut queued, &json!(1)).is_err());
            assert_eq!(queued, json!("text"));
        }
        let mut full = Value::Array(vec![Value::Null; LIST]);
        assert!(merge(Coalesce::List, &mut full, &json!(1)).is_err());
        assert_eq!(full.as_array().map(Vec::len), Some(LIST));
    }

    #[test]
    fn each_way_of_merging() {
        for (how, queued, new, wanted) in [
            (Coalesce::Last, json!(1), json!("b"), json!("b")),
            (Coalesce::Sum, json!(1), json!(2), json!(3)),
            (Coalesce::Sum, json!(i64::MAX), json!(1), json!(i64::MAX as f64 + 1.0)),
            (Coalesce::Sum, json!(0.5), json!(1), json!(1.5)),
            (Coalesce::List, json!(1), json!(2), json!([1, 2])),
            (Coalesce::List, json!([1, 2]), json!(3), json!([1, 2, 3])),
            (Coalesce::Merge, json!({ "a": 1, "b": 1 }), json!({ "b": 2 }), json!({ "a": 1, "b": 2 })),
        ] {
            let mut merged = queued;
            merge(how, &mut merged, &new).unwrap();
            assert_eq!(merged, wanted);
        }
    }
}
