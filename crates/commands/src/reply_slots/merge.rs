//! Merges the replies to the parts of a command.

/// Merge strategy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Merge {
    /// A single part.
    Only,
    /// Sum of the numbers.
    Sum,
    /// All replies are equal.
    Same,
    /// Minimum of the numbers, or of the numbers at each index of the arrays.
    Min,
    /// Elements of the arrays move to given places.
    Places,
    /// Arrays are concatenated.
    Joined,
    /// The first reply other than null, in the order of the parts' places.
    First,
    /// The first part is the reply to a transaction. If it was executed, an error in one of the
    /// other parts replaces the replies at the places of the first part.
    Transaction,
}

const MISFIT: &[u8] =
    b"-ERR The primaries of the keys have answered in another form than expected\r\n";

/// Reply that arrives in parts. An error of one part is the reply to the whole.
#[derive(Debug)]
pub(super) struct Whole {
    how: Merge,
    bytes: Vec<u8>,
    /// Places of each part's elements in the merged array.
    places: Vec<Vec<u32>>,
    /// Received parts, and their lengths.
    came: Vec<(usize, usize)>,
    /// Whether the best reply so far is a null, and its place ([`Merge::First`]).
    first: Option<(bool, Option<u32>)>,
}

impl Whole {
    /// Creates an empty merge.
    pub fn new(how: Merge) -> Self {
        Whole { how, bytes: Vec::new(), places: Vec::new(), came: Vec::new(), first: None }
    }

    /// Sets the places of each part's elements.
    pub fn place(&mut self, places: Vec<Vec<u32>>) {
        self.places = places;
    }

    /// Number of bytes received.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes received; the merged reply once no part is missing.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Whether no further parts follow this reply to a part.
    pub fn ends_with(&self, part: usize, reply: &[u8]) -> bool {
        let places = || self.places.first().map(Vec::as_slice).unwrap_or_default();
        self.how == Merge::Transaction && part == 0 && !are_done(reply, places())
    }

    /// Adds the reply to a part.
    pub fn add(&mut self, part: usize, reply: &[u8], is_last: bool) {
        if self.bytes.first() == Some(&b'-') {
            return;
        }
        match (self.how, number(&self.bytes), number(reply)) {
            (Merge::Sum, Some(sum), Some(more)) => {
                self.bytes = format!(":{}\r\n", sum.saturating_add(more)).into_bytes();
            }
            (Merge::Min, Some(least), Some(more)) if least <= more => {}
            (Merge::Min, None, None) if !self.bytes.is_empty() && reply.first() != Some(&b'-') => {
                self.bytes = least(&self.bytes, reply).unwrap_or_else(|| MISFIT.to_vec());
            }
            (Merge::Places, ..) if reply.first() != Some(&b'-') => {
                self.bytes.extend_from_slice(reply);
                self.came.push((part, reply.len()));
                if is_last {
                    self.bytes = self.placed().unwrap_or_else(|| MISFIT.to_vec());
                }
            }
            (Merge::Joined, ..) if !self.bytes.is_empty() && reply.first() != Some(&b'-') => {
                self.bytes = joined(&self.bytes, reply).unwrap_or_else(|| MISFIT.to_vec());
            }
            (Merge::First, ..) if reply.first() != Some(&b'-') => {
                let place = self.places.get(part).and_then(|places| places.first()).copied();
                let rank = (is_null(reply), place);
                if self.bytes.is_empty() || self.first.is_none_or(|first| rank < first) {
                    self.first = Some(rank);
                    self.bytes = reply.to_vec();
                }
            }
            (Merge::Transaction, ..) if part > 0 => {
                if reply.first() == Some(&b'-') {
                    let places = self.places.pop().unwrap_or_default();
                    let whole = replaced(&self.bytes, &places, reply);
                    self.bytes = whole.unwrap_or_else(|| MISFIT.to_vec());
                }
            }
            _ => {
                self.bytes.clear();
                self.bytes.extend_from_slice(reply);
            }
        }
    }

