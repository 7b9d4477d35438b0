//! Which file of a crate imports from which, and the largest cycle of that.

use crate::source::{Source, attributes, is_test};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

/// The path of a module from the crate's root.
type Module = Vec<String>;

/// One name that a file imports.
struct Import {
    /// From the crate's root.
    path: Module,
    name: String,
    /// It is exported again: imported where it is used, not here.
    is_public: bool,
}

/// Files in the largest strongly connected component of the imports; 0 if there is no cycle.
pub fn largest_cycle(base: &Path, sources: &[&Source]) -> usize {
    let modules: BTreeMap<Module, usize> =
        sources.iter().enumerate().map(|(i, source)| (module_of(base, &source.path), i)).collect();
    let uses: Vec<Vec<Import>> = modules_in_order(&modules, sources.len())
        .iter()
        .zip(sources)
        .map(|(module, source)| imports(&source.file.items, module))
        .collect();
    let crate_map = Crate { modules: &modules, uses: &uses };
    let edges: Vec<BTreeSet<usize>> = uses
        .iter()
        .zip(&modules_in_order(&modules, sources.len()))
        .enumerate()
        .map(|(from, (uses, module))| {
            // A re-export is an import of the file that uses it.
            let own = uses.iter().filter(|import| !import.is_public).map(|import| &import.path);
            let qualified = qualified_paths(&sources[from].file, module);
            let targets: Vec<usize> =
                own.chain(&qualified).filter_map(|path| crate_map.file_of(path, 0)).collect();
            let targets = targets.into_iter();
            targets.filter(|&to| to != from).collect()
        })
        .collect();
    let cycle = components(&edges).into_iter().filter(|part| part.len() > 1).max_by_key(Vec::len);
    if std::env::var_os("RATCHET_CYCLES").is_some()
        && let Some(files) = &cycle
    {
        for &file in files {
            let to: Vec<String> = edges[file]
                .iter()
                .filter(|to| files.contains(to))
                .map(|&to| {
                    sources[to].path.strip_prefix(base).unwrap_or(base).display().to_string()
                })
                .collect();
            println!("{} -> {}", sources[file].path.display(), to.join(" "));
        }
    }
    cycle.map_or(0, |files| files.len())
}

fn modules_in_order(modules: &BTreeMap<Module, usize>, count: usize) -> Vec<Module> {
    let mut order = vec![Module::new(); count];
    for (module, &file) in modules {
        order[file] = module.clone();
    }
    order
}

fn module_of(base: &Path, path: &Path) -> Module {
    let relative = path.strip_prefix(base).unwrap_or(path);
    let mut module: Module = relative
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

struct Crate<'a> {
    modules: &'a BTreeMap<Module, usize>,
    uses: &'a [Vec<Import>],
}

impl Crate<'_> {
    /// The file that defines what a path from the crate's root names, re-exports followed.
    fn file_of(&self, path: &[String], depth: usize) -> Option<usize> {
        let len = (0..=path.len()).rev().find(|&len| self.modules.contains_key(&path[..len]))?;
        let file = self.modules[&path[..len]];
        let Some(name) = path.get(len).filter(|_| depth < 8) else { return Some(file) };
        match self.uses[file].iter().find(|import| import.name == *name) {
            Some(import) => self.file_of(&import.path, depth + 1).or(Some(file)),
            None => Some(file),
        }
    }
}

/// Paths from the crate's root that a file uses without importing them: `crate::a::f()`.
fn qualified_paths(file: &syn::File, module: &Module) -> Vec<Module> {
    let mut found = Qualified { module: module.clone(), paths: Vec::new() };
    found.visit_file(file);
    found.paths
}

struct Qualified {
    /// The module of the item that is visited.
    module: Module,
    paths: Vec<Module>,
}

impl Qualified {
    fn add(&mut self, path: &[String]) {
        let is_qualified = path.len() > 1 && ["crate", "super"].contains(&path[0].as_str());
        if is_qualified && let Some(absolute) = absolute(path, &self.module, &[]) {
            self.paths.push(absolute);
        }
    }

