"""Libraries of vector search, as `petrel-bench vectors` measures them beside servers.

    vectors.py --list            the libraries that are installed, with their versions, as JSON
    vectors.py LIBRARY SOCKET    answers orders on a Unix socket: PING, and DO with an order in JSON

An order `load` names a file of 32-bit floats, `search` an effort: `ef`, for faiss's RaBitQ the lists that
are probed. Each library is asked as its documentation says is fastest: many vectors by one call, on as many
threads as the order names. CPU is that of the whole process.
"""

import importlib
import json
import socket
import sys
import tempfile
import threading
import time

COUNT = 10  # how many neighbours are asked for
PIECE = 16  # vectors in one call while inserts run beside queries


class Hnswlib:
    module, forms = "hnswlib", ("floats",)

    def __init__(self, order):
        import hnswlib

        self.index = hnswlib.Index("ip", order["dim"])
        self.index.init_index(order["capacity"], ef_construction=order["build"], M=order["links"])
        self.lock = threading.Lock()  # its documentation: queries not beside inserts

    def add(self, vectors, first, threads):
        with self.lock:
            self.index.add_items(vectors, range(first, first + len(vectors)), num_threads=threads)

    def search(self, queries, effort, threads):
        with self.lock:
            self.index.set_ef(effort)
            return self.index.knn_query(queries, COUNT, num_threads=threads)[0]

    def bytes(self):
        return self.index.index_file_size()


class Usearch:
    module, forms = "usearch", ("floats", "int8")

    def __init__(self, order):
        from usearch.index import Index

        dtype = {"floats": "f32", "int8": "i8"}[order["form"]]
        self.index = Index(ndim=order["dim"], metric="cos", dtype=dtype, connectivity=order["links"], expansion_add=order["build"])
        self.lock = threading.Lock()  # `add` makes room, which nothing may run beside

    def add(self, vectors, first, threads):
        import numpy

        with self.lock:
            self.index.add(numpy.arange(first, first + len(vectors), dtype=numpy.uint64), vectors, threads=threads)

    def search(self, queries, effort, threads):
        with self.lock:
            self.index.expansion_search = effort
            return self.index.search(queries, COUNT, threads=threads).keys.reshape(len(queries), -1)

    def bytes(self):
        return self.index.serialized_length


class Faiss:
    module, forms = "faiss", ("floats", "int8", "coded")

    def __init__(self, order):
        import faiss

        dim, links, self.is_coded = order["dim"], order["links"], order["form"] == "coded"
        inner = faiss.METRIC_INNER_PRODUCT
        if order["form"] == "floats":
            self.index = faiss.IndexHNSWFlat(dim, links, inner)
        elif order["form"] == "int8":
            self.index = faiss.IndexHNSWSQ(dim, faiss.ScalarQuantizer.QT_8bit, links, inner)
        else:
            lists = max(16, int(4 * order["count"] ** 0.5))
            self.coarse = faiss.IndexFlat(dim, inner)
            # Six bits for each dimension: one that is scanned, and five that rank what was found.
            self.index = faiss.IndexIVFRaBitQ(self.coarse, dim, lists, inner, True, 6)
        if not self.is_coded:
            self.index.hnsw.efConstruction = order["build"]
        self.lock = threading.Lock()  # its documentation: inserts beside nothing

    def add(self, vectors, first, threads):
        import faiss

        with self.lock:
            faiss.omp_set_num_threads(threads)
            if not self.index.is_trained:
                self.index.train(vectors)
            self.index.add(vectors)

    def search(self, queries, effort, threads):
        import faiss

        with self.lock:
            faiss.omp_set_num_threads(threads)
            if self.is_coded:
                parameters = faiss.IVFRaBitQSearchParameters(nprobe=effort, qb=8)
            else:
                parameters = faiss.SearchParametersHNSW(efSearch=effort)
            return self.index.search(queries, COUNT, params=parameters)[1]

    def bytes(self):
        import faiss

        return faiss.serialize_index(self.index).size


