//! Explanations of scores (`EXPLAINSCORE`), with Redis's texts.

use super::scores::{LeafFigures, LeafKind, Scorer, Scoring};
use crate::structures::texts::Length;

/// An explanation of a score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The text.
    pub text: Vec<u8>,
    /// Explanations of the parts; none for a single figure.
    pub parts: Option<Vec<Explanation>>,
}

impl Explanation {
    /// A text without parts.
    pub fn of_text(text: impl Into<Vec<u8>>) -> Self {
        Explanation { text: text.into(), parts: None }
    }

    /// Explains the score of a document: that of `words`, which sum up to `sum`.
    pub(super) fn of_document(
        scorer: Scorer,
        words: Self,
        sum: f64,
        length: Length,
        document_score: f64,
        distance: u32,
    ) -> Self {
        let text = match scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm => {
                let norm = scorer.norm(length);
                format!(
                    "Final TFIDF : words TFIDF {sum:.2} * document score {document_score:.2} / \
                     norm {norm} / slop {distance}"
                )
            }
            Scorer::Bm25 => format!(
                "Final BM25 : words BM25 {sum:.2} * document score {document_score:.2} / slop \
                 {distance}"
            ),
            Scorer::Bm25Std => {
                format!("Final BM25 : words BM25 {sum:.2} * document score {document_score:.2}")
            }
            Scorer::DisMax => return words,
            Scorer::DocScore => {
                return Self::of_text(format!("Document's score is {document_score:.2}"));
            }
            Scorer::Hamming => {
                return Self::of_text("Payloads provided to scorer vary in length");
            }
        };
        Explanation { text: text.into(), parts: Some(vec![words]) }
    }

    /// Explains the part of one condition with a frequency.
    pub(super) fn of_leaf(
        scoring: &Scoring,
        figures: &LeafFigures<'_>,
        frequency: u32,
        length: Length,
    ) -> Self {
        let score = scoring.leaf(figures, frequency, length);
        let &LeafFigures { name, kind, factor, weight } = figures;
        let mean = scoring.mean_length();
        let is_term = kind == LeafKind::Term;
        let text = match scoring.scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm if is_term => {
                format!(
                    "(TFIDF {score:.2} = Weight {weight:.2} * TF {frequency} * IDF {factor:.2})"
                )
            }
            Scorer::TfIdf | Scorer::TfIdfDocNorm => {
                format!("(TFIDF {score:.2} = Weight {weight:.2} * Frequency {frequency})")
            }
            Scorer::Bm25 if frequency == 0 => "Frequency 0 -> value 0".into(),
            Scorer::Bm25 => {
                let (of, amount) = if is_term { ("IDF", factor) } else { ("Weight", weight) };
                format!(
                    "({score:.2} = {of} {amount:.2} * F {frequency} / (F {frequency} + k1 1.2 * \
                     (1 - b 0.5 + b 0.5 * Average Len {mean:.2})))"
                )
            }
            Scorer::Bm25Std if is_term || kind == LeafKind::Everything => {
                let rest = format!(
                    ": ({score:.2} = IDF {factor:.2} * (F {frequency}.00 * (k1 1.2 + 1)) / (F \
                     {frequency}.00 + k1 1.2 * (1 - b 0.5 + b 0.5 * Doc Len {} / Average Doc Len \
                     {mean:.2})))",
                    length.words
                );
                return Self::of_text([name, rest.as_bytes()].concat());
            }
            Scorer::Bm25Std => "Irrelevant token -> score is 0".into(),
            Scorer::DisMax => {
                format!("DISMAX {score:.2} = Weight {weight:.2} * Frequency {frequency}")
            }
            Scorer::DocScore | Scorer::Hamming => String::new(),
        };
        Self::of_text(text)
    }

    /// Explains the weighted sum of the parts of several conditions.
    pub(super) fn of_many(scorer: Scorer, weight: f64, score: f64, parts: Vec<Self>) -> Self {
        let sum = if weight == 0.0 { 0.0 } else { score / weight };
        let text = match scorer {
            Scorer::TfIdf | Scorer::TfIdfDocNorm => {
                format!("(Weight {weight:.2} * total children TFIDF {sum:.2})")
            }
            Scorer::DisMax => format!("{score:.2} = Weight {weight:.2} * children DISMAX {sum:.2}"),
            _ => format!("(Weight {weight:.2} * children BM25 {sum:.2})"),
        };
        Explanation { text: text.into(), parts: Some(parts) }
    }
}
