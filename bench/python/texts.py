"""Makes vectors of texts for `petrel-bench vectors`: latent semantic analysis of paragraphs of
documentation and books that packages install.

Paragraphs are drawn by a seed from the books of Rust, the comments of crates and of Go's library, the
docstrings of Python's, what Perl and Debian install; weighed by TF-IDF; reduced by a truncated singular
value decomposition, of which U times Sigma is taken; brought to length 1. Of near duplicates one stays.
The file is rows of 32-bit little-endian floats; what it was made of is printed as JSON.

Needs numpy and scikit-learn.
"""

import argparse
import gzip
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import sysconfig

# A paragraph is text if so many of its characters are letters or spaces, and it has so many words.
LETTERS_MIN = 0.8
WORDS_MIN = 12
LENGTHS = (80, 1500)
# Vectors are near duplicates from this cosine on.
DUPLICATE = 0.97
# Paragraphs from which the decomposition is computed, at most; the others are only projected.
FITTED_MAX = 60_000
FILE_MAX = 4_000_000

BLANK = re.compile(r"\n[ \t]*\n")
HTML_PARAGRAPH = re.compile(r"<p[^>]*>(.*?)</p>", re.S)
HTML_TAG = re.compile(r"<[^>]+>")
DOCSTRING = re.compile(r'"""(.*?)"""', re.S)
LINE_COMMENTS = re.compile(r"(?:^[ \t]*//[/!]?[^\n]*\n)+", re.M)
COMMENT_MARK = re.compile(r"^[ \t]*//[/!]?[ \t]?", re.M)
SPACES = re.compile(r"\s+")


def of_comments(text):
    for block in LINE_COMMENTS.findall(text):
        yield from BLANK.split(COMMENT_MARK.sub("", block))


def of_docstrings(text):
    for block in DOCSTRING.findall(text):
        yield from BLANK.split(block)


def of_html(text):
    for block in HTML_PARAGRAPH.findall(text):
        yield html.unescape(HTML_TAG.sub("", block))


KINDS = {
    ".rs": of_comments,
    ".go": of_comments,
    ".py": of_docstrings,
    ".html": of_html,
    ".md": BLANK.split,
    ".rst": BLANK.split,
    ".txt": BLANK.split,
    ".pod": BLANK.split,
    ".pm": BLANK.split,
}


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def sources():
    """What is read, where it is there: what it is, and its directory."""
    sysroot, go = output("rustc", "--print", "sysroot"), output("go", "env", "GOROOT")
    cargo = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    known = [
        ("the books of Rust", sysroot and os.path.join(sysroot, "share/doc/rust/html")),
        ("crates", os.path.join(cargo, "registry/src")),
        ("Go's library", go and os.path.join(go, "src")),
        ("Python's library", sysconfig.get_path("stdlib")),
        ("Perl", "/usr/share/perl"),
        ("packages of the system", "/usr/share/doc"),
    ]
    return [(name, path) for name, path in known if path and os.path.isdir(path)]


def files(root):
    """Files that may hold texts; of the books of Rust not the pages of its library, which are made."""
    for directory, names, found in os.walk(root):
        names[:] = sorted(set(names) - {"std", "core", "alloc"})
        for name in found:
            if kind_of(name):
                yield os.path.join(directory, name)


def kind_of(name):
    return KINDS.get(os.path.splitext(name.removesuffix(".gz"))[1])


def read(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            return file.read(FILE_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def paragraphs(text, kind):
    for paragraph in kind(text):
        paragraph = SPACES.sub(" ", paragraph).strip(" *#=-")
        if not LENGTHS[0] <= len(paragraph) <= LENGTHS[1] or paragraph.count(" ") < WORDS_MIN - 1:
            continue
        letters = sum(c.isalpha() or c == " " for c in paragraph)
        if letters >= LETTERS_MIN * len(paragraph):
            yield paragraph


def drawn(number, seed):
    """A number that the seed and a text decide."""
    return hashlib.blake2b(f"{seed} {number}".encode(errors="replace"), digest_size=8).digest()


def gather(wanted, seed):
    """Different paragraphs, in an order drawn by the seed, and how many there are of each source."""
    everything = []
    for name, root in sources():
        everything += [(drawn(os.path.relpath(path, root), seed), name, path) for path in files(root)]
    everything.sort()
    seen, texts, counts = set(), [], {}
    for _, name, path in everything:
        for paragraph in paragraphs(read(path), kind_of(os.path.basename(path))):
            key = hashlib.blake2b(paragraph.lower().encode(), digest_size=12).digest()
            if key not in seen:
                seen.add(key)
                texts.append((drawn(paragraph, seed), name, paragraph))
        if len(texts) >= wanted:
            break
    texts.sort()
    for _, name, _ in texts:
        counts[name] = counts.get(name, 0) + 1
    return [paragraph for _, _, paragraph in texts], counts


def analyse(texts, dim, seed):
    import numpy
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    weigh = TfidfVectorizer(
        sublinear_tf=True, min_df=3, max_df=0.2, max_features=40_000, stop_words="english", token_pattern=r"[A-Za-z]{2,}"
    )
    fitted = weigh.fit_transform(texts[:FITTED_MAX])
    reduce = TruncatedSVD(dim, n_iter=3, random_state=seed)
    vectors = [reduce.fit_transform(fitted)]
    if texts[FITTED_MAX:]:
        vectors.append(reduce.transform(weigh.transform(texts[FITTED_MAX:])))
    vectors = numpy.concatenate(vectors).astype(numpy.float32)
    lengths = numpy.linalg.norm(vectors, axis=1)
    return (vectors / numpy.maximum(lengths, 1e-12)[:, None])[lengths > 1e-6]


def without_duplicates(vectors, seed):
    """Of vectors that are nearly the same the first. They are looked for among those whose projections to
    random axes have the same signs, and so lie side by side when sorted by them."""
    import numpy

    random = numpy.random.default_rng(seed)
    keeps = numpy.ones(len(vectors), bool)
    for _ in range(8):
        axes = random.standard_normal((vectors.shape[1], 24)).astype(numpy.float32)
        signs = (vectors @ axes > 0) @ (1 << numpy.arange(24))
        order = numpy.argsort(signs, kind="stable")
        for apart in range(1, 9):
            first, second = order[:-apart], order[apart:]
            alike = numpy.einsum("ij,ij->i", vectors[first], vectors[second]) > DUPLICATE
            keeps[numpy.maximum(first, second)[alike]] = False
    return vectors[keeps]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--dim", type=int, default=384)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    texts, counts = gather(given.count + given.count // 4 + 500, given.seed)
    if len(texts) < max(given.count, 2 * given.dim):
        sys.exit(f"only {len(texts)} paragraphs of text are installed, {given.count} vectors were asked for")
    vectors = analyse(texts, given.dim, given.seed)
    kept = without_duplicates(vectors, given.seed)
    if len(kept) < given.count:
        sys.exit(f"only {len(kept)} vectors that differ, {given.count} were asked for")
    with open(given.out + ".new", "wb") as file:
        file.write(kept[: given.count].astype("<f4").tobytes())
    os.rename(given.out + ".new", given.out)
    print(json.dumps({"paragraphs": counts, "near duplicates": len(vectors) - len(kept)}))


if __name__ == "__main__":
    main()
