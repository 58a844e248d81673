//! One precedence for every option: flag, then environment, then file, then default.
//!
//! clap reads flags and, where a flag is missing, the environment. This module puts the file
//! below them; defaults are filled in where options become settings.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::Table;

/// Lays the options that were given over those in the file.
pub(crate) fn over_file<T: Serialize + DeserializeOwned>(
    given: &T,
    path: &Path,
) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!(
            "cannot read the configuration file {}: {error}",
            path.display()
        )
    })?;
    let explain = |error: toml::de::Error| {
        format!(
            "the configuration file {} is not valid: {}",
            path.display(),
            error.to_string().trim()
        )
    };
    // Read as options first: an unknown key is reported with its line.
    toml::from_str::<T>(&text).map_err(explain)?;
    let mut merged: Table = toml::from_str(&text).map_err(explain)?;
    let given = Table::try_from(given)
        .map_err(|error| format!("the flags cannot be combined with a file: {error}"))?;
    merged.extend(given);
    merged.try_into().map_err(explain)
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
    }

    fn merged(given: &Options, file: &str) -> Result<Options, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("quorate.toml");
        std::fs::write(&path, file).unwrap();
        over_file(given, &path)
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
        };
        assert_eq!(merged(&given, file), Ok(expected));
        let given = Options {
            param: vec!["b=2".into()],
            ..Options::default()
        };
        assert_eq!(merged(&given, file).unwrap().param, ["b=2"]);
    }

    #[test]
    fn an_unknown_key_or_a_wrong_type_is_named_with_its_place() {
        let error = merged(&Options::default(), "port = 2\nprot = 3\n").unwrap_err();
        assert!(
            error.contains("unknown field `prot`") && error.contains("line 2"),
            "{error}"
        );
        let error = merged(&Options::default(), "port = \"x\"\n").unwrap_err();
        assert!(error.contains("line 1"), "{error}");
        let missing = over_file(&Options::default(), Path::new("/no/such.toml")).unwrap_err();
        assert!(missing.contains("/no/such.toml"), "{missing}");
    }
}
