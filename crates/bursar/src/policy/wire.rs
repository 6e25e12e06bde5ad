//! What a policy service sends: a line of JSON for each epoch, and for each heartbeat.
//!
//! Room: surface.
//!
//! This is an interface: fields are added, never changed. Numbers that end in `_ns` are nanoseconds.
//!
//! ```text
//! > {"v":1,"do":"subscribe"}
//! < {"v":1,"ok":{}}
//! < {"v":1,"event":"epoch","number":7,"set":{"default":"normal","profiles":[{"name":"normal","weight":1024, … }], … }}
//! < {"v":1,"event":"heartbeat","number":7}
//! ```
//!
//! # Invariant
//! Any line gives a message or a refusal, in time and memory in proportion to the line.

use std::collections::BTreeMap;

use policy_admission::service::{
    CpuDemand, CpuProfile, Epoch, Hint, PolicySet, Record, Refusal, Reserve, Rule, Subject,
};
use policy_cpu::{CPUS_MAX, CpuSet, Latency, Overrun};
use serde::{Deserialize, Serialize};

/// The version of this protocol.
const VERSION: u32 = 1;

/// What a client sends first.
pub(super) const SUBSCRIBE: &[u8] = b"{\"v\":1,\"do\":\"subscribe\"}\n";

/// What a service says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    /// It took the subscription.
    Ready,
    /// A policy under a number.
    Epoch { number: u64, set: PolicySet },
    /// It is there, and has this epoch.
    Heartbeat { number: u64 },
}

#[derive(Default, Serialize, Deserialize)]
struct Line {
    #[serde(default)]
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<SetLine>,
    #[serde(default, skip_serializing)]
    ok: Option<serde::de::IgnoredAny>,
    #[serde(default, skip_serializing)]
    error: Option<ErrorLine>,
}

#[derive(Deserialize)]
struct ErrorLine {
    #[serde(default)]
    message: String,
}

#[derive(Serialize, Deserialize)]
struct SetLine {
    default: String,
    profiles: Vec<ProfileLine>,
    #[serde(default)]
    hints: BTreeMap<String, String>,
    #[serde(default)]
    rules: Vec<RuleLine>,
}

#[derive(Serialize, Deserialize)]
struct ProfileLine {
    name: String,
    weight: u32,
    latency: LatencyWord,
    slice_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserve: Option<ReserveLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_count: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<Vec<u32>>,
}

#[derive(Serialize, Deserialize)]
struct ReserveLine {
    budget_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    #[serde(default)]
    criticality: u8,
    overrun: OverrunWord,
}

#[derive(Serialize, Deserialize)]
struct RuleLine {
    subject: SubjectWord,
    pattern: String,
    profile: String,
}

