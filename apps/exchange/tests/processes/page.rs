//! A page in a browser, as far as the gateway can tell.

use super::connect;
use std::io::{Read, Write};
use std::net::TcpStream;

/// What the gateway at an address says to a request for a path with these fields, up to the end of the connection.
pub(crate) fn answer(address: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let mut request = format!("GET {path} HTTP/1.1\r\n");
    for (name, value) in fields {
        request += &format!("{name}: {value}\r\n");
    }
    let mut stream = connect(address);
    stream.write_all((request + "\r\n").as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

/// A browser's end of a WebSocket.
pub(crate) struct Page {
    stream: TcpStream,
    heard: String,
}

impl Page {
    pub(crate) fn open(address: &str) -> Page {
        let mut stream = connect(address);
        let request = format!(
            "GET /feed HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let heard = String::new();
        let mut page = Page { stream, heard };
        page.hear("HTTP/1.1 101 ");
        page
    }

    /// Says some words, in a frame that is masked with zeros.
    pub(crate) fn say(&mut self, words: &str) {
        let length = 0x80 | u8::try_from(words.len()).unwrap();
        let mut frame = vec![0x81, length, 0, 0, 0, 0];
        frame.extend_from_slice(words.as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    /// Waits until these words came, and forgets what came up to them.
    pub(crate) fn hear(&mut self, words: &str) {
        let mut bytes = [0; 4096];
        let end = loop {
            if let Some(at) = self.heard.find(words) {
                break at + words.len();
            }
            let length = self.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the gateway said {}", self.heard);
            self.heard += &String::from_utf8_lossy(&bytes[..length]);
        };
        self.heard.drain(..end);
    }
}