    /// Array of all elements at their places.
    fn placed(&self) -> Option<Vec<u8>> {
        let len = self.places.iter().map(Vec::len).sum();
        let mut elements: Vec<&[u8]> = vec![&[]; len];
        let mut rest = &self.bytes[..];
        for &(part, bytes) in &self.came {
            let (reply, behind) = rest.split_at_checked(bytes)?;
            let (count, mut items) = array(reply)?;
            let places = self.places.get(part).filter(|places| places.len() == count)?;
            for &place in places {
                let (item, others) = element(items)?;
                *elements.get_mut(place as usize)? = item;
                items = others;
            }
            rest = behind;
        }
        let mut whole = format!("*{len}\r\n").into_bytes();
        elements.into_iter().for_each(|element| whole.extend_from_slice(element));
        Some(whole)
    }
}

fn is_null(reply: &[u8]) -> bool {
    matches!(reply, b"$-1\r\n" | b"_\r\n")
}

/// Concatenates two arrays.
fn joined(first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
    let (first, second) = (array(first)?, array(second)?);
    let mut whole = format!("*{}\r\n", first.0.checked_add(second.0)?).into_bytes();
    whole.extend_from_slice(first.1);
    whole.extend_from_slice(second.1);
    Some(whole)
}

/// Array of the minima of two equally long arrays.
fn least(first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
    let ((len, mut first), (other_len, mut second)) = (array(first)?, array(second)?);
    let mut whole = format!("*{len}\r\n").into_bytes();
    for _ in 0..len {
        let ((one, others), (two, more)) = (element(first)?, element(second)?);
        whole.extend_from_slice(if number(one)? <= number(two)? { one } else { two });
        (first, second) = (others, more);
    }
    (len == other_len).then_some(whole)
}

fn number(reply: &[u8]) -> Option<i64> {
    petrel_keyspace::parse_int(reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?)
}

/// Splits off the first line, without its line end.
fn line(reply: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = reply.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&reply[..end], &reply[end + 2..]))
}

/// The length of an array, and its elements.
fn array(reply: &[u8]) -> Option<(usize, &[u8])> {
    let (head, elements) = line(reply.strip_prefix(b"*")?)?;
    Some((usize::try_from(petrel_keyspace::parse_int(head)?).ok()?, elements))
}

/// Splits off the first element.
fn element(elements: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut rest, mut pending) = (elements, 1usize);
    while pending > 0 {
        let (head, behind) = line(rest)?;
        let (&kind, len) = head.split_first()?;
        let len = || usize::try_from(petrel_keyspace::parse_int(len)?).ok();
        let (bytes, more) = match kind {
            b'$' | b'*' if &head[1..] == b"-1" => (0, 0),
            b'$' | b'=' | b'!' => (len()?.checked_add(2)?, 0),
            b'*' | b'~' | b'>' => (0, len()?),
            b'%' => (0, len()?.checked_mul(2)?),
            b'|' => (0, len()?.checked_mul(2)?.checked_add(1)?),
            b'_' | b':' | b'+' | b'-' | b'#' | b',' | b'(' => (0, 0),
            _ => return None,
        };
        (_, rest) = behind.split_at_checked(bytes)?;
        pending = (pending - 1).checked_add(more)?;
    }
    elements.split_at_checked(elements.len() - rest.len())
}

/// Strips pushes before a reply.
fn behind_pushes(mut reply: &[u8]) -> Option<&[u8]> {
    while reply.first() == Some(&b'>') {
        reply = element(reply)?.1;
    }
    Some(reply)
}

/// Whether `at` is in `places`, which are ascending.
fn is_among(places: &[u32], at: usize) -> bool {
    u32::try_from(at).is_ok_and(|at| places.binary_search(&at).is_ok())
}

/// Whether a reply is that of an executed transaction in which all commands at these places
/// succeeded.
pub(crate) fn are_done(reply: &[u8], places: &[u32]) -> bool {
    let Some((count, mut rest)) = behind_pushes(reply).and_then(array) else { return false };
    let mut done = 0;
    for at in 0..count {
        let Some((item, others)) = element(rest) else { return false };
        done += usize::from(item.first() == Some(&b'+') && is_among(places, at));
        rest = others;
    }
    done == places.len()
}

/// Replaces the elements at these places in the reply to a transaction.
fn replaced(reply: &[u8], places: &[u32], by: &[u8]) -> Option<Vec<u8>> {
    let (count, mut rest) = array(behind_pushes(reply)?)?;
    let mut whole = reply[..reply.len() - rest.len()].to_vec();
    for at in 0..count {
        let (item, others) = element(rest)?;
        whole.extend_from_slice(if is_among(places, at) { by } else { item });
        rest = others;
    }
    Some(whole)
}
