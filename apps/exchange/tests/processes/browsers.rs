//! Browsers at a gateway, and what pages of other sites do not get there.

use super::Exchange;
use super::page::{self, Page};

#[test]
fn browsers_see_the_book_and_trade() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::start(folder.path(), &[], &[]);
    let places = &exchange.places;
    let mut buyer = Page::open(&places.webs[0]);
    buyer.hear(r#""symbols":1,"#);
    buyer.say("login 0");
    buyer.say("buy 5 100");
    buyer.hear("accepted: 0 traded, 5 wait, 0 cancelled");
    buyer.hear(r#""buy",100,5]]}}"#);
    let mut seller = Page::open(&places.webs[0]);
    seller.hear(r#""bids":[[100,5,1]]"#);
    seller.say("login 1");
    seller.say("sell 3 99");
    seller.hear("accepted: 3 traded, 0 wait, 0 cancelled");
    buyer.hear("3 traded at 100");
    buyer.hear(r#""bids":[[100,2,1]]"#);
    let html = page::answer(&places.webs[0], "/", &[("Host", &places.webs[0])]);
    assert!(html.starts_with("HTTP/1.1 200 OK\r\n") && html.ends_with("</html>\n"));
}

/// Scenario: the page of a site whose name was made to lead to the gateway asks, as a browser has it ask.
#[test]
fn a_site_whose_name_leads_to_the_gateway_gets_neither_the_page_nor_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let names = [("--web-names", "exchange.example.org")];
    let exchange = Exchange::start(folder.path(), &[], &names);
    let web = &exchange.places.webs[0];
    let (_, port) = web.rsplit_once(':').unwrap();
    let socket = |host: &str, origin: &str| {
        let upgrade = [
            ("Host", host),
            ("Origin", origin),
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "x"),
        ];
        page::answer(web, "/feed", &upgrade)
    };
    let evil = format!("evil.example:{port}");
    for said in [
        socket(&evil, &format!("http://{evil}")),
        page::answer(web, "/", &[("Host", &evil)]),
        page::answer(web, "/", &[]),
    ] {
        assert!(said.starts_with("HTTP/1.1 421 "), "{said}");
        assert!(said.contains("a name that --web-names has"), "{said}");
    }
    let own = format!("localhost:{port}");
    let other_site = socket(&own, &format!("http://{evil}"));
    assert!(other_site.starts_with("HTTP/1.1 403 "), "{other_site}");
    for host in [
        own.as_str(),
        "exchange.example.org",
        "Exchange.Example.ORG:443",
    ] {
        let page = page::answer(web, "/", &[("Host", host)]);
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{host}: {page}");
    }
}
