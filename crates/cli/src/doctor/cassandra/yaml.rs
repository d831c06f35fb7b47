//! The settings of `cassandra.yaml`, as text: scalars, lists of scalars, and maps of scalars.
//!
//! `saphyr` parses. Scalars stay text here: whether `50` or `50MiB` is a number is Cassandra's to say. As in
//! Cassandra's own parser (SnakeYAML), the last of several equal keys counts.

use saphyr::{ScalarStyle, Yaml, YamlLoader};
use saphyr_parser::Parser;

/// A parsed document.
pub struct Document<'a> {
    top: Yaml<'a>,
}

impl<'a> Document<'a> {
    /// Parses a document. An empty one has no settings.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let mut loader = YamlLoader::default();
        loader.early_parse(false);
        loader.allow_duplicate_keys(true);
        Parser::new_from_str(text)
            .load(&mut loader, false)
            .map_err(|error| error.to_string())?;
        if let Some(error) = loader.error() {
            return Err(error.to_string());
        }
        let mut documents = loader.into_documents();
        let top = match documents.is_empty() {
            true => Yaml::BadValue,
            false => documents.swap_remove(0),
        };
        Ok(Self { top })
    }

    /// The value of a key; `None` if the key is absent or null.
    pub fn scalar(&self, key: &str) -> Option<String> {
        text(value(&self.top, key)?)
    }

    /// Whether a key is there, and its value is null.
    pub fn is_null(&self, key: &str) -> bool {
        value(&self.top, key).is_some_and(is_null)
    }

    /// The value of a key in the map of another key.
    pub fn nested_scalar(&self, map: &str, key: &str) -> Option<String> {
        text(value(value(&self.top, map)?, key)?)
    }

    /// The items of a list; empty if the key is absent.
    pub fn list(&self, key: &str) -> Vec<String> {
        let items = match value(&self.top, key) {
            Some(Yaml::Sequence(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().filter_map(text).collect()
    }
}

fn value<'d, 'a>(map: &'d Yaml<'a>, wanted: &str) -> Option<&'d Yaml<'a>> {
    let Yaml::Mapping(entries) = map else {
        return None;
    };
    // A quoted key and a plain one are two entries.
    let mut named = entries
        .iter()
        .filter(|(key, _)| text(key).as_deref() == Some(wanted));
    let (_, value) = named.next_back()?;
    Some(value)
}

fn text(node: &Yaml) -> Option<String> {
    match node {
        Yaml::Representation(text, ..) if !is_null(node) => Some(text.to_string()),
        _ => None,
    }
}

fn is_null(node: &Yaml) -> bool {
    match node {
        Yaml::Representation(text, ScalarStyle::Plain, _) => {
            matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# disk_access_mode: mmap
cluster_name: 'a # b'
disk_access_mode: mmap   # first
seed_provider:
  - class_name: x
    disk_access_mode: standard
disk_access_mode : \"legacy\" # last
empty:
nothing: ~
data_file_directories:
    # two disks
    - /a b/data

    - \"/c\"  # second
other: 1
flow: [ /a, '/b' ]  # here
unindented:
- /d
";

    fn document(text: &str) -> Document<'_> {
        Document::parse(text).unwrap()
    }

    #[test]
    fn only_the_top_level_counts_and_the_last_one() {
        let document = document(TEXT);
        let value = |key| document.scalar(key);
        assert_eq!(value("disk_access_mode").as_deref(), Some("legacy"));
        assert_eq!(value("cluster_name").as_deref(), Some("a # b"));
        for absent in ["empty", "nothing", "class_name", "disk_access", "seed"] {
            assert_eq!(value(absent), None, "{absent}");
        }
    }

    #[test]
    fn null_is_not_absence() {
        let document = document(TEXT);
        assert!(document.is_null("empty") && document.is_null("nothing"));
        assert!(!document.is_null("absent") && !document.is_null("other"));
    }

    #[test]
    fn a_map_ends_where_its_lines_do() {
        let text = "sstable:\n  # selected_format: x\n  selected_format: bti # new\n\n  format:\n\
                    selected_format: big\nother:\n  selected_format: y\n";
        let document = document(text);
        let value = |map| document.nested_scalar(map, "selected_format");
        assert_eq!(value("sstable").as_deref(), Some("bti"));
        assert_eq!(value("other").as_deref(), Some("y"));
        assert_eq!(value("absent"), None);
        let flow = Document::parse("sstable: { selected_format: bti }").unwrap();
        let format = flow.nested_scalar("sstable", "selected_format");
        assert_eq!(format.as_deref(), Some("bti"));
    }

    #[test]
    fn lists_in_either_notation() {
        let document = document(TEXT);
        assert_eq!(document.list("data_file_directories"), ["/a b/data", "/c"]);
        assert_eq!(document.list("flow"), ["/a", "/b"]);
        assert_eq!(document.list("unindented"), ["/d"]);
        assert!(document.list("empty").is_empty());
        assert!(document.list("absent").is_empty());
    }

    #[test]
    fn an_empty_document_has_no_settings_and_a_damaged_one_is_an_error() {
        for text in ["", "# nothing\n", "---\n"] {
            assert_eq!(document(text).scalar("other"), None, "{text:?}");
        }
        let error = Document::parse("a: [1\nb: 2\n").err().unwrap();
        assert!(error.contains("line"), "{error}");
    }
}
