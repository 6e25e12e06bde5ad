//! What parked tasks take, as one program tells it to another.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// What the parked tasks of one side took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parked {
    /// Resident memory with the tasks parked, less what was resident before them.
    pub resident_bytes: u64,
    /// Memory mappings of the whole process while they were parked.
    pub mappings: u64,
}

impl fmt::Display for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resident_bytes, self.mappings)
    }
}

impl FromStr for Parked {
    type Err = Box<dyn Error>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (resident, mappings) =
            text.trim().split_once(' ').ok_or_else(|| format!("expected `<bytes> <mappings>`, got {text:?}"))?;
        Ok(Self { resident_bytes: resident.parse()?, mappings: mappings.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_child_prints_the_parent_reads() {
        let parked = Parked { resident_bytes: 4_600_000_000, mappings: 25 };
        assert_eq!(parked.to_string().parse::<Parked>().expect("it parses"), parked);
        assert!("".parse::<Parked>().is_err());
    }
}
