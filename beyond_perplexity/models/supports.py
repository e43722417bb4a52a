"""Which latents a model and a proposal for it find possible: the same ones, or none is any good."""

from __future__ import annotations

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.latent import LatentModule


def check_support(
    model: LatentModule, proposal: LatentModule, model_folder: object, proposal_folder: object
) -> None:
    """Refuse a proposal whose latents are not those of a model.

    Parameters
    ----------
    model, proposal : LatentModule
    model_folder, proposal_folder : object
        What the message calls them.

    Raises
    ------
    InputError
        Names what they differ in.
    """
    for name, value in proposal.support.items():
        if model.support.get(name) != value:
            raise InputError(
                f"{proposal_folder}: {name} is {value}, but {model.support.get(name)} in "
                f"{model_folder}; train both with the same, or q is 0 where p is not"
            )