    /// Finds `crate::...` in the tokens of a macro's call.
    fn tokens(&mut self, stream: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        for tree in stream {
            match tree {
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {}
                tree => {
                    self.add(&std::mem::take(&mut path));
                    if let TokenTree::Group(group) = tree {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.add(&path);
    }
}

impl<'a> Visit<'a> for Qualified {
    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.add(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_item(&mut self, item: &'a syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    /// `pub(in crate::a)` imports nothing.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}
}

/// What a file imports: paths from the crate's root, and the name under which it exports each again.
fn imports(items: &[syn::Item], module: &Module) -> Vec<Import> {
    let mut found = Vec::new();
    for item in items {
        match item {
            syn::Item::Use(item) if !is_test(&item.attrs) => {
                let is_public = !matches!(item.vis, syn::Visibility::Inherited);
                tree(&item.tree, &mut Vec::new(), module, items, is_public, &mut found);
            }
            syn::Item::Mod(item) if !is_test(&item.attrs) => {
                if let Some((_, items)) = &item.content {
                    let mut inner = module.clone();
                    inner.push(item.ident.to_string());
                    found.extend(imports(items, &inner));
                }
            }
            _ => {}
        }
    }
    found
}

fn tree(
    tree_of: &syn::UseTree,
    path: &mut Vec<String>,
    module: &Module,
    items: &[syn::Item],
    is_public: bool,
    found: &mut Vec<Import>,
) {
    let mut leaf = |path: &[String], name: String| {
        if let Some(absolute) = absolute(path, module, items) {
            found.push(Import { path: absolute, name, is_public });
        }
    };
    match tree_of {
        syn::UseTree::Path(part) => {
            path.push(part.ident.to_string());
            tree(&part.tree, path, module, items, is_public, found);
            path.pop();
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            leaf(path, path.last().cloned().unwrap_or_default())
        }
        syn::UseTree::Name(name) => {
            path.push(name.ident.to_string());
            leaf(path, name.ident.to_string());
            path.pop();
        }
        syn::UseTree::Rename(name) => {
            path.push(name.ident.to_string());
            leaf(path, name.rename.to_string());
            path.pop();
        }
        syn::UseTree::Glob(_) => leaf(path, "*".into()),
        syn::UseTree::Group(group) => {
            for part in &group.items {
                tree(part, path, module, items, is_public, found);
            }
        }
    }
}

/// The path from the crate's root; none for another crate's.
fn absolute(path: &[String], module: &Module, items: &[syn::Item]) -> Option<Module> {
    let first = path.first()?;
    let mut from = module.clone();
    let mut rest = path;
    match first.as_str() {
        "crate" => {
            from.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                from.pop();
                rest = &rest[1..];
            }
        }
        name => {
            // Of a module that is declared here, or another crate's.
            let is_declared =
                items.iter().any(|item| matches!(item, syn::Item::Mod(it) if it.ident == name));
            if !is_declared {
                return None;
            }
        }
    }
    from.extend(rest.iter().cloned());
    Some(from)
}

/// Strongly connected components (Tarjan 1972).
fn components(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    struct State<'a> {
        edges: &'a [BTreeSet<usize>],
        index: Vec<Option<usize>>,
        low: Vec<usize>,
        stack: Vec<usize>,
        on_stack: Vec<bool>,
        count: usize,
        found: Vec<Vec<usize>>,
    }
    fn visit(state: &mut State<'_>, node: usize) {
        state.index[node] = Some(state.count);
        state.low[node] = state.count;
        state.count += 1;
        state.stack.push(node);
        state.on_stack[node] = true;
        let edges = state.edges;
        for &next in &edges[node] {
            match state.index[next] {
                None => {
                    visit(state, next);
                    state.low[node] = state.low[node].min(state.low[next]);
                }
                Some(index) if state.on_stack[next] => state.low[node] = state.low[node].min(index),
                Some(_) => {}
            }
        }
        if Some(state.low[node]) == state.index[node] {
            let mut part = Vec::new();
            while let Some(top) = state.stack.pop() {
                state.on_stack[top] = false;
                part.push(top);
                if top == node {
                    break;
                }
            }
            state.found.push(part);
        }
    }
    let count = edges.len();
    let mut state = State {
        edges,
        index: vec![None; count],
        low: vec![0; count],
        stack: Vec::new(),
        on_stack: vec![false; count],
        count: 0,
        found: Vec::new(),
    };
    for node in 0..count {
        if state.index[node].is_none() {
            visit(&mut state, node);
        }
    }
    state.found
}
