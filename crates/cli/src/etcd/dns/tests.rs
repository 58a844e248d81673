use super::*;
use std::net::TcpListener;

const NAME: &str = "_etcd-server._tcp.example.test";

/// The answer to a question: these hosts and ports, each host in the domain of the question.
fn answer(question: &[u8], services: &[(&str, u16)]) -> Vec<u8> {
    let mut bytes = question.to_vec();
    bytes[2] |= 0x80;
    bytes[7] = services.len() as u8;
    // "example.test" stands behind two labels of the question.
    let domain = HEAD_BYTES as u16 + 13 + 5;
    for (host, port) in services {
        bytes.extend([0xc0, HEAD_BYTES as u8]);
        bytes.extend(TYPE_SRV.to_be_bytes());
        bytes.extend(CLASS_IN.to_be_bytes());
        bytes.extend([0, 0, 0, 60]);
        bytes.extend((6 + 1 + host.len() as u16 + 2).to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(port.to_be_bytes());
        bytes.push(host.len() as u8);
        bytes.extend(host.as_bytes());
        bytes.extend((0xc000 | domain).to_be_bytes());
    }
    bytes
}

fn service(host: &str, port: u16) -> Service {
    Service {
        host: host.to_owned(),
        port,
    }
}

/// A server on this machine that answers by UDP, and by TCP what it was asked for before.
fn serve(of_udp: fn(&[u8]) -> Vec<u8>, of_tcp: fn(&[u8]) -> Vec<u8>) -> SocketAddr {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = udp.local_addr().unwrap();
    let tcp = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((count, from)) = udp.recv_from(&mut bytes) {
            udp.send_to(&of_udp(&bytes[..count]), from).unwrap();
        }
    });
    std::thread::spawn(move || {
        while let Ok((mut caller, _)) = tcp.accept() {
            let mut length = [0; 2];
            caller.read_exact(&mut length).unwrap();
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            caller.read_exact(&mut question).unwrap();
            let answer = of_tcp(&question);
            caller
                .write_all(&(answer.len() as u16).to_be_bytes())
                .unwrap();
            caller.write_all(&answer).unwrap();
        }
    });
    address
}

#[test]
fn services_are_found_by_udp_and_by_tcp_where_there_are_many() {
    let few = |question: &[u8]| answer(question, &[("a", 2380), ("b", 2381)]);
    let none = |question: &[u8]| answer(question, &[]);
    let cut = |question: &[u8]| {
        let mut bytes = answer(question, &[]);
        bytes[2] |= 2;
        bytes
    };
    let expected = [
        service("a.example.test", 2380),
        service("b.example.test", 2381),
    ];
    for server in [serve(few, none), serve(cut, few)] {
        let found = services(NAME, &[server]).unwrap();
        assert_eq!(found, expected);
    }
    let unknown = |question: &[u8]| {
        let mut bytes = answer(question, &[]);
        bytes[3] |= 3;
        bytes
    };
    for server in [serve(none, none), serve(unknown, none)] {
        let why = services(NAME, &[server]).unwrap_err();
        assert!(why.contains("there are no SRV records of _etcd"), "{why}");
    }
}

#[test]
fn the_next_server_is_asked_where_one_does_not_know() {
    let few = |question: &[u8]| answer(question, &[("a", 1)]);
    let broken = |question: &[u8]| {
        let mut bytes = answer(question, &[]);
        bytes[3] |= 2;
        bytes
    };
    let silent = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let servers = [silent, serve(broken, few), serve(few, few)];
    assert_eq!(services(NAME, &servers).unwrap().len(), 1);
    let why = services(NAME, &servers[1..2]).unwrap_err();
    assert!(why.contains("the server says error 2"), "{why}");
    assert!(services(NAME, &[]).unwrap_err().contains("nobody to ask"));
}

/// Scenario: every beginning of an answer, and every answer with one byte changed.
#[test]
fn damaged_answers_are_refused_or_read_and_end() {
    let question = question(NAME, [1, 2]).unwrap();
    let whole = answer(&question, &[("a", 1), ("b", 2), ("c", 3)]);
    assert!(Message(&whole).is_about(&question));
    for end in 0..whole.len() {
        let message = Message(&whole[..end]);
        let found = message.read(&question);
        assert!(!matches!(found, Ok(Answer::Found(_))), "{end}: {found:?}");
        let _ = message.is_about(&question);
    }
    for at in 0..whole.len() {
        for byte in [0, 0x3f, 0x40, 0xc0, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let _ = Message(&bytes).read(&question);
        }
    }
    let mut of_another = whole;
    of_another[0] ^= 1;
    assert!(!Message(&of_another).is_about(&question));
}

#[test]
fn names_that_cannot_be_are_not_asked_for() {
    let long = format!("{}.test", "x".repeat(64));
    let longer = "x.".repeat(130);
    for name in ["", ".", "a..b", &long, &longer] {
        assert_eq!(question(name, [0, 0]), None, "{name}");
    }
    assert!(question("example.test.", [0, 0]).is_some());
}

#[test]
fn servers_are_those_of_the_file() {
    let text = "# by hand\nnameserver 10.0.0.1\nsearch example.test\nnameserver ::1\nnameserver x\n\
                nameserver 10.0.0.2\nnameserver 10.0.0.3\n";
    let servers = listed(text);
    let expected = ["10.0.0.1:53", "[::1]:53", "10.0.0.2:53"];
    assert_eq!(servers, expected.map(|server| server.parse().unwrap()));
}
