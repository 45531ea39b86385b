//! Python stack traces, as exporters store them: `File "net.py", line 12, in forward` and the source line, outermost first.

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// `net.py:12 forward`.
    pub place: String,
    /// The source line, where the trace has it.
    pub code: Option<String>,
}

/// The innermost frame that is the model's own code; else the innermost of a package that is not torch itself, else of
/// all. A text without frames gives its last line.
#[must_use]
pub fn innermost(trace: &str) -> Frame {
    let lines: Vec<&str> = trace.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let is_frame = |l: &&str| l.starts_with("File ");
    let installed = |l: &str| l.contains("site-packages") || l.contains("dist-packages");
    let own = lines.iter().rposition(|l| is_frame(l) && !installed(l));
    let package = || lines.iter().rposition(|l| is_frame(l) && !l.contains("-packages/torch/"));
    let Some(at) = own.or_else(package).or_else(|| lines.iter().rposition(is_frame)) else {
        return Frame { place: lines.last().copied().unwrap_or("").to_owned(), code: None };
    };
    let frame = lines.get(at).copied().unwrap_or("");
    let mut parts = frame.splitn(3, ", ");
    let file = parts.next().unwrap_or("").trim_start_matches("File ").trim_matches('"');
    let line = parts.next().unwrap_or("").trim_start_matches("line ");
    let function = parts.next().unwrap_or("").trim_start_matches("in ");
    let place = format!("{file}:{line}{}{function}", if function.is_empty() { "" } else { " " });
    Frame { place, code: lines.get(at + 1).filter(|l| !is_frame(l)).map(ToString::to_string) }
}

/// [`Frame::place`] of [`innermost`], where there is one: what reports say of a node's source.
#[must_use]
pub fn place(trace: &str) -> Option<String> {
    Some(innermost(trace).place).filter(|p| !p.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_own_code_comes_before_that_of_packages() {
        let library = "File \"c.py\", line 1, in g\n    y\nFile \"/x/site-packages/torch/nn.py\", line 2, in h\n    z\n";
        assert_eq!(innermost(library), Frame { place: "c.py:1 g".into(), code: Some("y".into()) });
        let trace = "File \"a.py\", line 3, in forward\n    x = self.f(x)\nFile \"b.py\", line 12, in f\n    return x.relu()\n";
        assert_eq!(innermost(trace), Frame { place: "b.py:12 f".into(), code: Some("return x.relu()".into()) });
        let only_torch = "File \"/x/site-packages/timm/a.py\", line 7, in f\nFile \"/x/site-packages/torch/nn.py\", line 2, in h\n";
        assert_eq!(innermost(only_torch), Frame { place: "/x/site-packages/timm/a.py:7 f".into(), code: None });
        assert_eq!(innermost("no frames here").place, "no frames here");
        assert_eq!(innermost("").place, "");
    }
}
