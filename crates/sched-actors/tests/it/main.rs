//! What actors and supervisors promise, one sentence a test.

mod actors;
mod profiles;
mod seeded_supervisors;
mod supervisors;
mod supervisors_budgets;
mod supervisors_model;
mod support;
