//! Themes: semantic style names with fallback, read from TOML; four are built in, a user's own override them.

mod depth;
mod glyphs;
mod parse;
mod role;

use ratatui::style::{Color, Modifier, Style};

pub use depth::ColorDepth;
pub use glyphs::{ASCII, Glyphs, UNICODE};
pub use parse::{ConfigWarning, edit_distance, line_of};
pub use role::Role;

/// Built-in themes: name and text.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("dark", include_str!("../../../themes/dark.toml")),
    ("light", include_str!("../../../themes/light.toml")),
    ("high-contrast", include_str!("../../../themes/high-contrast.toml")),
    ("colour-blind", include_str!("../../../themes/colour-blind.toml")),
];

/// Longest chain of `inherits`.
const MAX_INHERITS: usize = 8;

/// How everything looks.
#[derive(Clone, Debug)]
pub struct Theme {
    /// Its name.
    pub name: String,
    /// Characters.
    pub glyphs: Glyphs,
    styles: Vec<Style>,
}

impl Theme {
    /// The style of a role: a complete one for [`Role::Text`], else one to lay over it.
    #[must_use]
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(role as usize).copied().unwrap_or_default()
    }

    /// Names of the built-in themes.
    #[must_use]
    pub fn built_in_names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// The theme called `name`, with complaints about its file. `user` gives the text of a user's theme file, by name.
    #[must_use]
    pub fn load(name: &str, depth: ColorDepth, ascii: bool, user: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<ConfigWarning>) {
        let mut warnings = Vec::new();
        let mut chain = Vec::new();
        let mut next = Some(name.to_owned());
        while let Some(current) = next.take() {
            if chain.iter().any(|(n, _): &(String, _)| *n == current) && user(&current).is_none() || chain.len() >= MAX_INHERITS {
                warnings.push(ConfigWarning {
                    file: name.to_owned(),
                    line: 1,
                    key: "inherits".to_owned(),
                    message: format!("the themes inherit from each other in a circle (`{current}`)"),
                });
                break;
            }
            // A user's `dark` may inherit from the built-in `dark`.
            let seen = chain.iter().any(|(n, _)| *n == current);
            let built_in = || BUILT_IN.iter().find(|(n, _)| *n == current).map(|(_, t)| (*t).to_owned());
            let text = if seen { built_in() } else { user(&current).or_else(built_in) };
            let Some(text) = text else {
                warnings.push(ConfigWarning {
                    file: name.to_owned(),
                    line: 1,
                    key: String::new(),
                    message: format!("there is no theme `{current}`; built in are {}", BUILT_IN.map(|(n, _)| n).join(", ")),
                });
                break;
            };
            let file = parse::parse(&current, &text, &mut warnings);
            next.clone_from(&file.inherits);
            chain.push((current, file));
        }
        if chain.is_empty() {
            let dark = parse::parse("dark", BUILT_IN[0].1, &mut warnings);
            chain.push(("dark".to_owned(), dark));
        }
        let ascii = ascii || chain.iter().find_map(|(_, f)| f.ascii).unwrap_or(false);
        let mut styles: Vec<Style> = Vec::with_capacity(Role::ALL.len());
        for &role in Role::ALL {
            let own = chain.iter().find_map(|(_, f)| f.styles.get(&role)).copied();
            let inherited = || role.parent().and_then(|p| styles.get(p as usize)).copied();
            styles.push(own.or_else(inherited).unwrap_or_default());
        }
        let reversed = [Role::Cursor, Role::CursorUnfocused];
        for &role in Role::ALL {
            if let Some(style) = styles.get_mut(role as usize) {
                *style = depth.reduce(*style);
                if depth == ColorDepth::None && reversed.contains(&role) {
                    *style = style.add_modifier(if role == Role::Cursor { Modifier::REVERSED } else { Modifier::UNDERLINED });
                }
            }
        }
        (Self { name: name.to_owned(), glyphs: if ascii { ASCII } else { UNICODE }, styles }, warnings)
    }

    /// A built-in theme at full colour.
    #[must_use]
    pub fn built_in(name: &str) -> Self {
        Self::load(name, ColorDepth::TrueColor, false, &|_| None).0
    }

    /// The foreground of a role, for writers that know no terminal.
    #[must_use]
    pub fn fg(&self, role: Role) -> Color {
        self.style(role).fg.unwrap_or(Color::Reset)
    }
}

/// Whether the locale is one in which the terminal shows Unicode.
#[must_use]
pub fn wants_ascii(var: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(var).find(|v| !v.is_empty());
    match locale {
        // No locale at all is common in containers whose terminal is a modern one.
        None => false,
        Some(l) => {
            let l = l.to_ascii_lowercase();
            !(l.contains("utf-8") || l.contains("utf8")) && (l.contains('.') || l == "posix")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_themes_have_no_faults_and_tell_placements_apart() {
        for (name, _) in BUILT_IN {
            for depth in [ColorDepth::TrueColor, ColorDepth::Ansi256, ColorDepth::Ansi16] {
                let (theme, warnings) = Theme::load(name, depth, false, &|_| None);
                assert_eq!(warnings, [], "{name}");
                let mut seen = [Role::Accelerated, Role::Torch, Role::Opaque].map(|r| format!("{:?}", theme.fg(r)));
                seen.sort();
                assert!(seen.windows(2).all(|w| w[0] != w[1]), "{name} at {depth:?}: {seen:?}");
            }
        }
    }

    #[test]
    fn a_fault_names_file_line_and_key_and_the_rest_counts() {
        let text =
            "inherits = \"dark\"\n[styles]\n\"text\" = \"#zzz\"\n\"placement.torhc\" = \"red\"\n\"op\" = { fg = \"red\", blink = true }\n";
        let (theme, warnings) = Theme::load("mine", ColorDepth::TrueColor, false, &|n| (n == "mine").then(|| text.to_owned()));
        let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(shown[0].starts_with("mine:3: `text`: `#zzz` is not in the palette"), "{shown:?}");
        assert!(shown[1].starts_with("mine:4: `placement.torhc`: unknown style; the nearest is `placement.torch`"), "{shown:?}");
        assert!(shown[2].starts_with("mine:5: `op.blink`"), "{shown:?}");
        assert_eq!(theme.fg(Role::Op), Color::Red);
        assert_eq!(theme.fg(Role::Torch), Theme::built_in("dark").fg(Role::Torch));
    }

    #[test]
    fn a_users_dark_inherits_the_built_in_dark_and_circles_end() {
        let user = |n: &str| (n == "dark").then(|| "inherits = \"dark\"\n[styles]\nop = \"red\"".to_owned());
        let (theme, warnings) = Theme::load("dark", ColorDepth::TrueColor, false, &user);
        assert_eq!(warnings, []);
        assert_eq!(theme.fg(Role::Op), Color::Red);
        assert_eq!(theme.fg(Role::Torch), Theme::built_in("dark").fg(Role::Torch));
        let circle = |n: &str| match n {
            "a" => Some("inherits = \"b\"".to_owned()),
            "b" => Some("inherits = \"a\"".to_owned()),
            _ => None,
        };
        let (_, warnings) = Theme::load("a", ColorDepth::TrueColor, false, &circle);
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn without_colours_the_cursor_is_reversed() {
        let (theme, _) = Theme::load("dark", ColorDepth::None, true, &|_| None);
        assert!(theme.style(Role::Cursor).add_modifier.contains(Modifier::REVERSED));
        assert!(theme.glyphs.ascii);
        assert!(Role::ALL.iter().all(|&r| theme.style(r).fg.is_none() && theme.style(r).bg.is_none()));
    }
}
