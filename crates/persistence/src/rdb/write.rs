//! Writing values.

use super::compact::NAMES_ONE_BY_ONE;
use super::length::write_number;
use super::listpack::{self, TAIL};
use super::lzf::Compressor;
use super::text::{write_bytes, write_text};
use super::write_stream::StreamWriter;
use super::{
    Consumer, CustomItem, Error, Form, Group, Item, Pending, Producers, Shape, StreamId,
    StreamState, ValueSink, module,
};
use petrel_keyspace::custom::{Chunk, Held, ModuleWriter, RdbForm, ValueType};

const SHAPE: Error = Error::Refused("the value is not of the form that was announced");

const UNWANTED: Error = Error::Refused("the value is not wanted any more");

/// Bytes of a value that are passed on together.
const SPILL_LEN: usize = 256 * 1024;

/// Takes all bytes written so far, leaving the buffer empty; if it leaves them, the value is not
/// written to its end.
pub type Spill<'s> = dyn FnMut(&mut Vec<u8>) + 's;

/// Writes one value in a given form.
///
/// Bytes are only ever appended, so a long value can be passed on between two items
/// ([`Writer::spilling`]).
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    spill: Option<&'o mut Spill<'o>>,
    form: Form,
    /// [`Form::is_of_module`].
    has_sorts: bool,
    compressor: Option<Compressor>,
    /// Elements that were announced and have yet to come.
    left: usize,
    stream: StreamWriter,
    /// Values of a compact hash, which follow all names.
    values: Vec<u8>,
}

impl<'o> Writer<'o> {
    /// Writes a value after its type byte, which the writer of a file puts before the key. With
    /// `compress`, long strings are compressed if that makes them shorter.
    pub fn new(out: &'o mut Vec<u8>, form: Form, compress: bool) -> Self {
        Self::compressing(out, form, compress.then(Compressor::default))
    }

    /// Like [`Writer::new`], with a compressor that was used before.
    pub(super) fn compressing(
        out: &'o mut Vec<u8>,
        form: Form,
        compressor: Option<Compressor>,
    ) -> Self {
        Writer {
            out,
            spill: None,
            form,
            has_sorts: form.is_of_module(),
            compressor,
            left: 0,
            stream: StreamWriter::default(),
            values: Vec::new(),
        }
    }

    /// Lets `spill` take all bytes written so far whenever they are many.
    pub fn spilling(mut self, spill: &'o mut Spill<'o>) -> Self {
        self.spill = Some(spill);
        self
    }

    /// The value is complete: every element that was announced has come.
    pub fn finish(self) -> Result<(), Error> {
        self.end().map(drop)
    }

    /// Like [`Writer::finish`], and returns the compressor.
    pub(super) fn end(mut self) -> Result<Option<Compressor>, Error> {
        if self.form.is_stream() {
            self.stream.finish(self.out)?;
        }
        if self.form.is_of_module() {
            write_number(self.out, module::END);
        }
        if let Form::HashCompact { beyond } = self.form {
            self.end_compact(beyond);
        }
        if self.left == 0 { Ok(self.compressor) } else { Err(SHAPE) }
    }

    /// Bytes that were not passed on yet.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Passes the bytes written so far to `spill`, if it is set.
    pub fn pass_on(&mut self) {
        if let Some(spill) = &mut self.spill {
            spill(self.out);
        }
    }

