//! App state driven by keys, with the frame checked as glyphs and styles.
