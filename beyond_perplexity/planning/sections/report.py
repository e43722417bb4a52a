"""Section ``report``: what the tables show beside this run's numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from beyond_perplexity.options import Section
from beyond_perplexity.planning.sections.samples import Names


@dataclass(frozen=True)
class PublishedData(Section):
    """Corpora whose texts are those of a paper, by the paper.

    Attributes
    ----------
    tendencies : list of str
        Corpora that are the million documents of English Wikipedia of Meister and Cotterell (2021).
    importance : list of str
        Corpora that are those of Logan, Gardner and Singh (2020): the Penn Treebank for RNNG,
        OntoNotes for EntityNLM, Linked WikiText-2 for KGLM. The values stand beside where every
        model of the tables is on one of them.
    contrastive : list of str
        Corpora that are the Penn Treebank as Arora and Rangarajan (2016) have it.
    semantics : list of str
        Corpora that are the Penn Treebank or WikiText-2 as the paper of semantic evaluation has
        them.
    """

    tendencies: Names = ()
    importance: Names = ()
    contrastive: Names = ()
    semantics: Names = ()


@dataclass(frozen=True)
class ReportSection(Section):
    """Section ``report``.

    Attributes
    ----------
    published : PublishedData
        Where published values stand beside this run's: in the tables of corpora that are the data
        of the paper. Nothing can tell from a text whose it is, so that you say it. Elsewhere such
        values do not compare, and are left out.
    """

    published: PublishedData = field(default_factory=PublishedData)
