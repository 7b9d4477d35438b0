//! Scorers. Their figures are Redis's to the last digit, so the order of operations matters.

use crate::structures::texts::{Length, Texts};

/// `k1` of both BM25, which Redis keeps in single precision.
const K1: f64 = 1.2f32 as f64;
/// Share of the length in both.
const LENGTH_SHARE: f64 = 0.5;

/// Scorers of documents.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scorer {
    /// Frequencies times inverse document frequencies, by the document's largest frequency.
    #[default]
    TfIdf,
    /// Like [`Self::TfIdf`], by the document's length.
    TfIdfDocNorm,
    /// BM25 with whole inverse document frequencies.
    Bm25,
    /// BM25 as in the literature.
    Bm25Std,
    /// Frequencies; of alternatives the largest.
    DisMax,
    /// The document's own score.
    DocScore,
    /// Reciprocal of the number of bits that differ between the payloads of document and query.
    Hamming,
}

impl Scorer {
    /// The scorer of a name.
    pub fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"TFIDF" => Self::TfIdf,
            b"TFIDF.DOCNORM" => Self::TfIdfDocNorm,
            b"BM25" => Self::Bm25,
            b"BM25STD" => Self::Bm25Std,
            b"DISMAX" => Self::DisMax,
            b"DOCSCORE" => Self::DocScore,
            b"HAMMING" => Self::Hamming,
            _ => return None,
        })
    }

    /// Whether alternatives count by the largest only.
    pub(super) fn takes_largest(self) -> bool {
        self == Self::DisMax
    }

    /// Whether the distance between words counts.
    pub(super) fn needs_distance(self) -> bool {
        matches!(self, Self::TfIdf | Self::TfIdfDocNorm | Self::Bm25)
    }

    /// Whether the words of a query count.
    pub(super) fn needs_words(self) -> bool {
        !matches!(self, Self::DocScore | Self::Hamming)
    }

    /// Divisor of the frequencies of a document.
    pub(super) fn norm(self, length: Length) -> u32 {
        match self {
            Self::TfIdf => length.frequency_max.max(1),
            Self::TfIdfDocNorm => length.words.max(1),
            _ => 1,
        }
    }

    /// The score of a document of which the terms sum up to `sum`.
    pub(super) fn finish(
        self,
        sum: f64,
        length: Length,
        document_score: f64,
        distance: u32,
    ) -> f64 {
        let distance = f64::from(distance);
        match self {
            Self::TfIdf | Self::TfIdfDocNorm => {
                sum * document_score / f64::from(self.norm(length)) / distance
            }
            Self::Bm25 => sum * document_score / distance,
            Self::Bm25Std => sum * document_score,
            Self::DisMax => sum,
            Self::DocScore => document_score,
            Self::Hamming => 0.0,
        }
    }
}

/// Kinds of conditions in a score.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LeafKind {
    /// A term of a text, or a tag.
    Term,
    /// `*`
    Everything,
    /// A range of numbers or the like.
    Other,
    /// The absence of something: scores nothing.
    Absence,
}

/// Figures of a term or a tag in a score.
#[derive(Clone, Copy, Debug)]
pub struct LeafFigures<'t> {
    /// Text of the term.
    pub name: &'t [u8],
    /// Kind of the condition.
    pub kind: LeafKind,
    /// Factor of the term's frequency.
    pub factor: f64,
    /// Weight of the condition.
    pub weight: f64,
}

impl LeafFigures<'_> {
    /// Figures of `*`.
    pub const EVERYTHING: Self = LeafFigures::of(LeafKind::Everything, b"*");

    /// Figures of a kind of condition with weight 1.
    pub const fn of(kind: LeafKind, name: &'static [u8]) -> Self {
        LeafFigures { name, kind, factor: 1.0, weight: 1.0 }
    }
}

/// Figures that the scores of all documents of a query share.
#[derive(Clone, Copy, Debug)]
pub struct Scoring {
    /// The scorer.
    pub scorer: Scorer,
    mean_length: f64,
    documents: usize,
}

impl Scoring {
    /// Scores of documents in `texts`. `documents` is the number of documents of the index.
    pub fn new(scorer: Scorer, texts: &Texts, documents: usize) -> Self {
        Self { scorer, mean_length: texts.mean_length(), documents }
    }

    /// Mean length of the documents in words.
    pub(super) fn mean_length(&self) -> f64 {
        self.mean_length
    }

    /// The part of a condition in a document's score.
    #[inline]
    pub(super) fn leaf(&self, figures: &LeafFigures<'_>, frequency: u32, length: Length) -> f64 {
        let &LeafFigures { kind, factor, weight, .. } = figures;
        match kind {
            LeafKind::Term => self.term(factor, weight, frequency, length),
            LeafKind::Everything => self.term(1.0, weight, frequency, length),
            LeafKind::Other => match self.scorer {
                Scorer::Bm25 => weight * self.term(1.0, weight, frequency, length),
                Scorer::Bm25Std => 0.0,
                _ => self.term(1.0, weight, frequency, length),
            },
            LeafKind::Absence => 0.0,
        }
    }

    /// The factor of a term in `frequency` documents.
    pub fn factor(&self, frequency: usize) -> f64 {
        let all = self.documents.max(frequency) as f32;
        let having = frequency.max(1) as f32;
        match self.scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm | Scorer::Bm25 => {
                exponent(1.0 + (self.documents as f32 + 1.0) / having)
            }
            Scorer::Bm25Std => {
                let having = frequency as f32;
                f64::from(1.0f32 + (all - having + 0.5) / (having + 0.5)).ln()
            }
            _ => 1.0,
        }
    }

    /// The part of a term in a document's score.
    #[inline]
    pub(super) fn term(&self, factor: f64, weight: f64, frequency: u32, length: Length) -> f64 {
        let frequency = f64::from(frequency);
        match self.scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm => weight * frequency * factor,
            Scorer::Bm25 => {
                let norm = 1.0 - LENGTH_SHARE + LENGTH_SHARE * self.mean_length;
                factor * frequency / (frequency + K1 * norm)
            }
            Scorer::Bm25Std => {
                let relative = f64::from(length.words) / self.mean_length;
                let norm = 1.0 - LENGTH_SHARE + LENGTH_SHARE * relative;
                factor * frequency * (K1 + 1.0) / (frequency + K1 * norm)
            }
            Scorer::DisMax => weight * frequency,
            Scorer::DocScore | Scorer::Hamming => 0.0,
        }
    }
}

/// The exponent of a number of at least 1 to the base 2.
fn exponent(value: f32) -> f64 {
    f64::from((value.to_bits() >> 23) as i32 - 127)
}

/// The score of `HAMMING`: 0 if the payloads differ in length.
pub fn hamming(query: &[u8], document: &[u8]) -> f64 {
    if query.is_empty() || query.len() != document.len() {
        return 0.0;
    }
    let bits: u32 = query.iter().zip(document).map(|(one, other)| (one ^ other).count_ones()).sum();
    1.0 / f64::from(bits + 1)
}
