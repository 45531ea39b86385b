//! Where the panes are, as a pure function of the size of the screen and the pane that takes the keys.

use ratatui::layout::Rect;

use super::hit::Pane;

/// Smallest screen that anything fits on.
pub const SMALLEST: (u16, u16) = (60, 20);

/// Places of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The whole screen.
    pub screen: Rect,
    /// The first line.
    pub header: Rect,
    /// The module tree, if it shows.
    pub tree: Option<Rect>,
    /// Lanes or problems.
    pub main: Rect,
    /// The detail pane, if it shows.
    pub detail: Option<Rect>,
    /// The partition bar.
    pub bar: Rect,
    /// The last line.
    pub status: Rect,
    /// Whether the screen is too small for anything.
    pub too_small: bool,
}

impl Geometry {
    /// Wide screens show three panes, narrow ones two: the middle one and the one at the side that was used last.
    #[must_use]
    pub fn new((width, height): (u16, u16), focus: Pane) -> Self {
        let screen = Rect::new(0, 0, width, height);
        let line = |y: u16| Rect::new(0, y, width, 1).intersection(screen);
        let body_height = height.saturating_sub(3);
        let (tree_width, detail_width) = match width {
            0..76 => (0, 0),
            76..110 => match focus {
                Pane::Tree => (28, 0),
                _ => (0, width / 3),
            },
            110..180 => (width / 6 + 4, width / 4),
            _ => (width / 6, width / 4),
        };
        // On the narrowest screens a pane that takes the keys takes the place too.
        let (tree_width, detail_width) = match (width, focus) {
            (0..76, Pane::Tree) => (width, 0),
            (0..76, Pane::Detail) => (0, width),
            _ => (tree_width, detail_width.min(64)),
        };
        let main_width = width.saturating_sub(tree_width + detail_width);
        let pane = |x: u16, w: u16| Rect::new(x, 1, w, body_height).intersection(screen);
        Self {
            screen,
            header: line(0),
            tree: (tree_width > 0).then(|| pane(0, tree_width)),
            main: pane(tree_width, main_width),
            detail: (detail_width > 0).then(|| pane(tree_width + main_width, detail_width)),
            bar: line(height.saturating_sub(2)),
            status: line(height.saturating_sub(1)),
            too_small: width < SMALLEST.0 || height < SMALLEST.1,
        }
    }

    /// Rows of the lanes that show.
    #[must_use]
    pub fn lanes_rows(&self) -> usize {
        usize::from(self.main.height.saturating_sub(2))
    }

    /// Rows of the tree that show.
    #[must_use]
    pub fn tree_rows(&self) -> usize {
        usize::from(self.tree.unwrap_or(self.main).height.saturating_sub(2))
    }
}

/// The inside of a frame.
#[must_use]
pub const fn inside(area: Rect) -> Rect {
    Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height.saturating_sub(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_tile_the_screen_at_every_size() {
        for width in 0..420u16 {
            for height in [0, 1, 3, 20, 24, 120] {
                for focus in [Pane::Tree, Pane::Main, Pane::Detail] {
                    let g = Geometry::new((width, height), focus);
                    let sum = g.tree.map_or(0, |r| r.width) + g.main.width + g.detail.map_or(0, |r| r.width);
                    if height >= 4 {
                        assert_eq!(sum, width, "{width}x{height}");
                    }
                }
            }
        }
    }
}
