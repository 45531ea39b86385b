//! The semantic names that a theme gives styles to.

macro_rules! roles {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $parent:expr;)*) => {
        /// What a piece of the screen means; a theme says how it looks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Role {
            $($(#[$doc])* $variant,)*
        }

        impl Role {
            /// Every role. A role that another falls back to stands before it.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name in theme files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The role whose style is taken where a theme has none for this one.
            #[must_use]
            pub const fn parent(self) -> Option<Self> {
                match self { $(Self::$variant => $parent,)* }
            }
        }
    };
}

roles! {
    /// Ordinary text and the ground of the whole screen.
    Text = "text", None;
    /// What matters less: shapes, paths.
    TextDim = "text.dim", Some(Self::Text);
    /// What matters more.
    TextStrong = "text.strong", Some(Self::Text);
    /// Frames of panes.
    Border = "border", Some(Self::TextDim);
    /// Frame of the pane that takes the keys.
    BorderFocused = "border.focused", Some(Self::TextStrong);
    /// Title of a pane.
    Title = "title", Some(Self::TextStrong);
    /// The first line.
    Header = "header", Some(Self::Text);
    /// The program's name in the first line.
    HeaderName = "header.name", Some(Self::Header);
    /// Numbers in the first line.
    HeaderValue = "header.value", Some(Self::Header);
    /// The last line.
    Status = "status", Some(Self::Text);
    /// A key in a hint.
    Key = "key", Some(Self::TextStrong);
    /// The row under the cursor, in the pane that takes the keys.
    Cursor = "cursor", None;
    /// The row under the cursor, in another pane.
    CursorUnfocused = "cursor.unfocused", Some(Self::Cursor);
    /// Selected rows.
    Selected = "selected", Some(Self::TextStrong);
    /// What a search or selector matches.
    Match = "match", Some(Self::TextStrong);
    /// Runs on the accelerator.
    Accelerated = "placement.accelerated", Some(Self::Text);
    /// Runs in torch.
    Torch = "placement.torch", Some(Self::TextStrong);
    /// An opaque custom op.
    Opaque = "placement.opaque", Some(Self::TextStrong);
    /// A border between partitions.
    Boundary = "boundary", Some(Self::TextDim);
    /// Operator type of a row.
    Op = "op", Some(Self::TextStrong);
    /// A module path or class.
    Module = "module", Some(Self::TextDim);
    /// A shape or element type.
    Shape = "shape", Some(Self::TextDim);
    /// Constants and hub tensors in the gutter.
    Gutter = "gutter", Some(Self::TextDim);
    /// A measured time.
    Time = "time", Some(Self::Text);
    /// A lane, first of six colours in turn.
    Lane0 = "lane.0", Some(Self::TextDim);
    /// A lane.
    Lane1 = "lane.1", Some(Self::Lane0);
    /// A lane.
    Lane2 = "lane.2", Some(Self::Lane0);
    /// A lane.
    Lane3 = "lane.3", Some(Self::Lane0);
    /// A lane.
    Lane4 = "lane.4", Some(Self::Lane0);
    /// A lane.
    Lane5 = "lane.5", Some(Self::Lane0);
    /// Lanes into and out of the row under the cursor.
    LaneActive = "lane.active", Some(Self::TextStrong);
    /// Coldest of five heats.
    Heat0 = "heat.0", Some(Self::TextDim);
    /// Heat.
    Heat1 = "heat.1", Some(Self::Text);
    /// Heat.
    Heat2 = "heat.2", Some(Self::Text);
    /// Heat.
    Heat3 = "heat.3", Some(Self::TextStrong);
    /// Hottest of five heats.
    Heat4 = "heat.4", Some(Self::TextStrong);
    /// Something will fail.
    Error = "error", Some(Self::TextStrong);
    /// Probably not what was meant.
    Warning = "warning", Some(Self::TextStrong);
    /// Good to know.
    Info = "info", Some(Self::Text);
    /// It worked.
    Success = "success", Some(Self::Text);
    /// Progress of a job.
    Progress = "progress", Some(Self::TextStrong);
    /// Ground of a dialog.
    Popup = "popup", Some(Self::Text);
    /// Frame of a dialog.
    PopupBorder = "popup.border", Some(Self::BorderFocused);
    /// What a person types.
    Input = "input", Some(Self::TextStrong);
}

impl Role {
    /// The role called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.name() == name)
    }

    /// The heat of a share from 0 to 1. Shares of a whole are mostly small, so the steps are not even.
    #[must_use]
    pub fn heat(share: f64) -> Self {
        match share {
            s if s >= 0.5 => Self::Heat4,
            s if s >= 0.2 => Self::Heat3,
            s if s >= 0.08 => Self::Heat2,
            s if s >= 0.02 => Self::Heat1,
            _ => Self::Heat0,
        }
    }

    /// Colour of lane `n`.
    #[must_use]
    pub const fn lane(n: u32) -> Self {
        match n % 6 {
            0 => Self::Lane0,
            1 => Self::Lane1,
            2 => Self::Lane2,
            3 => Self::Lane3,
            4 => Self::Lane4,
            _ => Self::Lane5,
        }
    }
}
