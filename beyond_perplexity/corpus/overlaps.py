"""Which of overlapping mentions stay: models of mentions in sequence need spans without overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from beyond_perplexity.corpus.readers import Problems

Span = tuple[int, int, str]


def outermost(
    spans: Sequence[Span],
    place_of: Callable[[int], str],
    crossing: str,
    problems: Problems,
    counts: Counter[str],
) -> list[Span]:
    """Keep the outermost of nested mentions and the first of crossing ones.

    Parameters
    ----------
    spans : sequence of (int, int, str)
        Token span [start, end) and entity, in the order of the start, longer ones first.
    place_of : callable
        From a token's number to its file and line, for messages.
    crossing : str
        ``"first"`` keeps the mention that begins first, ``"error"`` reports a problem.
    problems : Problems
        Where a crossing mention is reported; when problems are skipped, the first one is kept.
    counts : Counter of str
        Gets ``"nested mentions"`` and ``"crossing mentions"``: those that are left out.

    Returns
    -------
    list of (int, int, str)
        Spans that do not overlap, in the order of the text.

    Raises
    ------
    InputError
        When mentions cross, `crossing` is ``"error"`` and problems are no skips.
    """
    kept: list[Span] = []
    for span in spans:
        start, end, entity = span
        if not kept or start >= kept[-1][1]:
            kept.append(span)
        elif end <= kept[-1][1]:
            counts["nested mentions"] += 1
        else:
            counts["crossing mentions"] += 1
            if crossing == "error":
                first = kept[-1]
                detail = (
                    f"tokens {start} to {end} of entity {entity} and {first[0]} to {first[1]} of "
                    f"{first[2]}; source.crossing: first keeps the one that begins first"
                )
                problems.report("crossing mentions", place_of(start), detail)
    return kept
