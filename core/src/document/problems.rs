//! What is to be said about a document: trouble of the import, of the config and of the plan.

use std::collections::BTreeMap;

use super::{Document, MarkList, nearest_hint};
use crate::diagnostic::{Diagnostic, Severity, printable};
use crate::graph::NodeId;
use crate::partition::Placement;
use crate::select::Bare;
use crate::support::Support;

impl Document {
    /// Diagnostics of the import, of the marks (such that match nothing, inert pins) and of the plan. Collected once
    /// after each change.
    #[must_use]
    pub fn problems(&self) -> Vec<Diagnostic> {
        self.problems.get_or_init(|| self.collect_problems()).clone()
    }

    /// Number of errors and warnings among [`Document::problems`].
    #[must_use]
    pub fn problem_counts(&self) -> (usize, usize) {
        let problems = self.problems.get_or_init(|| self.collect_problems());
        let count = |severity| problems.iter().filter(|p| p.severity == severity).count();
        (count(Severity::Error), count(Severity::Warning))
    }

    fn collect_problems(&self) -> Vec<Diagnostic> {
        let mut out = self.import_diagnostics.clone();
        out.extend(self.model_mismatch());
        out.extend(self.unknown_dims());
        for list in MarkList::ALL {
            for text in list.entries(&self.config) {
                self.entry_problems(&mut out, list.name(), text, list.bare());
            }
        }
        for instance in self.config.wraps.iter().flat_map(|g| &g.instances) {
            self.entry_problems(&mut out, &format!("wrap {}", printable(&instance.id)), &instance.select, Bare::ByForm);
        }
        for absorbed in self.view().absorbed() {
            let (inner, outer) = (printable(&absorbed.inner), printable(&absorbed.outer));
            let message = format!("wrap {inner} lies inside wrap {outer} and is no node of its own: unwrap the outer one to get it back");
            out.push(Diagnostic::new(Severity::Info, "absorbed_wrap", message));
        }
        self.conditional_support(&mut out);
        out.extend(self.plan().problems.iter().cloned());
        out
    }

    /// Sizes that are given to dimensions which the model does not have.
    fn unknown_dims(&self) -> Vec<Diagnostic> {
        // Problems are collected after every edit, and sizes are rarely given.
        let symbols = if self.config.dims.is_empty() { Vec::new() } else { crate::infer::symbols(self.model()) };
        let about = |name: &str| {
            let known = if symbols.is_empty() {
                "its inputs have no symbolic dimension".to_owned()
            } else {
                format!("it has {}", symbols.iter().take(8).map(|s| printable(s)).collect::<Vec<_>>().join(", "))
            };
            let message = format!("the model has no dimension `{}`, so its size changes nothing: {known}", printable(name));
            Diagnostic::warning("unknown_dim", message)
        };
        self.config.dims.keys().filter(|name| !symbols.iter().any(|s| s == name.as_str())).map(|name| about(name)).collect()
    }

    fn model_mismatch(&self) -> Option<Diagnostic> {
        let made_for = self.config.model.as_ref()?;
        if made_for.graph_sha256.is_empty() || made_for.graph_sha256 == self.model_sha256() {
            return None;
        }
        let message = format!(
            "the config was made for another graph ({}, structure {}), this one has structure {}: check the marks that match nothing; saving keeps them all",
            printable(&made_for.file),
            printable(made_for.graph_sha256.get(..12).unwrap_or(&made_for.graph_sha256)),
            self.model_sha256().get(..12).unwrap_or_default(),
        );
        Some(Diagnostic::warning("model_mismatch", message))
    }

    fn entry_problems(&self, out: &mut Vec<Diagnostic>, place: &str, text: &str, bare: Bare) {
        let Some(resolution) = self.resolver.resolved(text, bare) else { return };
        match &resolution.outcome {
            Err(e) => out.push(Diagnostic::error("mark_unusable", format!("{place}: {e}; it marks nothing"))),
            Ok(selected) => {
                if resolution.nodes.is_empty() {
                    let hint = nearest_hint(&selected.nearest);
                    out.push(Diagnostic::warning("mark_matches_nothing", format!("{place}: `{}` matches nothing{hint}", printable(text))));
                }
                for remark in &selected.remarks {
                    out.push(Diagnostic::new(Severity::Info, "mark_remark", format!("{place}: {remark}")));
                }
            }
        }
    }

    /// One warning for each condition that was not checked, with how many accelerated nodes stand under it.
    fn conditional_support(&self, out: &mut Vec<Diagnostic>) {
        let Some(support) = self.support() else { return };
        let mut by_condition: BTreeMap<&str, (usize, NodeId)> = BTreeMap::new();
        for (i, s) in support.iter().enumerate() {
            let node = NodeId::new(i);
            if let Support::Conditional(text) = s
                && self.plan().placement_of_node(node) == Placement::Accelerated
            {
                by_condition.entry(text).or_insert((0, node)).0 += 1;
            }
        }
        for (condition, (count, first)) in by_condition {
            let message = format!("accelerated under a condition that was not checked, {count} node(s): {condition}");
            out.push(Diagnostic::warning("conditional_support", message).with_node(self.model.graph.stable_id(first)));
        }
    }
}
