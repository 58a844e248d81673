//! A gateway's web page: one page, and a WebSocket that shows a symbol and takes orders.

mod json;
mod names;
mod websocket;

pub(super) use json::{View, notice_text, orders_text, report_text, view_text};
pub use names::SiteNames;
pub(super) use websocket::{WebMessage, text_frame};

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The page, with its script and style.
const PAGE: &str = include_str!("page.html");
/// The most bytes of a request's head.
const HEAD_MAX: usize = 8 << 10;
/// How long a browser may take to send its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// What somebody is told who asks for another host.
const OTHER_HOST: &str = "the Host that was asked for is not known here: use the address at which the gateway listens, \
                          localhost, or a name that --web-names has\n";

/// Serves a request: the page, or the beginning of a WebSocket, whose stream is returned. Under a name that is not
/// known here nothing is served.
pub(super) async fn serve(
    mut stream: TcpStream,
    names: &SiteNames,
) -> io::Result<Option<TcpStream>> {
    let came_in_at = stream.local_addr()?.ip();
    let head = tokio::time::timeout(HEAD_TIMEOUT, read_head(&mut stream)).await;
    let Ok(Some(head)) = head.map_err(io::Error::other)? else {
        return Ok(None);
    };
    let response = match Head::parse(&head) {
        None => page("400 Bad Request", "text/plain", "that is no request\n"),
        Some(head)
            if !head
                .host()
                .is_some_and(|host| names.admit(host, came_in_at)) =>
        {
            page("421 Misdirected Request", "text/plain", OTHER_HOST)
        }
        Some(head) => match (head.path, head.upgrade()) {
            ("/feed", Ok(key)) => {
                stream
                    .write_all(websocket::accepted(key).as_bytes())
                    .await?;
                return Ok(Some(stream));
            }
            ("/feed", Err(why)) => page("403 Forbidden", "text/plain", why),
            ("/", _) => page("200 OK", "text/html; charset=utf-8", PAGE),
            _ => page(
                "404 Not Found",
                "text/plain",
                "there is a page at / and a WebSocket at /feed\n",
            ),
        },
    };
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(None)
}

/// Reads up to the empty line, after which a browser waits.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    Ok(String::from_utf8(head).ok())
}

fn page(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'\r\n\r\n{body}",
        body.len()
    )
}

/// The head of a request: a path, and fields whose names are in small letters.
#[derive(Debug)]
struct Head<'a> {
    path: &'a str,
    fields: BTreeMap<String, &'a str>,
}

impl<'a> Head<'a> {
    fn parse(head: &'a str) -> Option<Head<'a>> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let path = match (first.next()?, first.next()?, first.next()?) {
            ("GET", path, "HTTP/1.1") => path,
            _ => return None,
        };
        let mut fields = BTreeMap::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let before = fields.insert(name.to_ascii_lowercase(), value.trim());
            // What is checked must be what others on the way have looked at.
            if before.is_some() && ["host", "origin"].contains(&&*name.to_ascii_lowercase()) {
                return None;
            }
        }
        Some(Head { path, fields })
    }

    fn host(&self) -> Option<&'a str> {
        self.fields.get("host").copied()
    }

    /// The key of a request for a WebSocket. A page of another site gets none: a browser would trade for it.
    fn upgrade(&self) -> Result<&'a str, &'static str> {
        let field = |name: &str| self.fields.get(name).copied();
        let is_upgrade = field("upgrade").is_some_and(|to| to.eq_ignore_ascii_case("websocket"));
        let key = field("sec-websocket-key").filter(|_| is_upgrade);
        let key = key.ok_or("this is for a WebSocket\n")?;
        if let Some(origin) = field("origin") {
            let site = origin.split_once("://").map(|(_, site)| site);
            if site.is_none() || site != self.host() {
                return Err("the page is of another site\n");
            }
        }
        match field("sec-websocket-version") {
            Some("13") => Ok(key),
            _ => Err("the WebSocket has another version\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &str) -> String {
        format!("GET /feed HTTP/1.1\r\nHost: localhost:80\r\n{fields}\r\n\r\n")
    }

    #[test]
    fn a_page_of_another_site_gets_no_socket() {
        let with = "Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSEC-WebSocket-Key: abc";
        let own = head(&format!("{with}\r\nOrigin: http://localhost:80"));
        assert_eq!(Head::parse(&own).unwrap().upgrade(), Ok("abc"));
        let none = head(with);
        assert_eq!(Head::parse(&none).unwrap().upgrade(), Ok("abc"));
        let other = head(&format!("{with}\r\nOrigin: http://example.org"));
        assert!(Head::parse(&other).unwrap().upgrade().is_err());
        assert!(
            Head::parse(&head("Upgrade: h2c"))
                .unwrap()
                .upgrade()
                .is_err()
        );
        let none = head(&format!("{with}\r\nOrigin: null"));
        assert!(Head::parse(&none).unwrap().upgrade().is_err());
        assert!(Head::parse(&head("Host: example.org")).is_none());
        assert!(Head::parse("POST / HTTP/1.1\r\n\r\n").is_none());
        assert!(Head::parse("GET / HTTP/1.1\r\nno field\r\n\r\n").is_none());
    }
}
