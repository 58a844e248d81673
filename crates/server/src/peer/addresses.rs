//! Where replicas are, as one of them tells another before the first frame.

use quorate_core::{Decoder, Encoder, ReplicaId, Wire, WireError};

/// Replicas in a list, at most.
const REPLICAS_MAX: usize = 256;
/// Bytes of an address, at most; a URL of that length is taken as well.
pub(crate) const ADDRESS_BYTES_MAX: usize = 512;

/// Replicas with the addresses of their peer ports, each as `host:port`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Addresses(pub(crate) Vec<(ReplicaId, String)>);

/// Reads a text that is no longer than an address may be.
pub(crate) fn decode_address(input: &mut Decoder) -> Result<String, WireError> {
    match input.string()? {
        text if text.len() <= ADDRESS_BYTES_MAX => Ok(text),
        _ => Err(WireError::Range("address")),
    }
}

impl Wire for Addresses {
    fn encode(&self, out: &mut Encoder) {
        // What no reader would take is left out.
        let is_short = |(_, address): &&(ReplicaId, String)| address.len() <= ADDRESS_BYTES_MAX;
        let told = || self.0.iter().filter(is_short).take(REPLICAS_MAX);
        out.varint(told().count() as u64);
        for (id, address) in told() {
            id.encode(out);
            out.string(address);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let count = input.count(2)?;
        if count > REPLICAS_MAX {
            return Err(WireError::Range("addresses"));
        }
        let told = (0..count).map(|_| Ok((ReplicaId::decode(input)?, decode_address(input)?)));
        Ok(Addresses(told.collect::<Result<_, WireError>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_without_what_is_too_long_or_too_many() {
        let at = |id: u16, address: &str| (ReplicaId(id), address.to_owned());
        let long = "h".repeat(ADDRESS_BYTES_MAX + 1);
        let told = Addresses(vec![at(1, "a:1"), at(2, &long), at(3, "c:3")]);
        let read = Addresses::from_bytes(told.to_bytes());
        assert_eq!(read, Ok(Addresses(vec![at(1, "a:1"), at(3, "c:3")])));
        let many = (0..2 * REPLICAS_MAX as u16).map(|id| at(id, "a:1"));
        let read = Addresses::from_bytes(Addresses(many.collect()).to_bytes());
        assert_eq!(read.map(|read| read.0.len()), Ok(REPLICAS_MAX));
    }
}
