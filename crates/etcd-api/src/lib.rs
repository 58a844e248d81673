//! The etcd v3 API as plain messages.
