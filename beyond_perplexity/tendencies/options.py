"""The options of the tendencies: how many draws, how many ranks, which lengths."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

from beyond_perplexity.errors import InputError


@dataclass(frozen=True)
class Options:
    """Options of `measures.measure` and `curves.curves`.

    Attributes
    ----------
    permutations : int
        Permutations of the two-sample tests; 0 leaves their p-values out.
    bootstrap : int
        Bootstrap replicates of the intervals; 0 leaves the intervals out.
    monte_carlo : int
        Draws of the one-sample tests against Zipf and Heaps; 0 leaves their p-values out.
    zipf_ranks : int or None
        Ranks of the rank-frequency relation that are fitted and compared; None (in JSON ``"all"``)
        for all. The paper uses the first 10,000.
    heaps_maximum_length : int
        Largest length of the type-token distances, which are taken at each exact length. The fits
        of Heaps' law use the documents of all lengths.
    confidence : float
        Share of the bootstrap replicates inside an interval.
    """

    permutations: int = 1000
    bootstrap: int = 1000
    monte_carlo: int = 1000
    zipf_ranks: int | None = 10_000
    heaps_maximum_length: int = 500
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name, least in (
            ("permutations", 0),
            ("bootstrap", 0),
            ("monte_carlo", 0),
            ("zipf_ranks", 2),
            ("heaps_maximum_length", 1),
        ):
            value = getattr(self, name)
            if value is None and name == "zipf_ranks":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(
                    f"option '{name}' is {value!r}; give a whole number of at least {least}"
                )
        if not isinstance(self.confidence, float) or not 0 < self.confidence < 1:
            raise InputError(
                f"option 'confidence' is {self.confidence!r}; give one between 0 and 1"
            )

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Read options from a JSON object; what it leaves out keeps its default.

        Raises
        ------
        InputError
            When it is no JSON object, or has an unknown key or a value that is not allowed.
        """
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"--options: not JSON ({error}); give an object") from error
        if not isinstance(given, dict):
            raise InputError(f'--options: {text} is no JSON object; write {{"key": value}}')
        known = [field.name for field in fields(cls)]
        for key in given:
            if key not in known:
                raise InputError(f"--options: unknown key '{key}'; allowed are {', '.join(known)}")
        if given.get("zipf_ranks") == "all":
            given["zipf_ranks"] = None
        return cls(**given)
