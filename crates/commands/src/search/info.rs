//! `FT.INFO`: the definition of an index, and figures about it.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::load::print_general;
use crate::search::open::{OpenIndex, name_argument, open};
use petrel_resp::Reply;
use petrel_search::index::contents::{Contents, FieldErrors};
use petrel_search::index::field::FieldStore;
use petrel_search::index::schema::{Field, FieldKind, IndexFlag, Schema};
use petrel_search::vectors::VectorSpec;
use std::sync::atomic::Ordering::Relaxed;

/// `FT.INFO index`
pub(super) fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let name = name_argument(ctx)?;
    let index = open(ctx, name, || Fail::fixed("Unknown index name"))?;
    ctx.exec.ks.wait_for_indexes();
    let grown = index.live.expire_fields(ctx.exec.ks.now_ms());
    ctx.exec.ks.count_foreign(grown);
    let contents = index.live.read();
    let reply = &mut *ctx.reply;
    reply.map(PARTS + usize::from(index.schema.stop_words.is_some()));
    reply.simple("index_name");
    reply.bulk(&index.name);
    write_definition(reply, &index.schema);
    write_figures(reply, &index, &contents);
    write_empty_parts(reply, index.schema.stop_words.as_deref());
    write_errors(reply, &index.schema, &contents);
    Ok(())
}

/// Number of pairs of the reply.
const PARTS: usize = 34;

fn write_definition(reply: &mut dyn Reply, schema: &Schema) {
    let flags = [
        (IndexFlag::NoFrequencies, "NOFREQS"),
        (IndexFlag::NoFields, "NOFIELDS"),
        (IndexFlag::NoOffsets, "NOOFFSETS"),
        (IndexFlag::NoHighlight, "NOHL"),
        (IndexFlag::MaxTextFields, "MAXTEXTFIELDS"),
    ];
    let flags = flags.iter().filter(|(flag, _)| schema.flags.contains(flag));
    reply.simple("index_options");
    reply.array(flags.clone().count());
    flags.for_each(|(_, name)| reply.simple(name));
    let documents = &schema.documents;
    let texts =
        [("default_language", &documents.language), ("language_field", &documents.language_field)];
    let later =
        [("score_field", &documents.score_field), ("payload_field", &documents.payload_field)];
    let given = |texts: &[(&str, &Option<Box<[u8]>>)]| {
        texts.iter().filter(|(_, text)| text.is_some()).count()
    };
    let indexes_all = schema.flags.contains(&IndexFlag::IndexAll);
    reply.simple("index_definition");
    reply.map(3 + given(&texts) + given(&later) + usize::from(indexes_all));
    reply.simple("key_type");
    reply.simple(if schema.is_json() { "JSON" } else { "HASH" });
    reply.simple("prefixes");
    reply.array(schema.prefixes.len());
    schema.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    write_texts(reply, &texts);
    reply.simple("default_score");
    write_number(reply, documents.score.unwrap_or(1.0));
    write_texts(reply, &later);
    if indexes_all {
        reply.simple("indexes_all");
        reply.simple("true");
    }
    reply.simple("attributes");
    reply.array(schema.fields.len());
    schema.fields.iter().for_each(|field| write_field(reply, field));
}

fn write_texts(reply: &mut dyn Reply, texts: &[(&str, &Option<Box<[u8]>>)]) {
    for (name, text) in texts {
        if let Some(text) = text {
            reply.simple(name);
            reply.bulk(text);
        }
    }
}

/// A field: properties with values, then flags. In RESP3 the flags are a list.
fn write_field(reply: &mut dyn Reply, field: &Field) {
    let flags = flags_of(field);
    let is_flat = reply.protocol() == petrel_resp::Protocol::Resp2;
    let values = 3 + match &field.kind {
        FieldKind::Number => 0,
        FieldKind::Tag { .. } | FieldKind::Text { .. } => 1,
        FieldKind::Vector(_) => 4,
    };
    match is_flat {
        true => reply.array(values * 2 + flags.len()),
        false => reply.map(values + 1),
    }
    reply.simple("identifier");
    reply.bulk(&field.source);
    reply.simple("attribute");
    reply.bulk(&field.name);
    reply.simple("type");
    reply.simple(field.kind.name());
    match &field.kind {
        FieldKind::Tag { separator, .. } => {
            reply.simple("SEPARATOR");
            // JSON values are whole tags without one.
            reply.bulk(if *separator == 0 { b"" } else { std::slice::from_ref(separator) });
        }
        FieldKind::Text { weight, .. } => {
            reply.simple("WEIGHT");
            write_number(reply, *weight);
        }
        FieldKind::Number => {}
        FieldKind::Vector(spec) => write_vector(reply, spec),
    }
    if !is_flat {
        reply.simple("flags");
        reply.array(flags.len());
    }
    flags.iter().for_each(|flag| reply.simple(flag));
}