class Qdrant:
    module, forms = "qdrant_edge", ("floats", "int8")

    def __init__(self, order):
        import qdrant_edge as q

        self.q, self.order, self.size = q, order, 0
        self.directory = tempfile.TemporaryDirectory()
        quantised = q.ScalarQuantizationConfig(q.ScalarType.Int8, always_ram=True) if order["form"] == "int8" else None
        self.graph = q.HnswIndexConfig(m=order["links"], ef_construct=order["build"], full_scan_threshold=10)
        one = q.EdgeVectorParams(order["dim"], q.Distance.Dot, on_disk=False, hnsw_config=self.graph, quantization_config=quantised)
        steps = q.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=10)
        self.shard = q.EdgeShard.create(
            self.directory.name, q.EdgeConfig(vectors=one, hnsw_config=self.graph, optimizers=steps, max_search_threads=order["threads"])
        )

    def add(self, vectors, first, threads):
        for begin in range(0, len(vectors), 1000):
            points = [self.q.Point(first + begin + at, vector.tolist()) for at, vector in enumerate(vectors[begin : begin + 1000])]
            self.shard.update(self.q.UpdateOperation.upsert_points(points))
        self.size += len(vectors)
        if len(vectors) > PIECE:
            while self.shard.optimize():  # only what is optimised has a graph
                pass

    def search(self, queries, effort, threads):
        parameters = self.q.SearchParams(hnsw_ef=effort)
        asked = [self.q.QueryRequest(COUNT, query=self.q.Query.Nearest(query.tolist()), params=parameters) for query in queries]
        if len(asked) <= PIECE or threads == 1:
            return [self.ids(self.shard.query(one)) for one in asked]
        found = [None] * len(asked)

        def work(begin):
            for at in range(begin, len(asked), threads):
                found[at] = self.ids(self.shard.query(asked[at]))

        workers = [threading.Thread(target=work, args=(begin,)) for begin in range(threads)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        return found

    def ids(self, points):
        return [point.id for point in points]

    def bytes(self):
        return None  # its files are made larger than what they hold


LIBRARIES = {"hnswlib": Hnswlib, "usearch": Usearch, "faiss": Faiss, "qdrant": Qdrant}


class Subject:
    """A library with what was loaded."""

    def __init__(self, library):
        self.library = library

    def load(self, order):
        import numpy

        shape = (order["count"] + order["queries"] + order["spare"], order["dim"])
        rows = numpy.fromfile(order["file"], "<f4").reshape(shape)
        self.vectors, rest = rows[: order["count"]], rows[order["count"] :]
        self.queries, self.spare = rest[: order["queries"]], rest[order["queries"] :]
        self.index, self.threads, self.inserted = self.library(order), order["threads"], 0
        begin, cpu = time.perf_counter(), time.process_time()
        self.index.add(self.vectors, 0, self.threads)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        return {"seconds": seconds, "cpu": cpu, "bytes": self.index.bytes()}

    def search(self, order):
        queries = self.queries[: order["queries"]]
        begin, cpu = time.perf_counter(), time.process_time()
        found = self.index.search(queries, order["effort"], self.threads)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        return {"seconds": seconds, "cpu": cpu, "found": [[int(id) for id in ids] for ids in found]}

    def insert(self, order):
        """Inserts on one thread, beside queries on another."""
        until, queried, failures = time.perf_counter() + order["seconds"], [0], []

        def query():
            at = 0
            try:
                while time.perf_counter() < until:
                    piece = self.queries[at : at + PIECE]
                    self.index.search(piece, order["effort"], 1)
                    queried[0] += len(piece)
                    at = (at + PIECE) % (len(self.queries) - PIECE + 1)
            except Exception as error:
                failures.append(error)

        beside = threading.Thread(target=query)
        begin, cpu, before = time.perf_counter(), time.process_time(), self.inserted
        beside.start()
        while time.perf_counter() < until and self.inserted < len(self.spare):
            piece = self.spare[self.inserted : self.inserted + PIECE]
            self.index.add(piece, len(self.vectors) + self.inserted, 1)
            self.inserted += len(piece)
        seconds = time.perf_counter() - begin
        beside.join()
        if failures:
            raise failures[0]
        cpu, whole = time.process_time() - cpu, time.perf_counter() - begin
        return {"inserts": self.inserted - before, "seconds": seconds, "queries": queried[0], "cpu": cpu, "whole": whole}


def installed():
    """Versions of the libraries that can be used; all of them need numpy."""
    from importlib import metadata

    found = {}
    for name, library in LIBRARIES.items():
        try:
            importlib.import_module("numpy")
            module = importlib.import_module(library.module)
            of = {"faiss": "faiss-cpu", "qdrant_edge": "qdrant-edge-py"}.get(library.module, library.module)
            try:
                version = metadata.version(of)
            except metadata.PackageNotFoundError:
                version = getattr(module, "__version__", "")
            found[name] = {"version": f"{of} {version}".strip(), "forms": library.forms}
        except ImportError:
            pass
    return found


def commands(connection):
    """The words of each command that comes: arrays of bulk strings."""
    stream = connection.makefile("rb")
    while head := stream.readline():
        words = []
        for _ in range(int(head[1:])):
            length = int(stream.readline()[1:])
            words.append(stream.read(length + 2)[:-2])
        yield words


def answer(subject, connection):
    """Answers the orders of one connection."""
    for words in commands(connection):
        if words == [b"PING"]:
            connection.sendall(b"+PONG\r\n")
            continue
        try:
            order = json.loads(words[1])
            answer = json.dumps(getattr(subject, order["do"])(order)).encode()
            reply = b"$%d\r\n%s\r\n" % (len(answer), answer)
        except Exception as error:
            text = f"-ERR {type(error).__name__}: {error}".replace("\r", " ").replace("\n", " ")
            reply = text.encode() + b"\r\n"
        connection.sendall(reply)


def serve(library, path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    subject = Subject(library)
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                answer(subject, connection)
            except ConnectionError:
                pass  # it was closed before all of an answer was read


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(json.dumps(installed()))
    else:
        serve(LIBRARIES[sys.argv[1]], sys.argv[2])
