//! YAML as far as configuration goes: keys with texts, lists of texts, and keys below keys.

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, options};

/// The longest file, in bytes.
const BYTES_MAX: usize = 1 << 20;
/// How deep keys may lie below keys.
const DEPTH_MAX: usize = 4;
/// The most keys and texts in a file.
const NODES_MAX: usize = 4096;

/// What a key says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    /// No value, as of `key:` alone.
    Null,
    Text(String),
    List(Vec<String>),
    Keys(Vec<Key>),
}

/// A key with what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    /// The line of the file, from 1.
    pub(super) line: usize,
    pub(super) node: Node,
}

/// Reads the keys of a file.
///
/// # Errors
/// What is wrong, with the line.
pub(super) fn read(text: &str) -> Result<Vec<Key>, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    let options = options! {
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        nodes: 0,
    };
    loop {
        let (event, line) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) => {}
            Event::StreamEnd => return Ok(Vec::new()),
            Event::MappingStart(..) => {
                let keys = reader.keys(1)?;
                return reader.end().map(|()| keys);
            }
            event => match reader.node(event, line, 1)? {
                Node::Null => return reader.end().map(|()| Vec::new()),
                _ => return Err(at(line, "keys are wanted, as in `name: infra0`")),
            },
        }
    }
}

/// Takes what the library finds, with bounds.
struct Reader<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> {
    events: I,
    nodes: usize,
}

impl<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Reader<'a, I> {
    fn next(&mut self) -> Result<(Event<'a>, usize), String> {
        match self.events.next() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(error.to_string()),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// Nothing may follow the keys: of a second document nobody would know what counts.
    fn end(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd, _) => {}
                (_, line) => return Err(at(line, "one document is wanted")),
            }
        }
    }

    /// The keys of a mapping that has begun.
    fn keys(&mut self, depth: usize) -> Result<Vec<Key>, String> {
        let mut keys: Vec<Key> = Vec::new();
        loop {
            let (event, line) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(keys),
                Event::Scalar(name, ..) => name.into_owned(),
                _ => return Err(at(line, "a key is wanted")),
            };
            if keys.iter().any(|key| key.name == name) {
                return Err(at(line, &format!("the key {name} is there twice")));
            }
            let (event, value_line) = self.next()?;
            let node = self.node(event, value_line, depth + 1)?;
            keys.push(Key { name, line, node });
        }
    }

    fn node(&mut self, event: Event<'a>, line: usize, depth: usize) -> Result<Node, String> {
        self.nodes += 1;
        if self.nodes > NODES_MAX || depth > DEPTH_MAX {
            return Err(at(line, "there is too much here for a configuration"));
        }
        match event {
            Event::Scalar(text, style, ..) => Ok(match (style, &*text) {
                (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Node::Null,
                _ => Node::Text(text.into_owned()),
            }),
            Event::MappingStart(..) => self.keys(depth).map(Node::Keys),
            Event::SequenceStart(..) => self.list().map(Node::List),
            Event::Alias(_) => Err(at(line, "anchors are not taken: write the value itself")),
            _ => Err(at(line, "a value is wanted")),
        }
    }

    /// The texts of a sequence that has begun.
    fn list(&mut self) -> Result<Vec<String>, String> {
        let mut texts = Vec::new();
        loop {
            let (event, line) = self.next()?;
            match event {
                Event::SequenceEnd => return Ok(texts),
                event => match self.node(event, line, DEPTH_MAX)? {
                    Node::Text(text) => texts.push(text),
                    _ => return Err(at(line, "a list of texts is wanted")),
                },
            }
        }
    }
}

