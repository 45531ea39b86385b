//! Names that come near one that matches nothing.

use super::ast::{Pattern, Prefix, Term};
use super::index::SelectorIndex;
use super::torch_names;
use super::{SelectContext, sources};

/// Names compared at most, and their longest: typing at a prompt must stay quick on any model.
const MAX_NAMES: usize = 50_000;
const MAX_LENGTH: usize = 120;
/// Least likeness that is worth showing.
const LEAST: f64 = 0.78;

/// Up to three selectors, best first.
pub(super) fn nearest(index: &SelectorIndex, prefixes: &[Prefix], text: &str, context: &SelectContext<'_>) -> Vec<String> {
    let wanted = text.trim_matches('*').to_lowercase();
    if wanted.is_empty() || wanted.len() > MAX_LENGTH {
        return Vec::new();
    }
    let mut search = Search { letters: letters(&wanted), wanted, best: Vec::new() };
    let model = index.model();
    for &prefix in prefixes {
        match prefix {
            Prefix::Op => {
                for kind in index.ops() {
                    search.offer(prefix, &kind.op.to_string());
                    if let Some(t) = &kind.torch_op {
                        search.offer(prefix, t.strip_suffix(".default").unwrap_or(t));
                    }
                }
                if torch_names::table().class(&torch_names::expand(text)).is_some() {
                    search.offer(Prefix::Class, text);
                }
                // What a person calls an operator is often part of the name of a module's class (GELU, NewGELUActivation).
                let part = search.wanted.rsplit(['.', ':']).next().unwrap_or_default().to_owned();
                for class in model.modules.modules().iter().take(MAX_NAMES).filter_map(|m| m.class.as_deref()) {
                    if part.len() >= 3 && last_part(class).to_lowercase().contains(&part) {
                        search.offer_at(Prefix::Class, torch_names::table().class(class).map_or(class, |c| c.public), 0.88);
                    }
                }
            }
            Prefix::Module => {
                model.modules.modules().iter().skip(1).take(MAX_NAMES).for_each(|m| search.offer(prefix, &m.path));
            }
            Prefix::Class => {
                for m in model.modules.modules().iter().take(MAX_NAMES) {
                    if let Some(class) = &m.class {
                        search.offer(prefix, torch_names::table().class(class).map_or(class, |c| c.public));
                    }
                }
            }
            Prefix::Node => {
                let ids = model.graph.node_ids().take(MAX_NAMES);
                ids.for_each(|n| search.offer(prefix, model.graph.stable_id(n)));
            }
            Prefix::Value => model.graph.values().iter().take(MAX_NAMES).for_each(|v| search.offer(prefix, &v.name)),
            Prefix::Source => {
                for trace in model.graph.nodes().iter().take(MAX_NAMES).filter_map(|n| n.stack_trace.as_ref()) {
                    for (path, line) in sources::frames(trace) {
                        let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
                        search.offer(prefix, &format!("{file}:{line}"));
                    }
                }
            }
            Prefix::Partition => {
                context.plan.into_iter().flat_map(|p| &p.partitions).for_each(|p| search.offer(prefix, &p.name()));
            }
        }
    }
    search.best.into_iter().map(|(_, text)| text).collect()
}

struct Search {
    wanted: String,
    letters: u64,
    /// Likeness and selector, best first, at most three.
    best: Vec<(f64, String)>,
}

impl Search {
    fn offer(&mut self, prefix: Prefix, name: &str) {
        if name.is_empty() || name.len() > MAX_LENGTH {
            return;
        }
        let lower = name.to_lowercase();
        let contains = self.wanted.len() >= 3 && lower.contains(&*self.wanted);
        // Two names that share hardly a letter need no closer look.
        if !contains && (letters(&lower) ^ self.letters).count_ones() > 10 {
            return;
        }
        let last = last_part(&lower);
        let mut score = strsim::jaro_winkler(&self.wanted, &lower).max(strsim::jaro_winkler(&self.wanted, last) - 0.02);
        if contains {
            score = score.max(0.9);
        }
        self.offer_at(prefix, name, score);
    }

    /// Takes a name with a likeness that is known.
    fn offer_at(&mut self, prefix: Prefix, name: &str, score: f64) {
        let worst = if self.best.len() < 3 { LEAST } else { self.best.last().map_or(LEAST, |b| b.0) };
        if score <= worst {
            return;
        }
        let text = Term { prefix: Some(prefix), pattern: Pattern::Literal(name.to_owned()) }.to_string();
        if self.best.iter().any(|(_, t)| *t == text) {
            return;
        }
        let at = self.best.iter().position(|(s, _)| *s < score).unwrap_or(self.best.len());
        self.best.insert(at, (score, text));
        self.best.truncate(3);
    }
}

/// The last part of a dotted name or a path.
fn last_part(name: &str) -> &str {
    name.rsplit(['.', '/', ':']).next().unwrap_or(name)
}

/// Which letters and digits occur.
fn letters(text: &str) -> u64 {
    text.bytes().fold(0, |set, b| match b {
        b'a'..=b'z' => set | 1 << (b - b'a'),
        b'0'..=b'9' => set | 1 << (26 + b - b'0'),
        _ => set,
    })
}