    /// Writes parts deferred until they were complete, which may take long: call it where no client
    /// waits.
    ///
    /// # Errors
    /// If the form cannot hold it.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.stream.settle(self.out)
    }

    /// Writes what comes before the parts of a value of a value type.
    pub(super) fn custom_head(&mut self, of: &ValueType, held: Held<'_>) {
        if let RdbForm::Module { of, .. } = of.form {
            write_number(self.out, of(held));
        }
        (of.head)(held, self);
    }

    /// Writes the sort of the part that follows, if the form has sorts.
    #[inline]
    fn sort(&mut self, sort: u64) {
        if self.has_sorts {
            write_number(self.out, sort);
        }
    }

    /// Whether it is in a form of which producers are left out.
    fn knows_no_producers(&self) -> bool {
        self.form.stream_version().is_some_and(|version| version < 4)
    }

    fn begin_compact(&mut self, len: usize, beyond: bool) {
        self.out.push(NAMES_ONE_BY_ONE);
        if !beyond {
            self.values.extend_from_slice(&listpack::header(0, len + 1));
            // Place of a number that has no meaning here.
            listpack::push(&mut self.values, Item::Int(0));
        }
    }

    fn compact_field(&mut self, field: Item<'_>, value: Item<'_>, beyond: bool) {
        self.put_text(field);
        match beyond {
            true => write_text(&mut self.values, value, self.compressor.as_mut()),
            false => listpack::push(&mut self.values, value),
        }
    }

    fn end_compact(&mut self, beyond: bool) {
        if beyond {
            return self.out.append(&mut self.values);
        }
        self.values.push(TAIL);
        let len = (self.values.len() as u32).to_le_bytes();
        if let Some(stated) = self.values.first_chunk_mut() {
            *stated = len;
        }
        write_bytes(self.out, &self.values, self.compressor.as_mut());
    }

    #[inline]
    fn put_text(&mut self, item: Item<'_>) {
        write_text(self.out, item, self.compressor.as_mut());
    }

    #[inline]
    fn count_down(&mut self) -> Result<(), Error> {
        self.left = self.left.checked_sub(1).ok_or(SHAPE)?;
        self.spill_if_much()
    }

    #[inline]
    fn spill_if_much(&mut self) -> Result<(), Error> {
        if self.out.len() >= SPILL_LEN
            && let Some(spill) = &mut self.spill
        {
            spill(self.out);
            if !self.out.is_empty() {
                return Err(UNWANTED);
            }
        }
        Ok(())
    }
}

/// The parts of a value of a value type.
impl ModuleWriter for Writer<'_> {
    fn unsigned(&mut self, n: u64) {
        self.sort(module::UNSIGNED);
        write_number(self.out, n);
    }

    fn signed(&mut self, n: i64) {
        self.sort(module::SIGNED);
        write_number(self.out, n.cast_unsigned());
    }

    fn double(&mut self, n: f64) {
        self.sort(module::DOUBLE);
        self.out.extend_from_slice(&n.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.sort(module::TEXT);
        write_text(self.out, Item::Text(bytes), self.compressor.as_mut());
        // A value type writes its parts to their end.
        let _ = self.spill_if_much();
    }

    fn begin_text(&mut self, len: usize) {
        self.sort(module::TEXT);
        write_number(self.out, len as u64);
    }

    fn text_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        let _ = self.spill_if_much();
    }

    fn encoded(&mut self, parts: &[u8]) {
        debug_assert!(self.has_sorts);
        self.out.extend_from_slice(parts);
        let _ = self.spill_if_much();
    }
}