fn at(line: usize, why: &str) -> String {
    format!("line {line}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, line: usize, node: Node) -> Key {
        Key {
            name: name.to_owned(),
            line,
            node,
        }
    }

    fn text(text: &str) -> Node {
        Node::Text(text.to_owned())
    }

    #[test]
    fn keys_texts_lists_and_keys_below_are_read() {
        let file = "# etcd\n---\nname: 'a b'\nempty:\nnull-too: ~\nquoted: \"~\"\nlist: [x, \"y\"]\nlong:\n- p\n- q\n\
                    tls:\n  cert-file: /c  # here\n  auto: true\n";
        let list = |texts: &[&str]| Node::List(texts.iter().map(|&text| text.into()).collect());
        let tls = vec![
            key("cert-file", 12, text("/c")),
            key("auto", 13, text("true")),
        ];
        let expected = vec![
            key("name", 3, text("a b")),
            key("empty", 4, Node::Null),
            key("null-too", 5, Node::Null),
            key("quoted", 6, text("~")),
            key("list", 7, list(&["x", "y"])),
            key("long", 8, list(&["p", "q"])),
            key("tls", 11, Node::Keys(tls)),
        ];
        assert_eq!(read(file), Ok(expected));
        let json = r#"{"name": "a", "tls": {"auto": true}}"#;
        let tls = Node::Keys(vec![key("auto", 1, text("true"))]);
        assert_eq!(
            read(json),
            Ok(vec![key("name", 1, text("a")), key("tls", 1, tls)])
        );
        assert_eq!(read("# nothing\n"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_line() {
        let deep = format!("a: {}x{}", "[".repeat(5000), "]".repeat(5000));
        let blocks: String = (0..100).map(|n| format!("{}k:\n", " ".repeat(n))).collect();
        let many = format!("a: [{}]", "x,".repeat(NODES_MAX + 1));
        let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n";
        let long = "x".repeat(BYTES_MAX + 1);
        for (file, why) in [
            ("a: 1\na: 2\n", "line 2: the key a is there twice"),
            ("- a\n- b\n", "line 1: keys are wanted"),
            ("a\n", "line 1: keys are wanted"),
            ("a: 1\n---\nb: 2\n", "line 2: one document is wanted"),
            ("a: [b, {c: d}]\n", "line 1: there is too much here"),
            ("a: [b, [c]]\n", "line 1: "),
            ("{a: {b: {c: {d: {e: f}}}}}", ""),
            (bomb, "line 2: anchors are not taken"),
            ("a: \"b\n", ""),
            (&deep, ""),
            (&blocks, ""),
            (&many, "line 1: there is too much here"),
            (&long, "it is longer than"),
        ] {
            let said = read(file).unwrap_err();
            assert!(said.contains(why), "{why}: {said}");
        }
    }

    /// Scenario: configurations of which a seeded generator changes, doubles and removes pieces.
    #[test]
    fn whatever_is_in_a_file_reading_it_ends_within_bounds() {
        let files = [
            "name: 'a'\nlist: [x, \"y\"]\ntls:\n  cert-file: /c\n  auto: true\nlong:\n- p\n- q\n",
            "{\"a\": {\"b\": [\"c\", 'd']}, e: ~}\n",
            "a: &a |\n  text\n  more\nb: *a\n---\n? k\n: v\n# end\n",
        ];
        let marks: Vec<char> = "[]{}:,-&*!|>'\"% \n\t#?~\u{feff}x".chars().collect();
        let mut random = fastrand::Rng::with_seed(1);
        let (mut read_some, mut refused_some) = (false, false);
        for _ in 0..20_000 {
            let mut text: Vec<char> = random.choice(files).unwrap_or_default().chars().collect();
            for _ in 0..random.usize(1..6) {
                let (from, to) = (random.usize(..text.len()), random.usize(..text.len()));
                let piece: Vec<char> = text[from.min(to)..from.max(to)].to_vec();
                match random.u8(..3) {
                    0 => text[from] = random.choice(marks.iter().copied()).unwrap(),
                    1 => drop(text.splice(from..from, piece)),
                    _ => drop(text.drain(from..(from + 3).min(text.len()))),
                }
                if text.is_empty() {
                    text.push('x');
                }
            }
            match read(&text.iter().collect::<String>()) {
                Ok(keys) => {
                    read_some = true;
                    assert!(keys.len() <= NODES_MAX);
                }
                Err(why) => {
                    refused_some = true;
                    assert!(!why.is_empty());
                }
            }
        }
        assert!(read_some && refused_some);
    }
}