fn write_vector(reply: &mut dyn Reply, spec: &VectorSpec) {
    reply.simple("algorithm");
    reply.simple(spec.algorithm.name());
    reply.simple("data_type");
    reply.simple(spec.element_name());
    reply.simple("dim");
    reply.integer(i64::from(spec.dim));
    reply.simple("distance_metric");
    reply.simple(spec.metric.name());
}

/// Flags of a field. Redis shows `UNF` of every sortable field that is no text.
fn flags_of(field: &Field) -> Vec<&'static str> {
    let is = |flag: bool, name: &'static str| flag.then_some(name);
    let is_sortable = field.is_sortable;
    let mut flags: Vec<Option<&str>> = match field.kind {
        FieldKind::Tag { is_case_sensitive, with_suffix_trie, .. } => vec![
            is(is_case_sensitive, "CASESENSITIVE"),
            is(with_suffix_trie, "WITHSUFFIXTRIE"),
            is(is_sortable, "SORTABLE"),
            is(is_sortable, "UNF"),
            is(field.is_unindexed, "NOINDEX"),
        ],
        FieldKind::Number => vec![
            is(is_sortable, "SORTABLE"),
            is(is_sortable, "UNF"),
            is(field.is_unindexed, "NOINDEX"),
        ],
        FieldKind::Text { is_unstemmed, with_suffix_trie, .. } => vec![
            is(is_sortable, "SORTABLE"),
            is(is_sortable && field.is_unfolded, "UNF"),
            is(is_unstemmed, "NOSTEM"),
            is(field.is_unindexed, "NOINDEX"),
            is(with_suffix_trie, "WITHSUFFIXTRIE"),
        ],
        FieldKind::Vector(_) => Vec::new(),
    };
    flags.push(is(field.indexes_empty, "INDEXEMPTY"));
    flags.push(is(field.indexes_missing, "INDEXMISSING"));
    flags.into_iter().flatten().collect()
}

/// Megabytes, as Redis counts them.
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn write_number(reply: &mut dyn Reply, number: f64) {
    match reply.protocol() {
        petrel_resp::Protocol::Resp2 => reply.bulk(print_general(number, 17).as_bytes()),
        petrel_resp::Protocol::Resp3 => reply.double(number),
    }
}

/// Bytes of vectors.
fn vector_bytes<'f>(fields: impl Iterator<Item = &'f FieldStore>) -> usize {
    fields.filter(|field| field.is_vectors()).map(FieldStore::footprint).sum()
}