impl ValueSink for Writer<'_> {
    fn string(&mut self, value: Item<'_>) -> Result<(), Error> {
        if self.form != Form::String {
            return Err(SHAPE);
        }
        self.put_text(value);
        Ok(())
    }

    fn begin(&mut self, shape: Shape) -> Result<(), Error> {
        let len = match (shape, self.form) {
            (Shape::List { len: Some(len) }, Form::List)
            | (Shape::Set { len }, Form::Set)
            | (Shape::SortedSet { len }, Form::SortedSet)
            | (Shape::Hash { len }, Form::Hash | Form::HashExpiringValkey) => len,
            (Shape::Hash { len }, Form::HashExpiring { earliest }) => {
                self.out.extend_from_slice(&earliest.to_le_bytes());
                len
            }
            (Shape::Hash { len }, Form::HashCompact { beyond }) => {
                self.begin_compact(len, beyond);
                len
            }
            (Shape::Custom(number), Form::Custom(own)) if number == own => return Ok(()),
            (Shape::Stream { nodes }, form) if form.is_stream() => {
                write_number(self.out, nodes as u64);
                self.stream = StreamWriter::new(nodes, form);
                return Ok(());
            }
            _ => return Err(SHAPE),
        };
        write_number(self.out, len as u64);
        self.left = len;
        Ok(())
    }

    #[inline]
    fn element(&mut self, element: Item<'_>) -> Result<(), Error> {
        self.count_down()?;
        self.put_text(element);
        Ok(())
    }

    #[inline]
    fn scored(&mut self, member: Item<'_>, score: f64) -> Result<(), Error> {
        self.count_down()?;
        self.put_text(member);
        self.out.extend_from_slice(&score.to_le_bytes());
        Ok(())
    }

    #[inline]
    fn field(
        &mut self,
        field: Item<'_>,
        value: Item<'_>,
        expiry: Option<i64>,
    ) -> Result<(), Error> {
        self.count_down()?;
        if let Form::HashCompact { beyond } = self.form {
            self.compact_field(field, value, beyond);
            return Ok(());
        }
        if let Form::HashExpiring { earliest } = self.form {
            let later = match expiry {
                None => 0,
                Some(at) => u64::try_from(at.saturating_sub(earliest)).map_err(|_| SHAPE)? + 1,
            };
            write_number(self.out, later);
        }
        self.put_text(field);
        self.put_text(value);
        match self.form {
            Form::HashExpiringValkey => {
                self.out.extend_from_slice(&expiry.unwrap_or(-1).to_le_bytes());
            }
            Form::Hash if expiry.is_some() => return Err(SHAPE),
            _ => {}
        }
        Ok(())
    }

    fn custom(&mut self, of: &'static ValueType, value: CustomItem<'_>) -> Result<(), Error> {
        if self.form != Form::Custom(of.number) {
            return Err(SHAPE);
        }
        let held = value.held();
        self.custom_head(of, held);
        (of.body)(held, self);
        Ok(())
    }

    fn chunk(&mut self, chunk: &dyn Chunk) -> Result<(), Error> {
        chunk.write(self);
        Ok(())
    }

    fn node(&mut self) -> Result<(), Error> {
        self.spill_if_much()?;
        self.stream.node(self.out, self.compressor.as_mut())
    }

    fn entry(&mut self, id: StreamId, fields: &[Item<'_>]) -> Result<(), Error> {
        self.stream.entry(id, fields)
    }

    fn state(&mut self, state: &StreamState) -> Result<(), Error> {
        self.stream.state(self.out, self.compressor.as_mut(), state)
    }

    fn group(&mut self, group: &Group<'_>) -> Result<(), Error> {
        self.stream.group(self.out, group)
    }

    fn consumer(&mut self, consumer: &Consumer<'_>) -> Result<(), Error> {
        self.stream.consumer(consumer)
    }

    fn pending(&mut self, pending: &Pending) -> Result<(), Error> {
        self.spill_if_much()?;
        self.stream.pending(self.out, pending)
    }

    fn given_back(&mut self, id: StreamId) -> Result<(), Error> {
        self.stream.given_back(id)
    }

    fn producers(&mut self, producers: &Producers) -> Result<(), Error> {
        if self.knows_no_producers() {
            return Ok(());
        }
        self.stream.producers(self.out, producers)
    }

    fn producer(&mut self, name: &[u8], entries: usize) -> Result<(), Error> {
        if self.knows_no_producers() {
            return Ok(());
        }
        self.stream.producer(self.out, name, entries)
    }

    fn produced(&mut self, id: &[u8], entry: StreamId) -> Result<(), Error> {
        if self.knows_no_producers() {
            return Ok(());
        }
        self.stream.produced(self.out, id, entry)
    }

    fn counters(&mut self, added: u64, duplicates: u64) -> Result<(), Error> {
        if self.knows_no_producers() {
            return Ok(());
        }
        self.stream.counters(self.out, added, duplicates)
    }
}
