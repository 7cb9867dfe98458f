"""Vectors by which a framework finds documents. They come from its own model; those of one document lie in another one
beside it, which is written, ended and removed with it, and names what they were made of: of a document that has since
been written without a model they say nothing. Loads numpy.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from kingly_memory.api.documents import Documents
from kingly_memory.digests import sha256
from kingly_memory.documents import Document, Namespace, Put, Remove, as_json
from kingly_memory.filters import Filter, admits
from kingly_memory.validation import RESULTS_LIMIT, Ttl

_READ_TOGETHER = 50
"""Documents of up to 16 MiB each."""


def beside(namespace: Namespace) -> Namespace:
    """Where the vectors of the documents of that place lie."""
    return (f"{namespace[0]}.vectors", *namespace[1:])


def change(namespace: Namespace, key: str, value: object, vectors: Sequence[Sequence[float]], ttl: Ttl) -> Put | Remove:
    """What writes the vectors of a document of that value, or removes those that it had."""
    if not vectors:
        return Remove(beside(namespace), key)
    rows = directions(vectors)
    vector = {"of": _digest(value), "dimensions": rows.shape[1], "float32": b64encode(rows.tobytes()).decode()}
    return Put(beside(namespace), key, vector, ttl=ttl, index=False)


async def nearest(
    documents: Documents, prefix: Namespace, query: Sequence[float], wanted: Filter | None, most: int
) -> list[tuple[Document, float]]:
    """The documents that have vectors of as many dimensions and pass the filter, nearest first, each with the
    cosine of its nearest vector. Every vector below the prefix is looked at."""
    (direction,) = directions([query])
    near: list[tuple[float, Namespace, str, str]] = []
    last: Document | None = None
    while page := await documents.list(beside(prefix), limit=RESULTS_LIMIT, after=last):
        last = page[-1]
        for row in page:
            if row.value["dimensions"] == len(direction):
                own = np.frombuffer(b64decode(row.value["float32"]), np.float32).reshape(-1, len(direction))
                namespace = (prefix[0], *row.namespace[1:])
                near.append((float((own @ direction).max()), namespace, row.key, row.value["of"]))
    ranked = iter(sorted(near, key=lambda pair: -pair[0]))
    found: list[tuple[Document, float]] = []
    while len(found) < most and (some := list(islice(ranked, _READ_TOGETHER))):
        read = await documents.get_many((namespace, key) for _, namespace, key, _ in some)
        for (cosine, *_, of), document in zip(some, read, strict=True):
            if document is None or _digest(document.value) != of:
                continue
            if wanted is None or admits(wanted, document.value):
                found.append((document, cosine))
    return found[:most]


def _digest(value: object) -> str:
    return sha256(as_json(value).encode()).hexdigest()


def directions(vectors: Sequence[Sequence[float]]) -> npt.NDArray[np.float32]:
    """A row for each vector, of length 1: their products are cosines."""
    rows: npt.NDArray[np.float32] = np.array(vectors, np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1)
    return rows
