//! Judging torch operators: their spellings in tables, and operators that a backend takes apart first.

use std::sync::Arc;

use super::Support;
use super::judge::{self, Case};
use super::parts::{self, Depth, Parts};
use super::predicate::{Check, Rules};
use super::table::Row;
use crate::diagnostic::printable;
use crate::graph::{AttrValue, Op, ValueType, out_of_place};

/// Parts that are taken apart again at most.
const MAX_STEPS: usize = 6;

/// Namespace, name and overload of a table's spelling (`aten.add.Tensor`, `operator.getitem`).
pub(super) fn parse_name(text: &str) -> (&str, &str, Option<&str>) {
    match text.split_once('.') {
        Some((namespace, rest)) => match rest.rsplit_once('.') {
            Some((name, overload)) => (namespace, name, Some(overload)),
            None => (namespace, rest, None),
        },
        None => ("", text, None),
    }
}

impl<'a> Case<'a> {
    /// What the backend says of the node by itself, without what its bodies hold.
    pub(super) fn judge_torch(&self) -> Support {
        let op: &Op = &self.node.op;
        let shown = printable(&op.to_string()).into_owned();
        if self.is_of_the_host(op) {
            return Support::Supported;
        }
        let overload = if op.overload.is_empty() { None } else { Some(&*op.overload) };
        let rows = self.rows(namespace(&op.domain), &op.name, overload);
        if let Some(row) = rows.iter().find(|r| !r.decomposed) {
            return self.row(row, &shown);
        }
        let listed = rows.first().copied();
        match self.decomposed(&op.domain, &op.name, overload, listed.is_some()) {
            Some(Some(parts)) => self.by_parts(&shown, &parts),
            Some(None) => {
                let open = listed.and_then(|r| r.condition.clone());
                Support::Conditional(
                    open.unwrap_or_else(|| format!("{shown} is taken apart first, and its parts are not known here").into()),
                )
            }
            None => Support::Unsupported(format!("{shown}: {}", self.unlisted(namespace(&op.domain), &op.name)).into()),
        }
    }

    /// Sizes, arithmetic on them and assertions need no kernel: the program around a partition computes them, and exporters
    /// drop the assertions. A table that speaks of such arithmetic decides itself.
    fn is_of_the_host(&self, op: &Op) -> bool {
        let has_tensor = |v: &crate::graph::ValueId| self.graph.value(*v).ty != ValueType::Scalar;
        match namespace(&op.domain) {
            // It gives what it gets.
            "aten" if &*op.name == "to" && self.keeps_type() => true,
            "aten" => op.name.starts_with("_assert") || op.name.starts_with("sym_"),
            "operator" if &*op.name == "getitem" => true,
            "operator" | "math" | "torch" if !self.node.reads().any(|v| has_tensor(&v)) => {
                !self.backend.rows.keys().any(|(domain, name)| &**domain == "operator" && &**name != "getitem")
                    || !self.rows(namespace(&op.domain), &op.name, None).is_empty()
            }
            _ => false,
        }
    }

    fn keeps_type(&self) -> bool {
        let dtype = |v: Option<crate::graph::ValueId>| v.and_then(|v| self.graph.value(v).dtype);
        let (from, to) = (dtype(self.node.input(0)), dtype(self.node.outputs.first().copied().flatten()));
        from.is_some() && from == to
    }

