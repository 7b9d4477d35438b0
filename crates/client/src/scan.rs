//! [`Scan`]: a walk over keys, or over the elements of a collection, as a stream.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use futures_core::Stream;

use crate::client::Client;
use crate::error::Result;
use crate::reply::FromReply;

type Page<T> = Pin<Box<dyn Future<Output = Result<(u64, Vec<T>)>> + Send>>;

/// A walk with the guarantees of `SCAN`: an element present from beginning to end is returned at
/// least once. An error ends the walk. It is a [`Stream`], and has [`Scan::next`].
pub struct Scan<T> {
    /// Asks for the page at a cursor.
    ask: Box<dyn Fn(u64) -> Page<T> + Send>,
    items: vec::IntoIter<T>,
    page: Option<Page<T>>,
    cursor: Option<u64>,
}

impl<T> std::fmt::Debug for Scan<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Scan<T>
where
    Vec<T>: FromReply,
{
    fn new(client: &Client, words: Vec<Vec<u8>>, options: Vec<Vec<u8>>) -> Self {
        let client = client.clone();
        let ask = move |cursor: u64| -> Page<T> {
            let (client, words, options) = (client.clone(), words.clone(), options.clone());
            Box::pin(async move {
                use crate::request::RawCommand;
                let name = String::from_utf8_lossy(&words[0]).into_owned();
                let request = client.command(&name).args(&words[1..]).arg(cursor).args(&options);
                request.reply().into_future().await
            })
        };
        let items = Vec::new().into_iter();
        Self { ask: Box::new(ask), items, page: None, cursor: Some(0) }
    }
}

impl<T> Scan<T> {
    /// The next item; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            let page = match (&mut self.page, self.cursor) {
                (Some(page), _) => page,
                (None, Some(cursor)) => self.page.insert((self.ask)(cursor)),
                (None, None) => return Poll::Ready(None),
            };
            let Poll::Ready(result) = page.as_mut().poll(cx) else { return Poll::Pending };
            self.page = None;
            match result {
                Ok((cursor, items)) => {
                    self.cursor = (cursor != 0).then_some(cursor);
                    self.items = items.into_iter();
                }
                Err(error) => {
                    self.cursor = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<T> Stream for Scan<T>
where
    Self: Unpin,
{
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        self.poll(cx)
    }
}

/// Restrictions of a walk.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// A glob pattern that keys, fields or members must match.
    pub pattern: Option<Vec<u8>>,
    /// Number of elements that the server should examine for each page.
    pub count: Option<u32>,
    /// The type of the keys, such as `hash`; of walks over keys only.
    pub key_type: Option<String>,
}

impl ScanOptions {
    fn arguments(&self) -> Vec<Vec<u8>> {
        let mut arguments = Vec::new();
        if let Some(pattern) = &self.pattern {
            arguments.extend([b"MATCH".to_vec(), pattern.clone()]);
        }
        if let Some(count) = self.count {
            arguments.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
        }
        if let Some(key_type) = &self.key_type {
            arguments.extend([b"TYPE".to_vec(), key_type.clone().into_bytes()]);
        }
        arguments
    }
}

impl Client {
    /// Walks the keys of the database.
    pub fn scan_keys(&self, options: &ScanOptions) -> Scan<bytes::Bytes> {
        Scan::<bytes::Bytes>::new(self, vec![b"SCAN".to_vec()], options.arguments())
    }

    /// Walks the fields of a hash, with their values.
    pub fn scan_hash(
        &self,
        key: impl AsRef<[u8]>,
        options: &ScanOptions,
    ) -> Scan<(bytes::Bytes, bytes::Bytes)> {
        Scan::<(bytes::Bytes, bytes::Bytes)>::new(
            self,
            vec![b"HSCAN".to_vec(), key.as_ref().to_vec()],
            options.arguments(),
        )
    }

    /// Walks the members of a set.
    pub fn scan_set(&self, key: impl AsRef<[u8]>, options: &ScanOptions) -> Scan<bytes::Bytes> {
        Scan::<bytes::Bytes>::new(
            self,
            vec![b"SSCAN".to_vec(), key.as_ref().to_vec()],
            options.arguments(),
        )
    }

    /// Walks the members of a sorted set, with their scores.
    pub fn scan_sorted_set(
        &self,
        key: impl AsRef<[u8]>,
        options: &ScanOptions,
    ) -> Scan<(bytes::Bytes, f64)> {
        Scan::<(bytes::Bytes, f64)>::new(
            self,
            vec![b"ZSCAN".to_vec(), key.as_ref().to_vec()],
            options.arguments(),
        )
    }
}
