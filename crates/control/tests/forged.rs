//! A page with any content gives an error or figures, never a panic.

use std::sync::atomic::AtomicU64;

use coldstream_control::{PAGE_WORDS, PageView};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_words_are_read(
        magic in prop_oneof![Just(u64::from_le_bytes(*b"coldstrm")), any::<u64>()],
        version in 0_u64..3,
        rest in prop::collection::vec(prop_oneof![0_u64..6, any::<u64>()], PAGE_WORDS - 2),
    ) {
        let words: Vec<_> = [magic, version].into_iter().chain(rest).map(AtomicU64::new).collect();
        let page = PageView::new(&words).unwrap();
        if let Ok(snapshot) = page.snapshot() {
            prop_assert!(!snapshot.to_string().is_empty());
            prop_assert!(serde_json::to_string(&snapshot).is_ok());
        }
    }
}