fn write_figures(reply: &mut dyn Reply, index: &OpenIndex, contents: &Contents) {
    let fields = (0..index.schema.fields.len()).filter_map(|number| contents.field(number));
    let texts = contents.texts().map(|index| index.texts());
    let text_records = texts.map_or(0, |texts| texts.records());
    let text_bytes = texts.map_or(0, |texts| texts.posting_bytes());
    let records: usize = fields.clone().map(FieldStore::records).sum::<usize>() + text_records;
    let of_kind = |is_tag: bool| {
        let is_own = |field: &FieldStore| matches!(field, FieldStore::Tags(_)) == is_tag;
        let own = fields.clone().filter(|field| !field.is_vectors() && is_own(field));
        let words = if is_tag { 0 } else { text_bytes };
        own.map(FieldStore::footprint).sum::<usize>() + words
    };
    let vector_bytes = vector_bytes(fields.clone());
    let documents = contents.len();
    let scan = &index.live.scan;
    let counts: [(&str, usize); 4] = [
        ("num_docs", documents),
        ("max_doc_id", contents.documents().end() as usize),
        ("num_terms", texts.map_or(0, |texts| texts.terms().len())),
        ("num_records", records),
    ];
    for (name, count) in counts {
        reply.simple(name);
        reply.integer(count as i64);
    }
    let per_document = |amount: f64| if documents == 0 { 0.0 } else { amount / documents as f64 };
    let nanos = index.live.nanos.load(Relaxed) as f64;
    let figures = [
        ("inverted_sz_mb", megabytes(of_kind(false))),
        ("vector_index_sz_mb", megabytes(vector_bytes)),
        ("offset_vectors_sz_mb", 0.0),
        ("doc_table_size_mb", megabytes(contents.documents().footprint())),
        ("sortable_values_size_mb", 0.0),
        ("key_table_size_mb", 0.0),
        ("tag_overhead_sz_mb", megabytes(of_kind(true))),
        ("text_overhead_sz_mb", megabytes(texts.map_or(0, |texts| texts.footprint() - text_bytes))),
        ("total_index_memory_sz_mb", megabytes(contents.footprint())),
        ("geoshapes_sz_mb", 0.0),
        ("records_per_doc_avg", per_document(records as f64)),
        (
            "bytes_per_record_avg",
            if records == 0 {
                0.0
            } else {
                (of_kind(true) + of_kind(false)) as f64 / records as f64
            },
        ),
        ("offsets_per_term_avg", 0.0),
        ("offset_bits_per_record_avg", 0.0),
        ("total_indexing_time", nanos / 1e6),
        ("percent_indexed", scan.progress()),
    ];
    for (name, figure) in figures {
        reply.simple(name);
        write_number(reply, figure);
    }
    let counts = [
        ("total_inverted_index_blocks", 0),
        ("hash_indexing_failures", contents.failures().count as i64),
        ("indexing", i64::from(scan.is_running())),
        ("number_of_uses", index.live.uses.load(Relaxed) as i64),
        ("cleaning", 0),
    ];
    for (name, count) in counts {
        reply.simple(name);
        reply.integer(count);
    }
}

/// Parts that have nothing to count here: nothing is collected in the background, and there are no
/// cursors.
fn write_empty_parts(reply: &mut dyn Reply, stop_words: Option<&[Box<[u8]>]>) {
    let parts: [(&str, &[&str]); 3] = [
        (
            "gc_stats",
            &[
                "bytes_collected",
                "total_ms_run",
                "total_cycles",
                "average_cycle_time_ms",
                "last_run_time_ms",
                "gc_numeric_trees_missed",
                "gc_blocks_denied",
            ],
        ),
        ("cursor_stats", &["global_idle", "global_total", "index_capacity", "index_total"]),
        ("dialect_stats", &["dialect_1", "dialect_2", "dialect_3", "dialect_4"]),
    ];
    for (name, counts) in parts {
        if let Some(words) = stop_words.filter(|_| name == "dialect_stats") {
            write_stop_words(reply, words);
        }
        reply.simple(name);
        reply.map(counts.len());
        for count in counts {
            reply.simple(count);
            reply.integer(0);
        }
    }
}

/// The stop words of the index, in the order of their bytes.
fn write_stop_words(reply: &mut dyn Reply, words: &[Box<[u8]>]) {
    let mut words: Vec<Vec<u8>> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    words.sort();
    words.dedup();
    reply.simple("stopwords_list");
    reply.array(words.len());
    words.iter().for_each(|word| reply.bulk(word));
}

fn write_errors(reply: &mut dyn Reply, schema: &Schema, contents: &Contents) {
    reply.simple("Index Errors");
    write_failures(reply, contents.failures());
    reply.simple("field statistics");
    reply.array(schema.fields.len());
    let none = FieldErrors::default();
    for (number, field) in schema.fields.iter().enumerate() {
        reply.map(3);
        reply.simple("identifier");
        reply.bulk(&field.source);
        reply.simple("attribute");
        reply.bulk(&field.name);
        reply.simple("Index Errors");
        write_failures(reply, contents.errors().get(number).unwrap_or(&none));
    }
}

fn write_failures(reply: &mut dyn Reply, errors: &FieldErrors) {
    let (text, key): (&[u8], &[u8]) = match &errors.last {
        Some(last) => (&last.text, &last.key),
        None => (b"N/A", b"N/A"),
    };
    reply.map(3);
    reply.simple("indexing failures");
    reply.integer(errors.count as i64);
    reply.simple("last indexing error");
    reply.bulk(text);
    reply.simple("last indexing error key");
    reply.bulk(key);
}
