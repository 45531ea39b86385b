//! Putting text into cells: everything is cut to its place, and styles are looked up by role.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::geometry::inside;
use super::super::hit::HitMap;
use super::super::text::{fit, is_plain, width};
use crate::theme::{Glyphs, Role, Theme};

/// Draws into a buffer.
pub struct Painter<'a> {
    buffer: &'a mut Buffer,
    theme: &'a Theme,
    /// What is where.
    pub hits: HitMap,
}

/// What stands for a character on a terminal that shows only ASCII.
const fn ascii(c: char) -> char {
    match c {
        '\0'..='\x7f' => c,
        'µ' => 'u',
        '…' => '~',
        '→' => '>',
        '−' | '·' | '–' => '-',
        '×' => 'x',
        '▣' => '@',
        '◌' => 'h',
        _ => '?',
    }
}

impl<'a> Painter<'a> {
    /// A painter for the whole buffer.
    pub fn new(buffer: &'a mut Buffer, theme: &'a Theme) -> Self {
        Self { buffer, theme, hits: HitMap::default() }
    }

    /// The whole screen.
    #[must_use]
    pub fn area(&self) -> Rect {
        self.buffer.area
    }

    /// Characters.
    #[must_use]
    pub fn glyphs(&self) -> &'a Glyphs {
        &self.theme.glyphs
    }

    /// Fills the screen with the ground of the theme.
    pub fn ground(&mut self, area: Rect) {
        let style = self.theme.style(Role::Text);
        if area == self.buffer.area {
            for cell in &mut self.buffer.content {
                cell.set_style(style);
            }
        } else {
            self.buffer.set_style(area, style);
        }
    }

    /// The cells of row `y` from `x` to the right edge.
    fn row(&mut self, x: u16, y: u16) -> &mut [Cell] {
        let area = self.buffer.area;
        if x < area.left() || x >= area.right() || y < area.top() || y >= area.bottom() {
            return &mut [];
        }
        let at = usize::from(y - area.y) * usize::from(area.width) + usize::from(x - area.x);
        self.buffer.content.get_mut(at..at + usize::from(area.right() - x)).unwrap_or_default()
    }

    /// Lays a style over an area.
    pub fn tint(&mut self, area: Rect, role: Role) {
        self.buffer.set_style(area.intersection(self.buffer.area), self.theme.style(role));
    }

    /// Clears an area to the ground of `role`.
    pub fn clear(&mut self, area: Rect, role: Role) {
        let area = area.intersection(self.buffer.area);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
        self.buffer.set_style(area, self.theme.style(Role::Text));
        self.buffer.set_style(area, self.theme.style(role));
    }

    /// Puts text at a cell, cut to `max` cells; gives the cells it took.
    pub fn put(&mut self, x: u16, y: u16, max: u16, text: &str, role: Role) -> u16 {
        self.put_styled(x, y, max, text, self.theme.style(role))
    }

    /// Like [`Painter::put`], with a style of its own.
    pub fn put_styled(&mut self, x: u16, y: u16, max: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if y < area.top() || y >= area.bottom() || x >= area.right() || max == 0 {
            return 0;
        }
        let text = match self.theme.glyphs.ascii && !text.is_ascii() {
            true => std::borrow::Cow::Owned(text.chars().map(ascii).collect::<String>()),
            false => std::borrow::Cow::Borrowed(text),
        };
        let text = fit(&text, usize::from(max), self.theme.glyphs.ellipsis);
        // Names are nearly always ASCII, cut at one side or not: one character is one cell, and nothing has to be segmented.
        let ellipsis = self.theme.glyphs.ellipsis;
        let (before, plain, after) = match (text.strip_prefix(ellipsis), text.strip_suffix(ellipsis)) {
            _ if is_plain(&text) => ("", &*text, ""),
            (Some(rest), _) if is_plain(rest) => (ellipsis, rest, ""),
            (_, Some(front)) if is_plain(front) => ("", front, ellipsis),
            _ => {
                let (end, _) = self.buffer.set_stringn(x, y, &text, usize::from(max), style);
                return end.saturating_sub(x);
            }
        };
        let cells = self.row(x, y);
        let room = cells.len().min(usize::from(max));
        let mut cells = cells.iter_mut().take(room);
        let mut put = 0;
        for cell in cells.by_ref().take(usize::from(!before.is_empty())) {
            cell.set_symbol(before).set_style(style);
            put += 1;
        }
        for (c, cell) in plain.bytes().zip(cells.by_ref()) {
            cell.set_char(char::from(c)).set_style(style);
            put += 1;
        }
        for cell in cells.take(usize::from(!after.is_empty())) {
            cell.set_symbol(after).set_style(style);
            put += 1;
        }
        put
    }

    /// Puts text so that it ends before `right`; gives where it begins.
    pub fn put_right(&mut self, right: u16, y: u16, max: u16, text: &str, role: Role) -> u16 {
        let cells = u16::try_from(width(text)).unwrap_or(u16::MAX).min(max);
        let x = right.saturating_sub(cells);
        self.put(x, y, cells, text, role);
        x
    }

    /// Puts one glyph.
    pub fn glyph(&mut self, x: u16, y: u16, symbol: &str, style: Style) {
        if let Some(cell) = self.row(x, y).first_mut() {
            cell.set_symbol(symbol).set_style(style);
        }
    }

    /// The style of a role.
    #[must_use]
    pub fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Draws a frame with a title; gives its inside.
    pub fn frame(&mut self, area: Rect, title: &str, focused: bool) -> Rect {
        self.frame_as(area, title, if focused { Role::BorderFocused } else { Role::Border })
    }

    /// [`Painter::frame`] in any role.
    pub fn frame_as(&mut self, area: Rect, title: &str, role: Role) -> Rect {
        if area.width < 2 || area.height < 2 {
            return Rect::default();
        }
        let style = self.theme.style(role);
        let [tl, tr, bl, br, h, v] = self.theme.glyphs.frame;
        let (left, right, top, bottom) = (area.left(), area.right() - 1, area.top(), area.bottom() - 1);
        for x in left + 1..right {
            self.glyph(x, top, h, style);
            self.glyph(x, bottom, h, style);
        }
        for y in top + 1..bottom {
            self.glyph(left, y, v, style);
            self.glyph(right, y, v, style);
        }
        for (x, y, s) in [(left, top, tl), (right, top, tr), (left, bottom, bl), (right, bottom, br)] {
            self.glyph(x, y, s, style);
        }
        if !title.is_empty() {
            let room = area.width.saturating_sub(4);
            let used = self.put(left + 2, top, room.saturating_sub(1), title, Role::Title);
            self.glyph(left + 1, top, " ", style);
            self.glyph(left + 2 + used, top, " ", style);
        }
        inside(area)
    }

    /// The thumb of a scroll bar on the right side of a frame.
    pub fn scroll_bar(&mut self, frame_inside: Rect, offset: usize, rows: usize) {
        let height = usize::from(frame_inside.height);
        if rows <= height || height == 0 {
            return;
        }
        let size = (height * height / rows).max(1);
        let at = offset * (height - size) / (rows - height);
        let style = self.theme.style(Role::TextDim);
        for i in at..(at + size).min(height) {
            let y = frame_inside.y.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
            self.glyph(frame_inside.right(), y, self.theme.glyphs.thumb, style);
        }
    }

    /// A bar of `share` of `cells` cells.
    pub fn bar(&mut self, x: u16, y: u16, cells: u16, share: f64, role: Role) {
        let eighths = (share.clamp(0.0, 1.0) * f64::from(cells) * 8.0).round().max(1.0) as u32;
        let style = self.theme.style(role);
        for i in 0..u32::from(cells) {
            let filled = eighths.saturating_sub(8 * i).min(8);
            if let Some(s) = (filled as usize).checked_sub(1).and_then(|i| self.theme.glyphs.bar.get(i)) {
                self.glyph(x.saturating_add(i as u16), y, s, style);
            }
        }
    }
}
