//! Characters the screen is drawn with: one set for Unicode terminals and one for ASCII.

use recut_core::partition::Placement;

/// A set of characters. Every one is one cell wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glyphs {
    /// Whether this is the ASCII set.
    pub ascii: bool,
    /// Corners and sides of a frame: top left, top right, bottom left, bottom right, horizontal, vertical.
    pub frame: [&'static str; 6],
    /// Joints of lanes by the sides they touch: 1 up, 2 down, 4 left, 8 right.
    pub joint: [&'static str; 16],
    /// A lane that goes through under a bus it has nothing to do with.
    pub bridge: &'static str,
    /// A lane that crosses a partition border.
    pub crossing: &'static str,
    /// The border itself.
    pub rule: &'static str,
    /// Open and closed tree rows, and rows without children.
    pub tree: [&'static str; 3],
    /// Filled part of a bar, from an eighth to full.
    pub bar: [&'static str; 8],
    /// Selected row.
    pub selected: &'static str,
    /// A name goes on.
    pub ellipsis: &'static str,
    /// Model input and output rows.
    pub input: &'static str,
    /// Model output.
    pub output: &'static str,
    /// A folded module.
    pub folded: &'static str,
    /// A hub tensor.
    pub hub: &'static str,
    /// Separates facts on a line.
    pub dot: &'static str,
    /// Minus sign in changes.
    pub minus: &'static str,
    /// Thumb of a scroll bar.
    pub thumb: &'static str,
    /// Shows where the eye is.
    pub here: &'static str,
    /// An arrow to the right.
    pub arrow: &'static str,
}

/// For terminals that show Unicode.
pub const UNICODE: Glyphs = Glyphs {
    ascii: false,
    frame: ["╭", "╮", "╰", "╯", "─", "│"],
    joint: [" ", "╵", "╷", "│", "╴", "╯", "╮", "┤", "╶", "╰", "╭", "├", "─", "┴", "┬", "┼"],
    bridge: "│",
    crossing: "┿",
    rule: "━",
    tree: ["▾", "▸", " "],
    bar: ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    selected: "▌",
    ellipsis: "…",
    input: "▽",
    output: "△",
    folded: "▣",
    hub: "◌",
    dot: "·",
    minus: "−",
    thumb: "▐",
    here: "▲",
    arrow: "→",
};

/// For terminals that do not.
pub const ASCII: Glyphs = Glyphs {
    ascii: true,
    frame: ["+", "+", "+", "+", "-", "|"],
    joint: [" ", "|", "|", "|", "-", "'", ".", "+", "-", "'", ".", "+", "-", "+", "+", "+"],
    bridge: "|",
    crossing: "#",
    rule: "=",
    tree: ["v", ">", " "],
    bar: [" ", "-", "-", "=", "=", "=", "#", "#"],
    selected: ">",
    ellipsis: "~",
    input: "V",
    output: "^",
    folded: "@",
    hub: "h",
    dot: "-",
    minus: "-",
    thumb: "|",
    here: "^",
    arrow: ">",
};

impl Glyphs {
    /// The dot of a node: placement is never told by colour alone.
    #[must_use]
    pub const fn placement(&self, placement: Placement) -> &'static str {
        match (placement, self.ascii) {
            (Placement::Accelerated, false) => "●",
            (Placement::Torch, false) => "○",
            (Placement::Opaque, false) => "◆",
            (Placement::Accelerated, true) => "*",
            (Placement::Torch, true) => "o",
            (Placement::Opaque, true) => "X",
        }
    }

    /// What the partition bar is filled with.
    #[must_use]
    pub const fn fill(&self, placement: Placement) -> &'static str {
        match (placement, self.ascii) {
            (Placement::Accelerated, false) => "█",
            (Placement::Torch, false) => "▒",
            (Placement::Opaque, false) => "◆",
            (Placement::Accelerated, true) => "#",
            (Placement::Torch, true) => ":",
            (Placement::Opaque, true) => "X",
        }
    }
}