    /// The rows about an operator: its own; those of the form that edge tables list, without views (`view_copy`); those of
    /// the form that changes nothing, since programs are made functional before they are partitioned (`relu` for `relu_`).
    fn rows(&self, namespace: &str, name: &str, overload: Option<&str>) -> Vec<&'a Row> {
        let find = |namespace: &str, name: &str| -> Vec<&'a Row> {
            let rows = self.backend.rows.get(&(namespace.into(), name.into()));
            let fits = |r: &&Row| r.overload.as_deref().is_none_or(|o| overload.is_none_or(|asked| asked == o));
            rows.map(|r| r.iter().filter(fits).collect()).unwrap_or_default()
        };
        let mut apart = Vec::new();
        for form in forms(name) {
            let mut found = find(namespace, &form);
            if found.is_empty() && namespace == "aten" {
                found = match form.as_str() {
                    "_to_copy" => find("dim_order_ops", "_to_dim_order_copy"),
                    "clone" => find("dim_order_ops", "_clone_dim_order"),
                    _ => Vec::new(),
                };
            }
            // A form that is taken as it is comes before one that is taken apart.
            if found.iter().any(|r| !r.decomposed) {
                return found;
            }
            if apart.is_empty() {
                apart = found;
            }
        }
        apart
    }

    /// Into what the operator is taken apart; the outer `None` if it is not.
    fn decomposed(&self, domain: &str, name: &str, overload: Option<&str>, listed: bool) -> Option<Option<Parts>> {
        if domain != "aten" {
            return listed.then_some(None);
        }
        let tensors = self.node.inputs.iter().flatten().map(|&v| self.graph.value(v)).filter(|v| v.ty == ValueType::Tensor);
        let ranks: Vec<usize> = tensors.take(2).filter_map(|v| v.shape.rank()).collect();
        self.parts_of(name, overload.unwrap_or("default"), &ranks, listed)
    }

    fn parts_of(&self, name: &str, overload: &str, ranks: &[usize], listed: bool) -> Option<Option<Parts>> {
        // What is listed as taken apart need not be composite by torch's own rules.
        let depths: &[Depth] = match (self.backend.edge, listed) {
            (true, _) => &[Depth::Core],
            (false, true) => &[Depth::Composite, Depth::Core],
            (false, false) => &[Depth::Composite],
        };
        let typed = self.node.attr("dtype").is_some_and(|v| *v != AttrValue::None);
        let mut known = listed.then_some(None);
        for form in forms(name) {
            for &depth in depths {
                match parts::of(&format!("aten.{form}.{overload}"), ranks, typed, depth) {
                    Some(Some(parts)) => return Some(Some(parts)),
                    Some(None) => known = Some(None),
                    None => {}
                }
            }
        }
        known
    }

    /// The node is taken if its parts are.
    fn by_parts(&self, shown: &str, parts: &Parts) -> Support {
        let mut open: Option<Arc<str>> = None;
        for (certain, names) in [(true, &parts.always), (false, &parts.sometimes)] {
            for part in names {
                match self.part(part, 0) {
                    Support::Supported => {}
                    Support::Conditional(text) => open = open.or_else(|| Some(format!("through its part {part}: {text}").into())),
                    Support::Unsupported(why) if certain => {
                        return Support::Unsupported(
                            format!("{shown} is taken apart first, and its part {part} is not taken: {why}").into(),
                        );
                    }
                    Support::Unsupported(why) => {
                        open = open.or_else(|| Some(format!("some calls of {shown} are made of {part}, which is not taken: {why}").into()));
                    }
                }
            }
        }
        let Some(text) = open else { return Support::Supported };
        // Rules of the operator itself may say more than those of its parts, whose arguments are not known.
        let whole = format!("{}.{}", self.node.op.name, self.node.op.overload);
        match Rules::of(&self.backend.name).find("aten", &whole) {
            Some((checks, true)) => self.checks(&checks, true, &text, shown),
            _ => Support::Conditional(text),
        }
    }

    /// What the backend says of a part of the node, as far as that can be told.
    fn part(&self, full: &str, step: usize) -> Support {
        let (domain, name, overload) = parse_name(full);
        let rows = self.rows(domain, name, overload);
        if let Some(row) = rows.iter().find(|r| !r.decomposed) {
            if let Some(why) = self.type_refused(row) {
                return Support::Unsupported(why.into());
            }
            if row.dynamic_shapes == Some(false)
                && let Some(why) = self.open_shape()
            {
                return Support::Unsupported(why.into());
            }
            // Of several results only those that the node has are seen; other checks need the part's own arguments.
            let single = self.node.outputs.len() <= 1;
            let settled = row.complete && row.checks.iter().all(|c| single && matches!(c, Check::Outputs { .. }));
            return match &row.condition {
                Some(text) if !settled => Support::Conditional(text.clone()),
                _ => Support::Supported,
            };
        }
        let nothing = matches!(name, "alias" | "detach" | "lift_fresh" | "empty");
        if nothing {
            return Support::Supported;
        }
        if step < MAX_STEPS {
            match self.parts_of(name, overload.unwrap_or("default"), &[], !rows.is_empty()) {
                Some(Some(parts)) => {
                    let refused = |p: &str| p != full && matches!(self.part(p, step + 1), Support::Unsupported(_));
                    return match parts.always.iter().find(|p| refused(p)) {
                        Some(p) => Support::Unsupported(format!("it is made of {p}, which {} does not list", self.backend.name).into()),
                        None if parts.sometimes.iter().any(|p| refused(p)) => {
                            Support::Conditional("what it is made of depends on the call".into())
                        }
                        None => Support::Supported,
                    };
                }
                Some(None) => return Support::Conditional("it is taken apart first".into()),
                None => {}
            }
        }
        Support::Unsupported(self.unlisted(domain, name).into())
    }

    /// Why an operator without a row is not taken.
    fn unlisted(&self, namespace: &str, name: &str) -> String {
        let backend = printable(&self.backend.name);
        let others: Vec<&str> = forms(name)
            .iter()
            .filter_map(|f| self.backend.rows.get(&(namespace.into(), f.as_str().into())))
            .flatten()
            .filter_map(|r| r.overload.as_deref())
            .collect();
        if others.is_empty() {
            format!("{backend} does not list it")
        } else {
            format!("{backend} lists only other overloads of it ({})", others.join(", "))
        }
    }

    /// Element type, dynamic shapes and condition of the row.
    fn row(&self, row: &Row, shown: &str) -> Support {
        if let Some(why) = self.type_refused(row) {
            return Support::Unsupported(format!("{shown}: {why}").into());
        }
        self.conditions(row, shown)
    }

    fn type_refused(&self, row: &Row) -> Option<String> {
        let list = row.dtypes.as_ref()?;
        let tensors = self.node.inputs.iter().flatten().map(|&v| self.graph.value(v)).filter(|v| v.ty == ValueType::Tensor);
        let ty = judge::type_name(tensors.clone().nth(row.typed_input).or_else(|| tensors.clone().next())?)?;
        if list.iter().any(|t| **t == ty) {
            return None;
        }
        let taken: Vec<&str> = list.iter().map(|t| &**t).collect();
        Some(format!("{} does not take {ty} here; it takes {}", printable(&self.backend.name), taken.join(", ")))
    }
}

/// The names under which a table may list an operator, its own first.
fn forms(name: &str) -> Vec<String> {
    let mut forms = vec![name.to_owned()];
    let functional = out_of_place(name);
    if let Some(f) = functional {
        forms.push(f.to_owned());
    }
    let base = functional.unwrap_or(name);
    match base.strip_suffix("_copy") {
        Some("_to" | "lift_fresh") | None => forms.push(format!("{base}_copy")),
        Some(plain) => forms.push(plain.to_owned()),
    }
    if let Some(plain) = base.strip_prefix("_unsafe_") {
        forms.push(plain.to_owned());
        forms.push(format!("{plain}_copy"));
    }
    forms
}

/// The namespace as tables write it.
fn namespace(domain: &str) -> &str {
    if domain == "_operator" { "operator" } else { domain }
}
