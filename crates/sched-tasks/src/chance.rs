//! Chance in a seeded run: one source, and every choice drawn from it is kept.
//!
//! Room: state. Knows seeds and lists of answers; knows nothing of workers.
//!
//! # Invariant
//! Two runs of one program that get the same answers from here do the same steps.
//!
//! # Why it holds
//! A seeded run has one thread and a clock of its own, and whatever it could choose it asks for here: which worker steps, which worker is interrupted, from which one a stealer takes, in which
//! order a select looks. Answers come from the seed, or from a list of earlier answers; never from an address, a thread or the time.
//!
//! The answer 0 is always the plainest one: the same worker goes on, none is interrupted. So a list of answers is made simpler by making them 0.

use std::fmt;

use crate::decide;

/// What was chosen in a seeded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// Which worker takes the next step. Counted from the one that stepped last; from the one after it, if that one yielded.
    Step,
    /// Whether the others go first, before an operation.
    Preempt,
    /// From which worker a stealer takes, of those that have something.
    Victim,
    /// Which case a select puts last, of those left.
    Select,
}

impl Decision {
    pub(crate) const ALL: [Decision; 4] = [Decision::Step, Decision::Preempt, Decision::Victim, Decision::Select];

    pub(crate) fn letter(self) -> char {
        match self {
            Decision::Step => 's',
            Decision::Preempt => 'p',
            Decision::Victim => 'v',
            Decision::Select => 'c',
        }
    }

    pub(crate) fn of_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.letter() == letter)
    }
}

/// One choice of a seeded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Drawn {
    /// What was to be chosen.
    pub why: Decision,
    /// How many ways there were.
    pub among: u32,
    /// Which it was, counting from 0.
    pub chosen: u32,
}

impl Drawn {
    pub(crate) fn new(why: Decision, among: u32, chosen: u32) -> Self {
        Self { why, among, chosen }
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, among, chosen } = self;
        match why {
            Decision::Step => write!(f, "{chosen} of {among} workers to step"),
            Decision::Preempt => write!(f, "{}", if *chosen == 0 { "no preemption" } else { "a preemption" }),
            Decision::Victim => write!(f, "{chosen} of {among} victims"),
            Decision::Select => write!(f, "{chosen} of {among} cases"),
        }
    }
}

/// Where the answers of a run come from.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// A seed.
    Seed(u64),
    /// A list, to the letter: a question that does not fit is a divergence.
    Replay { seed: u64, drawn: Vec<Drawn> },
    /// A list that was tampered with. A question of another kind than the list has next is answered by the next of its kind that is near, and after the
    /// end all answers are 0: an answer that changed what is asked leaves the rest of the list in step.
    Guess { seed: u64, drawn: Vec<Drawn> },
}

impl Plan {
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Plan::Seed(seed) | Plan::Replay { seed, .. } | Plan::Guess { seed, .. } => *seed,
        }
    }

    pub(crate) fn replays(&self) -> bool {
        matches!(self, Plan::Replay { .. })
    }
}

/// Where a replay left its list: at which answer, what the list said, what the program asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Divergence {
    pub(crate) at: usize,
    pub(crate) expected: String,
    pub(crate) found: String,
}

const THE_END: &str = "the end of the run";

pub(crate) struct Chance {
    plan: Plan,
    random: u64,
    /// In how many operations one is interrupted, on average; 0: none.
    one_in: u32,
    drawn: Vec<Drawn>,
    /// How much of the list a guess has used.
    used: usize,
    diverged: Option<Divergence>,
}

/// How far a guess looks for a question of the same kind.
const NEAR: usize = 8;

impl Chance {
    pub(crate) fn new(plan: Plan, one_in: u32) -> Self {
        Self { random: plan.seed(), plan, one_in, drawn: Vec::new(), used: 0, diverged: None }
    }

    /// A number below `among`. Not kept if there is no choice.
    pub(crate) fn choose(&mut self, among: u32, why: Decision) -> u32 {
        if among < 2 {
            return 0;
        }
        self.answer(among, why, |random| (random % u64::from(among)) as u32)
    }

    /// Whether to interrupt.
    pub(crate) fn preempts(&mut self) -> bool {
        let one_in = self.one_in;
        one_in > 0 && self.answer(2, Decision::Preempt, |random| u32::from(random % u64::from(one_in) == 0)) == 1
    }

