//! Nodes, in service or not, and whether they could have a job.
//!
//! Room: decisions.
//!
//! Pure: it reads text that a command printed.
//!
//! `sbatch --test-only` looks at the nodes that are in service now. `sbatch` itself takes a job that others of the partition could run, and so does this program: what is away now may be
//! there when the job's turn comes.

use crate::request::Terms;

/// The columns of `sinfo -N -o`, one row for each node in each partition.
pub const COLUMNS: &str = "%N|%P|%c|%m|%T|%G|%f";

/// What `sbatch --test-only` says if no node in service could run a job.
const NO_NODE: &str = "Requested node configuration is not available";

/// A node in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The partition.
    pub partition: String,
    /// Whether jobs go to this partition that name none.
    pub is_default: bool,
    /// Its CPUs.
    pub cpus: u32,
    /// Its memory.
    pub memory_mib: u64,
    /// `idle`, `mixed`, `drained`, `down*`…
    pub state: String,
    /// Its generic resources, as `gpu:2(S:0),vram:16K`.
    pub gres: String,
    /// Its features.
    pub features: String,
}

impl Node {
    /// Reads one line; `None` for a line that is no row.
    pub fn read(line: &str) -> Option<Self> {
        let mut parts = line.splitn(7, '|').map(str::trim);
        let (name, partition) = (parts.next()?.to_owned(), parts.next()?);
        let number = |text: &str| text.trim_end_matches('+').parse::<u64>().ok();
        Some(Self {
            name,
            partition: partition.trim_end_matches('*').to_owned(),
            is_default: partition.ends_with('*'),
            cpus: u32::try_from(number(parts.next()?)?).ok()?,
            memory_mib: number(parts.next()?)?,
            state: parts.next()?.to_owned(),
            gres: parts.next()?.to_owned(),
            features: parts.next()?.to_owned(),
        })
    }

    /// Whether it takes no job now.
    fn is_away(&self) -> bool {
        !matches!(self.state.as_str(), "idle" | "mixed" | "allocated" | "completing" | "planned")
    }

    /// Whether it has what a task wants, if nothing else runs there.
    fn could_have(&self, terms: &Terms) -> bool {
        let has_feature = |wanted: &str| {
            // An expression is for Slurm to read.
            let is_word = wanted.chars().all(|one| one.is_alphanumeric() || matches!(one, '_' | '-' | '.'));
            !is_word || self.features.split(',').any(|feature| feature == wanted)
        };
        self.cpus >= terms.cpus_per_task
            && terms.memory_mib.is_none_or(|memory| self.memory_mib >= memory)
            && terms.constraint.as_deref().is_none_or(has_feature)
            && terms.gres.iter().all(|wanted| has_gres(&self.gres, wanted))
    }
}

/// Whether resources as `gpu:fake:2(S:0),vram:16K` have one as `gpu:1` or `gpu:fake:1`.
fn has_gres(has: &str, wanted: &str) -> bool {
    let (name, amount) = wanted.rsplit_once(':').unwrap_or((wanted, "1"));
    let Some(amount) = count(amount) else { return false };
    let listed = has.split(',').filter_map(|one| {
        let (its_name, its_amount) = one.split('(').next().unwrap_or_default().rsplit_once(':')?;
        let is_same = its_name == name || its_name.split(':').next() == Some(name);
        if is_same { count(its_amount) } else { None }
    });
    listed.sum::<u64>() >= amount
}

/// A number as Slurm writes it, with K, M or G.
fn count(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Whether `sbatch --test-only` has said no because of nodes, of which some may only be away.
pub fn is_about_nodes(why: &str) -> bool {
    why.contains(NO_NODE)
}

/// What a person is told of a job that no node in service could run, and nodes that are away could. `None`: these could not, either.
pub fn note(nodes: &[Node], terms: &Terms) -> Option<String> {
    let is_in = |node: &&Node| match &terms.partition {
        Some(named) => named.split(',').any(|name| name == node.partition),
        None => node.is_default,
    };
    let mut able: Vec<&Node> = nodes.iter().filter(is_in).filter(|node| node.could_have(terms)).collect();
    able.sort_by(|one, other| one.name.cmp(&other.name));
    able.dedup_by(|one, other| one.name == other.name);
    let places: u64 = able.iter().map(|node| u64::from(node.cpus / terms.cpus_per_task.max(1))).sum();
    let are_enough = able.len() as u64 >= terms.nodes.unwrap_or(1).into() && places >= terms.tasks.unwrap_or(1).into();
    let away: Vec<String> =
        able.iter().filter(|node| node.is_away()).map(|node| format!("{} is {}", node.name, node.state)).collect();
    if !are_enough || away.is_empty() {
        return None;
    }
    let more = away.len().saturating_sub(NAMED_MAX);
    let named = away[..away.len() - more].join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("no node that is in service could run it, so it waits until one is: {named}{more}"))
}

/// So many nodes a note names.
const NAMED_MAX: usize = 3;
