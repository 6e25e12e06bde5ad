//! Merging two messages on a full edge.
//!
//! Room: decisions.
//!
//! # Invariant
//! A merge that fails changes nothing: the edge then blocks, and no message is lost.

use bursar::flow::NodeError;
use serde_json::Value;

use crate::plan::Coalesce;
use crate::value::sum;

/// Limit of a list on an edge; then the producer waits.
const LIST_MAX: usize = 10_000;

pub(crate) fn merge(how: Coalesce, queued: &mut Value, new: &Value) -> Result<(), NodeError> {
    match how {
        Coalesce::Last => *queued = new.clone(),
        Coalesce::Sum => *queued = Value::Number(sum(queued, new).map_err(NodeError::msg)?),
        Coalesce::List => match queued {
            Value::Array(list) if list.len() >= LIST_MAX => {
                return Err(NodeError::msg(format!(
                    "the list on this edge already holds its limit of {LIST_MAX} messages"
                )));
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
        let mut full = Value::Array(vec![Value::Null; LIST_MAX]);
        assert!(merge(Coalesce::List, &mut full, &json!(1)).is_err());
        assert_eq!(full.as_array().map(Vec::len), Some(LIST_MAX));
    }

    #[test]
    fn each_way_of_merging() {
        for (how, queued, new, wanted) in [
            (Coalesce::Last, json!(1), json!("b"), json!("b")),
            (Coalesce::Sum, json!(1), json!(2), json!(3)),
            (Coalesce::Sum, json!(i64::MAX), json!(1), json!(9_223_372_036_854_775_808_u64)),
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
