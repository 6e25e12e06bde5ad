//! What the profile of a program allows.
//!
//! Room: decisions.

use surface_text::{Report, did_you_mean};

use crate::syntax::ast::Pragma;

/// How strict the program is about concurrency, as `{.profile: service.}` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Profile {
    /// One thread: no tasks, no channels.
    Core,
    /// Tasks with budgets; nothing has to be granted by name.
    #[default]
    Service,
    /// The same, with more checks in loops.
    Cluster,
    /// A program says that it spawns, and is granted it when it runs.
    Sovereign,
}

impl Profile {
    const ALL: [(&'static str, Profile); 4] = [
        ("core", Profile::Core),
        ("service", Profile::Service),
        ("cluster", Profile::Cluster),
        ("sovereign", Profile::Sovereign),
    ];

    /// Its name, without a colon.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, profile)| *profile == self).map_or("service", |(name, _)| name)
    }

    /// The profile of this name, with a colon or without.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix(':').unwrap_or(name);
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile)
    }

    /// How many operations a loop does at most between two checks.
    pub fn yield_interval(self) -> u32 {
        match self {
            Profile::Cluster => 512,
            _ => 1024,
        }
    }
}

/// What the pragmas of a file say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    pub(super) profile: Profile,
    /// `needs: spawn`.
    pub(super) needs_spawn: bool,
}

pub(super) fn rules(pragmas: &[Pragma], host: Option<Profile>, report: &mut Report) -> Rules {
    let mut rules = Rules::default();
    let mut said = false;
    for Pragma { key, value } in pragmas {
        match (key.text.as_str(), value.text.as_str()) {
            ("profile", name) => match Profile::from_name(name) {
                _ if said => report.add(&key.at, "the profile is said twice", "keep one `{.profile: service.}`"),
                Some(profile) => (rules.profile, said) = (profile, true),
                None => {
                    let names = Profile::ALL.map(|(name, _)| name);
                    let help = did_you_mean(name, names).unwrap_or_else(|| format!("there are {}", names.join(", ")));
                    report.add(&value.at, format!("there is no profile `{name}`"), help);
                }
            },
            ("needs", "spawn") => rules.needs_spawn = true,
            ("needs", other) => {
                report.add(&value.at, format!("there is no capability `{other}`"), "write `needs: spawn`");
            }
            (other, _) => {
                let help = did_you_mean(other, ["profile", "needs"])
                    .unwrap_or_else(|| "write `{.profile: service.}` or `{.needs: spawn.}`".into());
                report.add(&key.at, format!("there is no pragma `{other}`"), help);
            }
        }
    }
    rules.profile = host.unwrap_or(rules.profile);
    rules
}
