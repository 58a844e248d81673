//! `--help` and `--version`, in the form that etcd has.

use super::flags::{FLAGS, Fate, Flag};

/// How the program is called.
pub(super) const USAGE: &str = "\
Usage:

  etcd [flags]
    Start a Quorate replica with etcd's options, variables and files.

  etcd --version
    Show the version of etcd that is spoken for.

  etcd -h | --help
    Show every flag and what becomes of it.

  etcd --config-file FILE
    Take the options from a YAML file; flags and variables are ignored then.
";

/// What every flag says and means.
pub(super) fn flags() -> String {
    let mut text = String::new();
    let mut section = "";
    for flag in FLAGS.iter() {
        if flag.section != section {
            section = flag.section;
            text.push_str(&format!("\n{section}:\n"));
        }
        text.push_str(&format!(
            "  --{} '{}'\n    {}\n",
            flag.name,
            flag.default,
            meaning(flag)
        ));
    }
    text.push_str(
        "\nOwn options:\n  --quorate-NAME VALUE\n    The option --NAME of `quorate serve`, as in --quorate-protocol \
         nezha.\n",
    );
    text
}

/// What becomes of a flag, in a sentence.
fn meaning(flag: &Flag) -> String {
    let why = capitalised(flag.why);
    match flag.fate {
        Fate::Used | Fate::Serve { .. } => format!("{why}."),
        Fate::Moot => format!("No meaning here: {}.", flag.why),
        Fate::Refused => format!("Refused: {}.", flag.why),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase());
    first.into_iter().flatten().chain(letters).collect()
}

/// The lines of `--version`: programs look for the first.
pub(super) fn version() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "etcd Version: {}\nGit SHA: none, this is Quorate {}\nGo Version: none, this is Rust\nGo OS/Arch: {}/{arch}\n",
        quorate_face_etcd::VERSION,
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_every_flag_and_version_says_which_etcd() {
        let text = flags();
        for flag in FLAGS.iter() {
            assert!(text.contains(&format!("  --{} '{}'\n", flag.name, flag.default)));
        }
        assert!(text.contains("\nClustering:\n"));
        assert!(version().starts_with("etcd Version: 3."), "{}", version());
    }
}
