"""Makes documents for measurements of text indexes: passages of texts that packages install, none twice.

A passage is consecutive paragraphs of one file, of at least 400 bytes and at most 1,500. What is read
are the sources of texts.py and, given `--packages`, a directory with packages of Debian that were
unpacked (`dpkg-deb -x PACKAGE.deb DIRECTORY/PACKAGE`): dictionaries, fortunes, manuals. The file has a
document per line, in an order drawn by the seed; what it was made of is printed as JSON.
"""

import argparse
import hashlib
import html
import json
import os
import re
import sys

import texts

LENGTHS = (400, 1500)
LETTERS_MIN = 0.7

BLOCK_TAG = re.compile(r"</?(?:p|div|h\d|li|dd|dt|td|tr|pre|section|table)\b[^>]*>", re.I)
SKIPPED = re.compile(r"<(script|style|head)\b.*?</\1>", re.S | re.I)
ENTRY = re.compile(r"\n(?=\S)")
FORTUNE = re.compile(r"\n%\n")


def of_html(text):
    for block in BLOCK_TAG.split(SKIPPED.sub(" ", text)):
        yield html.unescape(texts.HTML_TAG.sub("", block))


def kind_of(path):
    """How a file is cut into paragraphs; nothing if it holds no texts."""
    name = os.path.basename(path)
    if name.endswith(".dict.dz"):
        return ENTRY.split
    if "/games/fortunes/" in path and "." not in name:
        return FORTUNE.split
    kind = texts.kind_of(name)
    return of_html if kind is texts.of_html else kind


def read(path):
    opener = texts.gzip.open if path.endswith((".gz", ".dz")) else open
    try:
        with opener(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except (OSError, EOFError):
        return ""


def passages(text, kind):
    whole = ""
    for paragraph in kind(text):
        paragraph = texts.SPACES.sub(" ", paragraph).strip(" *#=-")
        letters = sum(c.isalpha() or c == " " for c in paragraph)
        if letters < LETTERS_MIN * len(paragraph) or paragraph.count(" ") < 3:
            continue
        whole = f"{whole} {paragraph}" if whole else paragraph
        if len(whole.encode()) >= LENGTHS[0]:
            if len(whole.encode()) <= LENGTHS[1]:
                yield whole
            whole = ""


def sources(packages):
    found = texts.sources()
    if packages:
        found += [(name, os.path.join(packages, name)) for name in sorted(os.listdir(packages))]
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--count", type=int, default=0, help="documents; 0 for all there are")
    arguments.add_argument("--packages", help="directory with unpacked packages of Debian")
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    seen, documents = set(), []
    for name, root in sources(given.packages):
        for directory, _, files in os.walk(root):
            for path in sorted(os.path.join(directory, file) for file in files):
                kind = kind_of(path)
                for passage in passages(read(path), kind) if kind else ():
                    key = hashlib.blake2b(passage.lower().encode(), digest_size=12).digest()
                    if key not in seen:
                        seen.add(key)
                        documents.append((texts.drawn(passage, given.seed), name, passage))
    documents.sort()
    if len(documents) < given.count:
        sys.exit(f"only {len(documents)} documents are installed, {given.count} were asked for")
    documents = documents[: given.count or None]
    counts = {}
    with open(given.out + ".new", "wb") as file:
        for _, name, passage in documents:
            counts[name] = counts.get(name, 0) + 1
            file.write(passage.encode("utf-8", "replace") + b"\n")
    os.rename(given.out + ".new", given.out)
    size = os.path.getsize(given.out)
    print(json.dumps({"documents": len(documents), "bytes": size, "sources": counts}))


if __name__ == "__main__":
    main()
