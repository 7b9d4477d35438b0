//! API of Azure Blob Storage where it differs from S3: blocks, lists, deletions.

use super::{Answer, Request, State, between, done, refused, xml};
use std::fmt::Write as _;

impl State {
    /// Replies to a request that is identified by its parameter `comp`.
    pub(super) fn answer_as_azure(&mut self, request: Request) -> Answer {
        match (&request.method[..], &request.query["comp"][..]) {
            ("PUT", "block") => {
                let block = request.query["blockid"].clone();
                self.blocks.insert((request.key, block), request.body);
                done(Vec::new())
            }
            ("PUT", "blocklist") => {
                let text = String::from_utf8(request.body).unwrap();
                let ids = between(&text, "<Uncommitted>", "</Uncommitted>");
                let mut bytes = Vec::new();
                for id in ids {
                    let block = self.blocks.remove(&(request.key.clone(), id.to_owned()));
                    bytes.extend(block.expect("a block that was put"));
                }
                self.objects.insert(request.key, bytes);
                done(Vec::new())
            }
            ("GET", "list") => self.list_as_azure(&request),
            ("POST", "batch") => self.delete_as_azure(&request),
            _ => refused(400, "InvalidQueryParameterValue"),
        }
    }

    fn list_as_azure(&self, request: &Request) -> Answer {
        let prefix = request.query.get("prefix").cloned().unwrap_or_default();
        let mut text = String::from("<EnumerationResults><Blobs>");
        for (key, bytes) in self.objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let _ = write!(
                text,
                "<Blob><Name>{key}</Name><Properties><Last-Modified>Sat, 21 Nov 2026 20:03:01 GMT</Last-Modified>\
                 <Content-Length>{}</Content-Length><Content-Type>x/y</Content-Type><Etag>e</Etag></Properties></Blob>",
                bytes.len()
            );
        }
        xml(text + "</Blobs><NextMarker/></EnumerationResults>")
    }

    fn delete_as_azure(&mut self, request: &Request) -> Answer {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let mut body = String::new();
        for (id, key) in between(&text, "DELETE /bucket/", " HTTP/1.1").enumerate() {
            self.objects.remove(&super::decoded(key)).expect("an object that is there");
            let _ = write!(
                body,
                "--batch\r\nContent-Type: application/http\r\nContent-ID: {id}\r\n\r\n\
                 HTTP/1.1 202 Accepted\r\nx-ms-version: 2021-04-10\r\n\r\n\r\n"
            );
        }
        body.push_str("--batch--\r\n");
        let headers = "content-type: multipart/mixed; boundary=batch\r\n".into();
        Answer { status: 202, headers, body: body.into_bytes() }
    }
}
