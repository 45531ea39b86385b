//! The program as it is started in a pseudo-terminal, by tests and benches.

use std::path::Path;

use portable_pty::CommandBuilder;

/// `recut MODEL` in a true-colour terminal, with `home` as the user's folder and nothing of the caller's own.
pub(crate) fn recut(model: &Path, home: &Path) -> CommandBuilder {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_recut"));
    command.arg(model);
    for (name, value) in [("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("LANG", "C.UTF-8")] {
        command.env(name, value);
    }
    command.env_remove("NO_COLOR");
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
        command.env(name, home);
    }
    command
}
