//! The words of a machine that can be read by themselves.

/// The part of an implementation of [`quorate_core::Machine`] that reads messages and records, for a machine
/// whose words say all that is needed ([`quorate_core::Plain`]).
macro_rules! plain_words {
    () => {
        fn message(
            _: &str,
            input: &mut quorate_core::Decoder,
        ) -> Result<Self::Message, quorate_core::WireError> {
            quorate_core::Wire::decode(input)
        }

        fn record(
            _: &str,
            input: &mut quorate_core::Decoder,
        ) -> Result<Self::Record, quorate_core::WireError> {
            quorate_core::Wire::decode(input)
        }
    };
}
pub(crate) use plain_words;
