//! The KV service: transactions.

use super::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    ResponseHeader,
};
use bytes::Bytes;

/// One operation of a transaction.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RequestOp {
    /// The operation of this element.
    #[prost(oneof = "request_op::Request", tags = "1, 2, 3, 4")]
    pub request: Option<request_op::Request>,
}

/// The union in [`RequestOp`].
pub mod request_op {
    /// An operation of a transaction.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum Request {
        /// Read a key or range.
        #[prost(message, tag = "1")]
        RequestRange(super::RangeRequest),
        /// Write a key.
        #[prost(message, tag = "2")]
        RequestPut(super::PutRequest),
        /// Delete a key or range.
        #[prost(message, tag = "3")]
        RequestDeleteRange(super::DeleteRangeRequest),
        /// A transaction within the transaction.
        #[prost(message, tag = "4")]
        RequestTxn(super::TxnRequest),
    }
}

impl From<request_op::Request> for RequestOp {
    fn from(request: request_op::Request) -> Self {
        RequestOp {
            request: Some(request),
        }
    }
}

/// The outcome of one operation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResponseOp {
    /// The response of this element.
    #[prost(oneof = "response_op::Response", tags = "1, 2, 3, 4")]
    pub response: Option<response_op::Response>,
}

/// The union in [`ResponseOp`].
pub mod response_op {
    /// The response of an operation.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum Response {
        /// Of a read.
        #[prost(message, tag = "1")]
        ResponseRange(super::RangeResponse),
        /// Of a write.
        #[prost(message, tag = "2")]
        ResponsePut(super::PutResponse),
        /// Of a deletion.
        #[prost(message, tag = "3")]
        ResponseDeleteRange(super::DeleteRangeResponse),
        /// Of an inner transaction.
        #[prost(message, tag = "4")]
        ResponseTxn(super::TxnResponse),
    }
}

impl From<response_op::Response> for ResponseOp {
    fn from(response: response_op::Response) -> Self {
        ResponseOp {
            response: Some(response),
        }
    }
}

/// A condition on a key, or on every key of a range.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Compare {
    /// How the key's field must relate to the given one.
    #[prost(enumeration = "compare::CompareResult", tag = "1")]
    pub result: i32,
    /// The field of the key that is compared.
    #[prost(enumeration = "compare::CompareTarget", tag = "2")]
    pub target: i32,
    /// The key, or the first of the range.
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    /// The end of the range, as in [`RangeRequest`].
    #[prost(bytes = "bytes", tag = "64")]
    pub range_end: Bytes,
    /// What to compare with.
    #[prost(oneof = "compare::TargetUnion", tags = "4, 5, 6, 7, 8")]
    pub target_union: Option<compare::TargetUnion>,
}

/// Parts of [`Compare`].
pub mod compare {
    use bytes::Bytes;

    /// The relation that must hold.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
    #[repr(i32)]
    pub enum CompareResult {
        /// The field `=` the operand.
        Equal = 0,
        /// The field `>` the operand.
        Greater = 1,
        /// The field `<` the operand.
        Less = 2,
        /// The field `!=` the operand.
        NotEqual = 3,
    }

    /// The field of a key that is compared.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
    #[repr(i32)]
    pub enum CompareTarget {
        /// The version of the key.
        Version = 0,
        /// The revision of creation.
        Create = 1,
        /// The revision of the last write.
        Mod = 2,
        /// Compare the value.
        Value = 3,
        /// Compare the lease.
        Lease = 4,
    }

    /// The operand of a comparison.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum TargetUnion {
        /// A version to compare with.
        #[prost(int64, tag = "4")]
        Version(i64),
        /// A revision of creation.
        #[prost(int64, tag = "5")]
        CreateRevision(i64),
        /// A revision of the last write.
        #[prost(int64, tag = "6")]
        ModRevision(i64),
        /// A value to compare with.
        #[prost(bytes = "bytes", tag = "7")]
        Value(Bytes),
        /// A lease to compare with.
        #[prost(int64, tag = "8")]
        Lease(i64),
    }
}

/// Several operations, applied as one if the conditions hold, others if not.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TxnRequest {
    /// The conditions; all must hold.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// Operations if they hold.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    /// Operations if not.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

/// A transaction was applied.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TxnResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Whether the conditions held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// One outcome per operation of the branch taken.
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}
