//! The syntax of unit files (systemd.syntax(7)) and of environment files (systemd.exec(5)), as far as the environment
//! of a service needs it.

/// A line `KEY=VALUE` of a section.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The section, without brackets.
    pub section: String,
    /// The key.
    pub key: String,
    /// The value, with its continued lines.
    pub value: String,
}

/// The lines of a unit file. What is none is passed over, as systemd does.
pub fn lines(text: &str) -> Vec<Line> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in joined(text) {
        let line = line.trim();
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once('=') {
            found.push(Line {
                section: section.clone(),
                key: key.trim_end().to_owned(),
                value: value.trim_start().to_owned(),
            });
        }
    }
    found
}

/// Lines without comments. A backslash at the end continues a line; comments in between are left out.
fn joined(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let (part, continues) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        let mut whole = current.take().unwrap_or_default();
        whole += part;
        if continues {
            whole.push(' ');
            current = Some(whole);
        } else {
            all.push(whole);
        }
    }
    all.extend(current);
    all
}

/// The words of a value: quotes hold spaces, a backslash takes the next character as it is.
pub fn words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (_, '\\') => {
                let next = characters.next();
                word.get_or_insert_default().extend(next);
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// The variables of an `Environment=`.
pub fn assignments(value: &str) -> Vec<(String, String)> {
    // Other specifiers than `%%` depend on the running manager.
    let words = words(value).into_iter().map(|word| word.replace("%%", "%"));
    words.filter_map(|word| assignment(&word)).collect()
}

/// The variables of an environment file.
pub fn variables(text: &str) -> Vec<(String, String)> {
    let variables = joined(text).into_iter().filter_map(|line| {
        let (name, value) = assignment(line.trim())?;
        Some((name.trim().to_owned(), words(&value).join(" ")))
    });
    variables.collect()
}

fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_continued_and_comments_left_out() {
        let text = "[Unit]\nA=1\n# B=2\n[Service]\nExecStart=/bin/sh -c \"a; \\\n# c\n b\"\n no line\nX =\n";
        let found = lines(text);
        let short: Vec<_> = found
            .iter()
            .map(|line| {
                (
                    line.section.as_str(),
                    line.key.as_str(),
                    line.value.as_str(),
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                ("Unit", "A", "1"),
                ("Service", "ExecStart", "/bin/sh -c \"a;   b\""),
                ("Service", "X", "")
            ]
        );
    }

    #[test]
    fn variables_are_split_as_systemd_does() {
        let found = assignments(r#"A=1 "B=two words" C='x'y D=%%h E=a\ b nothing"#);
        let names: Vec<_> = found
            .iter()
            .map(|(name, value)| format!("{name}:{value}"))
            .collect();
        assert_eq!(names, ["A:1", "B:two words", "C:xy", "D:%h", "E:a b"]);
        let found = variables("# A=1\nA=\"two words\"\n; B=\nLD_PRELOAD=/a.so:/b.so\n");
        assert_eq!(found[0], ("A".into(), "two words".into()));
        assert_eq!(found[1], ("LD_PRELOAD".into(), "/a.so:/b.so".into()));
    }
}
