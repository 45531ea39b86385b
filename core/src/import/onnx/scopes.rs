//! The dynamo exporter's node metadata: Python lists of module paths and classes.

use std::sync::Arc;

use super::names::FastMap;
use super::proto::NodeProto;
use crate::export::onnx::CALL_KEY;

/// One module around a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// Dotted path, empty for the root.
    pub(super) path: String,
    /// Full class name.
    pub(super) class: Option<String>,
}

/// What the metadata of one node says.
#[derive(Debug, Default)]
pub(super) struct Found<'p> {
    /// The text that the modules were read from, less the node's own entry; `None` if there is none.
    pub(super) key: Option<&'p [u8]>,
    /// Modules around the node, outermost first. Empty if `key` was read before.
    pub(super) modules: Vec<Scope>,
    /// Last entry of the classes: the torch operator.
    pub(super) op: Option<String>,
    /// Last entry of the paths: the FX node.
    pub(super) fx_node: Option<String>,
    pub(super) stack_trace: Option<&'p [u8]>,
    /// Which call of the module, where this program wrote the file.
    pub(super) call: Option<u32>,
    /// Something is there that cannot be read.
    pub(super) malformed: bool,
}

/// Reads the metadata of many nodes.
#[derive(Debug, Default)]
pub(super) struct Scopes<'p> {
    seen: FastMap<&'p [u8], ()>,
    shared: FastMap<Box<str>, Arc<str>>,
}

/// A scope that torch gives to shape nodes of no module.
const NO_SCOPE: &str = "_empty_nn_module_stack_from_metadata_hook";

impl<'p> Scopes<'p> {
    /// One copy of a text that many nodes have.
    pub(super) fn shared(&mut self, s: String) -> Arc<str> {
        if let Some(known) = self.shared.get(s.as_str()) {
            return known.clone();
        }
        let shared: Arc<str> = s.as_str().into();
        self.shared.insert(s.into(), shared.clone());
        shared
    }

    /// Reads one node's metadata.
    pub(super) fn read(&mut self, node: &'p NodeProto) -> Found<'p> {
        let (mut scopes, mut classes, mut namespace) = (None, None, None);
        let mut found = Found::default();
        for p in &node.metadata_props {
            match p.key.as_ref() {
                b"pkg.torch.onnx.name_scopes" => scopes = Some(p.value.as_ref()),
                b"pkg.torch.onnx.class_hierarchy" => classes = Some(p.value.as_ref()),
                b"pkg.torch.onnx.stack_trace" => found.stack_trace = Some(&p.value),
                key if key == CALL_KEY.as_bytes() => found.call = std::str::from_utf8(&p.value).ok().and_then(|n| n.parse().ok()),
                b"namespace" => namespace = Some(p.value.as_ref()),
                _ => {}
            }
        }
        let class_list = classes.and_then(parse_list);
        found.op = class_list.as_ref().and_then(|c| c.last().cloned()).filter(|s| !s.is_empty());
        found.malformed = classes.is_some() && class_list.is_none();
        match scopes.map(|s| (s, last_item(s))) {
            Some((text, Some((key, last)))) => {
                found.fx_node = Some(last).filter(|s| !s.is_empty());
                found.key = Some(key);
                if self.seen.contains_key(key) {
                    return found;
                }
                let Some(mut paths) = parse_list(text) else {
                    found.malformed = true;
                    found.key = None;
                    return self.fall_back(found, namespace);
                };
                self.seen.insert(key, ());
                paths.pop();
                let mut classes = class_list.unwrap_or_default();
                classes.pop();
                // Without one class for each path nothing tells which belongs to which, but for the root's.
                let aligned = classes.len() == paths.len();
                found.modules = paths
                    .into_iter()
                    .enumerate()
                    .map(|(i, path)| Scope { path, class: classes.get(i).filter(|c| (aligned || i == 0) && !c.is_empty()).cloned() })
                    .filter(|s| !s.path.contains(NO_SCOPE))
                    .collect();
                found
            }
            Some((_, None)) => {
                found.malformed = true;
                self.fall_back(found, namespace)
            }
            None => self.fall_back(found, namespace),
        }
    }

    /// Reads the older `namespace` text: `path: class` joined by slashes. Paths with slashes are misread, which is why
    /// it comes second.
    fn fall_back(&mut self, mut found: Found<'p>, namespace: Option<&'p [u8]>) -> Found<'p> {
        let Some(text) = namespace.filter(|t| !t.is_empty()) else { return found };
        let cut = text.iter().rposition(|&b| b == b'/').unwrap_or(0);
        found.key = Some(&text[..cut]);
        let whole = String::from_utf8_lossy(text);
        let mut modules: Vec<Scope> = whole
            .split('/')
            .map(|part| {
                let (path, class) = part.split_once(": ").unwrap_or((part, ""));
                Scope { path: path.trim().to_owned(), class: Some(class.trim().to_owned()).filter(|c| !c.is_empty()) }
            })
            .collect();
        if let Some(own) = modules.pop() {
            found.fx_node = found.fx_node.or(Some(own.path).filter(|p| !p.is_empty()));
            found.op = found.op.or(own.class);
        }
        modules.retain(|s| !s.path.contains(NO_SCOPE));
        found.modules = modules;
        found
    }
}

