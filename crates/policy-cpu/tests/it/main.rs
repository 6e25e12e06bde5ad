//! What holds of the decisions of `policy-cpu`, seen from outside.

mod definition;
