//! Options of the command line: a name and a value each, or a name alone.

use std::collections::BTreeMap;
use std::str::FromStr;

/// What is left of a command line.
pub(crate) struct Options(BTreeMap<String, String>);

impl Options {
    /// Reads `--name value` pairs; `flags` have no value.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub(crate) fn read(args: &[String], flags: &[&str]) -> Result<Options, String> {
        let mut read = BTreeMap::new();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let Some(name) = arg.strip_prefix("--") else {
                return Err(format!("{arg} is no option"));
            };
            let value = match flags.contains(&name) {
                true => "true".to_owned(),
                false => args
                    .next()
                    .ok_or_else(|| format!("{arg} needs a value"))?
                    .clone(),
            };
            read.insert(name.to_owned(), value);
        }
        Ok(Options(read))
    }

    /// Takes an option, if it is there.
    ///
    /// # Errors
    /// Why its value is none.
    pub(crate) fn find<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.0.remove(name) else {
            return Ok(None);
        };
        let read = value.parse();
        let read = read.map_err(|_| format!("--{name} {value}: that is no value for it"))?;
        Ok(Some(read))
    }

    /// Takes an option, or what it is unless told.
    ///
    /// # Errors
    /// Why its value is none.
    pub(crate) fn take<T: FromStr>(&mut self, name: &str, otherwise: T) -> Result<T, String> {
        Ok(self.find(name)?.unwrap_or(otherwise))
    }

    /// Takes an option that must be there.
    ///
    /// # Errors
    /// Why its value is none.
    pub(crate) fn need<T: FromStr>(&mut self, name: &str) -> Result<T, String> {
        self.find(name)?
            .ok_or_else(|| format!("--{name} is missing"))
    }

    /// Ends the options.
    ///
    /// # Errors
    /// An option that nobody took.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.0.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(format!("there is no option --{name} here")),
        }
    }
}
