//! One file: its lines by what they hold, its functions, its unsafe sites.

use crate::words::{Words, files_named};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FUNCTION_LINES_MAX: usize = 70;
const COMMENT_COLUMN_MAX: usize = 100;

pub struct Source {
    pub path: PathBuf,
    pub file: syn::File,
    pub lines: usize,
    pub code_lines: usize,
    pub wide_comments: usize,
    pub long_functions: usize,
    pub unsafe_sites: usize,
    pub words: Words,
    /// Rust files that comments name.
    pub files_named: Vec<String>,
    /// All of the file is of tests.
    pub is_test: bool,
}

impl Source {
    pub fn read(path: &Path) -> Self {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines: Vec<&str> = text.lines().collect();
        let mut kinds = vec![false; lines.len() + 2];
        let stream: TokenStream = text.parse().expect("it was parsed before");
        mark_code(stream, &lines, &mut kinds);
        let mut found = Found::default();
        found.visit_file(&file);
        for (first, last) in &found.tests {
            kinds[*first..=*last].fill(false);
        }
        let in_test =
            |line: usize| found.tests.iter().any(|(first, last)| (*first..=*last).contains(&line));
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let in_tests = path.components().any(|part| part.as_os_str() == "tests");
        Source {
            path: path.to_owned(),
            lines: lines.len(),
            code_lines: kinds.iter().filter(|&&is_code| is_code).count(),
            wide_comments: lines
                .iter()
                .filter(|line| {
                    line.trim_start().starts_with("//") && line.chars().count() > COMMENT_COLUMN_MAX
                })
                .count(),
            long_functions: found.long_functions,
            unsafe_sites: found.unsafe_sites,
            words: Words::count(
                lines.iter().enumerate().filter(|(i, _)| !in_test(i + 1)).map(|(_, line)| *line),
            ),
            files_named: files_named(lines.iter().copied()),
            is_test: in_tests || name == "tests.rs" || is_test(&file.attrs),
            file,
        }
    }
}

/// Marks each line that holds a token which is no doc comment.
fn mark_code(stream: TokenStream, lines: &[&str], kinds: &mut [bool]) {
    let is_doc = |span: Span| {
        let at = span.start();
        let line = lines.get(at.line - 1).copied().unwrap_or_default();
        let rest: String = line.chars().skip(at.column).take(3).collect();
        rest == "///" || rest == "//!" || rest == "/**" || rest == "/*!"
    };
    for tree in stream {
        let span = tree.span();
        if is_doc(span) {
            continue;
        }
        match tree {
            TokenTree::Group(group) => {
                kinds[group.span_open().start().line] = true;
                kinds[group.span_close().end().line] = true;
                mark_code(group.stream(), lines, kinds);
            }
            _ => kinds[span.start().line..=span.end().line].fill(true),
        }
    }
}

/// Whether an item is there for tests only.
pub fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("test")
            || attr.path().is_ident("cfg") && {
                let mut is_test = false;
                let _ = attr.parse_nested_meta(|meta| {
                    is_test |= meta.path.is_ident("test");
                    if meta.path.is_ident("all") {
                        let _ = meta.parse_nested_meta(|inner| {
                            is_test |= inner.path.is_ident("test");
                            skip(&inner)
                        });
                        return Ok(());
                    }
                    skip(&meta)
                });
                is_test
            }
    })
}

/// Passes over what stands behind a word of a condition.
fn skip(meta: &syn::meta::ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(syn::Token![=]) {
        meta.value()?.parse::<syn::Lit>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        content.parse::<TokenStream>()?;
    }
    Ok(())
}

#[derive(Default)]
struct Found {
    tests: Vec<(usize, usize)>,
    long_functions: usize,
    unsafe_sites: usize,
}

impl Found {
    fn function(&mut self, span: Span) {
        let lines = span.end().line + 1 - span.start().line;
        self.long_functions += usize::from(lines > FUNCTION_LINES_MAX);
    }
}

/// Attributes of an item.
pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item::*;
    match item {
        Const(it) => &it.attrs,
        Enum(it) => &it.attrs,
        Fn(it) => &it.attrs,
        Impl(it) => &it.attrs,
        Macro(it) => &it.attrs,
        Mod(it) => &it.attrs,
        Static(it) => &it.attrs,
        Struct(it) => &it.attrs,
        Trait(it) => &it.attrs,
        Type(it) => &it.attrs,
        Use(it) => &it.attrs,
        _ => &[],
    }
}

impl<'a> Visit<'a> for Found {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if is_test(attributes(item)) {
            let span = item.span();
            return self.tests.push((span.start().line, span.end().line));
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.function(function.sig.span().join(function.block.span()).unwrap_or(function.span()));
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if is_test(&function.attrs) {
            let span = function.span();
            return self.tests.push((span.start().line, span.end().line));
        }
        self.function(function.sig.span().join(function.block.span()).unwrap_or(function.span()));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_expr_unsafe(&mut self, block: &'a syn::ExprUnsafe) {
        self.unsafe_sites += 1;
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_foreign_mod(&mut self, block: &'a syn::ItemForeignMod) {
        self.unsafe_sites += usize::from(block.unsafety.is_some());
        visit::visit_item_foreign_mod(self, block);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        self.unsafe_sites += usize::from(item.unsafety.is_some());
        visit::visit_item_impl(self, item);
    }
}
