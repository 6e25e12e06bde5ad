//! The journal from outside: what survives, what is refused, what is learnt.

mod child;
mod crash;
mod files;
mod full;
mod learnt;
mod life;
mod report;
mod shared;
mod speed;
mod temp;
