//! Findings of one import, with a bound on how many of a kind are told.

use crate::diagnostic::Diagnostic;

/// Findings of one kind that are kept one by one.
const MAX_OF_A_KIND: usize = 50;

/// Collects diagnostics.
#[derive(Debug, Default)]
pub(super) struct Reports {
    list: Vec<Diagnostic>,
    /// Number of findings by code.
    counts: Vec<(String, usize)>,
}

impl Reports {
    /// Takes note of a finding.
    pub(super) fn add(&mut self, d: Diagnostic) {
        let count = match self.counts.iter_mut().find(|(code, _)| *code == d.code) {
            Some((_, n)) => n,
            None => {
                self.counts.push((d.code.clone(), 0));
                match self.counts.last_mut() {
                    Some((_, n)) => n,
                    None => return,
                }
            }
        };
        *count += 1;
        if *count <= MAX_OF_A_KIND {
            self.list.push(d);
        }
    }

    /// All findings; where there were too many of a kind, their number closes the list.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        for (code, count) in self.counts {
            if count > MAX_OF_A_KIND {
                let severity = self.list.iter().find(|d| d.code == code).map_or(crate::diagnostic::Severity::Warning, |d| d.severity);
                let message = format!("{} more findings of the kind `{code}` are not listed", count - MAX_OF_A_KIND);
                self.list.push(Diagnostic::new(severity, &code, message));
            }
        }
        self.list
    }
}