/// Words for the values of an enum.
macro_rules! words {
    ($name:ident: $of:ident { $($word:ident),* }) => {
        #[derive(Clone, Copy, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum $name { $($word),* }

        impl From<$name> for $of {
            fn from(word: $name) -> $of {
                match word { $($name::$word => $of::$word),* }
            }
        }

        impl $name {
            fn of(value: $of) -> Option<$name> {
                Some(match value { $($of::$word => $name::$word,)* #[allow(unreachable_patterns)] _ => return None })
            }
        }
    };
}

words!(LatencyWord: Latency { Sensitive, Normal, Batch });
words!(OverrunWord: Overrun { Throttle, Demote, Stop });
words!(SubjectWord: Subject { Name, Session, Account, Service });

fn garbled(what: impl Into<String>) -> Refusal {
    let mut what = what.into();
    // It may quote the line.
    what.truncate((0..=200).rev().find(|end| what.is_char_boundary(*end)).unwrap_or(0));
    Refusal::Garbled { what }
}

/// A line, without its end.
pub(super) fn parse(line: &[u8]) -> Result<Message, Refusal> {
    let line: Line = serde_json::from_slice(line).map_err(|error| garbled(error.to_string()))?;
    if line.v != VERSION {
        return Err(garbled(format!("it is of version {}, and this program knows {VERSION}", line.v)));
    }
    if let Some(ErrorLine { message }) = line.error {
        return Err(garbled(format!("the service answers: {}", message.escape_debug())));
    }
    let number = || line.number.ok_or_else(|| garbled("it has no `number`"));
    match line.event.as_deref() {
        None if line.ok.is_some() => Ok(Message::Ready),
        Some("heartbeat") => Ok(Message::Heartbeat { number: number()? }),
        Some("epoch") => {
            let number = number()?;
            let set = line.set.ok_or_else(|| garbled("it has no `set`"))?;
            Ok(Message::Epoch { number, set: policy(set)? })
        }
        Some(other) => Err(garbled(format!("`{other}` is no event of a policy service"))),
        None => Err(garbled("it has no `event`")),
    }
}

fn policy(line: SetLine) -> Result<PolicySet, Refusal> {
    let mut set = PolicySet::default();
    set.default = line.default.into();
    set.profiles = line.profiles.into_iter().map(profile).collect::<Result<_, _>>()?;
    for (hint, profile) in line.hints {
        let hint: Hint = hint.parse().map_err(|error| garbled(format!("{error}")))?;
        set.hints.push((hint, profile.into()));
    }
    set.hints.sort_by_key(|(hint, _)| *hint);
    set.rules = line.rules.into_iter().map(|rule| Rule::new(rule.subject.into(), rule.pattern, rule.profile)).collect();
    Ok(set)
}

fn profile(line: ProfileLine) -> Result<CpuProfile, Refusal> {
    let mut profile = CpuProfile::new(line.name);
    (profile.weight, profile.latency, profile.slice) = (line.weight, line.latency.into(), line.slice_ns);
    profile.reserve = line.reserve.map(|line| {
        let mut reserve = Reserve::new(line.budget_ns, line.period_ns);
        (reserve.deadline, reserve.criticality) = (line.deadline_ns, line.criticality);
        reserve.overrun = line.overrun.into();
        reserve
    });
    profile.cpus = match (line.cpu_count, line.cpus) {
        (None, None) => CpuDemand::Any,
        (Some(count), None) => CpuDemand::Count(count),
        (None, Some(cpus)) => match cpus.iter().find(|cpu| **cpu >= CPUS_MAX) {
            None => CpuDemand::Set(cpus.into_iter().collect::<CpuSet>()),
            Some(cpu) => return Err(garbled(format!("there is no CPU {cpu}; the last one is {}", CPUS_MAX - 1))),
        },
        (Some(_), Some(_)) => return Err(garbled("a profile has both `cpu_count` and `cpus`")),
    };
    Ok(profile)
}

/// The line by which a service publishes an epoch, with its end.
///
/// For services of one's own; `bursar policy serve` sends the same. None if the epoch has a word that this protocol does not know.
pub fn epoch_line(epoch: &Epoch) -> Option<String> {
    let set = epoch.set();
    let profiles = set.profiles.iter().map(|profile| {
        Some(ProfileLine {
            name: profile.name.to_string(),
            weight: profile.weight,
            latency: LatencyWord::of(profile.latency)?,
            slice_ns: profile.slice,
            reserve: match profile.reserve {
                None => None,
                Some(reserve) => Some(ReserveLine {
                    budget_ns: reserve.budget,
                    period_ns: reserve.period,
                    deadline_ns: reserve.deadline,
                    criticality: reserve.criticality,
                    overrun: OverrunWord::of(reserve.overrun)?,
                }),
            },
            cpu_count: if let CpuDemand::Count(count) = profile.cpus { Some(count) } else { None },
            cpus: if let CpuDemand::Set(cpus) = profile.cpus { Some(cpus.iter().collect()) } else { None },
        })
    });
    let rules = set.rules.iter().map(|rule| {
        let (pattern, profile) = (rule.pattern.to_string(), rule.profile.to_string());
        Some(RuleLine { subject: SubjectWord::of(rule.subject)?, pattern, profile })
    });
    let set = SetLine {
        default: set.default.to_string(),
        profiles: profiles.collect::<Option<_>>()?,
        hints: set.hints.iter().map(|(hint, profile)| (hint.name().to_owned(), profile.to_string())).collect(),
        rules: rules.collect::<Option<_>>()?,
    };
    said("epoch", epoch.number(), Some(set))
}

/// The line by which a service says that it is there, with its end.
pub fn heartbeat_line(number: u64) -> String {
    said("heartbeat", number, None).unwrap_or_default()
}

fn said(event: &str, number: u64, set: Option<SetLine>) -> Option<String> {
    let line = Line { v: VERSION, event: Some(event.to_owned()), number: Some(number), set, ..Line::default() };
    serde_json::to_string(&line).ok().map(|line| line + "\n")
}

#[derive(Serialize)]
struct ReportLine<'a> {
    v: u32,
    r#do: &'static str,
    who: &'a str,
    pid: u32,
    records: Vec<RecordLine<'a>>,
}

/// A record, with the time of day.
#[derive(Serialize)]
struct RecordLine<'a> {
    at_ms: u64,
    heard: &'static str,
    number: Option<u64>,
    verdict: &'static str,
    in_force: u64,
    reason: &'a str,
    repeated: u64,
}