    fn answer(&mut self, among: u32, why: Decision, by_chance: impl FnOnce(u64) -> u32) -> u32 {
        let at = self.drawn.len();
        let chosen = match &self.plan {
            Plan::Seed(_) => {
                let (state, random) = decide::next_random(self.random);
                self.random = state;
                by_chance(random)
            }
            Plan::Guess { drawn, .. } => {
                let mut near = drawn.iter().enumerate().skip(self.used).take(NEAR);
                near.find(|(_, guess)| guess.why == why).map_or(0, |(place, guess)| {
                    self.used = place + 1;
                    guess.chosen.min(among - 1)
                })
            }
            Plan::Replay { drawn, .. } => match drawn.get(at) {
                Some(known) if known.why == why && known.among == among => known.chosen.min(among - 1),
                other => {
                    let found = match why {
                        Decision::Preempt => "a question whether to preempt".into(),
                        _ => Drawn::new(why, among, 0).to_string().replacen('0', "one", 1),
                    };
                    let expected = other.map_or_else(|| THE_END.into(), ToString::to_string);
                    self.diverged.get_or_insert(Divergence { at, expected, found });
                    0
                }
            },
        };
        self.drawn.push(Drawn::new(why, among, chosen));
        chosen
    }

    /// Where the program left the list it was to follow.
    pub(crate) fn diverged(&self) -> Option<&Divergence> {
        self.diverged.as_ref()
    }

    /// The run is over: what was drawn, and whether it left the list, which may also be by ending early.
    pub(crate) fn finish(self) -> (Vec<Drawn>, Option<Divergence>) {
        let at = self.drawn.len();
        let diverged = self.diverged.or_else(|| match &self.plan {
            Plan::Replay { drawn, .. } => {
                drawn.get(at).map(|known| Divergence { at, expected: known.to_string(), found: THE_END.into() })
            }
            _ => None,
        });
        (self.drawn, diverged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(plan: Plan) -> (Vec<Drawn>, Option<Divergence>) {
        let mut chance = Chance::new(plan, 8);
        for among in 1..50 {
            chance.choose(among, Decision::Step);
            chance.preempts();
        }
        chance.finish()
    }

    #[test]
    fn a_seed_gives_the_same_answers_again_and_so_does_their_list() {
        let (drawn, diverged) = draw(Plan::Seed(7));
        assert_eq!((draw(Plan::Seed(7)).0, diverged), (drawn.clone(), None));
        assert_eq!(draw(Plan::Replay { seed: 7, drawn: drawn.clone() }), (drawn.clone(), None));
        assert_ne!(draw(Plan::Seed(8)).0, drawn);
    }

    #[test]
    fn a_list_that_does_not_fit_is_left_where_it_does_not() {
        let (mut drawn, _) = draw(Plan::Seed(7));
        drawn[10].among += 1;
        assert_eq!(draw(Plan::Replay { seed: 7, drawn: drawn.clone() }).1.unwrap().at, 10);
        drawn[10].among -= 1;
        drawn.push(Drawn::new(Decision::Preempt, 2, 1));
        let early = draw(Plan::Replay { seed: 7, drawn: drawn.clone() }).1.unwrap();
        assert_eq!((early.at, early.expected.as_str(), early.found.as_str()), (97, "a preemption", THE_END));
        drawn.truncate(20);
        assert_eq!(draw(Plan::Replay { seed: 7, drawn }).1.unwrap().at, 20);
    }

    #[test]
    fn a_guess_is_made_to_fit() {
        let (drawn, diverged) = draw(Plan::Guess { seed: 7, drawn: vec![Drawn::new(Decision::Preempt, 2, 1); 3] });
        assert_eq!(diverged, None);
        assert_eq!(drawn.iter().filter(|drawn| drawn.chosen > 0).count(), 3);
    }

    #[test]
    fn a_guess_without_one_preemption_keeps_the_others() {
        let ask = |plan| {
            let mut chance = Chance::new(plan, 2);
            for _ in 0..200 {
                if chance.preempts() {
                    chance.choose(4, Decision::Step); // which goes on instead
                }
            }
            chance.finish().0
        };
        let all = ask(Plan::Seed(3));
        let first = all.iter().position(|drawn| drawn.chosen == 1 && drawn.why == Decision::Preempt).unwrap();
        let mut guess = all.clone();
        guess[first].chosen = 0;
        let mut expected = guess.clone();
        expected.remove(first + 1); // none was interrupted, so none went on instead
        assert_eq!(ask(Plan::Guess { seed: 3, drawn: guess }), expected);
    }

    #[test]
    fn one_in_none_interrupts_no_task() {
        let mut chance = Chance::new(Plan::Seed(1), 0);
        assert!((0..1000).all(|_| !chance.preempts()));
        assert!(chance.finish().0.is_empty());
    }
}
