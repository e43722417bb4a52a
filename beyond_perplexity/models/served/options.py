"""How a model behind a server is named and asked; nothing heavy is imported."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass

from beyond_perplexity.arguments import option

KEY = "OPENAI_API_KEY"  # of the environment
# What looks like a special token of some model.
SPECIAL = re.compile(
    r"<\|[^<>|\s]{1,60}\|>|<\uff5c[^<>\uff5c\s]{1,60}\uff5c>|</?s>|</?(?:unk|pad|bos|eos|mask)>"
    r"|<(?:start|end)_of_turn>|\[(?:UNK|PAD|CLS|SEP|MASK|BOS|EOS|/?INST)\]"
)


@dataclass(frozen=True)
class ServedOptions:
    """A model behind a server, in the place of one in a folder."""

    _: KW_ONLY
    url: str | None = option(
        None,
        "address of a server that has the model, such as http://localhost:8000",
        more=f"In the place of `model`. Its key, if it wants one, is in ``{KEY}``.",
    )
    served_model: str | None = option(
        None, "what the server calls the model (default: the only one that it has)", metavar="NAME"
    )
    concurrency: int = option(16, "requests that a server is sent at once", least=1, most=1024)
    beginning: str | None = option(
        None,
        "text before each document, which is seen and not scored: the model's beginning of text, "
        "where its server adds none",
        metavar="TEXT",
    )
    end: str | None = option(
        None,
        "text of the token that ends a document, such as </s>: it is scored then, of a server",
        metavar="TEXT",
    )

    @property
    def signed(self) -> dict[str, object]:
        """The part of a signature: a beginning that is not a model's own."""
        if not self.beginning or SPECIAL.fullmatch(self.beginning):
            return {}
        return {"before": self.beginning.encode("unicode_escape").decode()}


ASKED = ("served_model", "concurrency", "beginning", "end")  # what means nothing without a server
