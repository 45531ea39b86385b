//! Names of the arguments of a call: torch's pytree texts to dotted paths (`opts.bias`).

use serde_json::Value;

/// Nested containers above which a text is given up.
const MAX_DEPTH: u32 = 64;

/// A dotted path for every leaf of the arguments `(args, kwargs)` that `spec` describes; `None` if it is no such text.
/// The first atom of a positional argument is its name in the signature of `forward`; older files do not have it, and a
/// leaf alone then has no path.
pub(super) fn input_paths(spec: &str, argument_names: &[&str]) -> Option<Vec<Option<String>>> {
    let spec: Value = serde_json::from_str(spec).ok()?;
    let root = spec.as_array()?.get(1)?;
    let mut paths = Vec::new();
    let [args, kwargs] = root.get("children_spec")?.as_array()?.as_slice() else { return None };
    for (i, child) in args.get("children_spec")?.as_array()?.iter().enumerate() {
        let known = paths.len();
        let name = argument_names.get(i).map_or_else(|| format!("arg{i}"), ToString::to_string);
        leaves(child, name, 0, &mut paths)?;
        if let (None, [alone]) = (argument_names.get(i), &mut paths[known..])
            && !alone.as_ref().is_some_and(|p| p.contains('.'))
        {
            *alone = None;
        }
    }
    let keys = keys(kwargs)?;
    for (key, child) in keys.into_iter().zip(kwargs.get("children_spec")?.as_array()?) {
        leaves(child, key, 0, &mut paths)?;
    }
    Some(paths)
}

fn leaves(spec: &Value, path: String, depth: u32, out: &mut Vec<Option<String>>) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    let children = spec.get("children_spec")?.as_array()?;
    let Some(kind) = spec.get("type")?.as_str() else {
        // A leaf.
        out.push(Some(path));
        return Some(());
    };
    let names: Vec<String> = match kind {
        "builtins.dict" | "collections.OrderedDict" | "collections.defaultdict" => keys(spec)?,
        _ => (0..children.len()).map(|i| i.to_string()).collect(),
    };
    names.into_iter().zip(children).try_for_each(|(name, child)| leaves(child, format!("{path}.{name}"), depth + 1, out))
}

/// Keys of a dict: a JSON list inside a JSON text.
fn keys(spec: &Value) -> Option<Vec<String>> {
    let context: Value = serde_json::from_str(spec.get("context")?.as_str()?).ok()?;
    let text = |k: &Value| k.as_str().map_or_else(|| k.to_string(), str::to_owned);
    Some(context.as_array()?.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_called_by_their_path() {
        let leaf = r#"{"type": null, "context": null, "children_spec": []}"#;
        let dict = format!(r#"{{"type": "builtins.dict", "context": "[\"bias\"]", "children_spec": [{leaf}]}}"#);
        let pair = format!(r#"{{"type": "builtins.tuple", "context": "null", "children_spec": [{leaf}, {leaf}]}}"#);
        let args = format!(r#"{{"type": "builtins.tuple", "context": "null", "children_spec": [{leaf}, {dict}, {pair}]}}"#);
        let kwargs = format!(r#"{{"type": "builtins.dict", "context": "[\"scale\"]", "children_spec": [{leaf}]}}"#);
        let spec = format!(r#"[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{args}, {kwargs}]}}]"#);
        let paths = |names: &[&str]| -> Vec<String> {
            input_paths(&spec, names).unwrap().into_iter().map(|p| p.unwrap_or_else(|| "-".to_owned())).collect()
        };
        assert_eq!(paths(&["x", "opts", "pair"]), ["x", "opts.bias", "pair.0", "pair.1", "scale"]);
        assert_eq!(paths(&[]), ["-", "arg1.bias", "arg2.0", "arg2.1", "scale"]);
        assert_eq!(input_paths("[1, {}]", &[]), None);
        assert_eq!(input_paths("no json", &[]), None);
    }
}
