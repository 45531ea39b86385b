//! Everything a key can do: the one table from which help, the palette and the key table in the docs are made.

use serde::{Deserialize, Serialize};

macro_rules! actions {
    ($($group:literal { $($variant:ident $name:literal [$($key:literal),*] $doc:literal;)* })*) => {
        /// What a key (or a palette entry) asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Action {
            $($(#[doc = $doc] #[serde(rename = $name)] $variant,)*)*
        }

        impl Action {
            /// All of them, in the order of help.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)*)*];

            /// Name in key files and in the palette.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$variant => $name,)*)* }
            }

            /// What it does, in one line.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $($(Self::$variant => $doc,)*)* }
            }

            /// Heading in help.
            #[must_use]
            pub const fn group(self) -> &'static str {
                match self { $($(Self::$variant => $group,)*)* }
            }

            /// Keys unless the user's file says otherwise; a sequence is written with a space (`g g`).
            #[must_use]
            pub const fn default_keys(self) -> &'static [&'static str] {
                match self { $($(Self::$variant => &[$($key),*],)*)* }
            }
        }
    };
}

actions! {
    "Moving" {
        Down "down" ["j", "down"] "One row down";
        Up "up" ["k", "up"] "One row up";
        Left "left" ["h", "left"] "Close the module, or fold the module of the node";
        Right "right" ["l", "right"] "Open the module, or unfold the row";
        PageDown "page-down" ["pgdn", "ctrl-f"] "One page down";
        PageUp "page-up" ["pgup", "ctrl-b"] "One page up";
        HalfPageDown "half-page-down" ["ctrl-d"] "Half a page down";
        HalfPageUp "half-page-up" ["ctrl-u"] "Half a page up";
        First "first" ["g g", "home"] "First row";
        Last "last" ["G", "end"] "Last row";
        Producer "producer" ["["] "To the node that makes an input; again for the next input";
        Consumer "consumer" ["]"] "To a node that reads an output";
        NextPartition "next-partition" ["}"] "To the next partition";
        PreviousPartition "previous-partition" ["{"] "To the previous partition";
        Back "back" ["alt-left", "ctrl-o"] "Back to where you were";
        Forward "forward" ["alt-right"] "Forward again";
        NextPane "next-pane" ["tab"] "Next pane";
        PreviousPane "previous-pane" ["backtab"] "Previous pane";
    }
    "Looking" {
        Open "open" ["enter"] "Open or close the module, unfold the row, look inside an opaque op";
        CollapseAll "collapse-all" ["-"] "Fold one more level everywhere";
        ExpandAll "expand-all" ["+", "="] "Unfold one more level everywhere";
        ViewLanes "view-lanes" ["1"] "Lanes: one row per node, one lane per live tensor";
        ViewProblems "view-problems" ["8", "p"] "Problems: what is wrong with file, marks and plan";
        Heat "heat" ["H"] "Colour by placement, time, bytes, FLOPs, or a data column of the file";
        Search "search" ["/"] "Search name, op, module, shape, attribute; `re:` takes a regex";
        SearchNext "search-next" ["n"] "Next match";
        SearchPrevious "search-previous" ["N"] "Previous match";
        Palette "palette" [":"] "Commands and selectors";
        Messages "messages" ["M"] "All messages of the last line in full";
        Help "help" ["?", "f1"] "This help";
    }
    "Marking" {
        Torch "torch" ["t"] "Run the node, selection or module in torch, or take that back";
        TorchChoose "torch-choose" ["T"] "Run in torch: choose between node, module, class and operator";
        Accelerate "accelerate" ["a"] "Pin to the accelerator, or take that back";
        Clear "clear" ["x"] "Clear the marks that place this node";
        Leaf "leaf" ["L"] "Never split this module, or take that back";
        Wrap "wrap" ["w"] "Make the selection, module or range one opaque custom op";
        Unwrap "unwrap" ["W"] "Take the opaque op apart again";
        Select "select" ["space"] "Select the row, or unselect it";
        Range "range" ["v"] "Start a range here; again: select everything between";
        Backend "backend" ["b"] "Choose the backend whose table decides";
        Partitioner "partitioner" ["B"] "Strategy and min_block_size";
        Undo "undo" ["u"] "Take back the last edit";
        Redo "redo" ["ctrl-r"] "Do it again";
    }
    "Running and files" {
        Run "run" ["r"] "Run the model under the current plan, in the background";
        Cancel "cancel" ["esc"] "Close a dialog, cancel a run, drop the selection";
        Save "save" ["s"] "Save the config";
        SaveAs "save-as" ["S"] "Save the config under another name";
        Reload "reload" ["f5"] "Read the model again";
        OpenConfig "open-config" ["o"] "Open another config for this model";
        Copy "copy" ["y"] "Copy the name of the node or module to the clipboard";
        Quit "quit" ["q", "ctrl-c"] "Quit; asks if there are unsaved edits";
    }
}

impl Action {
    /// The action called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|a| a.name() == name)
    }
}