/// The line by which a program tells the service what it decided. `began_ms` is the time of day at which its clock was 0.
pub(super) fn report_line(who: &str, began_ms: u64, records: &[Record]) -> Option<String> {
    let records = records.iter().map(|record| RecordLine {
        at_ms: began_ms + record.at / 1_000_000,
        heard: record.heard.name(),
        number: record.number,
        verdict: record.verdict.name(),
        in_force: record.in_force,
        reason: &record.reason,
        repeated: record.repeated,
    });
    let line = ReportLine { v: VERSION, r#do: "report", who, pid: std::process::id(), records: records.collect() };
    serde_json::to_string(&line).ok().map(|line| line + "\n")
}

#[cfg(test)]
mod tests {
    use policy_admission::service::Machine;

    use super::*;

    fn full() -> Epoch {
        let mut set = PolicySet::default();
        let mut audio = CpuProfile::new("audio");
        audio.reserve = Some(Reserve::new(300_000, 5_000_000));
        audio.cpus = CpuDemand::Set(CpuSet::one(1));
        let mut two = CpuProfile::new("two");
        two.cpus = CpuDemand::Count(2);
        set.profiles.extend([audio, two]);
        set.hints = vec![(Hint::LatencySensitive, "audio".into()), (Hint::Agent, "two".into())];
        set.rules = vec![Rule::new(Subject::Service, "mixer-*", "audio")];
        Epoch::new(7, set, &Machine::new(2)).unwrap()
    }

    #[test]
    fn an_epoch_comes_through_as_it_was_sent() {
        let line = epoch_line(&full()).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let expected = Message::Epoch { number: 7, set: full().set().clone() };
        assert_eq!(parse(line.trim_end().as_bytes()), Ok(expected));
        assert_eq!(parse(heartbeat_line(9).trim_end().as_bytes()), Ok(Message::Heartbeat { number: 9 }));
        assert_eq!(parse(br#"{"v":1,"ok":{}}"#), Ok(Message::Ready));
    }

    #[test]
    fn a_field_that_is_added_later_is_no_mistake() {
        assert_eq!(
            parse(br#"{"v":1,"event":"heartbeat","number":9,"load":0.5}"#),
            Ok(Message::Heartbeat { number: 9 })
        );
    }

    #[test]
    fn what_is_no_message_is_refused_and_said_in_few_words() {
        let long = format!(r#"{{"v":1,"event":"{}"}}"#, "ä".repeat(10_000));
        for (line, part) in [
            ("", "EOF"),
            ("garbage", "expected value"),
            ("[]", "version 0"),
            ("{}", "version 0"),
            (r#"{"v":2,"event":"heartbeat","number":1}"#, "version 2"),
            (r#"{"v":1}"#, "no `event`"),
            (r#"{"v":1,"event":"heartbeat"}"#, "no `number`"),
            (r#"{"v":1,"event":"heartbeat","number":-1}"#, "expected u64"),
            (r#"{"v":1,"event":"heartbeat","number":1e300}"#, "expected u64"),
            (r#"{"v":1,"event":"epoch","number":1}"#, "no `set`"),
            (r#"{"v":1,"event":"epoch","number":1,"set":{"default":"a"}}"#, "missing field `profiles`"),
            (
                r#"{"v":1,"event":"epoch","number":1,"set":{"default":"a","profiles":[],"hints":{"quick":"a"}}}"#,
                "not a hint",
            ),
            (
                r#"{"v":1,"event":"epoch","number":1,"set":{"default":"a","profiles":[{"name":"a","weight":1,"latency":"normal","slice_ns":1,"cpus":[256]}]}}"#,
                "no CPU 256",
            ),
            (r#"{"v":1,"error":{"kind":"busy","message":"32 clients"}}"#, "the service answers: 32 clients"),
            (
                r#"{"v":1,"error":{"kind":"x","message":"\u001b]0;x\u0007\n"}}"#,
                r"the service answers: \u{1b}]0;x\u{7}\n",
            ),
            (&long, "ä"),
            (&"[".repeat(100_000), ""),
        ] {
            let said = parse(line.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(part) && said.len() < 300, "{said}");
        }
    }
}
