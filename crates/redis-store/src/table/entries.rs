//! The lines of the table of commands.
//!
//! A line says how a command runs (`Read` looks, `Write` may change), its name, the number of its arguments with the
//! name (at least so many if negative), its flags, its first and last key and the step between them, its group, the
//! version of Redis that first had it, the function, and what it does.

use super::{
    Command, DENYOOM, FAST, Group, LOADING, MOVABLE, PUBSUB, READONLY, Run, STALE, TIMED, WRITE,
};
use crate::{bits, hashes, keys, lcs, lists, scan, sets, sort, strings, usage, zsets};

/// Makes the entries that the lines of the table say.
macro_rules! table {
    ($(
        $run:ident $name:literal $arity:literal [$($flag:ident)*]
        ($first:literal $last:literal $step:literal)
        $group:ident $since:literal $function:path, $summary:literal;
    )*) => {
        [$(Command {
            name: $name,
            arity: $arity,
            first: $first,
            last: $last,
            step: $step,
            group: Group::$group,
            since: $since,
            summary: $summary,
            flags: 0 $(| $flag)*,
            run: Run::$run($function),
        }),*]
    };
}

pub(super) static COMMANDS: [Command; 143] = table! {
    Write "append" 3 [WRITE DENYOOM FAST] (1 1 1)
        String "2.0.0" strings::append, "Adds to the end of a string";
    Read "bitcount" -2 [READONLY] (1 1 1)
        Bitmap "2.6.0" bits::bitcount, "How many bits of a string are set";
    Write "bitop" -4 [WRITE DENYOOM] (2 -1 1)
        Bitmap "2.6.0" bits::bitop, "Combines the bits of several strings";
    Read "bitpos" -3 [READONLY] (1 1 1)
        Bitmap "2.8.7" bits::bitpos, "Where the first bit is that is set, or not set";
    Write "copy" -3 [WRITE DENYOOM] (1 2 1)
        Generic "6.2.0" keys::copy, "Copies what a key holds to another one";
    Read "dbsize" 1 [READONLY FAST] (0 0 0)
        Server "1.0.0" keys::dbsize, "How many keys the database has";
    Write "decr" 2 [WRITE DENYOOM FAST] (1 1 1)
        String "1.0.0" strings::decr, "Takes one from the integer of a key";
    Write "decrby" 3 [WRITE DENYOOM FAST] (1 1 1)
        String "1.0.0" strings::decrby, "Takes a number from the integer of a key";
    Write "del" -2 [WRITE] (1 -1 1)
        Generic "1.0.0" keys::del, "Deletes keys";
    Read "echo" 2 [LOADING STALE FAST] (0 0 0)
        Connection "1.0.0" keys::echo, "Says what was said";
    Read "exists" -2 [READONLY FAST] (1 -1 1)
        Generic "1.0.0" keys::exists, "How many of these keys are there";
    Write "expire" -3 [WRITE FAST TIMED] (1 1 1)
        Generic "1.0.0" keys::expire, "Ends a key in some seconds";
    Write "expireat" -3 [WRITE FAST TIMED] (1 1 1)
        Generic "1.2.0" keys::expireat, "Ends a key at a second";
    Read "expiretime" 2 [READONLY FAST] (1 1 1)
        Generic "7.0.0" keys::expiretime, "The second at which a key ends";
    Write "flushall" -1 [WRITE] (0 0 0)
        Server "1.0.0" keys::flushall, "Deletes all keys of all databases";
    Write "flushdb" -1 [WRITE] (0 0 0)
        Server "1.0.0" keys::flushdb, "Deletes all keys of the database";
    Read "get" 2 [READONLY FAST] (1 1 1)
        String "1.0.0" strings::get, "The string of a key";
    Read "getbit" 3 [READONLY FAST] (1 1 1)
        Bitmap "2.2.0" bits::getbit, "One bit of a string";
    Write "getdel" 2 [WRITE FAST] (1 1 1)
        String "6.2.0" strings::getdel, "The string of a key, which goes";
    Write "getex" -2 [WRITE FAST TIMED] (1 1 1)
        String "6.2.0" strings::getex, "The string of a key, which gets another end";
    Read "getrange" 4 [READONLY] (1 1 1)
        String "2.4.0" strings::getrange, "A part of a string";
    Write "getset" 3 [WRITE DENYOOM FAST] (1 1 1)
        String "1.0.0" strings::getset, "Sets a string and tells the one before";
    Write "hdel" -3 [WRITE FAST] (1 1 1)
        Hash "2.0.0" hashes::hdel, "Deletes fields of a hash";
    Read "hexists" 3 [READONLY FAST] (1 1 1)
        Hash "2.0.0" hashes::hexists, "Whether a hash has a field";
    Read "hget" 3 [READONLY FAST] (1 1 1)
        Hash "2.0.0" hashes::hget, "The value of a field";
    Read "hgetall" 2 [READONLY] (1 1 1)
        Hash "2.0.0" hashes::hgetall, "All fields of a hash and their values";
    Write "hincrby" 4 [WRITE DENYOOM FAST] (1 1 1)
        Hash "2.0.0" hashes::hincrby, "Adds a number to the integer of a field";
    Write "hincrbyfloat" 4 [WRITE DENYOOM FAST] (1 1 1)
        Hash "2.6.0" hashes::hincrbyfloat, "Adds a fraction to the number of a field";
    Read "hkeys" 2 [READONLY] (1 1 1)
        Hash "2.0.0" hashes::hkeys, "All fields of a hash";
    Read "hlen" 2 [READONLY FAST] (1 1 1)
        Hash "2.0.0" hashes::hlen, "How many fields a hash has";
    Read "hmget" -3 [READONLY FAST] (1 1 1)
        Hash "2.0.0" hashes::hmget, "The values of several fields";
    Write "hmset" -4 [WRITE DENYOOM FAST] (1 1 1)
        Hash "2.0.0" hashes::hmset, "Sets several fields";
    Read "hrandfield" -2 [READONLY] (1 1 1)
        Hash "6.2.0" hashes::hrandfield, "Random fields of a hash";
    Read "hscan" -3 [READONLY] (1 1 1)
        Hash "2.8.0" scan::hscan, "Some fields of a hash, and where to go on";
    Write "hset" -4 [WRITE DENYOOM FAST] (1 1 1)
        Hash "2.0.0" hashes::hset, "Sets fields of a hash";
    Write "hsetnx" 4 [WRITE DENYOOM FAST] (1 1 1)
        Hash "2.0.0" hashes::hsetnx, "Sets a field if there is none";
    Read "hstrlen" 3 [READONLY FAST] (1 1 1)
        Hash "3.2.0" hashes::hstrlen, "The length of the value of a field";
    Read "hvals" 2 [READONLY] (1 1 1)
        Hash "2.0.0" hashes::hvals, "All values of a hash";
    Write "incr" 2 [WRITE DENYOOM FAST] (1 1 1)
        String "1.0.0" strings::incr, "Adds one to the integer of a key";
    Write "incrby" 3 [WRITE DENYOOM FAST] (1 1 1)
        String "1.0.0" strings::incrby, "Adds a number to the integer of a key";
    Write "incrbyfloat" 3 [WRITE DENYOOM FAST] (1 1 1)
        String "2.6.0" strings::incrbyfloat, "Adds a fraction to the number of a key";
    Read "keys" 2 [READONLY] (0 0 0)
        Generic "1.0.0" keys::keys, "All keys that fit a pattern";
    Read "lcs" -3 [READONLY] (1 2 1)
        String "7.0.0" lcs::lcs, "What two strings have in common, in order";
    Read "lindex" 3 [READONLY] (1 1 1)
        List "1.0.0" lists::lindex, "The element at a position";
    Write "linsert" 5 [WRITE DENYOOM] (1 1 1)
        List "2.2.0" lists::linsert, "Adds an element beside another one";
    Read "llen" 2 [READONLY FAST] (1 1 1)
        List "1.0.0" lists::llen, "The length of a list";
    Write "lmove" 5 [WRITE DENYOOM] (1 2 1)
        List "6.2.0" lists::lmove, "Moves an element from one list to another";
    Write "lmpop" -4 [WRITE MOVABLE] (0 0 0)
        List "7.0.0" lists::lmpop, "Takes elements from the first list that has any";
    Write "lpop" -2 [WRITE FAST] (1 1 1)
        List "1.0.0" lists::lpop, "Takes elements from the left end";
    Read "lpos" -3 [READONLY] (1 1 1)
        List "6.0.6" lists::lpos, "Where an element is in a list";
    Write "lpush" -3 [WRITE DENYOOM FAST] (1 1 1)
        List "1.0.0" lists::lpush, "Adds elements at the left end";
    Write "lpushx" -3 [WRITE DENYOOM FAST] (1 1 1)
        List "2.2.0" lists::lpushx, "Adds elements at the left end of a list that is there";
    Read "lrange" 4 [READONLY] (1 1 1)
        List "1.0.0" lists::lrange, "The elements of a range";
    Write "lrem" 4 [WRITE] (1 1 1)
        List "1.0.0" lists::lrem, "Takes out elements that are equal to one";
    Write "lset" 4 [WRITE DENYOOM] (1 1 1)
        List "1.0.0" lists::lset, "Sets the element at a position";
    Write "ltrim" 4 [WRITE] (1 1 1)
        List "1.0.0" lists::ltrim, "Leaves the elements of a range";
    Read "memory" -2 [READONLY] (2 2 1)
        Server "4.0.0" usage::memory, "About how much memory a key takes";
    Read "mget" -2 [READONLY FAST] (1 -1 1)
        String "1.0.0" strings::mget, "The strings of several keys";
    Write "move" 3 [WRITE FAST] (1 1 1)
        Generic "1.0.0" keys::move_, "Moves a key to another database";
    Write "mset" -3 [WRITE DENYOOM] (1 -1 2)
        String "1.0.1" strings::mset, "Sets several strings";
    Write "msetnx" -3 [WRITE DENYOOM] (1 -1 2)
        String "1.0.1" strings::msetnx, "Sets several strings if none of the keys is there";
    Read "object" -2 [READONLY] (2 2 1)
        Generic "2.2.3" keys::object, "How a key is kept";
    Write "persist" 2 [WRITE FAST] (1 1 1)
        Generic "2.2.0" keys::persist, "Lets a key stay for ever";
    Write "pexpire" -3 [WRITE FAST TIMED] (1 1 1)
        Generic "2.6.0" keys::pexpire, "Ends a key in some milliseconds";
    Write "pexpireat" -3 [WRITE FAST TIMED] (1 1 1)
        Generic "2.6.0" keys::pexpireat, "Ends a key at a millisecond";
    Read "pexpiretime" 2 [READONLY FAST] (1 1 1)
        Generic "7.0.0" keys::pexpiretime, "The millisecond at which a key ends";
    Read "ping" -1 [FAST] (0 0 0)
        Connection "1.0.0" keys::ping, "Says that somebody is there";
    Write "psetex" 4 [WRITE DENYOOM TIMED] (1 1 1)
        String "2.6.0" strings::psetex, "Sets a string for some milliseconds";
    Read "pttl" 2 [READONLY FAST] (1 1 1)
        Generic "2.6.0" keys::pttl, "The milliseconds that a key has left";
    Write "publish" 3 [PUBSUB LOADING STALE FAST] (0 0 0)
        PubSub "2.0.0" keys::publish, "Sends a message to a channel";
    Read "randomkey" 1 [READONLY] (0 0 0)
        Generic "1.0.0" keys::randomkey, "Any key";
    Write "rename" 3 [WRITE] (1 2 1)
        Generic "1.0.0" keys::rename, "Gives a key another name";
    Write "renamenx" 3 [WRITE FAST] (1 2 1)
        Generic "1.0.0" keys::renamenx, "Gives a key another name that is free";
    Write "rpop" -2 [WRITE FAST] (1 1 1)
        List "1.0.0" lists::rpop, "Takes elements from the right end";
    Write "rpoplpush" 3 [WRITE DENYOOM] (1 2 1)
        List "1.2.0" lists::rpoplpush, "Moves the last element to the front of another list";
    Write "rpush" -3 [WRITE DENYOOM FAST] (1 1 1)
        List "1.0.0" lists::rpush, "Adds elements at the right end";
    Write "rpushx" -3 [WRITE DENYOOM FAST] (1 1 1)
        List "2.2.0" lists::rpushx, "Adds elements at the right end of a list that is there";
    Write "sadd" -3 [WRITE DENYOOM FAST] (1 1 1)
        Set "1.0.0" sets::sadd, "Adds members to a set";
    Read "scan" -2 [READONLY] (0 0 0)
        Generic "2.8.0" scan::scan, "Some of all keys, and where to go on";
    Read "scard" 2 [READONLY FAST] (1 1 1)
        Set "1.0.0" sets::scard, "How many members a set has";
    Read "sdiff" -2 [READONLY] (1 -1 1)
        Set "1.0.0" sets::sdiff, "The members of a set that no other one has";
    Write "sdiffstore" -3 [WRITE DENYOOM] (1 -1 1)
        Set "1.0.0" sets::sdiffstore, "Stores the members of a set that no other one has";
    Write "select" 2 [LOADING STALE FAST] (0 0 0)
        Connection "1.0.0" keys::select, "Chooses a database";
    Write "set" -3 [WRITE DENYOOM TIMED] (1 1 1)
        String "1.0.0" strings::set, "Sets a string";
    Write "setbit" 4 [WRITE DENYOOM] (1 1 1)
        Bitmap "2.2.0" bits::setbit, "Sets one bit of a string";
    Write "setex" 4 [WRITE DENYOOM TIMED] (1 1 1)
        String "2.0.0" strings::setex, "Sets a string for some seconds";
    Write "setnx" 3 [WRITE DENYOOM FAST] (1 1 1)
        String "1.0.0" strings::setnx, "Sets a string if there is no such key";
    Write "setrange" 4 [WRITE DENYOOM] (1 1 1)
        String "2.2.0" strings::setrange, "Overwrites a part of a string";
    Read "sinter" -2 [READONLY] (1 -1 1)
        Set "1.0.0" sets::sinter, "The members that all sets have";
    Read "sintercard" -3 [READONLY MOVABLE] (0 0 0)
        Set "7.0.0" sets::sintercard, "How many members all sets have";
    Write "sinterstore" -3 [WRITE DENYOOM] (1 -1 1)
        Set "1.0.0" sets::sinterstore, "Stores the members that all sets have";
    Read "sismember" 3 [READONLY FAST] (1 1 1)
        Set "1.0.0" sets::sismember, "Whether a set has a member";
    Read "smembers" 2 [READONLY] (1 1 1)
        Set "1.0.0" sets::smembers, "All members of a set";
    Read "smismember" -3 [READONLY FAST] (1 1 1)
        Set "6.2.0" sets::smismember, "Whether a set has each of several members";
    Write "smove" 4 [WRITE FAST] (1 2 1)
        Set "1.0.0" sets::smove, "Moves a member from one set to another";
    Write "sort" -2 [WRITE DENYOOM MOVABLE] (1 1 1)
        Generic "1.0.0" sort::sort, "Sorts a list or set, and may store that";
    Read "sort_ro" -2 [READONLY MOVABLE] (1 1 1)
        Generic "7.0.0" sort::sort_ro, "Sorts a list or set";
    Write "spop" -2 [WRITE FAST] (1 1 1)
        Set "1.0.0" sets::spop, "Takes random members";
    Write "spublish" 3 [PUBSUB LOADING STALE FAST] (1 1 1)
        PubSub "7.0.0" keys::publish, "Sends a message to a channel";
    Read "srandmember" -2 [READONLY] (1 1 1)
        Set "1.0.0" sets::srandmember, "Random members of a set";
    Write "srem" -3 [WRITE FAST] (1 1 1)
        Set "1.0.0" sets::srem, "Takes members out of a set";
    Read "sscan" -3 [READONLY] (1 1 1)
        Set "2.8.0" scan::sscan, "Some members of a set, and where to go on";
    Read "strlen" 2 [READONLY FAST] (1 1 1)
        String "2.2.0" strings::strlen, "The length of a string";
    Read "substr" 4 [READONLY] (1 1 1)
        String "1.0.0" strings::getrange, "A part of a string";
    Read "sunion" -2 [READONLY] (1 -1 1)
        Set "1.0.0" sets::sunion, "The members that any of the sets has";
    Write "sunionstore" -3 [WRITE DENYOOM] (1 -1 1)
        Set "1.0.0" sets::sunionstore, "Stores the members that any of the sets has";
    Write "swapdb" 3 [WRITE FAST] (0 0 0)
        Server "4.0.0" keys::swapdb, "Lets two databases change places";
    Read "touch" -2 [READONLY FAST] (1 -1 1)
        Generic "3.2.1" keys::exists, "How many of these keys are there";
    Read "ttl" 2 [READONLY FAST] (1 1 1)
        Generic "1.0.0" keys::ttl, "The seconds that a key has left";
    Read "type" 2 [READONLY FAST] (1 1 1)
        Generic "1.0.0" keys::type_of, "The type of a key";
    Write "unlink" -2 [WRITE FAST] (1 -1 1)
        Generic "4.0.0" keys::del, "Deletes keys";
    Write "zadd" -4 [WRITE DENYOOM FAST] (1 1 1)
        SortedSet "1.2.0" zsets::zadd, "Adds members with scores";
    Read "zcard" 2 [READONLY FAST] (1 1 1)
        SortedSet "1.2.0" zsets::zcard, "How many members a sorted set has";
    Read "zcount" 4 [READONLY FAST] (1 1 1)
        SortedSet "2.0.0" zsets::zcount, "How many members have a score in a range";
    Read "zdiff" -3 [READONLY MOVABLE] (0 0 0)
        SortedSet "6.2.0" zsets::zdiff, "The members that no other sorted set has";
    Write "zdiffstore" -4 [WRITE DENYOOM MOVABLE] (1 1 1)
        SortedSet "6.2.0" zsets::zdiffstore, "Stores the members that no other sorted set has";
    Write "zincrby" 4 [WRITE DENYOOM FAST] (1 1 1)
        SortedSet "1.2.0" zsets::zincrby, "Adds to the score of a member";
    Read "zinter" -3 [READONLY MOVABLE] (0 0 0)
        SortedSet "6.2.0" zsets::zinter, "The members that all sorted sets have";
    Read "zintercard" -3 [READONLY MOVABLE] (0 0 0)
        SortedSet "7.0.0" zsets::zintercard, "How many members all sorted sets have";
    Write "zinterstore" -4 [WRITE DENYOOM MOVABLE] (1 1 1)
        SortedSet "2.0.0" zsets::zinterstore, "Stores the members that all sorted sets have";
    Read "zlexcount" 4 [READONLY FAST] (1 1 1)
        SortedSet "2.8.9" zsets::zlexcount, "How many members have a name in a range";
    Write "zmpop" -4 [WRITE MOVABLE] (0 0 0)
        SortedSet "7.0.0" zsets::zmpop, "Takes members from the first sorted set that has any";
    Read "zmscore" -3 [READONLY FAST] (1 1 1)
        SortedSet "6.2.0" zsets::zmscore, "The scores of several members";
    Write "zpopmax" -2 [WRITE FAST] (1 1 1)
        SortedSet "5.0.0" zsets::zpopmax, "Takes the members with the highest scores";
    Write "zpopmin" -2 [WRITE FAST] (1 1 1)
        SortedSet "5.0.0" zsets::zpopmin, "Takes the members with the lowest scores";
    Read "zrandmember" -2 [READONLY] (1 1 1)
        SortedSet "6.2.0" zsets::zrandmember, "Random members of a sorted set";
    Read "zrange" -4 [READONLY] (1 1 1)
        SortedSet "1.2.0" zsets::zrange, "The members of a range";
    Read "zrangebylex" -4 [READONLY] (1 1 1)
        SortedSet "2.8.9" zsets::zrangebylex, "The members whose names are in a range";
    Read "zrangebyscore" -4 [READONLY] (1 1 1)
        SortedSet "1.0.5" zsets::zrangebyscore, "The members whose scores are in a range";
    Write "zrangestore" -5 [WRITE DENYOOM] (1 2 1)
        SortedSet "6.2.0" zsets::zrangestore, "Stores the members of a range";
    Read "zrank" -3 [READONLY FAST] (1 1 1)
        SortedSet "2.0.0" zsets::zrank, "The place of a member, from the lowest score on";
    Write "zrem" -3 [WRITE FAST] (1 1 1)
        SortedSet "1.2.0" zsets::zrem, "Takes members out of a sorted set";
    Write "zremrangebylex" 4 [WRITE] (1 1 1)
        SortedSet "2.8.9" zsets::zremrangebylex, "Takes out members whose names are in a range";
    Write "zremrangebyrank" 4 [WRITE] (1 1 1)
        SortedSet "2.0.0" zsets::zremrangebyrank, "Takes out members whose places are in a range";
    Write "zremrangebyscore" 4 [WRITE] (1 1 1)
        SortedSet "1.2.0" zsets::zremrangebyscore, "Takes out members whose scores are in a range";
    Read "zrevrange" -4 [READONLY] (1 1 1)
        SortedSet "1.2.0" zsets::zrevrange, "The members of a range, from the highest score on";
    Read "zrevrangebylex" -4 [READONLY] (1 1 1)
        SortedSet "2.8.9" zsets::zrevrangebylex, "The members whose names are in a range, backwards";
    Read "zrevrangebyscore" -4 [READONLY] (1 1 1)
        SortedSet "2.2.0" zsets::zrevrangebyscore, "The members whose scores are in a range, backwards";
    Read "zrevrank" -3 [READONLY FAST] (1 1 1)
        SortedSet "2.0.0" zsets::zrevrank, "The place of a member, from the highest score on";
    Read "zscan" -3 [READONLY] (1 1 1)
        SortedSet "2.8.0" scan::zscan, "Some members of a sorted set, and where to go on";
    Read "zscore" 3 [READONLY FAST] (1 1 1)
        SortedSet "1.2.0" zsets::zscore, "The score of a member";
    Read "zunion" -3 [READONLY MOVABLE] (0 0 0)
        SortedSet "6.2.0" zsets::zunion, "The members that any of the sorted sets has";
    Write "zunionstore" -4 [WRITE DENYOOM MOVABLE] (1 1 1)
        SortedSet "2.0.0" zsets::zunionstore, "Stores the members that any of the sorted sets has";
};

/// Names of commands of Redis 7.0 that neither the store nor connections have.
#[rustfmt::skip]
pub(super) const ELSEWHERE: [&str; 63] = [
    "asking", "bgrewriteaof", "bgsave", "bitfield", "bitfield_ro", 
    "cluster", "debug", "dump", "eval",
    "eval_ro", "evalsha", "evalsha_ro", "failover", "fcall", "fcall_ro", "function", "geoadd",
    "geodist", "geohash", "geopos", "georadius", "georadius_ro", "georadiusbymember",
    "georadiusbymember_ro", "geosearch", "geosearchstore", "lastsave", "latency", "lolwut",
    "migrate", "module", "monitor", "pfadd", "pfcount", "pfdebug", "pfmerge",
    "pfselftest", "psync", "replconf", "replicaof", "restore", "restore-asking", "save", "script",
    "shutdown", "slaveof", "slowlog", "sync", "xack", "xadd", "xautoclaim", "xclaim", "xdel",
    "xgroup", "xinfo", "xlen", "xpending", "xrange", "xread", "xreadgroup", "xrevrange", "xsetid",
    "xtrim",
];
