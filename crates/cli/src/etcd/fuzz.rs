//! Files of options that somebody else wrote, mutated.

use super::file;
use super::flags::FLAGS;
use bytes::Bytes;
use quorate_fuzz::{Fuzz, Limits};
use std::str;

#[test]
fn files_of_options_bear_any_bytes() {
    let seeds = [
        "name: 'a'\nlog-outputs: [x, \"y\"]\nclient-transport-security:\n  cert-file: /c\n  auto-tls: true\n",
        "{\"name\": \"a\", \"peer-transport-security\": {\"allowed-cn\": [\"c\", 'd']}, max-wals: ~}\n",
        "# etcd\n---\nname: &a |\n  text\n  more\ndata-dir: *a\n---\n? k\n: v\n...\n# end\n",
        "quorate-protocol: nezha\nheartbeat-interval: 0x64\nelection-timeout: 1_000\nnam: \"\\x41\\u263A\"\n",
        "name: >-\n  a\n\n  b\nwal-dir: !!str /w\n\"max-txn-ops\" : 010\ngrpc-keepalive-timeout: 5000000000\n",
    ];
    let parse = |input: Bytes| {
        let text = str::from_utf8(&input).map_err(|error| error.to_string())?;
        file::parse(text)
    };
    let limits = Limits {
        // The library has buffers of its own; unknown keys are held against all that are known.
        base_bytes: 64 << 10,
        bytes_per_byte: 256,
        ..Limits::default()
    };
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "options");
    fuzz.seeds(seeds).limits(limits).run(parse, |_, given| {
        assert!(given.all().count() <= FLAGS.len());
        for (flag, value) in given.all() {
            assert_eq!(flag.value(value).as_deref(), Some(value), "{}", flag.name);
        }
        assert!(given.warnings.len() <= 1);
    });
}
