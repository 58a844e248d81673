//! One precedence for every option: flag, then environment, then file, then default.
//!
//! clap reads flags and, where a flag is missing, the environment. This module puts the file
//! below them; defaults are filled in where options become settings.

use crate::nearest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::Table;
use toml::de::DeTable;

/// Lays the options that were given over those in the file. `known` are the keys that a file may have, of which one is
/// suggested for another that is none.
pub(crate) fn over_file<T: Serialize + DeserializeOwned>(
    given: &T,
    path: &Path,
    known: &[String],
) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!(
            "cannot read the configuration file {}: {error}",
            path.display()
        )
    })?;
    let invalid = |why: String| {
        format!(
            "the configuration file {} is not valid: {why}",
            path.display()
        )
    };
    let explain = |error: toml::de::Error| invalid(error.to_string().trim().to_owned());
    let mut merged: Table = toml::from_str(&text).map_err(explain)?;
    if let Some(why) = first_fault::<T>(&text, &merged, known) {
        return Err(invalid(why));
    }
    let given = Table::try_from(given)
        .map_err(|error| format!("the flags cannot be combined with a file: {error}"))?;
    merged.extend(given);
    merged.try_into().map_err(explain)
}

/// What is wrong with the first key that no option takes with its value, and its line. Each key is tried by itself:
/// errors about options that come from several structures name no place.
fn first_fault<T: DeserializeOwned>(text: &str, table: &Table, known: &[String]) -> Option<String> {
    let wrong = |key: &String, value: &toml::Value| {
        let alone = Table::from_iter([(key.clone(), value.clone())]);
        let error = alone.try_into::<T>().err()?;
        let at = line_of(text, key)?;
        Some((at, key.clone(), error))
    };
    let faults = table.iter().filter_map(|(key, value)| wrong(key, value));
    let (line, key, error) = faults.min_by_key(|(line, ..)| *line)?;
    let why = match known.contains(&key) {
        true => format!("the value of {key:?} is wrong: {}", error.message()),
        false => match nearest::of(&key, known.iter().map(String::as_str)) {
            Some(nearest) => format!("there is no key {key:?}; did you mean {nearest:?}?"),
            None => format!("there is no key {key:?}: keys are the long flags, without the dashes"),
        },
    };
    let shown = text.lines().nth(line)?;
    let number = line + 1;
    Some(format!("line {number}: {why}\n  {number} | {shown}"))
}

/// The line of a key, counted from 0.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let keys = table.get_ref().keys();
    let mut found = keys.filter(|found| found.get_ref().as_ref() == key);
    let start = found.next()?.span().start;
    Some(text[..start].matches('\n').count())
}

/// Names in the environment that look like options and are none.
pub(crate) fn unknown_variables(known: &[String]) -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("QUORATE_") && !known.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Serialize, Deserialize, PartialEq, Debug, Default)]
    #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
    struct Options {
        data_dir: Option<String>,
        port: Option<u16>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        param: Vec<String>,
        #[serde(flatten)]
        inner: Inner,
    }

    fn merged(given: &Options, file: &str) -> Result<Options, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("quorate.toml");
        std::fs::write(&path, file).unwrap();
        over_file(given, &path, &keys())
    }

    fn keys() -> Vec<String> {
        ["data-dir", "port", "param", "deep"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn what_is_given_wins_over_the_file_and_the_rest_comes_from_it() {
        let given = Options {
            port: Some(1),
            ..Options::default()
        };
        let file = "port = 2\ndata-dir = \"there\"\nparam = [\"a=1\"]\n";
        let expected = Options {
            port: Some(1),
            data_dir: Some("there".into()),
            param: vec!["a=1".into()],
            ..Options::default()
        };
        assert_eq!(merged(&given, file), Ok(expected));
        let given = Options {
            param: vec!["b=2".into()],
            ..Options::default()
        };
        assert_eq!(merged(&given, file).unwrap().param, ["b=2"]);
    }

    /// Options of another structure, whose errors name no place.
    #[derive(Serialize, Deserialize, PartialEq, Debug, Default)]
    #[serde(default, rename_all = "kebab-case")]
    struct Inner {
        deep: Option<u16>,
    }

    #[test]
    fn an_unknown_key_or_a_wrong_type_is_shown_with_its_line() {
        for (file, why) in [
            (
                "port = 2\n\nprot = 3\n",
                "line 3: there is no key \"prot\"; did you mean \"port\"?\n  3 | prot = 3",
            ),
            (
                "# x\ncolour = 3\nport = 1",
                "line 2: there is no key \"colour\": keys are",
            ),
            (
                "port = \"x\"\n",
                "line 1: the value of \"port\" is wrong: invalid type",
            ),
            (
                "port = 1\ndeep = 70000\n",
                "line 2: the value of \"deep\" is wrong: invalid value: integer `70000`",
            ),
            (
                "port = 1\n[param]\na = 1\n",
                "line 2: the value of \"param\" is wrong",
            ),
            ("port = 1\nport 2\n", "line 2, column"),
        ] {
            let error = merged(&Options::default(), file).unwrap_err();
            assert!(error.contains(why), "{file}: {error}");
        }
        let missing =
            over_file(&Options::default(), Path::new("/no/such.toml"), &keys()).unwrap_err();
        assert!(missing.contains("/no/such.toml"), "{missing}");
    }
}
