"""Sections ``models`` and ``proposals``: what is trained, of which family."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Annotated

from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import OMITTED, Count, Limit, Section
from beyond_perplexity.planning.schema import DependsOn
from beyond_perplexity.planning.sections.evaluation import Temperatures


def _options(*, proposals: bool) -> dict[str, str | None]:
    """Return the options dataclasses of the families of models or of proposals, None for none."""
    return {
        name: row.options for name, row in FAMILIES.items() if (row.kind == "proposal") == proposals
    }


def _training(names: Iterable[str]) -> dict[str, type | str | None]:
    """Return the options of the training of families, None where they have none of their own."""
    rows = {name: FAMILIES[name] for name in names}
    return {
        name: resolve_name(row.training) if row.reference and row.kind != "counted" else None
        for name, row in rows.items()
    }


MODELS, PROPOSALS = _options(proposals=False), _options(proposals=True)


@dataclass(frozen=True)
class Model(Section):
    """A language model.

    Attributes
    ----------
    family : str
        The architecture; one file of beyond_perplexity/models. huggingface takes a trained model of
        yours.
    corpus : str
        Name of the corpus it is trained on and compared with.
    vocabulary : str
        Name of its vocabulary; a huggingface model has none, it brings its tokenizer.
    architecture : dict
        Sizes of the network; for huggingface, where the model is.
    training : dict
        How it is trained. A huggingface model is trained further where an option is given, and else
        taken as it is.
    """

    family: Annotated[str, Limit(enum=list(MODELS))]
    corpus: str
    vocabulary: str = OMITTED
    architecture: Annotated[dict, DependsOn("family", MODELS)] = field(default_factory=dict)
    training: Annotated[dict, DependsOn("family", _training(MODELS))] = field(default_factory=dict)


@dataclass(frozen=True)
class ProposalSection(Section):
    """A distribution of the latent variables of a model given the words.

    Attributes
    ----------
    model : str
        Name of the model with latent variables that it is for.
    family : str
        The architecture, one file of beyond_perplexity/models; or joint, trained with the model; or
        optimal, worked out from the model without training.
    architecture : dict
        Sizes of the network, and what it sees of the words.
    training : dict
        How it is trained.
    temperatures : list of float or None
        Temperatures that samples are drawn at; null takes those of `importance`.
    particles : int or None
        K of each run of sequential Monte Carlo; null takes that of `importance.smc`. More pay where
        particles share their states, as those of KGLM do.
    """

    model: str
    family: Annotated[str, Limit(enum=list(PROPOSALS))]
    architecture: Annotated[dict, DependsOn("family", PROPOSALS)] = field(default_factory=dict)
    training: Annotated[dict, DependsOn("family", _training(PROPOSALS))] = field(
        default_factory=dict
    )
    temperatures: Temperatures | None = None
    particles: Count | None = None