/// The last item of a Python list of strings, with the text before it. `None` if the end is not of that form.
fn last_item(list: &[u8]) -> Option<(&[u8], String)> {
    let body = list.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let quote = *body.last()?;
    if (quote != b'\'' && quote != b'"') || body.len() < 2 {
        return None;
    }
    let inner = &body[..body.len() - 1];
    // An escape makes the way back uncertain: then the list is parsed from the front.
    let open = inner.iter().rposition(|&b| b == quote || b == b'\\')?;
    if inner[open] == b'\\' || (open > 0 && inner[open - 1] == b'\\') {
        let items = parse_list(list)?;
        return Some((body, items.last()?.clone()));
    }
    Some((&body[..open], String::from_utf8_lossy(&inner[open + 1..]).into_owned()))
}

/// A Python list of strings in its `repr` form. `None` if it is anything else.
pub(super) fn parse_list(list: &[u8]) -> Option<Vec<String>> {
    let text = String::from_utf8_lossy(list);
    let mut rest = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim_start();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = parse_string(rest)?;
        items.push(item);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(r) => rest = r.trim_start(),
            None if rest.is_empty() => {}
            None => return None,
        }
    }
    Some(items)
}

/// A quoted Python string at the front of `text`, and what follows it.
fn parse_string(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut out = String::new();
    let mut chars = text[1..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            c if c == quote => return Some((out, &text[1 + i + 1..])),
            '\\' => {
                let (_, e) = chars.next()?;
                let code = |n: usize, chars: &mut std::str::CharIndices<'_>| {
                    let digits: String = chars.by_ref().take(n).map(|(_, c)| c).collect();
                    u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == n).and_then(char::from_u32)
                };
                match e {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    'x' => out.push(code(2, &mut chars)?),
                    'u' => out.push(code(4, &mut chars)?),
                    'U' => out.push(code(8, &mut chars)?),
                    other => out.push(other),
                }
            }
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::onnx::proto::StringStringEntry;

    fn node(props: &[(&'static str, &'static str)]) -> NodeProto {
        let metadata_props = props.iter().map(|&(k, v)| StringStringEntry { key: k.into(), value: v.into() }).collect();
        NodeProto { metadata_props, ..NodeProto::default() }
    }

    const NAMES: &str = "pkg.torch.onnx.name_scopes";
    const CLASSES: &str = "pkg.torch.onnx.class_hierarchy";

    fn chain(found: &Found<'_>) -> Vec<(String, Option<String>)> {
        found.modules.iter().map(|s| (s.path.clone(), s.class.clone())).collect()
    }

    #[test]
    fn lists_as_python_writes_them() {
        assert_eq!(parse_list(b"['', 'layer1', \"it's\"]").unwrap(), ["", "layer1", "it's"]);
        assert_eq!(parse_list(br#"['he said \'hi\'', '\x41\u4e16']"#).unwrap(), ["he said 'hi'", "A世"]);
        assert_eq!(parse_list(b"[]").unwrap(), Vec::<String>::new());
        for bad in ["", "[", "['a'", "['a", "[1]", "None", "[['a'], 'b']", "['a' 'b']", "['\\x4']", "['\\"] {
            assert_eq!(parse_list(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn modules_with_their_classes() {
        let n = node(&[(NAMES, "['', 'a', 'a.b', 'relu_1']"), (CLASSES, "['N', 'A', 'B', 'aten.relu.default']")]);
        let found = Scopes::default().read(&n);
        let s = |x: &str| x.to_owned();
        assert_eq!(chain(&found), [(s(""), Some(s("N"))), (s("a"), Some(s("A"))), (s("a.b"), Some(s("B")))]);
        assert_eq!((found.op.as_deref(), found.fx_node.as_deref()), (Some("aten.relu.default"), Some("relu_1")));
        assert!(!found.malformed);
    }

    #[test]
    fn lists_of_different_length_keep_the_paths() {
        let n = node(&[(NAMES, "['', 'a', 'a.b', 'op']"), (CLASSES, "['N', 'op']")]);
        let found = Scopes::default().read(&n);
        assert_eq!(chain(&found), [("".into(), Some("N".into())), ("a".into(), None), ("a.b".into(), None)]);
    }

    #[test]
    fn malformed_lists_fall_back_to_the_namespace() {
        let n = node(&[(NAMES, "['', 'a'"), ("namespace", ": m.N/a: m.A/relu: aten.relu.default")]);
        let found = Scopes::default().read(&n);
        assert!(found.malformed);
        assert_eq!(chain(&found), [("".into(), Some("m.N".into())), ("a".into(), Some("m.A".into()))]);
        assert_eq!(found.op.as_deref(), Some("aten.relu.default"));
    }

    #[test]
    fn a_node_of_a_body_names_no_module() {
        let n = node(&[(NAMES, "['linear']"), (CLASSES, "['aten.linear.default']")]);
        let found = Scopes::default().read(&n);
        assert!(found.modules.is_empty() && !found.malformed);
        assert_eq!(found.fx_node.as_deref(), Some("linear"));
    }
}
