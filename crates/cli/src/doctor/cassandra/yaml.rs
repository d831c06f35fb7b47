//! As much of YAML as `cassandra.yaml` needs: scalars, lists of them, and maps of them.

/// The value of a key at the top level; `None` if it is not there, or null. As with Cassandra's own
/// parser, the last one counts.
pub fn scalar(text: &str, key: &str) -> Option<String> {
    last(text.lines(), key).and_then(not_null)
}

/// Whether a key is at the top level with nothing, or null, as its value.
pub fn is_null(text: &str, key: &str) -> bool {
    last(text.lines(), key).is_some_and(|value| not_null(value).is_none())
}

/// The value of a key in the map, in lines of its own, of a key at the top level.
pub fn nested_scalar(text: &str, map: &str, key: &str) -> Option<String> {
    let behind = text.lines().skip_while(|line| of_key(line, map).is_none());
    let inside = behind
        .skip(1)
        .take_while(|line| line.trim().is_empty() || line.starts_with([' ', '\t', '#']));
    last(inside.map(str::trim_start), key).and_then(not_null)
}

fn last<'a>(lines: impl Iterator<Item = &'a str>, key: &str) -> Option<&'a str> {
    lines.filter_map(|line| of_key(line, key)).last()
}

fn not_null(value: &str) -> Option<String> {
    let value = plain(value);
    (!matches!(value, "" | "~" | "null")).then(|| value.to_owned())
}

/// The items of a list at the top level, in either notation.
pub fn list(text: &str, key: &str) -> Vec<String> {
    let mut lines = text.lines().skip_while(|line| of_key(line, key).is_none());
    let head = lines.next().and_then(|line| of_key(line, key));
    let head = without_comment(head.unwrap_or_default());
    if let Some(flow) = head.strip_prefix('[') {
        return flow
            .trim_end_matches(']')
            .split(',')
            .map(|item| plain(item).to_owned())
            .filter(|item| !item.is_empty())
            .collect();
    }
    lines
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map_while(|line| line.strip_prefix("- "))
        .map(|item| plain(item).to_owned())
        .collect()
}

fn of_key<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let value = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
    (value.is_empty() || value.starts_with([' ', '\t'])).then(|| value.trim())
}

fn without_comment(value: &str) -> &str {
    let end = if value.starts_with('#') {
        Some(0)
    } else {
        value.find(" #")
    };
    value
        .get(..end.unwrap_or(value.len()))
        .unwrap_or_default()
        .trim()
}

/// Without quotes or, where there are none, without a comment.
fn plain(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value
            .strip_prefix(quote)
            .and_then(|rest| rest.split_once(quote))
        {
            return inner;
        }
    }
    without_comment(value)
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

    #[test]
    fn only_the_top_level_counts_and_the_last_one() {
        let value = |key| scalar(TEXT, key);
        assert_eq!(value("disk_access_mode").as_deref(), Some("legacy"));
        assert_eq!(value("cluster_name").as_deref(), Some("a # b"));
        for absent in ["empty", "nothing", "class_name", "disk_access", "seed"] {
            assert_eq!(value(absent), None, "{absent}");
        }
    }

    #[test]
    fn nothing_is_not_absence() {
        assert!(is_null(TEXT, "empty") && is_null(TEXT, "nothing"));
        assert!(!is_null(TEXT, "absent") && !is_null(TEXT, "other"));
    }

    #[test]
    fn a_map_ends_where_its_lines_do() {
        let text = "sstable:\n  # selected_format: x\n  selected_format: bti # new\n\n  format:\n\
                    selected_format: big\nother:\n  selected_format: y\n";
        let value = |map| nested_scalar(text, map, "selected_format");
        assert_eq!(value("sstable").as_deref(), Some("bti"));
        assert_eq!(value("other").as_deref(), Some("y"));
        assert_eq!(value("absent"), None);
    }

    #[test]
    fn lists_in_either_notation() {
        assert_eq!(list(TEXT, "data_file_directories"), ["/a b/data", "/c"]);
        assert_eq!(list(TEXT, "flow"), ["/a", "/b"]);
        assert_eq!(list(TEXT, "unindented"), ["/d"]);
        assert!(list(TEXT, "empty").is_empty());
        assert!(list(TEXT, "absent").is_empty());
    }
}
