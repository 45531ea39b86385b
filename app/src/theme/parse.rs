//! Theme files: what is wrong in one is a warning with its line and key, and the rest still counts.

use std::collections::HashMap;
use std::ops::Range;

use ratatui::style::{Color, Modifier, Style};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::role::Role;

/// Something in a theme or key file that was not understood and is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// The file, or the name of a built-in theme.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The key it is about; empty where the file as a whole is wrong.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl std::fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Line number, from 1, of a byte offset.
#[must_use]
pub fn line_of(text: &str, span: Range<usize>) -> usize {
    text.as_bytes().iter().take(span.start).filter(|&&b| b == b'\n').count() + 1
}

/// A theme file, decoded.
#[derive(Debug, Default)]
pub(super) struct ThemeFile {
    pub(super) inherits: Option<String>,
    pub(super) ascii: Option<bool>,
    pub(super) styles: HashMap<Role, Style>,
}

/// Decodes `text`; complaints go to `warnings` under the name `file`.
pub(super) fn parse(file: &str, text: &str, warnings: &mut Vec<ConfigWarning>) -> ThemeFile {
    let first = warnings.len();
    let mut warn = |span: Range<usize>, key: &str, message: String| {
        warnings.push(ConfigWarning { file: file.to_owned(), line: line_of(text, span), key: key.to_owned(), message });
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for e in errors {
        warn(e.span().unwrap_or(0..0), "", format!("not TOML: {}", e.message()));
    }
    let table = table.into_inner();
    let mut out = ThemeFile::default();
    let palette = palette(&table, &mut warn);
    for (key, value) in &table {
        let span = value.span();
        match (&**key.get_ref(), value.get_ref()) {
            ("inherits", DeValue::String(s)) => out.inherits = Some(s.to_string()),
            ("ascii", DeValue::Boolean(b)) => out.ascii = Some(*b),
            ("name" | "description", DeValue::String(_)) | ("palette", DeValue::Table(_)) => {}
            ("styles", DeValue::Table(styles)) => {
                for (role_name, value) in styles {
                    let name = role_name.get_ref();
                    match Role::from_name(name) {
                        Some(role) => {
                            if let Some(style) = style(name, value, &palette, &mut warn) {
                                out.styles.insert(role, style);
                            }
                        }
                        None => warn(role_name.span(), name, unknown_role(name)),
                    }
                }
            }
            (k @ ("inherits" | "name" | "description" | "ascii" | "palette" | "styles"), v) => {
                warn(span, k, format!("a {} cannot stand here", v.type_str()));
            }
            (k, _) => warn(key.span(), k, "unknown key; there are name, description, inherits, ascii, palette and styles".to_owned()),
        }
    }
    if let Some(own) = warnings.get_mut(first..) {
        own.sort_by_key(|w| w.line);
    }
    out
}

fn unknown_role(name: &str) -> String {
    let near = Role::ALL.iter().map(|r| r.name()).min_by_key(|r| edit_distance(r, name));
    near.map_or_else(|| "unknown style".to_owned(), |n| format!("unknown style; the nearest is `{n}`"))
}

/// Number of single-character edits between two short names.
#[must_use]
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

type Warn<'a> = dyn FnMut(Range<usize>, &str, String) + 'a;

fn palette(table: &DeTable<'_>, warn: &mut Warn<'_>) -> HashMap<String, Color> {
    let mut palette = HashMap::new();
    let Some(entries) = table.get("palette").and_then(|p| p.get_ref().as_table()) else { return palette };
    for (key, value) in entries {
        match value.get_ref().as_str().and_then(color_literal) {
            Some(color) => {
                palette.insert(key.get_ref().to_string(), color);
            }
            None => warn(value.span(), key.get_ref(), COLOR_HELP.to_owned()),
        }
    }
    palette
}

const COLOR_HELP: &str =
    "no colour; write \"#rrggbb\", a number from 0 to 255 in quotes, or one of the sixteen names such as \"light-blue\"";

fn color_literal(text: &str) -> Option<Color> {
    if let Some(hex) = text.strip_prefix('#') {
        let value = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 6)?;
        let [_, r, g, b] = value.to_be_bytes();
        return Some(Color::Rgb(r, g, b));
    }
    if let Ok(n) = text.parse::<u8>() {
        return Some(Color::Indexed(n));
    }
    Some(match text {
        "default" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "gray" => Color::Gray,
        "dark-gray" => Color::DarkGray,
        "light-red" => Color::LightRed,
        "light-green" => Color::LightGreen,
        "light-yellow" => Color::LightYellow,
        "light-blue" => Color::LightBlue,
        "light-magenta" => Color::LightMagenta,
        "light-cyan" => Color::LightCyan,
        "white" => Color::White,
        _ => return None,
    })
}

fn style(name: &str, value: &Spanned<DeValue<'_>>, palette: &HashMap<String, Color>, warn: &mut Warn<'_>) -> Option<Style> {
    let color = |text: &str| palette.get(text).copied().or_else(|| color_literal(text));
    match value.get_ref() {
        DeValue::String(s) => match color(s) {
            Some(c) => Some(Style::new().fg(c)),
            None => {
                warn(value.span(), name, format!("`{s}` is not in the palette and {COLOR_HELP}"));
                None
            }
        },
        DeValue::Table(table) => {
            let mut style = Style::new();
            for (key, value) in table {
                let key_name = &**key.get_ref();
                let modifier = match key_name {
                    "bold" => Modifier::BOLD,
                    "dim" => Modifier::DIM,
                    "italic" => Modifier::ITALIC,
                    "underline" => Modifier::UNDERLINED,
                    "reverse" => Modifier::REVERSED,
                    _ => Modifier::empty(),
                };
                match (key_name, value.get_ref()) {
                    ("fg" | "bg", DeValue::String(s)) => match color(s) {
                        Some(c) if key_name == "fg" => style.fg = Some(c),
                        Some(c) => style.bg = Some(c),
                        None => warn(value.span(), &format!("{name}.{key_name}"), format!("`{s}` is not in the palette and {COLOR_HELP}")),
                    },
                    (_, DeValue::Boolean(true)) if !modifier.is_empty() => style = style.add_modifier(modifier),
                    (_, DeValue::Boolean(false)) if !modifier.is_empty() => style = style.remove_modifier(modifier),
                    _ => warn(
                        key.span(),
                        &format!("{name}.{key_name}"),
                        "a style has fg and bg (colours), bold, dim, italic, underline and reverse (true or false)".to_owned(),
                    ),
                }
            }
            Some(style)
        }
        other => {
            warn(value.span(), name, format!("a {} is no style; write a colour or a table", other.type_str()));
            None
        }
    }
}
